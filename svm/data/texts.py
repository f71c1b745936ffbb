"""Texts of a table's rows: the raw value of a text cell is the position of its text among these.

X = with_texts(X, TextList(["free entry", "see you"]))
texts_of(X[1:]).take([1])  # ["see you"]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from svm.data.matrices import Array, Indices, Vector


class Texts(Protocol):
    """Texts, numbered from 0."""

    def __len__(self) -> int: ...

    def take(self, positions: Sequence[int]) -> list[str]:
        """The texts at these positions. Raises IndexError."""
        ...

    def sizes(self, positions: Sequence[int]) -> list[int]:
        """How long these are, in characters or bytes. Raises IndexError."""


class TextList:
    """Texts in memory."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, positions: Sequence[int]) -> list[str]:
        texts = self._texts
        return [texts[position] for position in positions]

    def sizes(self, positions: Sequence[int]) -> list[int]:
        return [*map(len, self.take(positions))]


class ReadsBytes(Protocol):
    """Bytes in a file (`svm.data.stored_rows.StoredArray`)."""

    def read_into(self, out: Array, start: int) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredTexts:
    """Texts as UTF-8, one after the other, in memory or in a file."""

    data: Array | ReadsBytes
    ends: Indices
    """(n_texts,) where each text ends."""

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, positions: Sequence[int]) -> list[str]:
        """Neighbors are read together."""
        places = np.asarray(positions, dtype=np.int64)
        if len(places) == 0:
            return []
        if places.min() < 0 or places.max() >= len(self.ends):
            raise IndexError("there is no text at a position of these rows")
        runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
        return [text for run in runs for text in self._run(int(run[0]), int(run[-1]) + 1)]

    def sizes(self, positions: Sequence[int]) -> list[int]:
        ends = self.ends
        places = np.asarray(positions, dtype=np.int64)
        before = np.where(places > 0, ends.take(places - 1, mode="wrap"), 0)
        sizes: list[int] = (ends.take(places) - before).tolist()
        return sizes

    def _run(self, first: int, stop: int) -> list[str]:
        ends = self.ends[first:stop].tolist()
        start = int(self.ends[first - 1]) if first else 0
        if isinstance(self.data, np.ndarray):
            octets = self.data[start : ends[-1]]
        else:
            octets = np.empty(ends[-1] - start, dtype=np.uint8)
            self.data.read_into(octets, start)
        joined = octets.tobytes()
        bounds = zip([start, *ends[:-1]], ends, strict=True)
        return [joined[one - start : end - start].decode() for one, end in bounds]


class Stacked:
    """The texts of several tables, one after the other."""

    def __init__(self, parts: Sequence[Texts]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, positions: Sequence[int]) -> list[str]:
        return [text for part, places in self._runs(positions) for text in part.take(places)]

    def sizes(self, positions: Sequence[int]) -> list[int]:
        return [size for part, places in self._runs(positions) for size in part.sizes(places)]

    def _runs(self, positions: Sequence[int]) -> Iterator[tuple[Texts, list[int]]]:
        """Neighbors of the same table."""
        places = np.asarray(positions, dtype=np.int64)
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        for run in np.split(np.arange(len(places)), np.flatnonzero(np.diff(numbers)) + 1):
            if len(run):
                number = int(numbers[run[0]])
                yield self._parts[number], (places[run] - self._starts[number]).tolist()


class TextRows(np.ndarray[tuple[int, int], np.dtype[np.float64]]):
    """Raw rows that carry their texts; views and copies of some of them do, too."""

    texts: Texts

    def __array_finalize__(self, other: Any) -> None:
        self.texts = getattr(other, "texts", _NONE)


_NONE = TextList()


def with_texts(X: Vector, texts: Texts) -> Vector:
    """A view of raw rows, (n_samples, n_columns), that carries these texts."""
    rows = X.view(TextRows)
    rows.texts = texts
    return rows


def texts_of(X: Array) -> Texts:
    """Those that the rows carry; none of rows without."""
    texts: Texts = getattr(X, "texts", _NONE)
    return texts


def stacked(parts: Sequence[Vector], columns: Sequence[int]) -> Vector:
    """Raw rows below each other, each part with its own texts; `columns` are those of texts."""
    joined = np.concatenate([np.asarray(part) for part in parts])
    if not columns:
        return joined
    first_row = first_text = 0
    for part in parts:
        joined[first_row : first_row + len(part), columns] += first_text
        first_row += len(part)
        first_text += len(texts_of(part))
    return with_texts(joined, Stacked([texts_of(part) for part in parts]))
