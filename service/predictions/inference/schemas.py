"""What the Open Inference Protocol says."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.common.schemas import ReadModel


class Tensor(ReadModel):
    """A tensor: its numbers, or the size of their bytes behind the JSON part."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = None
    """`binary_data_size`, if the data are behind the JSON part."""
    data: list[Any] | None = None
    """In C order, flat or nested."""


class OutputAsked(ReadModel):
    """An output that is wanted."""

    name: Literal["label", "decision", "probability", "label_or_none", "value", "interval"]
    parameters: dict[str, Any] | None = None
    """`binary_data`: whether to send it behind the JSON part; `coverage` of an `interval`, by
    default 0.9, and `withheld` of `label_or_none`, by default 0.05."""


class InferCreate(BaseModel):
    """Rows to predict: one tensor [rows, features], or one [rows] for each column."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    id: str | None = None
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[OutputAsked] | None = None
    """Everything there is but `interval` and `label_or_none`, if left out."""
    parameters: dict[str, Any] | None = None
    """`binary_data_output`: whether to send all outputs behind the JSON part."""


class InferRead(BaseModel):
    """The outputs; those sent as bytes follow the JSON part in this order."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, Any] | None = None
    """If any: `unlikely_labels`, how many are not the class with the largest probability,
    `coverage` of intervals, `withheld` of labels, `unknown` and `unknown_words`, as in other
    replies."""
    outputs: list[Tensor]


class ServerMetadata(BaseModel):
    """What serves here."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """A tensor that a model takes or gives; -1 means any number of rows."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class Live(BaseModel):
    live: bool


class Ready(BaseModel):
    ready: bool


class ModelReady(BaseModel):
    name: str
    ready: bool


class IndexRequest(BaseModel):
    """Which models to list."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    ready: bool = False
    """Only those that can answer."""


class IndexEntry(BaseModel):
    """A model version, and whether it can answer."""

    name: str
    version: str
    state: Literal["READY", "UNAVAILABLE"]
    reason: str
