"""Records without quotes, whose cells NumPy finds, codes and reads all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.number_text import NINES_OF_BYTES
from service.rows.json_reading.numbers import read_list
from service.rows.kinds.feature import Batch, Feature
from service.rows.kinds.gathering import FormColumn, TextColumn, TypedValues, ValueColumn, Values

Places = npt.NDArray[np.int64]

NEWLINE, BLANK, NOT_ASCII = ord("\n"), ord(" "), 0x80
WORD_BYTES = 8
Words: TypeAlias = npt.NDArray[np.uint64]
Parts: TypeAlias = list[tuple[slice | Places, Words]]
"""The first words of all cells; then which cells have a second word, and these words; …"""
MOST_WORDS = 8
"""Of a text that is remembered."""
PLACES_BITS = 18
_NUMBERS = frozenset({int, float})
MOST_TEXTS = 1 << 16
"""That are remembered; few of them have a place in common."""
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(WORD_BYTES + 1)], np.uint64)
_MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15) ** np.arange(1, MOST_WORDS + 3, dtype=np.uint64)


class Cells:
    """Where the cells of some records are."""

    def __init__(self, data: bytes, delimiter: str, starts: Places, lengths: Places) -> None:
        self.data = data
        """The records, and zeros: a word that begins in a cell ends in it."""
        self.starts = starts
        """(rows, width), in `data`."""
        self.lengths = lengths
        """(rows, width), in bytes."""
        self._delimiter = delimiter.encode()

    @classmethod
    def of(cls, text: str, delimiter: str, width: int) -> Cells | None:
        """None if a row has another width, or may be blank: they are split one by one."""
        data = text.encode()
        if not data.endswith(b"\n"):
            data += b"\n"
        octets = np.frombuffer(data, np.uint8)
        newlines = octets == NEWLINE
        marks = np.flatnonzero(newlines | (octets == ord(delimiter)))
        if len(marks) % width:
            return None
        ends = marks.reshape(-1, width)
        if np.count_nonzero(newlines) != len(ends) or not newlines[ends[:, -1]].all():
            return None
        starts = np.concatenate([[0], marks[:-1] + 1]).reshape(ends.shape)
        rows = starts
        for column in range(width):
            first = octets[rows[:, column]]  # of an empty cell it is the mark at its end
            rows = rows[(first <= BLANK) | (first >= NOT_ASCII) | (first == ord(delimiter))]
            if len(rows) == 0:
                break
        else:
            return None
        data += bytes(2 * WORD_BYTES - len(data) % WORD_BYTES)
        return cls(data, delimiter, starts, ends - starts)

    @property
    def n_rows(self) -> int:
        return len(self.starts)

    @property
    def shapes(self) -> Cells:
        """The same cells with a 9 for each digit."""
        data = self.data.translate(NINES_OF_BYTES)
        return Cells(data, self._delimiter.decode(), self.starts, self.lengths)

    def __getitem__(self, position: int) -> list[str]:
        return self._columns[position]

    @cached_property
    def _columns(self) -> dict[int, list[str]]:
        return self.texts(range(self.starts.shape[1]))

    def texts(self, positions: Sequence[int]) -> dict[int, list[str]]:
        """The cells of some columns, in ascending order, by position."""
        if not positions:
            return {}
        cells = self._only(positions).decode().split(self._delimiter.decode())
        return {one: cells[i : -1 : len(positions)] for i, one in enumerate(positions)}

    def numbers(self, positions: Sequence[int], *, points: bool) -> npt.NDArray[np.float64] | None:
        """(rows, positions) of columns of plain numbers, in ascending order; NaN for empty cells.

        None if a cell is something else, or if one has a point and `points` is not set.
        """
        if not positions:
            return np.empty((self.n_rows, 0))
        text = self._only(positions)
        if self._delimiter != b",":
            if b"," in text:
                return None
            text = text.replace(self._delimiter, b",")
        if b"." in text and not points:
            return None
        empty = self.lengths[:, positions] == 0
        if empty.any():
            text = (b"," + text).replace(b",,", b",0,").replace(b",,", b",0,")[1:]
        values = read_list(b"[%b]" % text[:-1])
        if values is None or len(values) != empty.size or not np.isfinite(values).all():
            return None
        return np.where(empty, np.nan, values.reshape(empty.shape))

    def _only(self, positions: Sequence[int]) -> bytes:
        """The cells of some columns, in ascending order, a delimiter behind each."""
        kept = np.zeros(self.starts.shape[1], bool)
        kept[positions] = True
        octets = np.repeat(np.tile(kept, self.n_rows), self.lengths.ravel() + 1)
        text: bytes = np.compress(
            octets, np.frombuffer(self.data, np.uint8)[: len(octets)]
        ).tobytes()
        return text.replace(b"\n", self._delimiter)


class ValueRows:
    """Rows of values of JSON, as long as the table is wide."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self._rows = rows
        self._are_numbers = False

    def __getitem__(self, position: int) -> Sequence[Any]:
        if self._are_numbers:  # it is the label, and all that there is left to read
            return [row[position] for row in self._rows]
        return self._columns[position]

    @cached_property
    def _columns(self) -> list[tuple[Any, ...]]:
        return list(zip(*self._rows, strict=True))

    def numbers(self, positions: Sequence[int]) -> Values | None:
        """(rows, positions) of columns of finite numbers; else None."""
        first, end = positions[0], positions[-1] + 1
        take: Callable[[Any], Any] = itemgetter(*positions)
        if positions == list(range(first, end)):
            take = itemgetter(slice(first, end))
        rows = list(map(take, self._rows))
        if not _NUMBERS.issuperset(map(type, chain.from_iterable(rows))):
            return None
        try:
            values = np.array(rows, np.float64)
        except OverflowError:
            return None
        self._are_numbers = bool(np.isfinite(values).all())
        return values if self._are_numbers else None


class ValueArrays:
    """Columns of values of JSON as arrays of one length, masked where they are null."""

    def __init__(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        self._columns = columns
        self.n_rows = len(columns[0])

    def numbers(self, position: int) -> Values | None:
        """Finite numbers, NaN for null; None for a column of others."""
        column = self._columns[position]
        if column.dtype != np.float64:
            return None
        values: Values = np.ma.filled(column, np.nan)
        return None if np.isinf(values).any() else values

    def __getitem__(self, position: int) -> list[Any]:
        """Infinity as it is called: in JSON it is a number that is too large."""
        column = self._columns[position]
        cells: list[Any] = column.tolist()
        if column.dtype == np.float64 and np.isinf(column).any():
            return [str(cell) if cell in (inf, -inf) else cell for cell in cells]
        return cells


class Coder:
    """Remembers the texts of some columns as words of eight bytes.

    A hash says which text a cell may have, and all words are compared. Any other cell is looked up
    in the dictionary of its column, which gives each new text the next code.
    """

    def __init__(self, lookups: Sequence[dict[str, int]]) -> None:
        self._lookups = lookups
        self._table = np.zeros(1 << PLACES_BITS, np.int32)
        """The number of a text, by the first bits of its hash. Number 0 is none."""
        self._tags = np.array([-1])
        """Length and column of each text."""
        self._words: list[Words] = []
        """First words of all texts, second ones, …"""
        self._codes = np.zeros(1, np.int64)

    def codes(self, cells: Cells, positions: Sequence[int], columns: Sequence[int]) -> Places:
        """(rows, positions): the codes of some columns, which have these lookups."""
        starts, lengths = cells.starts[:, positions].ravel(), cells.lengths[:, positions].ravel()
        column = np.tile(np.array(columns), cells.n_rows)
        tags = lengths * len(self._lookups) + column
        parts = _parts(cells.data, starts, lengths)
        hashes = tags.astype(np.uint64) * _MULTIPLIERS[0]
        for (at, words), multiplier in zip(parts, _MULTIPLIERS[2:], strict=False):
            hashes[at] += words * multiplier
        hashes = (hashes ^ (hashes >> np.uint64(32))) * _MULTIPLIERS[1]
        places = (hashes >> np.uint64(64 - PLACES_BITS)).astype(np.int64)
        texts = self._table.take(places)
        known = self._tags.take(texts) == tags
        while len(self._words) < len(parts):
            self._words.append(np.zeros(len(self._tags), np.uint64))
        for (at, words), own in zip(parts, self._words, strict=False):
            known[at] &= own.take(texts[at]) == words
        codes = self._codes.take(texts)
        first: dict[tuple[int, bytes], int] = {}
        unknown = np.flatnonzero(~known)
        where = (places.take(unknown).tolist() for places in (starts, starts + lengths, column))
        for i, start, end, number in zip(unknown.tolist(), *where, strict=True):
            text = cells.data[start:end]
            codes[i] = self._lookups[number][text.decode()]
            if len(text) <= MOST_WORDS * WORD_BYTES:
                first.setdefault((number, text), i)
        if first and len(self._tags) < MOST_TEXTS:
            new = list(first.values())
            self._table[places[new]] = np.arange(len(new)) + len(self._tags)
            self._tags = np.concatenate([self._tags, tags[new]])
            self._codes = np.concatenate([self._codes, codes[new]])
            for number, own in enumerate(self._words):
                words = np.zeros(len(tags), np.uint64)
                for at, part in parts[number : number + 1]:
                    words[at] = part
                self._words[number] = np.concatenate([own, words[new]])
        by_row: Places = codes.reshape(cells.n_rows, len(positions))
        return by_row


def _parts(data: bytes, starts: Places, lengths: Places) -> Parts:
    octets = np.frombuffer(data, "<u8")
    parts: Parts = []
    at: slice | Places = slice(None)
    first = starts // WORD_BYTES
    shift = (starts % WORD_BYTES * 8).astype(np.uint64)
    while len(first) and len(parts) < MOST_WORDS:
        low, high = octets.take(first), octets.take(first + 1)
        words = (low >> shift) | (high << np.uint64(1) << (np.uint64(63) - shift))
        parts.append((at, words & _MASKS.take(lengths, mode="clip")))
        longer = np.flatnonzero(lengths > WORD_BYTES)
        at = longer if isinstance(at, slice) else at[longer]
        first, shift, lengths = first[longer] + 1, shift[longer], lengths[longer] - WORD_BYTES
    return parts


class AllColumns:
    """The gatherers of one pass."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self._positions = [one.position for one in features]
        self._gatherers = [one.gatherer for one in features]
        self._numeric = {
            i: one
            for i, one in enumerate(self._gatherers)
            if isinstance(one, TypedValues) and one.kind != "boolean"
        }
        self._in_order = sorted(range(len(features)), key=self._positions.__getitem__)
        self._coder = Coder(
            [one.lookup if isinstance(one, TextColumn) else {} for one in self._gatherers]
        )
        self._shape_coder = Coder(
            [one.shapes if isinstance(one, FormColumn) else {} for one in self._gatherers]
        )

    def add(self, batch: Batch) -> Values:
        """(rows, features): values, or codes of texts."""
        if isinstance(batch, ValueRows) and len(self._numeric) == len(self._gatherers):
            read = batch.numbers(self._positions)
            if read is not None:
                for i, column in self._numeric.items():
                    column.take(read[:, i], 0)
                return read
        n_rows = batch.n_rows if isinstance(batch, Cells | ValueArrays) else len(batch[0])
        values = np.zeros((n_rows, len(self._gatherers)))
        numbers = self._in_order
        if isinstance(batch, Cells):
            numbers = self._add_at_once(batch, values)
            batch = batch.texts(self._at(numbers))
        for i in numbers:
            at, numeric, read = self._positions[i], self._numeric.get(i), None
            if numeric is not None and isinstance(batch, ValueArrays):
                read = batch.numbers(at)
            if numeric is None or read is None:
                values[:, i] = self._gatherers[i].add(batch[at])
            else:
                numeric.take(read, int(np.count_nonzero(np.isnan(read))))
                values[:, i] = read
        return values

    def _add_at_once(self, cells: Cells, values: Values) -> list[int]:
        """Which gatherers have to get each cell as a text."""
        texts: dict[int, TextColumn] = {}
        forms: dict[int, FormColumn] = {}
        plain: dict[int, ValueColumn] = {}
        others = set()
        for i in self._in_order:
            gatherer = self._gatherers[i]
            if isinstance(gatherer, ValueColumn) and gatherer.plain:
                plain[i] = gatherer
            elif isinstance(gatherer, FormColumn) and gatherer.readable:
                forms[i] = gatherer
            elif not isinstance(gatherer, TextColumn):
                others.add(i)
            elif not gatherer.overflowed:
                texts[i] = gatherer
        codes = self._coder.codes(cells, self._at(texts), list(texts))
        values[:, list(texts)] = codes
        for text_column, column in zip(texts.values(), codes.T, strict=True):
            text_column.take(column)
        codes = self._shape_coder.codes(
            cells.shapes if forms else cells, self._at(forms), list(forms)
        )
        for (i, form_column), column in zip(forms.items(), codes.T, strict=True):
            at = self._positions[i]
            starts, lengths = cells.starts[:, at], cells.lengths[:, at]
            values[:, i] = form_column.take_shapes(cells.data, starts, lengths, column)
        for points in (True, False):
            some = {i: one for i, one in plain.items() if one.pointed == points}
            read = cells.numbers(self._at(some), points=points)
            if read is None:
                others |= some.keys()
                continue
            values[:, list(some)] = read
            n_missing = np.isnan(read).sum(axis=0).tolist()
            for value_column, column, n in zip(some.values(), read.T, n_missing, strict=True):
                value_column.take(column, n)
        return [i for i in self._in_order if i in others]

    def _at(self, numbers: Iterable[int]) -> list[int]:
        return [self._positions[i] for i in numbers]
