# Generated from the module of this name in `asynchronous` by `make client`.
"""Models, datasets and jobs of the service."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import httpx2

from service.client import calls, fields, progress
from service.client.errors import ClientError, ConnectionFailed, JobCanceled, JobFailed, NotFound
from service.client.fields import Event
from service.client.rows import (
    NPZ,
    Array,
    OneOutput,
    Outputs,
    media_type_of,
    predict_call,
    read_array,
    read_arrays,
    upload_call,
)
from service.client.synchronous.session import Session

EXPORTS = ("onnx", "npz", "json")
REFRESH_S = 0.5
"""Interval of updates with a progress bar."""
POLL_S = 30.0
"""Length of a long poll without one."""
RECONNECT_S = 1.0
PLURALS = {"predict": "batch-predictions", "evaluate": "evaluations", "compare": "comparisons"}
"""Kinds of jobs with results, and their paths."""


class Predictor(fields.Resource):
    """A model, or one of its versions."""

    _session: Session

    @overload
    def predict(self, rows: Any, outputs: OneOutput = "label") -> Array: ...

    @overload
    def predict(self, rows: Any, outputs: Outputs) -> dict[str, Any]: ...

    @overload
    def predict(self, rows: Any, outputs: str) -> Array | dict[str, Any]: ...

    def predict(self, rows: Any, outputs: str | Outputs = "label") -> Array | dict[str, Any]:
        """Like `Client.predict`; of a model with the alias `default` if it is set, else the latest
        version."""
        return predict(self._session, self._reference(), rows, outputs)


class ModelVersion(fields.ModelVersionFields, Predictor):
    """A version of a model; it never changes."""

    def download(self, path: str | Path) -> Path:
        """Save the model's file, a joblib dump of plain arrays."""
        return self._session.download(calls.get(self._path("artifact")), path)

    def export(self, path: str | Path) -> Path:
        """Export it as `.onnx`, `.npz` or `.json`, or save its own file as `.joblib`."""
        suffix = Path(path).suffix.lower().removeprefix(".")
        if suffix == "joblib":
            return self.download(path)
        if suffix not in EXPORTS:
            raise ValueError(f"{path}: not one of .onnx, .npz, .json, .joblib")
        return self._session.download(calls.get(self._path("export"), format=suffix), path)

    def card(self) -> str:
        """Its card, as Markdown."""
        call = calls.get(self._path("card"), headers={"Accept": "text/markdown"})
        reply = self._session.send(call)
        return reply.text

    def plot(self, kind: str, path: str | Path) -> Path:
        """Save a plot as SVG: `boundary`, `cost-by-update`, `confusion`, `roc`, …"""
        return self._session.download(calls.get(self._path("plots", f"{kind}.svg")), path)

    def delete(self) -> None:
        """Delete it; refused while an alias points to it."""
        self._session.send(calls.delete(self._path()))

    def _path(self, *parts: str) -> str:
        return calls.path_of("v1", "models", self.name, "versions", self.version, *parts)


class Model(fields.ModelFields, Predictor):
    """A name with its versions and aliases."""

    def versions(self) -> Iterator[ModelVersion]:
        """All versions, newest first."""
        for data in self._session.pages(calls.get(self._path("versions")), "versions"):
            yield ModelVersion(self._session, data)

    def version(self, number: int) -> ModelVersion:
        data = self._session.json(calls.get(self._path("versions", number)))
        return ModelVersion(self._session, data)

    def set_alias(self, alias: str, version: int) -> None:
        """Create the alias, or move it to the version.

        Raises Conflict if another caller moves it at the same time.
        """
        path, headers = self._path("aliases", alias), self._precondition(alias)
        self._session.send(calls.send_json("PUT", path, {"version": version}, headers))
        self.refresh()

    def remove_alias(self, alias: str) -> None:
        """Remove the alias; its version is kept."""
        headers = self._precondition(alias)
        self._session.send(calls.delete(self._path("aliases", alias), headers=headers))
        self.refresh()

    def refresh(self) -> Model:
        """Read its current state."""
        self.data = self._session.json(calls.get(self._path()))
        return self

    def delete(self, *, force: bool = False) -> None:
        """Delete all versions; refused if there are aliases, unless `force`."""
        self._session.send(calls.delete(self._path(), force=force or None))

    def _precondition(self, alias: str) -> dict[str, str]:
        try:
            reply = self._session.send(calls.get(self._path("aliases", alias)))
        except NotFound:
            return {"If-None-Match": "*"}
        return {"If-Match": reply.headers["etag"]}

    def _path(self, *parts: object) -> str:
        return calls.path_of("v1", "models", self.name, *parts)


def predict(
    session: Session, model: str, rows: Any, outputs: str | Outputs
) -> Array | dict[str, Any]:
    """One output as an array, sent in binary; several as a dict from JSON."""
    call, single = predict_call(model, rows, outputs)
    reply = session.send(call)
    return read_array(reply.content) if single else dict(reply.json())


class Dataset(fields.DatasetFields):
    """A dataset; its rows never change."""

    _session: Session

    def refresh(self) -> Dataset:
        """Read its current state."""
        self.data = self._session.json(calls.get(self._path()))
        return self

    def append(
        self,
        data: Any,
        labels: Any = None,
        *,
        columns: Sequence[str] | None = None,
        media_type: str | None = None,
        weights: Any = None,
        **options: Any,
    ) -> Dataset:
        """Create a dataset of its rows, then these; arguments as in `Client.upload`."""
        path = self._path("append")
        call = upload_call(path, data, labels, columns, media_type, options, weights)
        return Dataset(self._session, self._session.json(call))

    def split(
        self, fraction: float, *, stratify: bool = True, seed: int = 0
    ) -> tuple[Dataset, Dataset]:
        """Create two datasets, for training and test; `fraction` of the rows are in the second."""
        body = {"fraction": fraction, "stratify": stratify, "seed": seed}
        both = self._session.json(calls.create(self._path("split"), body))
        train, test = (Dataset(self._session, both[name]) for name in ("train", "test"))
        return train, test

    def arrays(self) -> tuple[Any, Any]:
        """The data of a dense dataset: (n_samples, n_features), and labels or None."""
        call = calls.get(self._path("content"), headers={"Accept": NPZ})
        reply = self._session.send(call)
        return read_arrays(reply.content)

    def download(self, path: str | Path) -> Path:
        """Save the data as a file; its suffix is the format, such as `.csv` or `.npz`."""
        accept = {"Accept": media_type_of(Path(path))}
        return self._session.download(calls.get(self._path("content"), headers=accept), path)

    def update(self, **changes: str | Mapping[str, str | None] | None) -> Dataset:
        """Change `name` and `tags`; other members stay, None removes."""
        self.data = self._session.json(calls.send_json("PATCH", self._path(), changes))
        return self

    def delete(self) -> None:
        """Delete it; refused while a job needs it. Its models are kept."""
        self._session.send(calls.delete(self._path()))

    def _path(self, *parts: str) -> str:
        return calls.path_of("v1", "datasets", self.id, *parts)


class Job(fields.JobFields):
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
        has_bar = progress.is_wanted(progress_bar)
        with progress.show_job(self, has_bar) as show:
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

    def results(self) -> fields.Results:
        """Results of an evaluation or comparison; for a batch prediction, facts about its file."""
        return fields.Results(self._session.json(calls.get(self._results_path())))

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
