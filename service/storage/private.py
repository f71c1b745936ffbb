"""Folders and files that only their owner can use, independent of the umask."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
OTHERS = 0o077


def private_folder(path: Path) -> None:
    """Create the folder and its parents if they are missing. An existing folder keeps its mode,
    which can be intended for a volume. Raises OSError."""
    try:
        path.mkdir(FOLDER)
    except FileNotFoundError:
        if path.parent.is_dir():  # such as /proc, which has no folders of others
            raise
        private_folder(path.parent)
        private_folder(path)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(FOLDER)


def private_file(path: Path) -> None:
    """Create an empty file if it is missing, and remove the rights of others from our own file.
    Errors are ignored: opening the file raises them."""
    # Not opened by its own name: closing a file drops the process's SQLite locks on it.
    with suppress(OSError):
        if not path.exists():
            handle, name = tempfile.mkstemp(dir=path.parent)
            os.close(handle)
            try:
                Path(name).chmod(FILE)
                path.hardlink_to(name)  # unless another process was first
            finally:
                Path(name).unlink()
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Remove the rights of others from our own file, if it exists."""
    with suppress(OSError):
        status = path.stat()
        if status.st_mode & OTHERS and status.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
