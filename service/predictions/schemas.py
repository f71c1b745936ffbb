"""What the API says of predictions. Bodies hold many rows, so `codecs` reads and writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from service.models.versions import Label

Output = Literal["label", "decision"]
OUTPUTS: tuple[Output, ...] = ("label", "decision")
"""What a caller may ask for."""
DEFAULT_OUTPUTS: tuple[Output, ...] = ("label",)


class PredictionCreate(BaseModel):
    """Rows to predict."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    instances: list[list[float]] | list[dict[str, float]] = Field(min_length=1)
    """Rows: lists of numbers in feature order, or objects with the model's feature names."""
    outputs: list[Output] = ["label"]
    """What to answer."""


class ModelAnswering(BaseModel):
    """The version that answered."""

    name: str
    version: int
    digest: str


class PredictionRead(BaseModel):
    """One entry a row, in the order of the request."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    model: ModelAnswering
    classes: list[Label]
    """Sorted classes; of two, the second is the positive one."""
    label: list[Label] | None = None
    decision: list[float] | list[list[float]] | None = None
    """Two classes: one value a row, positive for `classes[1]`. More: a value for each class, the
    label's is the largest."""
