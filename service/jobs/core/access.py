"""What the routes of jobs use: the table, the events, and the watcher of changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.common.event_stream import EventStreams
from service.jobs.callbacks.deliveries import Deliveries
from service.jobs.core.events import EventLog
from service.jobs.core.kind import Kind
from service.jobs.core.store import JobStore
from service.jobs.core.watcher import Watcher


@dataclass(frozen=True, slots=True)
class JobAccess:
    """Shared by the collections of all kinds."""

    kinds: Mapping[str, Kind]
    jobs: JobStore
    log: EventLog
    watcher: Watcher
    """Long polls and event streams wait for it, and end early once it is closing."""
    streams: EventStreams
    deliveries: Deliveries
