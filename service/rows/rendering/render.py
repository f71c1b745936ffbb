"""Writes a stored dataset in one of the formats that uploads have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from service.rows.rendering import binary, columnar, text
from service.rows.spec import (
    CSV,
    JSON,
    LIBSVM,
    NDJSON,
    NPY,
    NPZ,
    PARQUET,
    TSV,
    Rendered,
    RenderSpec,
    Stored,
)

_WRITERS: dict[str, Callable[[Stored, BinaryIO], None]] = {
    CSV: text.write_csv,
    TSV: text.write_tsv,
    JSON: text.write_json,
    NDJSON: text.write_ndjson,
    LIBSVM: text.write_libsvm,
    NPY: binary.write_npy,
    NPZ: binary.write_npz,
}


def render(spec: RenderSpec) -> Rendered:
    """Write the file. Its bytes are a function of the dataset and the format."""
    path = Path(spec.out)
    if spec.media_type == PARQUET:
        columnar.write_parquet(spec.stored, path)
    else:
        with path.open("wb") as file:
            _WRITERS[spec.media_type](spec.stored, file)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Rendered(sha256=sha256, size_bytes=path.stat().st_size)
