"""A feature column of a file while its kind is being found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from service.rows.faults import Faults
from service.rows.kinds.decisions import Decision, Gatherer, Kept


class Batch(Protocol):
    """Some rows: the cells of each column of the file."""

    def __getitem__(self, position: int, /) -> Sequence[Any]: ...


Passes: TypeAlias = Callable[[Faults], Iterator[Batch]]
"""Reads the file from its beginning; what is wrong with rows is added to the faults."""


@dataclass(slots=True)
class Feature:
    """A feature column between passes."""

    position: int
    gatherer: Gatherer
    tried_plain: bool = False
    decision: Decision | None = None


KeptFeatures: TypeAlias = list[tuple[Feature, Kept]]
