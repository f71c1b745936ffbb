"""A child process: a loop that answers lines until its input ends, its priority, its messages."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import secrets
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import structlog

from service import errors
from service.errors import Fault, ServiceError

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


def step_back(niceness: int) -> None:
    """Use the processor with this niceness at least, and preempt no one after a wait. Later threads
    and processes inherit it."""
    present = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, present))
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def session_steps_back(niceness: int) -> None:
    """The same for the session of this process, if it leads one.

    Linux shares the processor among sessions first (`kernel.sched_autogroup_enabled`), and the
    niceness of a process counts only within its own.
    """
    if os.getsid(0) != os.getpid():
        return  # the session of a terminal, or of whatever started this process
    group = Path("/proc/self/autogroup")
    with suppress(OSError, ValueError):  # there are no such groups
        if int(group.read_text().rpartition(" ")[2]) < niceness:
            group.write_text(str(niceness))


@dataclass(frozen=True, slots=True)
class Failure:
    """A ServiceError as a message."""

    family: str
    arguments: list[Any]


class Messages:
    """Messages between two processes: these dataclasses, and ServiceErrors.

    The member with the name of a dataclass is called differently in each message, so that no object
    from a caller, in which any name can occur, is read as a dataclass.
    """

    def __init__(self, *kinds: type) -> None:
        self._kinds: dict[str, Any] = {kind.__name__: kind for kind in (*kinds, Failure, Fault)}

    def encode(self, message: object) -> str:
        """One of the dataclasses, or a ServiceError, as a line of JSON."""
        if isinstance(message, ServiceError):
            message = Failure(type(message).__name__, list(message.args))
        mark = secrets.token_hex(8)
        return f"{mark} {json.dumps(message, default=partial(_plain, mark), allow_nan=False)}"

    def decode(self, line: str) -> Any:
        """The decoded dataclass. Raises the error if it is a ServiceError."""
        mark, _, content = line.partition(" ")
        message = json.loads(content, object_hook=partial(self._made, mark))
        if isinstance(message, Failure):
            family: type[ServiceError] = getattr(errors, message.family)
            raise family(*message.arguments)
        return message

    def _made(self, mark: str, values: dict[str, Any]) -> Any:
        kind = values.pop(mark, None)
        return values if kind is None else self._kinds[kind](**values)


def _plain(mark: str, message: Any) -> dict[str, Any]:
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {mark: type(message).__name__} | values
