"""The parent of several processes of the API and of their engine: `svm-service serve --processes`.

It has imported all that they need, and is one thread without connections, so it can fork at any
time. Each process has a pipe to it and one from it (`service.jobs.engine.member`): so whatever one
of them reports reaches all others, and none outlives it.

Each process of the API is in a slot, which has a listener: with SO_REUSEPORT the kernel distributes
connections among them. The parent keeps the listeners open. So what replaces a process continues
with its connections that are not accepted yet, and no caller notices a restart.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from service.cli.listening import drop_new_connections, listener_beside
from service.common.keys import FIRST_FILE
from service.jobs.engine import supervisor
from service.jobs.engine.child import HEALTHY_S, MAX_PAUSE_S, STOP_S, Forked, signal_pipe
from service.jobs.engine.member import CHANGED, READY, READY_WITH_KEY, WORK, Member
from service.settings import Settings

PLACES = 2
"""Of numbers, besides those of the API's processes: of the parent, and of one that is replaced."""
ENGINE = -1
"""The slot of the engine."""
FIRST_PAUSE_S = 0.5
END_S = 12.0
"""A process of the API has this time to end; it cancels requests after 5 s."""
TICK_S = 1.0
CHECK_S, SILENT_CHECKS = 10.0, 3
"""A process of the API that was silent at three checks is killed. Time alone would not do: all
processes may have been paused together."""

log = structlog.stdlib.get_logger("service")


@dataclass(eq=False)
class _Process:
    slot: int
    place: int
    """Of its numbers in `Shared`; 0 is the parent's."""
    forked: Forked
    started: float
    kill_at: float = float("inf")
    is_ready: bool = False
    beats: int = 0
    """At the last check."""
    silent_checks: int = 0

    @property
    def ends(self) -> bool:
        return self.kill_at < float("inf")

    def end(self, within_s: float) -> None:
        if not self.ends:
            self.kill_at = time.monotonic() + within_s
            self.forked.stdin.close()

    def ring(self) -> None:
        """Write a byte to it, unless it ends or there is enough."""
        if not self.ends:
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(self.forked.stdin.fileno(), b"w")


class Parent:
    """Keeps a process in each slot until a signal ends them all: each slot has one that does not
    end, or is due. One ends only once another one in its slot is ready."""

    def __init__(
        self,
        settings: Settings,
        member: Member,
        engine: Forked | None,
        listener: socket.socket,
        serve: Callable[[socket.socket], None],
        announce: Callable[[Path | None], None],
    ) -> None:
        """`engine` waits for its first byte. `serve` serves as a process of the API, as `member`;
        `announce` is called when the first one is ready, with the file of the API key that it has
        made."""
        self._settings = settings
        self._listeners = [listener]
        self._serve = serve
        self._announce = announce
        self._member, self._shared = member, member.shared
        self._processes: list[_Process] = []
        self._pauses: dict[int, float] = {}
        """Of slots whose process has died lately: how long the next pause is."""
        self._due: dict[int, float] = {0: 0.0}
        """When to fork a process for a slot."""
        self._renewing: list[int] = []
        """Slots whose processes are to be replaced, one after the other."""
        self._check_at = 0.0
        self._announced = self._ending = False
        self._code = 0
        self._shared.count("process id").own = os.getpid()
        self._signals, _ = signal_pipe(self._on_end, signal.SIGTERM, signal.SIGINT)
        if not os.isatty(0):  # else it says that the terminal was closed
            signal.signal(signal.SIGHUP, self._on_renew)
        if engine is not None:
            self._add(ENGINE, 0, engine)

    def run(self) -> int:
        """Until a signal, or until the first process could not start. The exit status."""
        while not self._ending or self._processes:
            self._fork_due()
            self._wait()
            self._check()
            self._reap()
            self._end_some()
        return self._code

    def _on_end(self, *_: object) -> None:
        self._ending = True

    def _on_renew(self, *_: object) -> None:
        self._renewing = list(range(self._settings.processes))

    def _api(self, slot: int | None = None) -> list[_Process]:
        """The processes of the API in a slot, or in all."""
        return [p for p in self._processes if p.slot != ENGINE and slot in (None, p.slot)]

    def _fork_due(self) -> None:
        now, ready = time.monotonic(), [process.is_ready for process in self._api()]
        if self._renewing and not self._due and ready == [True] * self._settings.processes:
            self._due[self._renewing.pop(0)] = now  # beside the one that it replaces
        for slot in [slot for slot, at in self._due.items() if at <= now and not self._ending]:
            del self._due[slot]
            try:
                self._fork(slot)
            except OSError as error:  # out of memory or processes at the moment
                log.error("a process could not be started", cause=str(error))
                self._due[slot] = now + MAX_PAUSE_S

    def _fork(self, slot: int) -> None:
        if slot == ENGINE:
            self._add(ENGINE, 0, supervisor.forked(self._settings))
            return
        taken = {process.place for process in self._processes}
        place = next(place for place in range(1, self._shared.n_places) if place not in taken)
        listener = self._listeners[slot]

        def serve() -> None:
            self._member.join(place, first=not self._announced, leads=slot == 0)
            self._serve(listener)

        self._add(slot, place, Forked(lambda: None, serve, listener.fileno()))

    def _add(self, slot: int, place: int, forked: Forked) -> None:
        os.set_blocking(forked.stdin.fileno(), False)
        process = _Process(slot, place, forked, time.monotonic())
        self._processes.append(process)
        if slot != ENGINE or self._announced:  # before that the database may have no tables
            process.ring()

    def _wait(self) -> None:
        """For a signal, or for what a process reports, and pass it on."""
        pipes = {process.forked.stdout.fileno(): process for process in self._processes}
        ready, _, _ = select.select([self._signals, *pipes], [], [], self._pause_s())
        has_work = has_changed = False
        for pipe in ready:
            told = os.read(pipe, 4096)
            if pipe == self._signals:
                continue
            process = pipes[pipe]
            if process.slot == ENGINE:
                has_changed |= bool(told)
                continue
            has_work |= WORK in told
            has_changed |= CHANGED in told
            starts = not (process.is_ready or process.ends)
            if starts and (READY in told or READY_WITH_KEY in told):
                self._on_ready(process, READY_WITH_KEY in told)
        for process in self._processes:
            if has_work if process.slot == ENGINE else has_changed:
                process.ring()

    def _pause_s(self) -> float:
        if self._ending or any(process.ends for process in self._processes):
            return TICK_S
        return max(0.0, min([self._check_at, *self._due.values()]) - time.monotonic())

    def _on_ready(self, process: _Process, has_key: bool) -> None:
        process.is_ready = True
        for other in self._api(process.slot):
            if other is not process:
                other.end(END_S)
        if self._announced or self._ending:
            return
        self._announced = True
        for slot in range(1, self._settings.processes):
            self._listeners.append(listener_beside(self._listeners[0]))
            self._due[slot] = 0.0
        self._announce(self._settings.data_dir / FIRST_FILE if has_key else None)
        for other in self._processes:
            other.ring()

    def _check(self) -> None:
        """Kill each process of the API whose event loop stands still."""
        if (now := time.monotonic()) < self._check_at:
            return
        self._check_at = now + CHECK_S
        beats = self._shared.count("beats").each
        for process in self._api() if self._announced else []:  # the first one may migrate for long
            is_silent = process.beats == beats[process.place]
            process.silent_checks = process.silent_checks + 1 if is_silent else 0
            process.beats = beats[process.place]
            if process.silent_checks == SILENT_CHECKS:
                silent_s = int(SILENT_CHECKS * CHECK_S)
                log.error(f"a process of the API has not responded for {silent_s} s: it is killed")
                process.forked.kill()

    def _reap(self) -> None:
        for process in list(self._processes):
            if time.monotonic() > process.kill_at:
                process.forked.kill()
            pid = process.forked.pid
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                if process.slot != ENGINE:
                    self._shared.numbers("ended", "process_cpu_seconds")[0] += _cpu_s(pid)
                    self._shared.leave(process.place)
                self._on_death(process, process.forked.wait())

    def _on_death(self, process: _Process, code: int) -> None:
        self._processes.remove(process)
        process.forked.stdin.close()
        process.forked.stdout.close()
        slot, now = process.slot, time.monotonic()
        if self._ending or process.ends:
            return
        if slot != ENGINE and not self._announced:  # the reason is in the log
            self._ending, self._code = True, max(1, code)
            return
        what = "the engine" if slot == ENGINE else "a process of the API"
        log.error(f"{what} ended and is started again", code=code)
        if not all(other.ends for other in self._api(slot)):
            return  # it was to replace another one, which continues
        if now - process.started > HEALTHY_S:
            self._pauses.pop(slot, None)
        pause = self._pauses.get(slot, 0.0)
        self._pauses[slot] = min(MAX_PAUSE_S, 2 * pause + FIRST_PAUSE_S)
        self._due[slot] = now + pause
        if pause and slot != ENGINE:  # callers go to the other processes meanwhile
            self._listeners[slot].close()
            self._listeners[slot] = listener_beside(self._listeners[slot - 1])

    def _end_some(self) -> None:
        """The processes of the API first, then the engine, which saves its jobs."""
        if not self._ending:
            return
        for listener in self._listeners:
            drop_new_connections(listener)
        for process in self._api():
            process.end(END_S)
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if not self._api():
            for engine in self._processes:
                engine.end(STOP_S)


def _cpu_s(pid: int) -> float:
    """That a process has used itself."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
