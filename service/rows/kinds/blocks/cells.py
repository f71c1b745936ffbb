"""Records without quotes whose cells NumPy finds all at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.digits import NINES_OF_BYTES
from service.rows.json_reading.numbers import read_list

Places = npt.NDArray[np.int64]

NEWLINE, BLANK, NOT_ASCII = ord("\n"), ord(" "), 0x80
WORD_BYTES = 8


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
