"""Base classes of what callers send and get."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ReadModel(BaseModel):
    """A part of a reply."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class WriteModel(BaseModel):
    """A part of a request; types are strict, and unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True
    )
