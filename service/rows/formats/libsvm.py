"""LIBSVM text: `label index:value …` a line, indices ascending; stored sparse unless it is full.

Labels may be texts; groups and weights of rows are written as in SVMlight:
`label qid:17 cost:2 index:value …`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.errors import MAX_FAULTS, InvalidContent, InvalidRequest
from service.rows.cell_faults import CellFault, fault_of_text
from service.rows.cell_texts.number_text import NUMBER, is_not_finite
from service.rows.cell_texts.text import check_lengths, decode_text, slices
from service.rows.columns import Columns
from service.rows.faults import Faults, too_many
from service.rows.json_reading.numbers import PIECE_BYTES, read_list
from service.rows.spec import BesideColumn, ParseSpec, RowLimits, Rows
from service.rows.table.beside import write_groups, write_values
from service.rows.table.joining import expect_rows
from service.rows.table.labels import Labels, most_classes
from service.rows.table.layout import NO_TARGET
from service.rows.table.writers import SparseWriter, Table, fill_if_full

_COMMENT = re.compile(r"#[^\n]*")
_BLANKS = re.compile(r"[ \t]+")
_BLANKS_AT_ENDS = re.compile(r"^ | $", re.MULTILINE)
_INDEX = re.compile(r"[0-9]+")

_BESIDE = re.compile(r"(?<= )(cost|qid):([^ ]*) ?")
_WIDTH = re.compile(rb"# ([0-9]{1,9}) features\n")
"""A comment of the client: of rows to predict nothing else says it."""
LINES_AT_ONCE = 512
"""Of a body, so that other threads run in between."""
VALUE_HINT = "a pair is index:value, the value a finite number"
NEWLINE, BLANK, COLON, COMMA, MINUS, ZERO = (np.uint8(mark) for mark in b"\n :,-0")


@dataclass(slots=True)
class Lines:
    """Lines as flat arrays."""

    labels: npt.NDArray[np.float64]
    """Empty if the lines have none."""
    lengths: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    """As they are written."""
    values: npt.NDArray[np.float64]


def read(spec: ParseSpec) -> Table:
    """Write the CSR arrays, or of nearly full data `X.npy`.

    Raises ServiceError with every fault of the file.
    """
    spec = expect_rows(spec, sparse=True)
    if spec.asked.target not in (None, NO_TARGET):
        message = "LIBSVM lines begin with their label: leave out `target`, unless it is none"
        raise InvalidRequest("invalid-parameter", message)
    labeled = spec.asked.target != NO_TARGET and spec.labels is None
    base = 1 if spec.asked.index_base is None else spec.asked.index_base
    limit = spec.limits.sparse_columns if spec.asked.n_features is None else spec.asked.n_features
    if limit > spec.limits.sparse_columns:
        raise too_many("sparse columns", spec.limits.sparse_columns)
    beyond = "raise n_features, or leave it out"
    if spec.onto is not None:
        beyond = "to add columns to the dataset, give n_features"
    allowed = IndexRange(base, limit, beyond, growing=spec.asked.n_features is None)
    faults = Faults()
    labels = Labels(faults, kind=spec.label_kind, most=most_classes(spec))
    texts: bool | None = True if spec.label_kind == "category" else None
    beside = _Beside(faults)
    highest = -1
    with SparseWriter(Path(spec.out), spec.limits) as writer:
        done = 0
        for part in slices(Path(spec.file.path), quotes=False):
            names: list[str] = []
            rows: Lines | None = None
            if not texts and 4 * len(part.text) <= spec.limits.line_bytes:
                rows = allowed.at_once(part.text)
            if rows is None or (labeled and not len(rows.labels)):
                lines = lines_of(part.text)
                if not lines:
                    continue
                check_lengths(lines, spec.limits.line_bytes, done + 1)
                if "cost:" in part.text or "qid:" in part.text:
                    lines = beside.take(lines, done)
                if texts is None:
                    texts = _is_text(lines[0])
                if texts or not labeled:
                    lines = _take_labels(lines, names if labeled else None)
                rows = allowed.read(lines, faults, done)
                done += len(lines)
            else:
                texts = False
                done += len(rows.lengths)
            if faults.total > MAX_FAULTS:
                break
            if faults.total == 0:
                if labeled and texts:
                    labels.add_texts(names)
                elif labeled:
                    labels.add_numbers(rows.labels)
                writer.add(rows.lengths, rows.indices - base, rows.values)
                highest = max(highest, int(rows.indices.max(initial=-1)) - base)
        faults.check()
        if done == 0:
            raise InvalidContent("empty-data", "the file holds no line of data")
        n_features = highest + 1 if spec.asked.n_features is None else spec.asked.n_features
        if n_features == 0:
            raise InvalidContent("empty-data", "no line holds a feature")
        writer.finish()
    dense = fill_if_full(spec, (done, n_features), writer.n_stored)
    return Table(
        n_samples=done,
        n_features=n_features,
        sparse=not dense,
        reading={
            "index_base": base,
            "layout": "dense" if dense else "sparse",
            "share_stored": writer.n_stored / (done * n_features),
        },
        labels=labels.finish() if labeled else None,
        beside=beside.write(Path(spec.out), done),
    )


def _is_text(line: str) -> bool:
    label = line.partition(" ")[0]
    return (
        ":" not in label
        and "," not in label
        and fault_of_text(label) is not None
        and not is_not_finite(label)
    )


def _take_labels(lines: list[str], labels: list[str] | None) -> list[str]:
    """The lines with 0 as their label; those that they have, if any, are added to `labels`. Without
    `labels` lines need none."""
    numbered = []
    for line in lines:
        label, blank, pairs = line.partition(" ")
        if ":" not in label:
            numbered.append(f"0{blank}{pairs}")
            if labels is not None:
                labels.append(label)
        else:
            numbered.append(line if labels is not None else f"0 {line}")
    return numbered


class _Beside:
    """Weights of rows (`cost:2`) and their groups (`qid:17`): a row without is of weight 1, and of
    no group."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._weights: dict[int, float] = {}
        self._groups: dict[int, int] = {}
        """By row; of groups their numbers."""
        self._names: dict[str, int] = {}

    def take(self, lines: list[str], done: int) -> list[str]:
        """The lines without weights and groups; `done` others came before them."""
        without = []
        for row, line in enumerate(lines, done):
            given = set()
            for what, text in _BESIDE.findall(line):
                if what in given:
                    message, hint = "comes after another one", f"give one {what} a line"
                    add = self._faults.add
                    add("libsvm-index", message, f"{what}:{text}", hint, row=row + 1)
                given.add(what)
                if what == "cost":
                    self._weights[row] = float(text) if NUMBER.fullmatch(text) else -1.0
                elif text:
                    self._groups[row] = self._names.setdefault(text, len(self._names))
            without.append(_BESIDE.sub("", line).rstrip())
        return without

    def write(self, folder: Path, n_samples: int) -> list[BesideColumn]:
        """Write the arrays; their columns, which are called as their roles."""
        written = []
        if self._weights:
            weights = np.ones(n_samples)
            weights[list(self._weights)] = list(self._weights.values())
            write_values(folder, "weight", weights, "weight")
            written.append({"role": "weight", "name": "weight", "kind": "number"})
        if self._groups:
            codes = np.full(n_samples, -1)
            codes[list(self._groups)] = list(self._groups.values())
            write_groups(folder, codes, list(self._names))
            written.append({"role": "group", "name": "group", "kind": "text"})
        return written


def read_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows to predict, sparse. Labels, weights and groups before the pairs are allowed and ignored;
    features that are not named are 0. Raises InvalidRequest, TooLarge, and InvalidContent with
    every bad row."""
    from scipy.sparse import csr_array

    columns.require_numbers()
    if (width := _WIDTH.match(body)) is not None:
        columns.check_width(int(width[1]))
        body = body[width.end() :]
    n_features = columns.n_features
    below = "indices begin at 1 here, whatever the data of the model began at"
    beyond = f"the model takes {n_features} features, with indices from 1"
    allowed = IndexRange(1, n_features, beyond, below)
    parts = _parts_at_once(body, allowed) or _parts(body, allowed, limits)
    lengths = np.concatenate([part.lengths for part in parts])
    if len(lengths) > limits.rows:
        raise too_many("rows to predict", limits.rows)
    values = np.concatenate([part.values for part in parts])
    indices = np.concatenate([part.indices for part in parts]) - 1
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Rows(csr_array((values, indices, indptr), shape=(len(lengths), n_features)))


def _parts_at_once(body: bytes, allowed: IndexRange) -> list[Lines] | None:
    parts = []
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + PIECE_BYTES) + 1 or len(body)
        part = allowed.at_once(body[start:end])
        if part is None:
            return None
        parts.append(part)
        start = end
    return parts


def _parts(body: bytes, allowed: IndexRange, limits: RowLimits) -> list[Lines]:
    lines = lines_of(_BESIDE.sub("", decode_text(body)))
    if not lines:
        raise InvalidContent("empty-data", "the body holds no line of data")
    if len(lines) > limits.rows:
        raise too_many("rows to predict", limits.rows)
    faults = Faults()
    parts = []
    for start in range(0, len(lines), LINES_AT_ONCE):
        some = [
            f"0 {line}" if ":" in line.partition(" ")[0] else line
            for line in lines[start : start + LINES_AT_ONCE]
        ]
        part = allowed.read(some, faults, start)
        if faults.total > MAX_FAULTS:
            break
        parts.append(part)
    faults.check()
    return parts


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The indices that pairs may have: from `base` to `base + limit - 1`."""

    base: int
    limit: int
    beyond_hint: str
    """For a higher one."""
    below_hint: str = "say index_base=0 if columns count from 0"
    """For a lower one."""
    growing: bool = False
    """A higher one is too many columns."""

    def read(self, lines: list[str], faults: Faults, done: int = 0) -> Lines:
        """Lines as arrays, after `done` others; what is wrong with them is added to `faults`.

        Raises TooLarge.
        """
        return self.at_once("\n".join(lines)) or Careful(self, faults).read(lines, done + 1)

    def at_once(self, text: str | bytes) -> Lines | None:
        """The same, sooner, of lines that need no closer look; None if some line does."""
        data = text.encode() if isinstance(text, str) else text
        if not data.endswith(b"\n"):
            data += b"\n"
        return _at_once(data, self.base, self.base + self.limit)


def lines_of(text: str) -> list[str]:
    """One label and its pairs each, one blank between them; comments and blank lines are gone."""
    if "#" in text:
        text = _COMMENT.sub("", text)
    if "\t" in text or "  " in text:
        text = _BLANKS.sub(" ", text)
    if " \n" in text or "\n " in text or text[:1] == " " or text[-1:] == " ":
        text = _BLANKS_AT_ENDS.sub("", text)
    return [line for line in text.split("\n") if line]


def _at_once(text: bytes, base: int, end: int) -> Lines | None:
    """All lines, each of which ends, or None if some line must be looked at closely: all of them
    have labels, or none has, and nothing but these and pairs.

    Indices go from `base` to `end` - 1.
    """
    between = text.translate(None, b"0123456789")
    marks = between.translate(None, b".eE+-")
    labeled = not marks.startswith(b":")
    pair, end_of_line = (b" :", b"") if labeled else (b": ", b" ")
    of_pairs = marks.replace(b"\n", end_of_line)
    usual = of_pairs == pair * (len(of_pairs) // 2)
    characters = np.frombuffer(between, np.uint8)
    before = characters[:-1]
    digits_only = (characters[1:] != COLON) | (before == BLANK) | (before == NEWLINE)
    if not usual or not digits_only.all():
        return None
    numbers = _numbers(text)
    if numbers is None or len(numbers) != len(marks) or not np.isfinite(numbers).all():
        return None
    ends = np.flatnonzero(np.frombuffer(marks, np.uint8) == NEWLINE) + 1
    lengths = np.diff(ends, prepend=0) // 2
    labels = np.zeros(0)
    if labeled:
        first = ends - 2 * lengths - 1
        labels, numbers = numbers[first], np.delete(numbers, first)
    indices = numbers[::2]
    rising = np.diff(indices, prepend=-1) > 0
    rising[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    if not rising.all() or ((indices < base) | (indices >= end)).any():
        return None
    return Lines(labels, lengths, indices.astype(np.int64), numbers[1::2])


def _numbers(text: bytes) -> npt.NDArray[np.float64] | None:
    """All numbers of lines; None if something else is there."""
    # Most are written as in JSON, except for the sign of a label.
    listed = text
    if b"+" in text:
        if b"+-" in text:
            return None
        listed = text.replace(b"\n+", b"\n").removeprefix(b"+")
    characters = np.frombuffer(listed, np.uint8)
    is_mark = (characters == NEWLINE) | (characters == BLANK) | (characters == COLON)
    commas = characters + is_mark * (COMMA - characters)  # sooner than `translate`
    numbers = read_list(b"[%b]" % commas[:-1].tobytes())
    if numbers is not None and (numbers.all() or not _has_minus_zero(commas)):  # in JSON it is 0
        return numbers
    try:
        # A separator of blanks matches one at least: `3-4` is an error, not two numbers.
        return np.fromstring(text.replace(b":", b" "), sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _has_minus_zero(commas: npt.NDArray[np.uint8]) -> bool:
    """Whether a number ends in -0."""
    ends = (commas[1:-1] == ZERO) & (commas[2:] == COMMA)
    return bool(((commas[:-2] == MINUS) & ends).any())


@dataclass(slots=True)
class Careful:
    """Reads line by line to say what is wrong, and where."""

    allowed: IndexRange
    faults: Faults
    labels: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def read(self, lines: list[str], first_row: int) -> Lines:
        for row, line in enumerate(lines, first_row):
            self._read_line(line, row)
            if self.faults.total > MAX_FAULTS:
                break
        return Lines(
            np.array(self.labels),
            np.array(self.lengths, dtype=np.int64),
            np.array(self.indices, dtype=np.int64),
            np.array(self.values),
        )

    def _read_line(self, line: str, row: int) -> None:
        label, *pairs = line.split(" ")
        if ":" in label:
            message = f"{label[:64]!r} is where the label is expected"
            hint = "begin every line with a label; without labels write 0, and say target=none"
            self.faults.add("missing-value", message, row=row, value=label, hint=hint)
            return
        hint = "write the class as a number" if "," not in label else "a row has one label"
        self.labels.append(self._number(label, row, None, hint))
        before = -1
        for pair in pairs:
            text, colon, value = pair.partition(":")
            index = self._index(text, colon, before, pair, row)
            if index is not None:
                before = index
                self.indices.append(index)
                self.values.append(self._number(value, row, index - self.allowed.base, VALUE_HINT))
        self.lengths.append(len(pairs))

    def _index(self, text: str, colon: str, before: int, pair: str, row: int) -> int | None:
        allowed, hint = self.allowed, None
        if text == "qid":
            message, hint = "is for ranking, which is not offered here", "leave it out"
        elif not (colon and _INDEX.fullmatch(text)):
            message, hint = "is not index:value", "an index is a whole number"
        elif (index := int(text[:19])) < allowed.base:  # a longer one is beyond all columns
            message, hint = "has an index below 1", allowed.below_hint
        elif index <= before:
            message, hint = "does not come after the pair before", "sort each line by its indices"
        elif index < allowed.base + allowed.limit:
            return index
        elif allowed.growing:
            raise too_many("sparse columns", allowed.limit, row)
        else:
            message = f"has an index above the last column, {allowed.base + allowed.limit - 1}"
            hint = allowed.beyond_hint
        self.faults.add("libsvm-index", message, row=row, value=pair, hint=hint)
        return None

    def _number(self, text: str, row: int, column: int | None, hint: str) -> float:
        if NUMBER.fullmatch(text) and isfinite(float(text)):
            return float(text)
        fault = fault_of_text(text, hint) if text else None
        fault = fault or CellFault("not-a-number", "is not a number", text, hint)
        self.faults.add(*fault, row=row, column=column)
        return 0.0
