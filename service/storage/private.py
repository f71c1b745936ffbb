"""Folders and files for their owner alone, whatever the umask of the process."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
OTHERS = 0o077


def private_folder(path: Path) -> None:
    """Make the folder, and those above it, if they are missing. One that is there keeps its mode:
    a volume may be wide on purpose. Raises OSError."""
    try:
        path.mkdir(FOLDER)
    except FileNotFoundError:
        private_folder(path.parent)
        private_folder(path)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(FOLDER)


def private_file(path: Path) -> None:
    """Make the file, empty, if it is missing, and close one of ours to others. What fails is left
    to the one who opens it."""
    # Never opened by its own name: a process that closes a file loses SQLite's locks on it.
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
    """Take the rights of others from a file of ours, if it is there."""
    with suppress(OSError):
        found = path.stat()
        if found.st_mode & OTHERS and found.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
