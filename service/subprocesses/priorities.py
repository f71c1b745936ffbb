"""Processes that work in the background let those that answer requests go first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


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
