"""`tag`: filters lists by the tags of resources."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Query

from service.common.schemas import KEY, VALUE
from service.errors import InvalidRequest


def _tag_filter(
    tag: Annotated[
        str | None,
        Query(
            description="`key=value`: only resources with this tag.",
            json_schema_extra={"pattern": f"{KEY[:-1]}={VALUE[1:]}"},
        ),
    ] = None,
) -> tuple[str, str] | None:
    if tag is None:
        return None
    key, _, value = tag.partition("=")
    if "=" not in tag or not re.fullmatch(KEY, key) or not re.fullmatch(VALUE, value):
        raise InvalidRequest("invalid-parameter", "tag must be key=value, such as team=x")
    return key, value


TagFilter = Annotated[tuple[str, str] | None, Depends(_tag_filter)]
"""A route's parameter that gives the (key, value) asked for."""
