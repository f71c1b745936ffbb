"""A feature column of a file while its kind is being found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.number_styles import NumberStyle, Survey, is_sure
from service.rows.cell_texts.number_text import Form
from service.rows.faults import Faults
from service.rows.kinds.free_texts import FreeTexts
from service.rows.kinds.gathering import TextColumn, ValueColumn, Words
from service.rows.spec import ParseSpec
from svm.data.columns import Kind

Gatherer: TypeAlias = ValueColumn | TextColumn | FreeTexts


class Warned(NamedTuple):
    """A warning about a column that is kept."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A column with a kind."""

    kind: Kind
    levels: list[str] = field(default_factory=list)
    values: npt.NDArray[np.float64] | None = None
    """The raw value of each code; None if the column was gathered as values."""
    missing: int = 0
    missing_words: frozenset[str] = frozenset()
    notes: dict[str, Any] = field(default_factory=dict)
    """For `reading`."""
    form: Form | None = None
    """How its texts are written, if they are not plain numbers, booleans or levels."""
    warnings: list[Warned] = field(default_factory=list)
    n_labels: int | None = None
    """Its different values, if they are as few as labels are."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A column that is not kept, and why."""

    reason: str
    kind: Kind | None = None
    """What it is if the caller wants it as a feature; None if every cell is missing."""


@dataclass(frozen=True, slots=True)
class Again:
    """The column has to be read again, in another way."""

    gatherer: Callable[[], Gatherer]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A column with cells that are mistakes."""

    texts: frozenset[str] | None
    """Those of the cells; None for all that the gatherer did not take."""
    kind: str = "number"
    other_units: bool = False
    """Whether they are numbers with another unit than others of the column."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A cell with two readings, in a column of numbers or dates."""

    text: str
    readings: str
    hint: str
    code: str = "ambiguous-number"


Decision: TypeAlias = Kept | Ignored | Again | Wrong | Ambiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known of a column before it is decided."""

    spec: ParseSpec
    kind: Kind | None = None
    """The kind that the caller or the dataset demands."""
    wanted: bool = False
    """Whether the caller wants it as a feature, of whatever kind."""
    of_file: str | None = None
    """The decimal mark that the rest of the file has."""
    odd: bool = True
    """Whether a few words that are not values are missing cells."""
    tried_plain: bool = False
    """Whether the column was read as plain numbers, and some cells are not."""
    comma_likely: bool = False
    """Whether cells with two readings need a decision by the caller."""

    @property
    def asked(self) -> Words:
        """Those of the words that the caller names."""
        return frozenset(self.spec.asked.missing)

    @property
    def fixed(self) -> str | None:
        """The decimal mark that the caller gives."""
        return self.spec.asked.decimal

    @property
    def decimal(self) -> str | None:
        """The decimal mark, as far as it is known."""
        return self.fixed or self.of_file

    def style(self, surveyed: Survey) -> NumberStyle | None:
        """How the numbers are written; None if only the caller knows: one may be either, and
        nothing else of the column or the file decides."""
        mark = self.fixed or surveyed.decided
        if mark is None and not surveyed.only and surveyed.either is not None:
            mark = self.of_file
            if mark is None and (self.comma_likely or "," in surveyed.either):
                return None
        unit = "" if surveyed.mixed and all(map(is_sure, surveyed.units)) else surveyed.unit
        grouped = self.spec.asked.thousands != "none"
        return NumberStyle(mark or ".", unit, grouped, surveyed.scaled)


class Batch(Protocol):
    """Some rows: the cells of each column of the file."""

    def __getitem__(self, position: int, /) -> Sequence[Any]: ...


Passes: TypeAlias = Callable[[Faults, Collection[int]], Iterator[Batch]]
"""Reads the file from its beginning; what is wrong with rows is added to the faults. It is given
the positions of the columns that are read as texts, whose cells may be long."""


@dataclass(slots=True)
class Feature:
    """A feature column between passes."""

    position: int
    make: Callable[[], Gatherer]
    """Gives what gathers its cells in a pass."""
    gatherer: Gatherer = field(init=False)
    tried_plain: bool = field(init=False, default=False)
    """Whether it was read as values."""
    decision: Decision | None = None

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Before a pass."""
        self.gatherer = self.make()
        self.tried_plain |= isinstance(self.gatherer, ValueColumn)


KeptFeatures: TypeAlias = list[tuple[Feature, Kept]]


def texts_of(features: Iterable[Feature]) -> frozenset[int]:
    """The positions of the columns that are read as texts."""
    return frozenset(one.position for one in features if isinstance(one.gatherer, FreeTexts))
