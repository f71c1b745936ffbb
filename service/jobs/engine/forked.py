"""A child process as a fork of the process that serves, so that both share what it has imported.

It is forked while this process has one thread, no event loop, no connections and no compiled loops.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable

from service.common.malloc import return_free_memory

logger = logging.getLogger(__name__)


class Forked:
    """A process that does `prepare` at once, `run` after the first byte in its standard input, and
    ends with it.

    It has the members of `subprocess.Popen` that `Child` needs.
    """

    def __init__(self, prepare: Callable[[], None], run: Callable[[], None]) -> None:
        gc.collect()
        gc.freeze()  # a collection in either process would copy the pages that they share
        return_free_memory()  # or each would have it once it writes there
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both processes would write what is in it
        reader, writer = os.pipe()
        told, teller = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _become_child(reader, teller, prepare, run)
        os.close(reader)
        os.close(teller)
        self.stdin = os.fdopen(writer, "wb", buffering=0)
        self.stdout = os.fdopen(told, "rb", buffering=0)

    def wait(self) -> int:
        """Wait for its end, once. Its exit code, or less than 0 for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)


def _become_child(
    reader: int, teller: int, prepare: Callable[[], None], run: Callable[[], None]
) -> None:
    """Never returns."""
    code = 1
    try:
        os.setsid()  # Ctrl-C reaches the other process alone, which then stops this one
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(reader, 0)
        os.dup2(teller, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # among them the lock of the data directory
        prepare()
        gc.enable()
        if os.read(0, 1):
            run()
        code = 0
    except BaseException:
        logger.exception("a forked process failed")
    finally:
        os._exit(code)
