"""Reads uploads in this process, and gives the arrays that were written."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from service.errors import ServiceError
from service.rows.parsing_process import read
from service.rows.spec import (
    CSV,
    Parsed,
    ParseSpec,
    ReadLimits,
    ReadOptions,
    SentFile,
    Stored,
    decode,
    encode,
)
from service.rows.table.arrays import write_array

LIMITS: dict[str, int] = {
    "rows": 1_000_000,
    "columns": 20_000,
    "sparse_columns": 10_000_000,
    "stored_values": 10_000_000,
    "cell_bytes": 4096,
    "line_bytes": 1_048_576,
    "inflated_bytes": 100_000_000,
}


@dataclass(frozen=True)
class Result:
    parsed: Parsed
    arrays: dict[str, npt.NDArray[Any]]

    @property
    def rows_of_labels(self) -> list[Any]:
        """The label of each row."""
        if self.parsed.classes is None:
            labels: list[Any] = self.arrays["values"].tolist()
            return labels
        return [self.parsed.classes[code] for code in self.arrays["y"]]


def upload(
    content: str | bytes,
    media_type: str = CSV,
    *,
    labels: str | bytes | None = None,
    limits: dict[str, int] | None = None,
    onto: Result | None = None,
    **options: Any,
) -> Result:
    """The result of an upload, or of rows appended `onto` another one. Raises ServiceError.

    Rows are appended twice, as after the death of the first process: that must change nothing.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = make_spec(folder, content, media_type, labels=labels, limits=limits, **options)
        if onto is not None:
            spec = replace(spec, onto=stored(onto, folder / "onto"))
        for _ in range(1 if onto is None else 2):
            try:
                parsed = read(decode(encode(spec)))
            except ServiceError as error:
                error.__context__ = None
                raise error.with_traceback(None) from None  # its frames would keep files open
        arrays = {array: np.load(folder / f"{array}.npy") for array in parsed.arrays}
    return Result(parsed, arrays)


def make_spec(
    folder: Path,
    content: str | bytes,
    media_type: str = CSV,
    *,
    name: str = "",
    labels: str | bytes | None = None,
    labels_media_type: str = CSV,
    labels_name: str = "",
    limits: dict[str, int] | None = None,
    **asked: Any,
) -> ParseSpec:
    """An upload whose files are written to `folder`, which also gets the arrays."""
    (folder / "body").write_bytes(_bytes(content))
    if labels is not None:
        (folder / "labels").write_bytes(_bytes(labels))
    sent = SentFile(str(folder / "labels"), labels_media_type, labels_name)
    return ParseSpec(
        file=SentFile(str(folder / "body"), media_type, name),
        out=str(folder),
        labels=None if labels is None else sent,
        limits=ReadLimits(**LIMITS | (limits or {})),
        asked=ReadOptions(**asked),
    )


def stored(result: Result, folder: Path) -> Stored:
    """What was read, as the store hands it to the parsing process."""
    folder.mkdir()
    for name, array in result.arrays.items():
        write_array(folder / f"{name}.npy", array)
    parsed = result.parsed
    return Stored(folder=str(folder), arrays=parsed.arrays, **parsed.described())


def refusal(content: str | bytes, media_type: str = CSV, **options: Any) -> ServiceError:
    """The error that the upload gets."""
    with pytest.raises(ServiceError) as caught:
        upload(content, media_type, **options)
    return caught.value


def places(error: ServiceError) -> list[tuple[str, int | None, str | int | None, str | None]]:
    """What the error says, where, and of which value."""
    return [(fault.code, fault.row, fault.column, fault.value) for fault in error.faults]


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
