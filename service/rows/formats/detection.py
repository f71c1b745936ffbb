"""What a body plainly is, by how it begins."""

from __future__ import annotations

import re

from service.errors import UnsupportedFormat
from service.rows.formats.npy import MAGIC
from service.rows.spec import CSV, JSON, LIBSVM, NPY, NPZ, PARQUET, TSV

HEAD_BYTES = 64 * 1024
_MAGIC = {
    MAGIC: NPY,
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": NPZ,
    b"PAR1": PARQUET,
    b"PARE": PARQUET,
}
_LIBSVM_LINE = re.compile(rb"[+-]?[0-9.]+(?:[ \t]+[0-9]+:[0-9.eE+-]+)+[ \t]*(?:\r?\n|$)")
_JSON_OBJECT = re.compile(rb'\s*\{\s*"')


def check_format(media_type: str, head: bytes) -> None:
    """Raises UnsupportedFormat `format-mismatch` where what begins so plainly is something else."""
    found = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if found is None and media_type in (CSV, TSV):
        if _JSON_OBJECT.match(head):
            found = JSON
        elif _LIBSVM_LINE.match(head):
            found = LIBSVM
    if media_type in (NPY, NPZ, PARQUET) and found != media_type and head:
        found = found or "something else"
    if found is not None and found != media_type:
        raise UnsupportedFormat(
            "format-mismatch", f"Content-Type says {media_type}, but the body looks like {found}"
        )
