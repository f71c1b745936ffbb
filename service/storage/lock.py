"""One service for one data directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.storage.private import private_folder
from service.storage.reserve import Reserve


class DataDirInUse(RuntimeError):
    """Another process serves from this directory; `holder` is its id, 0 if it did not say yet."""

    def __init__(self, data_dir: Path, holder: str) -> None:
        self.holder = int(holder or 0)
        super().__init__(
            f"{data_dir} is in use by the service with process id {holder}; stop it, or choose "
            "another directory with SVM_DATA_DIR"
        )


@contextmanager
def exclusive(data_dir: Path) -> Iterator[None]:
    """Hold `data_dir` for this process, and create it where it is missing.

    SQLite serves one service: two of them would run two engines, each with all the workers that
    the settings allow. The kernel drops the lock when its holder dies, however that happens.
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
