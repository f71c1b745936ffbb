"""The folder with the machine code of compiled loops, shared by all processes of a data folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import svm
from service.storage.private import private_folder


def machine_code_folder(data_dir: Path) -> Path:
    """Its name is a digest of the loops' sources. Numba checks only the file of a loop itself: it
    would run old machine code after a change of another file."""
    digest = hashlib.sha256()
    for path in sorted((Path(svm.__file__).parent / "loops").glob("*.py")):
        digest.update(path.read_bytes())
    folder = data_dir.resolve() / "numba" / digest.hexdigest()[:16]
    private_folder(folder)
    return folder
