"""The loop of a child process: answers lines until its input ends."""

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

from service.subprocesses.priorities import session_steps_back, step_back

NICENESS = 5
"""Between that of the service and that of its workers."""
FAILED = ""
"""The reply after an unexpected exception."""

log = structlog.stdlib.get_logger("service.subprocesses")


def work(answer: Callable[[str], str], memory_bytes: int) -> None:
    """Answer every line of standard input with a line, with at most `memory_bytes`.

    The process ends when its input is closed, even in the middle of an answer. It ignores SIGTERM:
    the service ends it after its last requests.
    """
    step_back(NICENESS)
    session_steps_back(NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    replies = private_stdout()
    with suppress(BrokenPipeError):
        for line in sys.stdin:
            replies.write(_answer(answer, line) + "\n")
            replies.flush()
            _release_memory()


def private_stdout() -> TextIO:
    """Standard output for replies only; output of libraries goes to standard error."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


def _answer(answer: Callable[[str], str], line: str) -> str:
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


def _release_memory() -> None:
    """Return freed memory to the system, since the process can be idle for a while."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
