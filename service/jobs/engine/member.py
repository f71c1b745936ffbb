"""One of several processes of the API: its place among them, and its pipes to their parent.

Its standard input has a byte for each change of a job, by whichever process, and ends when this
process must end. What it writes to its standard output the parent passes on.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from service.common.shared import Shared

WORK, CHANGED, READY, READY_WITH_KEY = b"w", b"c", b"r", b"k"
"""There may be work for the engine; a job has changed; this process serves requests; it does, and
has made the first API key."""

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Member:
    """Has the methods of `Child` for the engine, which is the parent's child."""

    shared: Shared
    parent: int
    """Its process id."""
    first: bool = True
    """No other process has begun: this one prepares the storage for all."""
    leads: bool = True
    """This process does the work beside requests that is done once for all."""
    on_told: Callable[[], None] = lambda: None
    """Called in another thread when a job has changed."""
    on_end: Callable[[], None] = lambda: None
    """Called in another thread when this process must end."""

    def join(self, place: int, *, first: bool, leads: bool) -> None:
        """Be this process of several, after a fork."""
        self.shared.take(place)
        self.shared.count("process id").own = os.getpid()
        self.first, self.leads = first, leads

    def start(self) -> None:
        """Listen to the parent."""
        os.set_blocking(1, False)
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def stop(self) -> None:
        """The engine continues."""

    def wake(self) -> None:
        """There may be work."""
        self.tell(WORK)

    def changed(self) -> None:
        """This process has changed a job."""
        self.tell(CHANGED)

    def beat(self) -> None:
        """This process responds. The parent replaces one that no longer does this."""
        self.shared.count("beats").own += 1

    def tell(self, what: bytes) -> None:
        """Never blocks; the parent ignores what it does not know."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(1, what)

    def _listen(self) -> None:
        while os.read(0, 4096):
            self.on_told()
        if os.getppid() != self.parent:
            logger.error("the parent process has died; this one ends")
            os._exit(1)
        self.on_end()
