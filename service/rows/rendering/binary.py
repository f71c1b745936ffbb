"""NumPy's own formats."""

from __future__ import annotations

import zipfile
from typing import IO, BinaryIO

import numpy as np

from service.rows.spec import Stored
from service.rows.table.arrays import blocks

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Of the members of an archive, whose bytes do not depend on the time."""


def write_npy(stored: Stored, file: BinaryIO) -> None:
    """The features, and the labels as the last column, which must be numbers."""
    labels = stored.labels()
    if labels is not None and stored.classes is not None:
        labels = np.array(stored.classes, dtype=np.float64)[labels]
    _write_header(file, (stored.n_samples, stored.n_features + (labels is not None)))
    done = 0
    for block in blocks(stored.path("X")):
        if labels is not None:
            block = np.column_stack((block, labels[done : done + len(block)]))
        file.write(block.data)
        done += len(block)


def write_npz(stored: Stored, file: BinaryIO) -> None:
    """An archive of `X` and, if there are labels, `y`, which keeps their kind."""
    labels = stored.labels()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(zipfile.ZipInfo("X.npy", LONG_AGO), "w", force_zip64=True) as member:
            _write_header(member, (stored.n_samples, stored.n_features))
            for block in blocks(stored.path("X")):
                member.write(block.data)
        if labels is None:
            return
        if stored.classes is not None:
            labels = np.array(stored.classes)[labels]
        with archive.open(zipfile.ZipInfo("y.npy", LONG_AGO), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, labels, allow_pickle=False)


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
