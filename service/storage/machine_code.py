"""The folder with the machine code of compiled loops: one for each user, for any data directory."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path

import svm
from service.storage.disk import private_folder

VARIABLE = "NUMBA_CACHE_DIR"
"""Numba reads it when it is imported."""
LOCK = "lock"
"""The file that a process locks while it compiles what no job has used yet."""


def keep_machine_code(data_dir: Path) -> None:
    """Let this process and its children keep it where the variable says, else in the cache of the
    user, or in the data directory if that cannot be written."""
    if not os.environ.get(VARIABLE):
        folder = folder_of_user() or machine_code_folder(data_dir.resolve() / "numba")
        os.environ[VARIABLE] = str(folder)


def folder_of_user() -> Path | None:
    """In the user's cache; None if it cannot be written, or belongs to another user: the code of
    others must not run here."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with suppress(OSError, RuntimeError):  # the user may have no home
        cache = given if given.is_absolute() else Path.home() / ".cache"
        folder = machine_code_folder(cache / "svm-service")
        if folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK):
            return folder
    return None


def machine_code_folder(base: Path) -> Path:
    """A folder in `base`, named by a digest of the loops' sources. Numba checks only the file of a
    loop itself: it would run old machine code after a change of another file."""
    digest = hashlib.sha256()
    for path in sorted((Path(svm.__file__).parent / "loops").glob("*.py")):
        digest.update(path.read_bytes())
    folder = base / digest.hexdigest()[:16]
    private_folder(folder)
    return folder


def is_compiling() -> bool:
    """Whether a process compiles what no job has used yet."""
    with suppress(KeyError, OSError), Path(os.environ[VARIABLE], LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
