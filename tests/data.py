"""Real data, read from where it lies beside the repository; never copied into it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).parents[2] / "shared" / "data"


def real(name: str) -> bytes:
    """The content of a file such as `features.txt`, unzipped; skips the test where it is absent."""
    path = DIRECTORY / f"{name}.gz"
    if not path.exists():
        pytest.skip(f"needs the data file {name}.gz in shared/data beside the repository")
    return gzip.decompress(path.read_bytes())
