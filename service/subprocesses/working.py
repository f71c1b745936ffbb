"""The child's side: lines are answered until the input ends."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import structlog

FAILED = ""
"""The reply after an exception that was not expected."""

log = structlog.stdlib.get_logger("service.subprocesses")


def work(answer: Callable[[str], str], memory_bytes: int) -> None:
    """Answer every line of standard input with a line, in at most so much memory.

    The process lives as long as its input is open, and ends with it even in the middle of an
    answer, which has no reader any more. SIGTERM is left to the service, which may still have to
    finish what it was asked.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    replies = private_stdout()
    with suppress(BrokenPipeError):
        for line in sys.stdin:
            replies.write(_answered(answer, line) + "\n")
            replies.flush()
            _give_back_memory()


def private_stdout() -> TextIO:
    """Standard output for replies only; whatever a library prints goes to standard error."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


def _answered(answer: Callable[[str], str], line: str) -> str:
    try:
        return answer(line)
    except Exception:
        log.exception("unexpected error")
        return FAILED


def _end_with_the_input() -> None:
    closed = select.poll()
    closed.register(sys.stdin.fileno(), 0)  # reports only that the other end is closed
    closed.poll()
    os._exit(0)


def _give_back_memory() -> None:
    """What was freed goes back to the system: the process may stay idle for a while."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
