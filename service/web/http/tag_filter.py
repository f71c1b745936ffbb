"""`label`: filters lists by the labels of resources."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Query

from service.errors import InvalidRequest
from service.web.http.tags import KEY, VALUE


def _label_filter(
    label: Annotated[
        str | None,
        Query(
            description="`key=value`: only resources with this label.",
            json_schema_extra={"pattern": f"{KEY[:-1]}={VALUE[1:]}"},
        ),
    ] = None,
) -> tuple[str, str] | None:
    if label is None:
        return None
    key, _, value = label.partition("=")
    if "=" not in label or not re.fullmatch(KEY, key) or not re.fullmatch(VALUE, value):
        raise InvalidRequest("invalid-parameter", "label must be key=value, such as team=x")
    return key, value


LabelFilter = Annotated[tuple[str, str] | None, Depends(_label_filter)]
"""A route's parameter that gives the (key, value) asked for."""
