"""Where the machine code of compiled loops is kept, for all processes with this data folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import svm
from service.storage.private import private_folder


def machine_code_folder(data_dir: Path) -> Path:
    """Named by the sources of the compiled loops. Numba looks only at the file that a loop stands
    in, so after a change in another one it would run old machine code."""
    digest = hashlib.sha256()
    for path in sorted((Path(svm.__file__).parent / "loops").glob("*.py")):
        digest.update(path.read_bytes())
    folder = data_dir.resolve() / "numba" / digest.hexdigest()[:16]
    private_folder(folder)
    return folder
