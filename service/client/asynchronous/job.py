"""A job that the service works on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2

from service.client import calls, progress
from service.client.asynchronous.model import AsyncModelVersion
from service.client.asynchronous.session import AsyncSession
from service.client.errors import ClientError, ConnectionFailed, JobCanceled, JobFailed
from service.client.events import Event
from service.client.fields import JobFields

LOOK_S = 0.5
"""How often a bar is drawn anew."""
POLL_S = 30.0
RECONNECT_S = 1.0
PLURALS = {"predict": "batch-predictions", "evaluate": "evaluations", "compare": "comparisons"}
"""Kinds of jobs that have results, and where."""


class AsyncJob(JobFields):
    """A training, batch prediction, evaluation or comparison."""

    def __init__(self, session: AsyncSession, data: dict[str, Any]) -> None:
        self._session = session
        self.data = data

    async def refresh(self, wait_s: float = 0) -> AsyncJob:
        """What the service says of it now, or once it has ended, at most `wait_s` (≤ 60) later."""
        call = calls.get(self._path(), wait_s=wait_s or None)
        self.data = await self._session.json(calls.patient(call, wait_s))
        return self

    async def wait(
        self, timeout_s: float | None = None, *, progress_bar: bool | None = None
    ) -> AsyncJob:
        """Itself, once it has succeeded.

        A bar shows how far it is, by default in terminals. Raises JobFailed where it ended in
        another way, and TimeoutError; the job goes on then.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        drawn = progress.wanted(progress_bar)
        with progress.shown(self, drawn) as show:
            while not self.ended:
                left = POLL_S if until is None else until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{self.id} is {self.state} after {timeout_s} s")
                await self.refresh(min(left, LOOK_S if drawn else POLL_S))
                show(self)
        if self.state == "canceled":
            raise JobCanceled(self.id, "canceled", "the job was canceled", None, self)
        if self.state == "failed":
            raise JobFailed(
                self.id,
                **{"code": "failed", "detail": "", "hint": None, **(self.error or {})},
                job=self,
            )
        return self

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """What happened and will happen to the job, each event once, to its end; only what came
        after event `after`. A lost connection is made anew, and nothing is missed."""
        failures = 0
        while True:
            accept = {"Accept": "text/event-stream"}
            if after:
                accept["Last-Event-ID"] = str(after)
            try:
                async with self._session.open(
                    calls.get(self._path("events"), headers=accept)
                ) as reply:
                    if reply.status_code == 204:
                        return
                    async for message in httpx2.EventSource(reply):
                        event = Event.of(message)
                        if event is not None:
                            failures, after = 0, event.id
                            yield event
                            if event.kind == "end":
                                return
            except ConnectionFailed:
                failures += 1
                if failures > self._session.retries.times:
                    raise
            await anyio.sleep(RECONNECT_S)

    async def trace(self) -> dict[str, list[Any]]:
        """Its learning curve by column: `epoch`, `elapsed_s`, `primal`, `dual`, `gap`, …"""
        table = await self._session.json(calls.get(self._path("trace")))
        names = table["columns"]
        return {name: [row[i] for row in table["rows"]] for i, name in enumerate(names)}

    async def cancel(self, *, keep_model: bool = False) -> AsyncJob:
        """End it; with `keep_model` what was learnt becomes a model version."""
        return await self._steer("cancel", {"keep_model": keep_model})

    async def pause(self) -> AsyncJob:
        """Have it save what it has and free its worker."""
        return await self._steer("pause")

    async def resume(self) -> AsyncJob:
        """Let a paused job go on."""
        return await self._steer("resume")

    async def delete(self) -> None:
        """Remove a job that has ended; its model stays."""
        await self._session.send(calls.delete(self._path()))

    async def model_version(self) -> AsyncModelVersion:
        """What the training made."""
        if self.model is None:
            raise ClientError(f"{self.id} has made no model: it is {self.state}")
        path = calls.below("v1", "models", self.model["name"], "versions", self.model["version"])
        return AsyncModelVersion(self._session, await self._session.json(calls.get(path)))

    async def results(self) -> dict[str, Any]:
        """What an evaluation or comparison found, or where the file of a batch prediction is."""
        return dict(await self._session.json(calls.get(self._results_path())))

    async def download_results(self, path: str | Path) -> Path:
        """Save the predictions of a batch prediction as a file."""
        return await self._session.download(calls.get(f"{self._results_path()}/results"), path)

    async def _steer(self, how: str, body: dict[str, Any] | None = None) -> AsyncJob:
        call = calls.send_json("POST", self._path(how), body or {})
        self.data = await self._session.json(call)
        return self

    def _results_path(self) -> str:
        if self.kind not in PLURALS:
            raise ClientError(
                f"{self.id} is of the kind {self.kind}: see its metrics and its model"
            )
        return calls.below("v1", PLURALS[self.kind], self.id)

    def _path(self, *parts: str) -> str:
        return calls.below("v1", "jobs", self.id, *parts)
