"""What callers send and get: uploads, datasets and their columns."""

from __future__ import annotations

from dataclasses import asdict
from itertools import repeat
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from service.common.schemas import Audit, ReadModel, TagKey, TagValue, Timestamp, WriteModel
from service.datasets.dataset import Dataset, Origin
from service.rows.cell_texts.encodings import is_text_codec
from service.rows.cell_texts.reading import ANY_DELIMITER
from service.rows.spec import Label, Parsed, Summarized, TargetKind
from svm.data.columns import Column, Kind

MAX_NAME = 200
MAX_LEVELS_SHOWN = 100
MAX_SEED = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

DatasetName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")
]


def _known_encoding(name: str) -> str:
    name = name.lower()
    if name != "auto" and not is_text_codec(name):
        raise PydanticCustomError("encoding", "no text encoding of Python has this name")
    return name


EncodingName = Annotated[str, StringConstraints(max_length=40), AfterValidator(_known_encoding)]
NAMED_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}
_DELIMITER_PATTERN = rf"^(auto|{'|'.join(NAMED_DELIMITERS)}|[{ANY_DELIMITER}])$"


class UploadOptions(BaseModel):
    """How to read an upload: the query's parameters, or fields of a form."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: DatasetName | None = None
    """A name for people; it need not be unique."""
    target: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    """The column that holds the labels: its name, its position from 0 if it has no name, or `none`
    for data without labels. Default: the only one called label, labels, target, class, outcome or
    y, else the last one; the file or the field `labels`, if there is one. LIBSVM lines begin with
    their label."""
    header: Literal["auto", "present", "absent"] = "auto"
    """CSV, TSV and XLSX: whether the first record names the columns. `auto`: what the media type
    says (`text/csv; header=present`); else it does if none of its feature cells is a number."""
    delimiter: Annotated[str, StringConstraints(pattern=_DELIMITER_PATTERN)] | None = None
    """CSV and TSV: the character between cells, or `comma`, `semicolon`, `tab`, `bar` or `space`.
    `auto`: the one of these five that gives all rows the same number of cells."""
    encoding: EncodingName = "auto"
    """CSV and TSV: any text encoding of Python, such as `windows-1251` or `shift_jis`. `auto`: what
    the `charset` of the media type or a byte order mark says, else UTF-8, else a guess, with a
    warning that shows some texts."""
    decimal: Literal["auto", ".", ","] = "auto"
    """CSV and TSV: the decimal mark. `auto`: what the cells of each column can only be, else those
    of the file."""
    thousands: Literal["auto", "none"] = "auto"
    """CSV and TSV: whether thousands may be separated, by the mark that is not decimal, a blank or
    an apostrophe."""
    missing: Annotated[str, StringConstraints(max_length=1000)] = "auto"
    """CSV, TSV and XLSX: further words for missing cells, separated by commas. An empty cell, NA,
    N/A, NaN, null and ? always mean it, and in columns of numbers None, - and `missing`."""
    odd_cells: Literal["missing", "refuse"] = "missing"
    """CSV, TSV, XLSX, JSON and Parquet: a few words in a column of numbers or dates, such as
    `unknown` or `#DIV/0!`: at most ten different ones, in 1 % of its cells or a single one. They
    are missing cells, and a warning counts each; with `refuse` they are errors."""
    dayfirst: bool | None = None
    """CSV, TSV and XLSX: whether the day comes first in dates such as 01/02/2024, if a column can
    be read either way. Default: it is a category."""
    schema_: Annotated[str, StringConstraints(max_length=1_000_000), Field(alias="schema")] = ""
    """What columns are, as JSON: `{"column": {"kind": "category", "role": "feature"}}`. Kinds are
    number, category, boolean, date and text (whose words become features), roles feature, label,
    weight, group, time and ignored. The label is a `number`, which models predict, or a `category`:
    classes, in which no word means that it is missing. Columns without names are called by their
    position from 0."""
    weight: str = ""
    """The column of weights."""
    group: str = ""
    """The column of groups: patients, users, sessions."""
    time: str = ""
    """The column of times: dates or numbers."""
    missing_labels: Literal["auto", "drop", "refuse"] = "auto"
    """Rows without a label. `auto`: they are left out, with a warning, if they are at most half of
    the rows and two classes are left; else, and with `refuse`, they are an error. `drop`: they are
    left out, however many."""
    sheet: Annotated[str, StringConstraints(min_length=1, max_length=255)] = "auto"
    """XLSX, XLS and ODS: the name of the sheet. `auto`: the first one with a table that is not
    hidden."""
    dense: Literal["auto", "always", "never"] = "auto"
    """LIBSVM, and sparse NPZ: whether zeros are stored, so that `standardize` works. `auto`: if at
    least half of the values are not 0; appended rows are stored as the dataset is."""
    index_base: Annotated[int, Field(ge=0, le=1)] | None = None
    """LIBSVM: the index of the first column. Default: 1."""
    n_features: Annotated[int, Field(ge=1)] | None = None
    """How many feature columns there are: a check, and for LIBSVM, whose last columns may be all
    zero, how many there are to be."""
    validate_only: bool = False
    """Read and check everything, keep nothing."""


class AppendOptions(UploadOptions):
    """How to read rows that are appended to a dataset."""

    name: DatasetName | None = None
    """A name for people. Default: that of the dataset."""
    target: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    """The column that holds the labels, as in an upload. Default: the column that the dataset's
    labels came from, if the rows have names; none, if the dataset has no labels."""
    n_features: Annotated[int, Field(ge=1)] | None = None
    """How many feature columns there are: a check, and for LIBSVM how many there will be. Default:
    as many as the dataset has."""
    validate_only: bool = False
    """Read and check everything, keep nothing: the reply shows what the dataset would be."""


class TextStatistics(ReadModel):
    """The texts of a column that are not missing."""

    characters: int
    """Of all texts together."""
    characters_median: float | None
    """Null if there is no text."""
    characters_max: int
    distinct_share: float
    """How many different texts there are, divided by how many texts."""
    examples: list[str]
    """The beginnings of some."""


class ColumnRead(ReadModel):
    """One feature column. Numbers are null if they are beyond the range of float64, and for
    categories and texts; dates are days since 1970-01-01."""

    name: str | None
    """Null if the format has no names."""
    kind: Kind
    role: Literal["feature"] = "feature"
    levels: list[str] | None
    """Of a category the first hundred different texts, sorted."""
    n_levels: int | None
    missing: int
    """How many cells are missing."""
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    """Of these rows: the mean square is divided by n."""
    texts: TextStatistics | None = None
    """Of a column of texts."""


class IgnoredColumn(ReadModel):
    """A column of the file that is not kept."""

    name: str
    """Its position from 0 if columns have no names."""
    reason: str


class DatasetWarning(ReadModel):
    """Something that is not an error, but worth knowing before training."""

    code: str
    """`unscaled`, `imbalanced`, `constant-columns`, `duplicates`, `numeric-target`, `many-labels`,
    `ignored-column`, `text-column`,
    `undecided-dates`, `odd-cells`, `units`, `nearly-read`, `lists-in-cells`, `may-be-codes`,
    `leading-zeros`, `long-numbers`, `inexact-integers`, `label-by-name`,
    `likely-targets`, `likely-group`, `likely-time`, `missing-labels`,
    `similar-levels`, `guessed-encoding`, `mixed-encodings`, `renamed-columns`, `left-out-lines`,
    `quoted-lines`, `left-out-cells`, `other-names`, `open-quotes`."""
    message: str
    columns: list[str | int] | None = None
    """The first columns concerned: names, or positions from 0."""


class DatasetSummary(ReadModel):
    """A dataset without its columns."""

    id: str | None
    """Null if the upload was only validated."""
    name: str | None
    created_at: Timestamp | None
    format: str
    """Media type of the upload."""
    size_bytes: int
    """Of the stored arrays."""
    n_samples: int
    n_features: int
    sparse: bool
    target: str | None
    """Name of the label column, if it has one."""
    target_kind: TargetKind | None
    """What the labels are: classes, or numbers, which models of the dataset predict. Numbers are
    classes if they are at most 20 different whole ones, or of a LIBSVM file whole ones; `schema`
    decides otherwise. Null without labels."""
    classes: list[Label] | None
    """Sorted labels; null without labels, and if these are numbers."""
    class_counts: list[int] | None
    n_distinct_labels: int
    """How many different labels there are, 0 without labels."""
    matrix_digest: str
    """sha-256 of values and labels: the same for equal data in any dense format."""
    warnings: list[DatasetWarning]
    tags: dict[str, str]
    """Your own remarks."""
    parent: str | None
    """The dataset that this one was made from by append or split. It may be deleted by now: this
    one is complete by itself."""
    inherited_rows: int | None
    """Made by append: this many first rows are the parent's, in its order."""


class TargetStatistics(ReadModel):
    """A numeric target. Null if a number is beyond the range of float64."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    """Of these rows: the mean square is divided by n."""
    median: float | None = None


class DatasetRead(DatasetSummary):
    """A dataset."""

    audit: Audit
    """What may be leaks of the label, and rows that are equal."""
    target_statistics: TargetStatistics | None
    """Null if the labels are classes."""
    columns: list[ColumnRead] | None
    """The features; null for sparse data of very many columns."""
    weight: str | None
    """Name of the column with the weights of the rows."""
    group: str | None
    """Name of the column with their groups."""
    time: str | None
    """Name of the column with their times."""
    ignored_columns: list[IgnoredColumn]
    """Columns of the file that are not kept, and why."""
    reading: dict[str, Any] | None
    """How text was read: sheet, encoding, delimiter, header, decimal mark, separator of thousands,
    words for missing cells, and rows without a label as `unlabeled`: `count`, `words`, the first
    thousand `rows`. Null for formats that leave no choice."""

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        others = {"ignored_columns": dataset.ignored, "columns": _columns(dataset)}
        same = {name: getattr(dataset, name) for name in cls.model_fields.keys() - others.keys()}
        return cls.model_validate(others | same)

    @classmethod
    def of_parsed(
        cls, parsed: Parsed, name: str | None, media_type: str, size_bytes: int, origin: Origin
    ) -> Self:
        """What the dataset would be like."""
        dataset = Dataset(
            **parsed.described(Summarized),
            **asdict(origin),
            id="",
            number=0,
            name=name,
            created_at=0.0,
            format=media_type,
            size_bytes=size_bytes,
            tags={},
            arrays={},
        )
        return cls.of(dataset).model_copy(update={"id": None, "created_at": None})


class RowRead(ReadModel):
    """A row of a dataset."""

    row: int
    """From 1, as evaluations and predictions count."""
    cells: dict[str, Label | None]
    """By column; null if missing. Of sparse rows what is not zero, by position from 0."""


class RowPage(ReadModel):
    """Rows of a dataset."""

    rows: list[RowRead]
    total: int
    """Rows that meet the conditions."""
    next_page_token: str | None


class DatasetPage(ReadModel):
    """Datasets, newest first."""

    datasets: list[DatasetSummary]
    next_page_token: str | None
    """Null on the last page."""


class DatasetUpdate(WriteModel):
    """Changes of name and tags; what is not mentioned stays (JSON merge patch)."""

    name: DatasetName | None = None
    """Null removes the name."""
    tags: dict[TagKey, TagValue | None] = Field(default_factory=dict)
    """Tags to set; null removes one."""


Gap = Annotated[float, Field(ge=0, le=1e100)]


class DatasetSplit(WriteModel):
    """How to part a dataset in two."""

    fraction: Annotated[float, Field(gt=0, lt=1)]
    """Share of the rows in `test`."""
    stratify: bool | None = None
    """Take the same share of every class. Default: if there are classes."""
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0
    """Decides which rows: the same as for a job with this seed and such a `validation`."""
    gap: Gap = 0.0
    """Least time between training and validation rows, if they have times: of dates in days."""


class DatasetSplitRead(ReadModel):
    """The two parts of a dataset, each a dataset of its own; rows are in their old order."""

    train: DatasetRead
    test: DatasetRead
    """The share `fraction` of the rows."""


def _columns(dataset: Dataset) -> list[dict[str, Any]] | None:
    statistics = dataset.of_columns
    if statistics is None:
        return None
    names = dataset.columns or repeat(None)
    values = zip(*statistics.values(), strict=True)
    texts = dataset.statistics.get("texts", {})
    return [
        {
            "name": name,
            **_kind(column),
            **dict(zip(statistics, each, strict=True)),
            "texts": texts.get(column.name),
        }
        for name, column, each in zip(names, dataset.kinds, values, strict=False)
    ]


def _kind(column: Column) -> dict[str, Any]:
    known = {"kind": column.kind, "missing": column.missing, "levels": None, "n_levels": None}
    if column.kind != "category":
        return known
    return known | {"levels": column.levels[:MAX_LEVELS_SHOWN], "n_levels": len(column.levels)}
