"""What the parsing process is asked, and what it answers: a line of JSON each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import svm.data.columns
from service.rows.columns import Columns
from service.subprocesses.working import Messages
from svm.data.columns import Column, PlainColumns
from svm.data.matrices import Matrix

Label: TypeAlias = str | int | float | bool
LabelKind: TypeAlias = Literal["category", "number"]
TargetKind: TypeAlias = Literal["classes", "numbers"]
"""What the labels of a dataset are."""
Header: TypeAlias = Literal["auto", "present", "absent"]

TableColumn: TypeAlias = dict[str, Any]
"""A feature of a table with kinds: `name`, `kind`, `levels`, and how many are `missing`."""
BesideColumn: TypeAlias = dict[str, str]
"""A column that is not a feature: `role`, `name`, `kind`."""
BESIDE = ("weight", "group", "time")
"""The roles of columns beside the features; each has one column at most, in this order."""
MOST_OTHERS = 1 + len(BESIDE)
"""Columns of a file that may be neither features nor ignored."""
Roles: TypeAlias = dict[str, dict[str, str]]
"""What the caller says of columns: name or position → `kind`, `role`."""

CSV = "text/csv"
TSV = "text/tab-separated-values"
JSON = "application/json"
NDJSON = "application/x-ndjson"
LIBSVM = "text/x-libsvm"
NPY = "application/x-npy"
NPZ = "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
XLS = "application/vnd.ms-excel"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ZIP = "application/zip"
GZIP = "application/gzip"
BZIP2 = "application/x-bzip2"
XZ = "application/x-xz"
ZSTD = "application/zstd"
UNKNOWN = "application/octet-stream"
"""The contents say what it is."""
DELIMITED = {CSV: ",", TSV: "\t"}
"""Formats that are tables of text, and the usual character between their cells."""

HEADER_BYTES = 128
"""NumPy pads the header of every array of ours to this, whatever its shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The part of `settings.Limits` that concerns the reading of data."""

    rows: int
    columns: int
    sparse_columns: int
    stored_values: int
    cell_bytes: int
    line_bytes: int
    inflated_bytes: int

    @property
    def text_bytes(self) -> int:
        """Longest cell of a column of texts."""
        return longest_text(self.line_bytes)


def longest_text(line_bytes: int) -> int:
    """The bytes that a cell of a column of texts may have: escapes in a line make it twice as long
    at most."""
    return line_bytes // 2


class RowLimits(NamedTuple):
    """The part of `settings.Limits` that concerns rows to predict."""

    rows: int
    cell_bytes: int
    line_bytes: int
    body_bytes: int = 32 * 1024 * 1024


CellsAgain: TypeAlias = Callable[[], Iterable[Sequence[Any]]]


class Rows(NamedTuple):
    """Rows to predict, (n_samples, n_features), finite."""

    X: Matrix
    others: Mapping[str, Any] = MappingProxyType({})
    """The other members of a document."""
    ignored: tuple[str, ...] = ()
    """Names of columns that came with the rows and are not features."""
    again: CellsAgain | None = None
    """Reads the rows again: their cells as the body has them, in the order of the features.
    None if they are the numbers of X."""


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A dataset's size, and its labels."""

    n_samples: int
    n_features: int
    sparse: bool
    target: str | None = None
    """Name of the label column, None if it has none."""
    classes: list[Label] | None = None
    """Sorted labels; None without labels, and if these are numbers."""


@dataclass(frozen=True, kw_only=True)
class Description(Sized):
    """What a dataset is: its columns, and its labels."""

    columns: list[str] | None = None
    """Names of the features, None if they have none."""
    table: list[TableColumn] = field(default_factory=list)
    """The features with their kinds; empty if all of them are numbers without gaps."""
    beside: list[BesideColumn] = field(default_factory=list)
    """Columns with a role beside the features, in the order of `BESIDE`."""
    ignored: list[dict[str, str]] = field(default_factory=list)
    """Columns of the file that are not kept: `name` and `reason`."""
    reading: dict[str, Any] | None = None
    """How the file was read, if that left a choice."""

    @property
    def is_plain(self) -> bool:
        """Whether the features are finite numbers."""
        return not self.table

    def named(self, role: str) -> str | None:
        """The name of the column with a role beside the features."""
        return next((one["name"] for one in self.beside if one["role"] == role), None)

    @property
    def weight(self) -> str | None:
        return self.named("weight")

    @property
    def group(self) -> str | None:
        return self.named("group")

    @property
    def time(self) -> str | None:
        return self.named("time")

    @property
    def time_is_date(self) -> bool:
        """Whether times are days since 1970-01-01; else numbers as they came, or none."""
        return {"role": "time", "name": self.time, "kind": "date"} in self.beside

    @property
    def text_columns(self) -> list[str]:
        """The names of the features that are texts."""
        return [column["name"] for column in self.table if column["kind"] == "text"]

    @cached_property
    def kinds(self) -> svm.data.columns.Columns:
        """The features with their kinds."""
        if not self.table:
            return PlainColumns(self.columns, self.n_features)
        return tuple(
            Column(
                one["name"],
                one["kind"],
                tuple(one["levels"]),
                one["missing"],
                one.get("characters", 0),
            )
            for one in self.table
        )

    def described(self, kind: type[Description] | None = None) -> dict[str, Any]:
        """The fields of the description alone, or of this kind of one."""
        return {one.name: getattr(self, one.name) for one in fields(kind or Description)}


@dataclass(frozen=True, kw_only=True)
class Overview(Sized):
    """What follows from a dataset's values."""

    class_counts: list[int] | None
    statistics: dict[str, Any]
    """`columns`: min, max, mean and std of each, if they are not too many; `extremes`: the columns
    with the smallest and the largest |value|, and these, of a category 1; `target`: how many
    labels are different, and of numbers the same, the median and, if they could be classes, their
    `classes` and `counts`; `group`: how many groups there are, and the rows of the largest; `time`:
    min, max and how many are different; `audit`: what was found."""
    warnings: list[dict[str, Any]]
    matrix_digest: str
    """Of values and labels, not of the format."""

    @property
    def n_distinct_labels(self) -> int:
        """0 without labels."""
        target = self.statistics.get("target") or {"distinct": len(self.classes or ())}
        return int(target["distinct"])

    @property
    def target_kind(self) -> TargetKind | None:
        """None without labels."""
        if self.n_distinct_labels == 0:
            return None
        return "numbers" if self.classes is None else "classes"

    @property
    def target_statistics(self) -> dict[str, Any] | None:
        """Of a numeric target."""
        return self.statistics.get("target") if self.target_kind == "numbers" else None


@dataclass(frozen=True, kw_only=True)
class Summarized(Description, Overview):
    """A dataset with its columns, and with what follows from its values."""

    @property
    def of_columns(self) -> dict[str, list[float | None]] | None:
        """The statistics of the columns: min, max, mean and std."""
        columns: dict[str, list[float | None]] | None = self.statistics.get("columns")
        return columns

    @property
    def audit(self) -> list[dict[str, Any]]:
        """What was found in the data, as `svm.audit.findings.Finding.as_dict` has it."""
        return list(self.statistics.get("audit") or ())


@dataclass(frozen=True, kw_only=True)
class Stored(Description):
    """A dataset that was kept; its arrays lie in `folder` as `<name>.npy`, copies of their own."""

    folder: str
    arrays: list[str]

    @property
    def features(self) -> Columns:
        return Columns(self.n_features, self.columns)

    @property
    def labeled(self) -> bool:
        return not {"y", "values"}.isdisjoint(self.arrays)

    def path(self, array: str) -> Path:
        return Path(self.folder) / f"{array}.npy"

    def labels(self) -> npt.NDArray[Any] | None:
        """(n_samples,): codes if there are classes, else the numbers themselves, or None."""
        array = next((name for name in ("y", "values") if name in self.arrays), None)
        return None if array is None else np.load(self.path(array))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the caller asks of the reading: the parameters of an upload, under the same names."""

    target: str | None = None
    """The label column: its name or position, `none`, or None for the format's default."""
    n_features: int | None = None
    missing_labels: Literal["auto", "drop", "refuse"] = "auto"
    """What to do with rows that have no label."""
    header: Header = "auto"
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    missing: list[str] = field(default_factory=list)
    """Further words for missing cells."""
    odd_cells: Literal["missing", "refuse"] = "missing"
    """What a few words in a column of numbers or dates are."""
    dayfirst: bool | None = None
    """Whether the day comes before the month in dates that may be read either way."""
    schema: Roles = field(default_factory=dict)
    sheet: str | None = None
    """Of a workbook. Default: the first one."""
    index_base: int | None = None
    dense: Literal["auto", "always", "never"] = "auto"
    """Whether LIBSVM data are stored with their zeros."""

    def given(self) -> list[str]:
        """The names of those that are not the defaults."""
        usual = ReadOptions()
        names = (one.name for one in fields(self))
        return [name for name in names if getattr(self, name) != getattr(usual, name)]


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of an upload."""

    path: str
    media_type: str
    """A format, or an archive that holds one file."""
    name: str = ""
    """As the caller has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseSpec:
    """One upload to read."""

    file: SentFile
    out: str
    """Folder that gets the arrays."""
    limits: ReadLimits
    labels: SentFile | None = None
    """One label a line, or an NPY file with one label a row."""
    asked: ReadOptions = field(default_factory=ReadOptions)
    onto: Stored | None = None
    """The dataset that the rows are appended to."""

    def asking(self, **options: Any) -> ParseSpec:
        """This upload with other options."""
        return replace(self, asked=replace(self.asked, **options))

    @property
    def label_kind(self) -> LabelKind | None:
        """Labels from a file are texts, even if all of them are numbers, if the dataset's are."""
        known = self._known_labels
        return "category" if known and isinstance(known[0], str) else None

    def no_label(self, words: frozenset[str]) -> frozenset[str]:
        """Those of the words that are not classes of the dataset."""
        return words.difference(self._known_labels)

    @property
    def _known_labels(self) -> list[Label]:
        return (self.onto.classes if self.onto is not None else None) or []


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSpec:
    """Rows to predict in a file, to write as CSV."""

    file: SentFile
    out: str
    """Path of the CSV file: names, then plain numbers and ISO dates, in UTF-8."""
    limits: ReadLimits
    columns: list[str] | None
    """Names of the model's columns; the cells of others may be left empty. None for all cells."""
    n_features: int | None = None
    """Those of the model; LIBSVM files may have fewer."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The CSV file was written."""

    named: bool
    """Whether its first record has the names of the columns, by the looks of the file."""
    labeled: bool = False
    """Whether its last column are labels, which have a place of their own in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSpec:
    """A dataset to part in two."""

    stored: Stored
    fraction: float
    """Share of the rows in the test part, in (0, 1)."""
    stratify: bool | None
    """None if there are classes."""
    seed: int
    gap: float
    """Least time between the parts."""
    train: str
    """Folder that gets the arrays of the train part."""
    test: str
    """Folder that gets the arrays of the test part."""
    limits: ReadLimits


@dataclass(frozen=True, kw_only=True)
class Parsed(Summarized):
    """What was read. The arrays lie in the folder `out` as `<name>.npy`."""

    arrays: list[str]
    media_type: str = ""
    """Of the file that was read; it may have been in an archive."""


@dataclass(frozen=True, slots=True)
class Divided:
    """The two parts of a dataset, each in its folder."""

    train: Parsed
    test: Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderSpec:
    """A dataset to write in some format."""

    stored: Stored
    media_type: str
    out: str
    """Path of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The file that was written."""

    sha256: str
    size_bytes: int


_MESSAGES = Messages(
    *(ParseSpec, ReadOptions, SentFile, SplitSpec, RenderSpec, ConvertSpec, ReadLimits, Stored),
    *(Parsed, Divided, Rendered, Converted),
)
encode, decode = _MESSAGES.encode, _MESSAGES.decode
