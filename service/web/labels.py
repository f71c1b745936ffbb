"""Labels: short texts that callers attach to resources, and find them by."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Query
from pydantic import Field

from service.errors import InvalidRequest

MAX_LABELS = 64

KEY = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"
VALUE = r"^[^\x00-\x1f\x7f]{0,255}$"
LabelKey = Annotated[str, Field(pattern=KEY)]
LabelValue = Annotated[str, Field(pattern=VALUE)]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_LABELS)]
"""At most 64 keys of 1 to 63 letters, digits, dots, slashes, hyphens and underscores; a value is up
to 255 characters, none of them a control character."""


def _label_filter(
    label: Annotated[
        str | None,
        Query(
            description="`key=value`: only what carries this label.",
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
