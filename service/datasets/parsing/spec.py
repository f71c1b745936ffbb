"""What the parsing process is asked, and what it answers: a line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from service import errors
from service.errors import Fault, ServiceError

Label: TypeAlias = str | int | float | bool
Header: TypeAlias = Literal["auto", "present", "absent"]

CSV = "text/csv"
TSV = "text/tab-separated-values"
JSON = "application/json"
LIBSVM = "text/x-libsvm"
NPY = "application/x-npy"
FORMATS = (CSV, TSV, JSON, LIBSVM, NPY)
"""Media types of uploads."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A dataset that was kept; its arrays lie in `folder` as `<name>.npy`, copies of their own."""

    folder: str
    arrays: list[str]
    n_samples: int
    n_features: int
    sparse: bool
    columns: list[str] | None
    target: str | None
    classes: list[Label] | None

    @property
    def labelled(self) -> bool:
        return "y" in self.arrays or "values" in self.arrays

    def path(self, array: str) -> Path:
        return Path(self.folder) / f"{array}.npy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseSpec:
    """One upload to read."""

    media_type: str
    data: str
    """Path of the file."""
    out: str
    """Folder that gets the arrays."""
    limits: ReadLimits
    labels: str | None = None
    """Path of a file with one label a line, or of an NPY file with one label a row."""
    labels_media_type: str = CSV
    target: str | None = None
    """The label column: its name or position, `none`, or None for the format's default."""
    header: Header = "auto"
    delimiter: str | None = None
    index_base: int | None = None
    n_features: int | None = None
    onto: Stored | None = None
    """The dataset that the rows are appended to."""

    @property
    def text_labels(self) -> bool:
        """Labels from a file are texts even if all of them are numbers: those before them are."""
        classes = None if self.onto is None else self.onto.classes
        return classes is not None and isinstance(classes[0], str)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ParseSpec:
        values: dict[str, Any] = json.loads(text)
        values["limits"] = ReadLimits(**values["limits"])
        if values["onto"] is not None:
            values["onto"] = Stored(**values["onto"])
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was read. The arrays lie in the folder `out` as `<name>.npy`."""

    n_samples: int
    n_features: int
    sparse: bool
    columns: list[str] | None
    target: str | None
    classes: list[Label] | None
    class_counts: list[int] | None
    statistics: dict[str, Any]
    warnings: list[dict[str, Any]]
    matrix_digest: str
    arrays: list[str]


def encode(answer: Parsed | ServiceError) -> str:
    """A line that `decode` understands."""
    if isinstance(answer, Parsed):
        return json.dumps({"parsed": asdict(answer)}, allow_nan=False)
    error = {
        "family": type(answer).__name__,
        "code": answer.code,
        "detail": answer.detail,
        "faults": [asdict(fault) for fault in answer.faults],
        "faults_total": answer.faults_total,
        "extra": answer.extra,
    }
    return json.dumps({"error": error})


def decode(line: str) -> Parsed:
    """Raises the ServiceError that the parsing process reports."""
    answer: dict[str, Any] = json.loads(line)
    if "parsed" in answer:
        return Parsed(**answer["parsed"])
    error = answer["error"]
    family: type[ServiceError] = getattr(errors, error["family"])
    faults = tuple(Fault(**fault) for fault in error["faults"])
    raise family(error["code"], error["detail"], faults, error["faults_total"], error["extra"])
