"""How the raw values of a table become numbers (`docs/decisions/0032`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from svm.data.matrices import LARGEST
from svm.hyperparameters import Checked, PositiveInt


@dataclass(frozen=True, kw_only=True)
class Encoding(Checked):
    """How missing cells, rare levels and unseen ones are encoded. Everything is learned from the
    training rows."""

    missing: Literal["median", "mean", "constant", "refuse"] = "median"
    """What replaces a missing number, boolean or date. A column with missing cells in training also
    gets an indicator: 1 if the cell is missing. `refuse`: such rows are an error."""
    constant: Annotated[float, Ge(-LARGEST), Le(LARGEST)] = 0.0
    """The number for `missing: constant`; booleans and dates get their median then."""
    min_count: PositiveInt = 1
    """Levels of a category with fewer training rows share one output."""
    unseen: Literal["zero", "refuse"] = "zero"
    """A level without training rows counts as a rare one if there are such; if not, it adds nothing
    to a score. `refuse`: such rows are an error."""
