"""Base classes of what callers send and get."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, overload

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from svm.audit.findings import Grade, told


class ReadModel(BaseModel):
    """A part of a reply; `model_validate` makes it from a record with the same attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True, use_attribute_docstrings=True)


class WriteModel(BaseModel):
    """A part of a request; types are strict, and unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True
    )


class FindingRead(ReadModel):
    """Something that makes scores too good, or may: a leak of the label, rows on both sides of a
    split."""

    name: str
    """The code, by which a training can mute it."""
    grade: Grade
    """`fact`, `ask` (a question that only you can answer), or `error` (the score is wrong)."""
    columns: list[str | int]
    """Names, or positions from 0; the strongest first."""
    numbers: dict[str, float]
    found: str
    """What was found, a sentence."""
    why: str
    """Why it matters."""
    to_do: str
    """What to do."""


Audit = Annotated[list[FindingRead], BeforeValidator(told)]
"""Findings as they are stored."""


@dataclass(frozen=True)
class ShownAs:
    """Annotates a value that is documented as this model, and taken as it is."""

    model: type[BaseModel]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            lambda value, _: value,
            handler.generate_schema(self.model),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )


MAX_TAGS = 64

KEY = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"
VALUE = r"^[^\x00-\x1f\x7f]{0,255}$"
TagKey = Annotated[str, Field(pattern=KEY)]
TagValue = Annotated[str, Field(pattern=VALUE)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=MAX_TAGS)]
"""At most 64 keys of 1 to 63 letters, digits, dots, slashes, hyphens and underscores; a value is up
to 255 characters, none of them a control character."""


@overload
def rfc3339(seconds: float) -> str: ...
@overload
def rfc3339(seconds: None) -> None: ...
def rfc3339(seconds: float | None) -> str | None:
    """Seconds since 1970 as RFC 3339 in UTC with milliseconds, `2026-01-31T12:00:00.250Z`."""
    if seconds is None:
        return None
    time = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return time.replace("+00:00", "Z")


def _timestamp(time: Any) -> Any:
    return rfc3339(time) if isinstance(time, float) else time


Timestamp = Annotated[str, BeforeValidator(_timestamp)]
"""A time of a record, in seconds, as `rfc3339` writes it."""
