"""The texts of a table: UTF-8, column after column, and in each by row.

`texts.npy` has their bytes, `text_ends.npy` where each ends, `codes.npy` the position of the text
of each cell. Equal texts are not merged, so that equal tables have equal files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from service.rows.spec import HEADER_BYTES, Description, TableColumn
from service.rows.table.arrays import BLOCK_BYTES, ArrayWriter
from svm.data.matrices import cuts
from svm.data.row_hashes import Words, hashes_of

TEXT_ARRAYS = ("texts", "text_ends")
EXAMPLES, EXAMPLE_ROWS = 3, 20
EXAMPLE_CHARACTERS = 80
SPOOL_BYTES = 8 * 1024 * 1024
OBJECT_BYTES = 40
"""Of a text in memory, besides its characters."""
Lengths: TypeAlias = npt.NDArray[np.int64]
Run: TypeAlias = tuple[npt.NDArray[np.uint8], Lengths]
"""Texts in order: their bytes, and how many bytes each has."""


def text_positions(table: Sequence[TableColumn]) -> list[int]:
    """Positions of the columns of texts."""
    return [i for i, column in enumerate(table) if column["kind"] == "text"]


def write_texts(folder: Path, runs: Iterable[Run]) -> None:
    with (
        ArrayWriter(folder / "texts.npy", "|u1") as texts,
        ArrayWriter(folder / "text_ends.npy", "<i8") as ends,
    ):
        n_bytes = n_texts = 0
        for octets, lengths in runs:
            texts.write(octets)
            ends.write(n_bytes + np.cumsum(lengths))
            n_bytes += len(octets)
            n_texts += len(lengths)
        texts.finish((n_bytes,))
        ends.finish((n_texts,))


class TextFiles:
    """The texts of a table, of which its files are read some at a time."""

    def __init__(self, source: Description, files: Callable[[str], Path]) -> None:
        """`files` gives the path of an array."""
        columns = text_positions(source.table)
        counts = [source.n_samples - source.table[i]["missing"] for i in columns]
        bounds = pairwise(np.cumsum([0, *counts]).tolist())
        self._bounds = dict(zip(columns, bounds, strict=True))
        self._path = files("texts")
        self._ends: Lengths = np.load(files("text_ends"))

    def runs(self, column: int) -> Iterator[Run]:
        """Those of a column, some MiB at a time."""
        first, stop = self._bounds[column]
        begin = int(self._ends[first - 1]) if first else 0
        lengths = np.diff(self._ends[first:stop], prepend=begin)
        with self._path.open("rb") as file:
            file.seek(HEADER_BYTES + begin)
            for start, end in pairwise(cuts(lengths, len(lengths), BLOCK_BYTES).tolist()):
                some = lengths[start:end]
                yield np.fromfile(file, np.uint8, int(some.sum())), some


def chosen(runs: Iterable[Run], kept: npt.NDArray[np.bool_]) -> Iterator[Run]:
    """Those of the texts that are `kept`."""
    done = 0
    for octets, lengths in runs:
        some = kept[done : done + len(lengths)]
        done += len(lengths)
        yield octets[np.repeat(some, lengths)], lengths[some]


def described_texts(
    source: Description, files: Callable[[str], Path]
) -> Iterator[tuple[int, dict[str, Any], Words]]:
    """Of each column of texts its position, its statistics, and the hashes of its texts."""
    columns = text_positions(source.table)
    texts = TextFiles(source, files) if columns else None
    for column in columns:
        assert texts is not None
        sizes, hashes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        examples: dict[str, None] = {}
        for octets, lengths in texts.runs(column):
            ends = np.cumsum(lengths)
            begun = np.cumsum((octets & 0xC0) != 0x80)  # a character begins at such a byte
            sizes.append(np.diff(begun[ends - 1], prepend=0))
            joined, bounds = octets.tobytes(), pairwise([0, *ends.tolist()])
            parts = [joined[start:end] for start, end in bounds]
            hashes.append(hashes_of(parts))
            if len(examples) < EXAMPLES:
                whole_first = sorted(parts[:EXAMPLE_ROWS], key=_is_long)
                examples = dict.fromkeys([*examples, *map(_example, whole_first)])
        characters, words = np.concatenate(sizes), np.concatenate(hashes)
        there = max(1, len(words))
        statistics = {
            "characters": int(characters.sum()),
            "characters_median": float(np.median(characters)) if len(words) else None,
            "characters_max": int(characters.max(initial=0)),
            "distinct_share": len(np.unique(words)) / there,
            "examples": list(examples)[:EXAMPLES],
        }
        yield column, statistics, words


def _is_long(text: bytes) -> bool:
    return len(text) > EXAMPLE_CHARACTERS


def _example(text: bytes) -> str:
    """The text, or as many of its words as there is room for."""
    known = text[: 4 * EXAMPLE_CHARACTERS + 4].decode(errors="ignore")
    if len(known) <= EXAMPLE_CHARACTERS:
        return known
    cut = known[: EXAMPLE_CHARACTERS - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


class TextSpool:
    """Texts of several columns, which come some rows at a time."""

    def __init__(self, folder: Path, columns: Sequence[int]) -> None:
        self._place = {column: k for k, column in enumerate(columns)}
        self._paths = folder / "spooled-texts", folder / "spooled-lengths"
        self.remove()  # those of a pass before
        self._waiting: list[list[bytes]] = [[] for _ in columns]
        self._n_waiting = 0
        self._sizes = [np.zeros((1, 2), np.int64)]
        """How many bytes and texts there are of each column, each time that some are written."""

    def add(self, column: int, texts: list[bytes]) -> None:
        self._waiting[self._place[column]] += texts
        self._n_waiting += sum(map(len, texts)) + OBJECT_BYTES * len(texts)
        if self._n_waiting > SPOOL_BYTES:
            self._write()

    def _write(self) -> None:
        texts, lengths = (path.open("ab") for path in self._paths)
        with texts, lengths:
            for some in self._waiting:
                sizes = np.fromiter(map(len, some), np.int64, len(some))
                texts.write(b"".join(some))
                lengths.write(sizes.data)
                self._sizes.append(np.array([[sizes.sum(), len(some)]], np.int64))
                some.clear()
        self._n_waiting = 0

    def runs(self, columns: Iterable[int]) -> Iterator[Run]:
        """All texts of one column after the other."""
        self._write()
        ends = np.cumsum(np.concatenate(self._sizes), axis=0)
        texts, lengths = (path.open("rb") for path in self._paths)
        with texts, lengths:
            for column in columns:
                for k in range(self._place[column], len(ends) - 1, len(self._waiting)):
                    (first_byte, first), (end_byte, end) = ends[k : k + 2].tolist()
                    texts.seek(first_byte)
                    lengths.seek(first * np.dtype(np.int64).itemsize)
                    yield (
                        np.fromfile(texts, np.uint8, end_byte - first_byte),
                        np.fromfile(lengths, np.int64, end - first),
                    )

    def remove(self) -> None:
        """Delete the files."""
        for path in self._paths:
            path.unlink(missing_ok=True)
