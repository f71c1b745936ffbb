"""Labels: short texts that callers attach to resources, and find them by."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from pydantic import Field

from service.errors import InvalidRequest

MAX_LABELS = 64

LabelKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
LabelValue = Annotated[str, Field(max_length=255)]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_LABELS)]
"""At most 64 keys; a key is 1 to 63 letters, digits, dots, slashes, hyphens and underscores."""


def _label_filter(
    label: Annotated[
        str | None, Query(description="`key=value`: only what carries this label.")
    ] = None,
) -> tuple[str, str] | None:
    if label is None:
        return None
    key, equals, value = label.partition("=")
    if not (key and equals):
        raise InvalidRequest("invalid-parameter", "label must be key=value, such as team=x")
    return key, value


LabelFilter = Annotated[tuple[str, str] | None, Depends(_label_filter)]
"""A route's parameter that gives the (key, value) asked for."""
