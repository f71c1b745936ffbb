"""Tags: short texts that callers attach to resources."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MAX_TAGS = 64

KEY = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"
VALUE = r"^[^\x00-\x1f\x7f]{0,255}$"
TagKey = Annotated[str, Field(pattern=KEY)]
TagValue = Annotated[str, Field(pattern=VALUE)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=MAX_TAGS)]
"""At most 64 keys of 1 to 63 letters, digits, dots, slashes, hyphens and underscores; a value is up
to 255 characters, none of them a control character."""
