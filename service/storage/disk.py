"""Local disks: private files, room, a reserve for deletions, and the lock of a data directory."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from service.errors import StorageFull, Unavailable
from service.settings import MIB, Limits

FOLDER, FILE = 0o700, 0o600
"""Modes of what only its owner can use, independent of the umask."""
OTHERS = 0o077
RESERVE = "reserve"
RESERVE_BYTES = 16 * MIB
"""SQLite's log is 4 MiB long when it is written into the database, which can grow by as much; large
transactions need more."""
RESERVE_SHARE = 1 / 16
"""Largest share of a small disk."""
STEP_BYTES = MIB // 16
"""Smallest step when the file grows again."""
RETRY_S = 2
FREE_FILES = 1000
"""Inodes that stay free for running jobs, if that is less than their share."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
FAILING = frozenset(
    {
        *(errno.EIO, errno.EBADMSG, errno.EUCLEAN),  # the disk, or its file system
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO),  # not mounted
        *(errno.ESTALE, errno.ENOTCONN, errno.EREMOTEIO),  # of another machine
    }
)
"""Errors of disks that network connections and pipes do not have."""

log = structlog.stdlib.get_logger("service.storage")


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


def watermark(total_bytes: int, limits: Limits) -> float:
    """How much of a disk of that size stays free."""
    return min(limits.disk_free_share * total_bytes, limits.disk_free_bytes)


def check_room(folder: Path, limits: Limits) -> None:
    """Raises StorageFull if free space or inodes are below the limit for new uploads and jobs; the
    rest is for running jobs and deletions."""
    disk = os.statvfs(folder)
    size = disk.f_frsize
    if disk.f_bavail * size < watermark(disk.f_blocks * size, limits):
        raise _full("the disk is nearly full")
    # Some file systems make inodes as they are needed, and count none.
    if disk.f_favail < min(limits.disk_free_share * disk.f_files, FREE_FILES):
        raise _full(f"only {disk.f_favail:,} of the disk's {disk.f_files:,} inodes are free")


def _full(reason: str) -> StorageFull:
    detail = f"{reason}; nothing was stored. Delete resources that are not needed"
    return StorageFull("storage-full", detail)


def storage_unavailable(detail: str) -> Unavailable:
    """The error of a disk, a file store or a database that does not respond."""
    return Unavailable("storage-unavailable", detail, retry_after_s=RETRY_S)


@contextmanager
def file_errors_reported() -> Iterator[None]:
    """Raises StorageFull if the disk has no space for writes of the block, Unavailable if it
    fails."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull(
                "storage-full", "the disk has no space or no inodes left; nothing was stored"
            ) from None
        if error.errno not in FAILING:
            raise
        log.warning("disk failed", cause=str(error))
        detail = "the file store does not respond"
        raise storage_unavailable(detail) from error


class Reserve:
    """Reserved disk space for the database, so that resources can be deleted on a full disk.

    Deletes, alias moves and pauses write to the database, too. On a full disk they use the blocks
    of a file in its folder, which is truncated during their transaction; other transactions wait
    for its end. Processes can share it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESERVE

    def keep(self, limits: Limits) -> None:
        """Create or extend the file, if enough space remains free. Raises OSError."""
        disk = shutil.disk_usage(self._path.parent)
        wanted = _size(disk.total)
        missing = wanted - self._present()
        if missing > 0 and disk.free - missing >= watermark(disk.total, limits):
            private_file(self._path)
            self._extend(wanted)

    @contextmanager
    def released(self) -> Iterator[None]:
        """On a full disk the block can use the reserve; the rest is reserved again afterwards.

        No other block and no other writer may run at the same time.
        """
        present = 0
        with suppress(OSError):  # the block reports a failing disk itself
            disk = shutil.disk_usage(self._path.parent)
            if disk.free < _size(disk.total):
                present = self._present()
                if present:
                    os.truncate(self._path, 0)
        try:
            yield
        finally:
            if present:
                with suppress(OSError):
                    self._extend(present)

    def _present(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _extend(self, wanted: int) -> None:
        """Add blocks up to the size, or as many as are free. Raises OSError."""
        with self._path.open("r+b", buffering=0) as file:
            present = os.fstat(file.fileno()).st_size
            step = wanted - present
            while step > 0:
                try:
                    os.posix_fallocate(file.fileno(), 0, present + step)
                except OSError:
                    file.truncate(present)
                    step = 0 if step <= STEP_BYTES else max(STEP_BYTES, step // 2)
                else:
                    present += step
                    step = min(step, wanted - present)


def _size(disk_bytes: int) -> int:
    """Size of the file on a disk of this size."""
    return min(RESERVE_BYTES, int(disk_bytes * RESERVE_SHARE))


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
