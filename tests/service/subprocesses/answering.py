"""A child process for tests: its line says what to do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from service.common.logs import configure_logging
from service.subprocesses.working import work


def answer(line: str) -> str:
    """Writes its process id to a file, then returns the line or fails."""
    what, path, *_ = line.split()
    with Path(path).open("a") as notes:
        notes.write(f"{os.getpid()}\n")
    if what == "raise":
        raise LookupError("of all things")
    if what == "die" or (what == "die-once" and len(Path(path).read_text().split()) == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "sleep":
        time.sleep(60)
    return line.strip()


if __name__ == "__main__":
    configure_logging("info")
    work(answer, 1024**3)
