"""Base classes of what callers send and get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class ReadModel(BaseModel):
    """A part of a reply."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class WriteModel(BaseModel):
    """A part of a request; types are strict, and unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True
    )


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
