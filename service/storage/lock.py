"""The lock of a data directory: one service at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.storage.private import private_folder
from service.storage.reserve import Reserve


class DataDirInUse(RuntimeError):
    """Another process has the lock; `holder` is its id, 0 if it is not written yet."""

    def __init__(self, data_dir: Path, holder: str) -> None:
        self.holder = int(holder or 0)
        super().__init__(
            f"{data_dir} is in use by the service with process id {holder}; stop it, or set "
            "SVM_DATA_DIR to another directory"
        )


@contextmanager
def exclusive(data_dir: Path) -> Iterator[None]:
    """Lock `data_dir` for this process, and create it if it is missing.

    With SQLite only one service may run: two would run two engines, each with all workers. The
    kernel releases the lock when the process ends in any way.
    Raises DataDirInUse.
    """
    private_folder(data_dir)
    with (data_dir / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            raise DataDirInUse(data_dir, holder) from None
        with Reserve(data_dir).released():
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        yield
