"""Reads one upload: the format's reader writes X, then come labels, digest and statistics."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from service.datasets.parsing import delimited, json_rows, labels_file, libsvm, npy
from service.datasets.parsing.spec import CSV, JSON, LIBSVM, NPY, TSV, Parsed, ParseSpec
from service.datasets.parsing.summary import digest_and_statistics
from service.datasets.parsing.writers import Table, write_array
from service.errors import InvalidRequest, UnsupportedFormat

_READERS: dict[str, Callable[[ParseSpec], Table]] = {
    CSV: delimited.read,
    TSV: delimited.read,
    JSON: json_rows.read,
    LIBSVM: libsvm.read,
    NPY: npy.read,
}
_MAGIC = {
    npy.MAGIC: NPY,
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "a ZIP archive",
    b"PAR1": "Parquet",
}
_LIBSVM_LINE = re.compile(rb"[+-]?[0-9.]+(?:[ \t]+[0-9]+:[0-9.eE+-]+)+[ \t]*(?:\r?\n|$)")
_JSON_OBJECT = re.compile(rb'\s*\{\s*"')
_OPTIONS = {"header": {CSV, TSV}, "delimiter": {CSV, TSV}, "index_base": {LIBSVM}}


def read(spec: ParseSpec) -> Parsed:
    """Write the arrays and describe them. Raises ServiceError for whatever is wrong with them."""
    _check_options(spec)
    _check_format(spec.media_type, Path(spec.data))
    if spec.labels is not None:
        _check_format(spec.labels_media_type, Path(spec.labels))
    folder = Path(spec.out)
    table = _READERS[spec.media_type](spec)
    if spec.labels is not None:
        table = replace(table, target=labels_file.read(spec, table.n_samples))
    arrays = ["data", "indices", "indptr"] if table.sparse else ["X"]
    target = table.target
    if target is not None:
        # Codes and values have names of their own: nobody takes one for the other.
        arrays.append("y" if target.classes is not None else "values")
        write_array(folder / f"{arrays[-1]}.npy", target.array)
    digest, statistics, warnings = digest_and_statistics(folder, table, spec.limits.columns)
    return Parsed(
        n_samples=table.n_samples,
        n_features=table.n_features,
        sparse=table.sparse,
        columns=table.columns,
        target=table.target_name,
        classes=None if target is None else target.classes,
        class_counts=None if target is None else target.counts,
        statistics=statistics,
        warnings=warnings,
        matrix_digest=digest,
        arrays=arrays,
    )


def _check_options(spec: ParseSpec) -> None:
    """Raises InvalidRequest for an option that would do nothing."""
    formats = {spec.media_type} | ({spec.labels_media_type} if spec.labels is not None else set())
    given = {
        "header": spec.header != "auto",
        "delimiter": spec.delimiter is not None,
        "index_base": spec.index_base is not None,
    }
    for name, readers in _OPTIONS.items():
        if given[name] and not formats & readers:
            raise InvalidRequest(
                "invalid-parameter", f"`{name}` is for {' and '.join(sorted(readers))} only"
            )


def _check_format(media_type: str, path: Path) -> None:
    """Raises UnsupportedFormat `format-mismatch` where the file plainly is something else."""
    with path.open("rb") as file:
        head = file.read(64 * 1024)
    found = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if found is None and media_type in (CSV, TSV):
        if _JSON_OBJECT.match(head):
            found = JSON
        elif _LIBSVM_LINE.match(head):
            found = LIBSVM
    if media_type == NPY and found != NPY and head:
        found = found or "something else"
    if found is not None and found != media_type:
        raise UnsupportedFormat(
            "format-mismatch", f"Content-Type says {media_type}, but the body looks like {found}"
        )
