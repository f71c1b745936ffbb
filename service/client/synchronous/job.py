# Generated from the module of this name in `asynchronous` by `make client`.
"""Jobs of the service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from service.client import calls, progress
from service.client.errors import ClientError, ConnectionFailed, JobCanceled, JobFailed
from service.client.events import Event
from service.client.fields import JobFields, Results
from service.client.synchronous.model import ModelVersion
from service.client.synchronous.session import Session

REFRESH_S = 0.5
"""Interval of updates with a progress bar."""
POLL_S = 30.0
"""Length of a long poll without one."""
RECONNECT_S = 1.0
PLURALS = {"predict": "batch-predictions", "evaluate": "evaluations", "compare": "comparisons"}
"""Kinds of jobs with results, and their paths."""


class Job(JobFields):
    """A training, batch prediction, evaluation or comparison."""

    _session: Session

    def refresh(self, wait_s: float = 0) -> Job:
        """Read its state, now or when it has ended, after at most `wait_s` (≤ 60)."""
        call = calls.get(self._path(), wait_s=wait_s or None)
        self.data = self._session.json(replace(call, wait_s=wait_s))
        return self

    def deliveries(self) -> list[dict[str, Any]]:
        """What became of its `callback`: `state`, `attempts`, `last_error` and more."""
        call = calls.get(calls.path_of("v1", "jobs", self.id, "deliveries"))
        return list((self._session.json(call))["deliveries"])

    def wait(self, timeout_s: float | None = None, *, progress_bar: bool | None = None) -> Job:
        """Wait until it has succeeded; returns the job.

        Shows a progress bar, by default in terminals and notebooks. Raises JobFailed if it failed
        or was canceled, and TimeoutError; the job then continues.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        has_bar = progress.wanted(progress_bar)
        with progress.shown(self, has_bar) as show:
            while not self.ended:
                left = POLL_S if until is None else until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{self.id} is {self.state} after {timeout_s} s")
                self.refresh(min(left, REFRESH_S if has_bar else POLL_S))
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

    def events(self, after: int = 0) -> Iterator[Event]:
        """All past and future events after event `after`, each once, until its end. Reconnects
        after a lost connection, without missing events."""
        failures = 0
        while True:
            accept = {"Accept": "text/event-stream"}
            if after:
                accept["Last-Event-ID"] = str(after)
            try:
                with self._session.open(calls.get(self._path("events"), headers=accept)) as reply:
                    if reply.status_code == 204:
                        return
                    for message in httpx2.EventSource(reply):
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
            time.sleep(RECONNECT_S)

    def past_events(self) -> Iterator[Event]:
        """All events so far, without waiting for others."""
        call = calls.get(self._path("events"), headers={"Accept": calls.JSON})
        for event in self._session.pages(call, "events"):
            yield Event(event["id"], event["event"], event["data"])

    def trace(self) -> dict[str, list[Any]]:
        """Its learning curve by column: `epoch`, `elapsed_s`, `primal`, `dual`, `gap`, …"""
        table = self._session.json(calls.get(self._path("trace")))
        names = table["columns"]
        return {name: [row[i] for row in table["rows"]] for i, name in enumerate(names)}

    def cancel(self, *, keep_model: bool = False) -> Job:
        """Cancel it; with `keep_model` the model so far becomes a version."""
        return self._control("cancel", {"keep_model": keep_model})

    def pause(self) -> Job:
        """Checkpoint it and free its worker."""
        return self._control("pause")

    def resume(self) -> Job:
        """Resume it after a pause."""
        return self._control("resume")

    def delete(self) -> None:
        """Delete it after its end; its model is kept."""
        self._session.send(calls.delete(self._path()))

    def model_version(self) -> ModelVersion:
        """The trained version."""
        if self.model is None:
            raise ClientError(f"{self.id} has no model: it is {self.state}")
        path = calls.path_of("v1", "models", self.model["name"], "versions", self.model["version"])
        return ModelVersion(self._session, self._session.json(calls.get(path)))

    def results(self) -> Results:
        """Results of an evaluation or comparison; for a batch prediction, facts about its file."""
        return Results(self._session.json(calls.get(self._results_path())))

    def download_results(self, path: str | Path) -> Path:
        """Save the predictions of a batch prediction as a file."""
        return self._session.download(calls.get(f"{self._results_path()}/results"), path)

    def plot(self, kind: str, path: str | Path) -> Path:
        """Save a plot of a comparison as SVG: `time-by-rows`, `time-by-columns`, …; those of a
        training are of its `model_version`."""
        plot = f"{self._results_path()}/plots/{kind}.svg"
        return self._session.download(calls.get(plot), path)

    def _control(self, action: str, body: dict[str, Any] | None = None) -> Job:
        call = calls.send_json("POST", self._path(action), body or {})
        self.data = self._session.json(call)
        return self

    def _results_path(self) -> str:
        if self.kind not in PLURALS:
            raise ClientError(
                f"{self.id} is of kind {self.kind}, without results: use its metrics and model"
            )
        return calls.path_of("v1", PLURALS[self.kind], self.id)

    def _path(self, *parts: str) -> str:
        return calls.path_of("v1", "jobs", self.id, *parts)
