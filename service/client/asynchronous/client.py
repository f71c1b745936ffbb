"""The client, and the datasets, jobs and models that it gives."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack, overload

import anyio
import httpx2

from service.client import bodies, calls, errors, fields, notebook
from service.client.asynchronous.session import AsyncSession
from service.client.calls import Retries
from service.client.errors import ClientError, ConnectionFailed, NotFound
from service.client.fields import AnyDataset, AnyModel, Event, reference
from service.client.members import TrainSpec
from service.client.rows import (
    NPZ,
    Array,
    OneOutput,
    Outputs,
    Shares,
    media_type_of,
    predict_call,
    read_arrays,
    read_output,
    read_outputs,
    score,
    upload_call,
)

EXPORTS = ("onnx", "npz", "json")
REFRESH_S = 0.5
"""Interval of updates with a progress bar."""
POLL_S = 30.0
"""Length of a long poll without one."""
RECONNECT_S = 1.0


class AsyncPredictor(fields.Resource):
    """A model, or one of its versions."""

    _session: AsyncSession

    @overload
    async def predict(
        self, rows: Any, outputs: OneOutput | None = None, **shares: Unpack[Shares]
    ) -> Array: ...

    @overload
    async def predict(
        self, rows: Any, outputs: Outputs, **shares: Unpack[Shares]
    ) -> dict[str, Any]: ...

    @overload
    async def predict(
        self, rows: Any, outputs: str, **shares: Unpack[Shares]
    ) -> Array | dict[str, Any]: ...

    async def predict(
        self, rows: Any, outputs: str | Outputs | None = None, **shares: Unpack[Shares]
    ) -> Array | dict[str, Any]:
        """Like `Client.predict`; of a model with the alias `default` if it is set, else the latest
        version."""
        return await predict(self._session, self._reference(), rows, outputs, shares)

    async def predict_proba(self, rows: Any) -> Array:
        """(n_samples, n_classes) probabilities of a model with `calibration`, in the order of its
        `classes`."""
        return await self.predict(rows, "probability")

    async def decision_function(self, rows: Any) -> Array:
        """Decision values: (n_samples,) of two classes, positive for the second; of more
        (n_samples, n_classes)."""
        return await self.predict(rows, "decision")

    async def score(self, rows: Any, y: Any) -> float:
        """As scikit-learn has it: the share of right labels; of a numeric target R², which is 1
        for perfect predictions and 0 for always the mean. `y` has one entry for each row."""
        call = predict_call(self._reference(), rows, (), {})[0]
        return score(await self._session.json(call), y)


class AsyncModelVersion(fields.ModelVersionFields, AsyncPredictor):
    """A version of a model; it never changes."""

    async def download(self, path: str | Path) -> Path:
        """Save the model's file, a joblib dump of plain arrays."""
        return await self._session.download(calls.get(self._path("artifact")), path)

    async def export(self, path: str | Path) -> Path:
        """Export it as `.onnx`, `.npz` or `.json`, or save its own file as `.joblib`."""
        suffix = Path(path).suffix.lower().removeprefix(".")
        if suffix == "joblib":
            return await self.download(path)
        if suffix not in EXPORTS:
            raise ValueError(f"{path}: not one of .onnx, .npz, .json, .joblib")
        return await self._session.download(calls.get(self._path("export"), format=suffix), path)

    async def card(self) -> str:
        """Its card, as Markdown."""
        call = calls.get(self._path("card"), headers={"Accept": "text/markdown"})
        reply = await self._session.send(call)
        return reply.text

    async def plot(self, kind: str, path: str | Path) -> Path:
        """Save a plot as SVG: `boundary`, `cost-by-update`, `confusion`, `roc`, …"""
        return await self._session.download(calls.get(self._path("plots", f"{kind}.svg")), path)

    async def delete(self) -> None:
        """Delete it; refused while an alias points to it."""
        await self._session.send(calls.delete(self._path()))


class AsyncModel(fields.ModelFields, AsyncPredictor):
    """A name with its versions and aliases."""

    async def versions(self) -> AsyncIterator[AsyncModelVersion]:
        """All versions, newest first."""
        async for data in self._session.pages(calls.get(self._path("versions")), "versions"):
            yield AsyncModelVersion(self._session, data)

    async def version(self, version: int) -> AsyncModelVersion:
        data = await self._session.json(calls.get(self._path("versions", version)))
        return AsyncModelVersion(self._session, data)

    async def set_alias(self, alias: str, version: int) -> None:
        """Create the alias, or move it to the version.

        Raises Conflict if another caller moves it at the same time.
        """
        path, headers = self._path("aliases", alias), await self._precondition(alias)
        await self._session.send(calls.send_json("PUT", path, {"version": version}, headers))
        await self.refresh()

    async def remove_alias(self, alias: str) -> None:
        """Remove the alias; its version is kept."""
        headers = await self._precondition(alias)
        await self._session.send(calls.delete(self._path("aliases", alias), headers=headers))
        await self.refresh()

    async def refresh(self) -> AsyncModel:
        """Read its current state."""
        self.data = await self._session.json(calls.get(self._path()))
        return self

    async def delete(self, *, force: bool = False) -> None:
        """Delete all versions; refused if there are aliases, unless `force`."""
        await self._session.send(calls.delete(self._path(), force=force or None))

    async def _precondition(self, alias: str) -> dict[str, str]:
        try:
            reply = await self._session.send(calls.get(self._path("aliases", alias)))
        except NotFound:
            return {"If-None-Match": "*"}
        return {"If-Match": reply.headers["etag"]}


async def predict(
    session: AsyncSession,
    model: str,
    rows: Any,
    outputs: str | Outputs | None,
    shares: Shares,
) -> Array | dict[str, Any]:
    """One output as an array, sent in binary; several as a dict of arrays, from JSON."""
    call, single = predict_call(model, rows, outputs, shares)
    reply = await session.send(call)
    return read_output(reply.content, outputs) if single else read_outputs(reply.json())


class AsyncDataset(fields.DatasetFields):
    """A dataset; its rows never change."""

    _session: AsyncSession

    async def refresh(self) -> AsyncDataset:
        """Read its current state."""
        self.data = await self._session.json(calls.get(self._path()))
        return self

    async def append(
        self,
        data: Any,
        labels: Any = None,
        *,
        columns: Sequence[str] | None = None,
        media_type: str | None = None,
        weights: Any = None,
        **options: Any,
    ) -> AsyncDataset:
        """Create a dataset of its rows, then these; arguments as in `Client.upload`."""
        path = self._path("append")
        call = upload_call(path, data, labels, columns, media_type, options, weights)
        return AsyncDataset(self._session, await self._session.json(call))

    async def split(
        self, fraction: float, *, stratify: bool | None = None, seed: int = 0, gap: float = 0.0
    ) -> tuple[AsyncDataset, AsyncDataset]:
        """Create two datasets, for training and test; `fraction` of the rows are in the second."""
        body = {"fraction": fraction, "stratify": stratify, "seed": seed, "gap": gap}
        both = await self._session.json(calls.create(self._path("split"), body))
        train, test = (AsyncDataset(self._session, both[name]) for name in ("train", "test"))
        return train, test

    async def rows(
        self,
        *,
        where: Sequence[Sequence[Any]] = (),
        sort: str | None = None,
        descending: bool | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Rows that meet all conditions, read as they are taken: `row`, their number from 1, and
        `cells` by column. A condition is a column, a test and a value: `("age", "at-least", 30)`;
        tests are is, contains, at-least, at-most, missing."""
        query = calls.rows_query(where, sort=sort, descending=descending)
        async for row in self._session.pages(calls.get(self._path("rows"), **query), "rows"):
            yield row

    async def arrays(self) -> tuple[Any, Any]:
        """The data of a dense dataset: (n_samples, n_features), and labels or None."""
        call = calls.get(self._path("content"), headers={"Accept": NPZ})
        reply = await self._session.send(call)
        return read_arrays(reply.content)

    async def download(self, path: str | Path) -> Path:
        """Save the data as a file; its suffix is the format, such as `.csv` or `.npz`."""
        accept = {"Accept": media_type_of(Path(path))}
        return await self._session.download(calls.get(self._path("content"), headers=accept), path)

    async def update(self, **changes: str | Mapping[str, str | None] | None) -> AsyncDataset:
        """Change `name` and `tags`; other members stay, None removes."""
        self.data = await self._session.json(calls.send_json("PATCH", self._path(), changes))
        return self

    async def delete(self) -> None:
        """Delete it; refused while a job needs it. Its models are kept."""
        await self._session.send(calls.delete(self._path()))


class AsyncJob(fields.JobFields):
    """A training, batch prediction, evaluation or comparison."""

    _session: AsyncSession

    async def refresh(self, *, wait_s: float = 0) -> AsyncJob:
        """Read its state, now or when it has ended, after at most `wait_s` (≤ 60)."""
        call = calls.get(self._path(), wait_s=wait_s or None)
        self.data = await self._session.json(replace(call, wait_s=wait_s))
        return self

    async def deliveries(self) -> list[dict[str, Any]]:
        """What became of its `callback`: `state`, `attempts`, `last_error` and more."""
        call = calls.get(calls.path_of("v1", "jobs", self.id, "deliveries"))
        return list((await self._session.json(call))["deliveries"])

    async def wait(
        self, timeout_s: float | None = None, *, progress_bar: bool | None = None
    ) -> AsyncJob:
        """Wait until it has succeeded; returns the job.

        Shows a progress bar, by default in terminals and notebooks. Raises JobFailed if it failed
        or was canceled, and TimeoutError; the job then continues.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        has_bar = notebook.is_wanted(progress_bar)
        with notebook.show_bar(has_bar, notebook.job_title(self)) as show:
            while not self.ended:
                left = POLL_S if until is None else until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{self.id} is {self.state} after {timeout_s} s")
                await self.refresh(wait_s=min(left, REFRESH_S if has_bar else POLL_S))
                show(*notebook.job_progress(self))
        errors.require_success(self)
        return self

    async def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """All past and future events after event `after`, each once, until its end. Reconnects
        after a lost connection, without missing events."""
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

    async def past_events(self) -> AsyncIterator[Event]:
        """All events so far, without waiting for others."""
        call = calls.get(self._path("events"), headers={"Accept": calls.JSON})
        async for event in self._session.pages(call, "events"):
            yield Event(event["id"], event["event"], event["data"])

    async def trace(self) -> dict[str, list[Any]]:
        """Its learning curve by column: `epoch`, `elapsed_s`, `primal`, `dual`, `gap`, …"""
        table = await self._session.json(calls.get(self._path("trace")))
        names = table["columns"]
        return {name: [row[i] for row in table["rows"]] for i, name in enumerate(names)}

    async def cancel(self, *, keep_model: bool = False) -> AsyncJob:
        """Cancel it; with `keep_model` the model so far becomes a version."""
        return await self._control("cancel", {"keep_model": keep_model})

    async def pause(self) -> AsyncJob:
        """Checkpoint it and free its worker."""
        return await self._control("pause")

    async def resume(self) -> AsyncJob:
        """Resume it after a pause."""
        return await self._control("resume")

    async def delete(self) -> None:
        """Delete it after its end; its model is kept."""
        await self._session.send(calls.delete(self._path()))

    async def model_version(self) -> AsyncModelVersion:
        """The trained version."""
        if self.model is None:
            raise ClientError(f"{self.id} has no model: it is {self.state}")
        path = calls.path_of("v1", "models", self.model["name"], "versions", self.model["version"])
        return AsyncModelVersion(self._session, await self._session.json(calls.get(path)))

    async def results(self) -> fields.Results:
        """Results of an evaluation or comparison; for a batch prediction, facts about its file."""
        return fields.Results(await self._session.json(calls.get(self._results_path())))

    async def download_results(self, path: str | Path) -> Path:
        """Save the predictions of a batch prediction as a file."""
        return await self._session.download(calls.get(f"{self._results_path()}/results"), path)

    async def plot(self, kind: str, path: str | Path) -> Path:
        """Save a plot of a comparison as SVG: `time-by-rows`, `time-by-columns`, …; those of a
        training are of its `model_version`."""
        plot = f"{self._results_path()}/plots/{kind}.svg"
        return await self._session.download(calls.get(plot), path)

    async def _control(self, action: str, body: dict[str, Any] | None = None) -> AsyncJob:
        call = calls.send_json("POST", self._path(action), body or {})
        self.data = await self._session.json(call)
        return self


class AsyncClient:
    """Calls a service, with retries if a connection fails or the service has no capacity.

    All methods raise `errors.Problem` if the service refuses a request, and
    `errors.ConnectionFailed` if it cannot be reached. Close it, or use `async with`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        retries: Retries | None = None,
    ) -> None:
        """Defaults: `url` SVM_URL, else http://127.0.0.1:8000; `api_key` SVM_API_KEY, else none."""
        self._session = AsyncSession(url, api_key, retries)
        self.url = self._session.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def info(self) -> dict[str, Any]:
        """Version and limits of the service."""
        return dict(await self._session.json(calls.get("/v1/info")))

    async def solvers(self) -> list[dict[str, Any]]:
        """The objective of each solver, and its parameters as JSON Schema."""
        return list((await self._session.json(calls.get("/v1/solvers")))["solvers"])

    async def upload(
        self,
        data: Any,
        labels: Any = None,
        *,
        columns: Sequence[str] | None = None,
        media_type: str | None = None,
        weights: Any = None,
        progress_bar: bool | None = None,
        **options: Any,
    ) -> AsyncDataset:
        """Upload a dataset.

        `data` is the path of a file in any format of the service, also in a zip file of its own or
        compressed by gzip (`.csv.gz`), bytes with their `media_type`,
        a table (a pandas or polars frame, an Arrow table, a list of records, a dictionary of
        columns), texts (a list, an array or a series, which become a column `text`), a SciPy sparse
        matrix, or anything that NumPy can convert to an array. Texts, categories, booleans, dates
        and missing cells of a table are kept.
        `labels` has one entry for each row, or is the path of a file with one line for each;
        without it, the label column of a table or file is the one in the option `target`, or the
        only one called label, labels, target, class, outcome or y, or the last one, and arrays are
        unlabeled. `columns` are the feature names of an array. `weights`
        has one for each row of a table.
        Further options are those of the service: `name`, `target`, `weight`, `group` and `time`
        (columns with these roles), `schema` (such as `{"age": {"kind": "category"}}`), `missing` (a
        list of words), `missing_labels`, `header`, `delimiter`, `encoding`, `decimal`, `thousands`,
        `odd_cells`, `dayfirst`, `sheet`, `dense`, `index_base`, `n_features`, `validate_only`.
        A repeated upload returns the existing dataset. Files have a progress bar, by default in
        terminals and notebooks.
        Raises ValueError for data that no format supports.
        """
        call = upload_call("/v1/datasets", data, labels, columns, media_type, options, weights)
        call = replace(call, progress_bar=notebook.is_wanted(progress_bar))
        return AsyncDataset(self._session, await self._session.json(call))

    async def dataset(self, id: str) -> AsyncDataset:
        path = calls.path_of("v1", "datasets", id)
        return AsyncDataset(self._session, await self._session.json(calls.get(path)))

    async def datasets(self, *, tag: str | None = None) -> AsyncIterator[AsyncDataset]:
        """All datasets, newest first; with `tag` (`key=value`) those that have it."""
        async for data in self._session.pages(calls.get("/v1/datasets", tag=tag), "datasets"):
            yield AsyncDataset(self._session, data)

    async def train(
        self,
        dataset: AnyDataset,
        model_name: str,
        solver: Any = "auto",
        **spec: Unpack[TrainSpec],
    ) -> AsyncJob:
        """Queue a training of a new version of `model_name`.

        `solver` is a name (`auto` finds what suits the data), a mapping such as
        `{"name": "auto", "effort": "quick"}`, or one of the classes of `svm.solvers`;
        `svm.transforms.features` and `svm.stopping` have classes for `features` and `stopping`.
        """
        body = bodies.training(dataset, model_name, solver, **spec)
        return AsyncJob(self._session, await self._session.json(calls.create("/v1/jobs", body)))

    async def plan(
        self,
        dataset: AnyDataset,
        model_name: str,
        solver: Any = "auto",
        **spec: Unpack[TrainSpec],
    ) -> dict[str, Any]:
        """What a training would cost: its size, memory and, under `spread`, what its passes take if
        several machines share them. Nothing is queued.

        Raises what `train` with these arguments would raise.
        """
        body = bodies.training(dataset, model_name, solver, **spec)
        call = calls.create("/v1/jobs", body, params={"validate_only": True})
        plan: dict[str, Any] = await self._session.json(call)
        return plan

    async def train_all(
        self, trainings: Sequence[Mapping[str, Any]]
    ) -> list[AsyncJob | errors.Problem]:
        """Queue up to 1,000 trainings in one request. Each is a mapping of the arguments of
        `train`, such as `{"dataset": dataset, "model_name": "sizes", "solver": "newton"}`.

        Returns the job of each, or the problem for which it was refused.
        """
        body = {"jobs": [bodies.training(**training) for training in trainings]}
        reply = await self._session.json(calls.create("/v1/jobs:batch", body))
        return [
            AsyncJob(self._session, entry["job"])
            if "job" in entry
            else errors.problem_of(entry["error"]["status"], entry["error"])
            for entry in reply["jobs"]
        ]

    async def job(self, id: str) -> AsyncJob:
        path = calls.path_of("v1", "jobs", id)
        return AsyncJob(self._session, await self._session.json(calls.get(path)))

    async def jobs(
        self,
        *,
        state: str | None = None,
        model_name: str | None = None,
        dataset: AnyDataset | None = None,
        tag: str | None = None,
    ) -> AsyncIterator[AsyncJob]:
        """Matching jobs, newest first, without metrics and certificates."""
        id = None if dataset is None else reference(dataset)
        call = calls.get("/v1/jobs", state=state, model_name=model_name, dataset_id=id, tag=tag)
        async for data in self._session.pages(call, "jobs"):
            yield AsyncJob(self._session, data)

    async def model(self, name: str) -> AsyncModel:
        path = calls.path_of("v1", "models", name)
        return AsyncModel(self._session, await self._session.json(calls.get(path)))

    async def models(self) -> AsyncIterator[AsyncModel]:
        """All models, newest first."""
        async for data in self._session.pages(calls.get("/v1/models"), "models"):
            yield AsyncModel(self._session, data)

    async def model_version(self, name: str, version: int) -> AsyncModelVersion:
        path = calls.path_of("v1", "models", name, "versions", version)
        return AsyncModelVersion(self._session, await self._session.json(calls.get(path)))

    async def audit(
        self,
        *,
        key: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Who changed what, newest first; needs a key with the scope `admin`.

        `key` is the id or name of a key, `action` such as `alias.set`, `resource` such as
        `models/iris` (with its versions and aliases), `since` and `until` are RFC 3339 times.
        """
        call = calls.get(
            "/v1/audit", key=key, action=action, resource=resource, since=since, until=until
        )
        async for change in self._session.pages(call, "changes"):
            yield change

    @overload
    async def predict(
        self,
        model: AnyModel,
        rows: Any,
        outputs: OneOutput | None = None,
        **shares: Unpack[Shares],
    ) -> Array: ...

    @overload
    async def predict(
        self, model: AnyModel, rows: Any, outputs: Outputs, **shares: Unpack[Shares]
    ) -> dict[str, Any]: ...

    @overload
    async def predict(
        self, model: AnyModel, rows: Any, outputs: str, **shares: Unpack[Shares]
    ) -> Array | dict[str, Any]: ...

    async def predict(
        self,
        model: AnyModel,
        rows: Any,
        outputs: str | Outputs | None = None,
        **shares: Unpack[Shares],
    ) -> Array | dict[str, Any]:
        """Predict rows: an array, lists, a sparse matrix, a frame, mappings by feature name, texts
        of a model of one column of them, or the path of a file.

        `model` is a name, a version such as `iris/3`, or an alias such as `iris/candidate`. One of
        the outputs `label`, the default, `decision` and `probability` is returned as an array,
        (n_samples,) or (n_samples, n_classes); so is `label_or_none`, with None where the label is
        withheld, since the row may be of no known class: that costs a share `withheld` of the
        labels of known classes, by default 0.05. Models of numbers have `value`, the default,
        (n_samples,), and `interval`, (n_samples, 2), that has the target of a share `coverage` of
        new rows inside, by default 0.9. Several (an empty list: the default one), or an
        `explanation`, are returned as a dict with `model`, `classes`, and an entry for each output:
        an array, `values` and `intervals` for numbers, or the mappings of the `explanation`; with
        `probability` also `warnings`, if labels are not the class with the largest probability.
        """
        return await predict(self._session, reference(model), rows, outputs, shares)

    async def predict_dataset(
        self,
        model: AnyModel,
        dataset: AnyDataset,
        outputs: Sequence[str] | None = None,
        *,
        format: str = "csv",
        tags: Mapping[str, str] | None = None,
        callback: str | None = None,
        **shares: Unpack[Shares],
    ) -> AsyncJob:
        """Queue the prediction of all rows of a dataset; `download_results` of the job saves the
        file, in the `format` `csv`, `ndjson`, `npy` or `parquet`. By default the output is `label`,
        or `value` of a model of numbers; `coverage` is that of an `interval`, `withheld` that of
        `label_or_none`."""
        some = None if outputs is None else list(outputs)
        asked = {"outputs": some, "format": format, **shares}
        body = bodies.scoring(model, dataset, tags, callback, **asked)
        return await self._queue("/v1/batch-predictions", body)

    async def evaluate(
        self,
        model: AnyModel,
        dataset: AnyDataset,
        *,
        importance: bool = False,
        leave_out_trained: bool = False,
        validation_only: bool = False,
        tags: Mapping[str, str] | None = None,
        callback: str | None = None,
    ) -> AsyncJob:
        """Queue the evaluation of a model on a labeled dataset; `results` of the job then has
        confusion matrix, precision and recall, ROC curves, margins and calibration; with
        `importance` also how much the accuracy depends on each column. `leave_out_trained`: without
        rows that are equal to training rows; `validation_only`: only those that the training held
        out of this dataset."""
        asked = {
            "importance": importance,
            "leave_out_trained": leave_out_trained,
            "validation_only": validation_only,
        }
        body = bodies.scoring(model, dataset, tags, callback, **asked)
        return await self._queue("/v1/evaluations", body)

    async def compare(
        self,
        dataset: AnyDataset,
        solvers: Sequence[Any] = (),
        *,
        grid: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncJob:
        """Queue a comparison: trainings on one dataset with the same validation set. `results` of
        the job ranks them, and has cost against time for those with the same objective.

        Each of `solvers` is one as in `train`, or a mapping `{"solver": …, "scaling": …}`; a `grid`
        has every combination, such as `{"solver": ["newton"], "C": [0.1, 1, 10]}`. Further options
        are those of the service: `scaling`, `features`, `stopping`, `validation`, `rank_by`,
        `sizes`, `model_name` to keep the best model, and more.
        """
        body = bodies.comparison(dataset, solvers, grid, options)
        return await self._queue("/v1/comparisons", body)

    async def import_model(self, model_name: str, path: str | Path) -> AsyncModelVersion:
        """Import a model that was exported as JSON or NPZ as the next version of `model_name`."""
        path = Path(path)
        versions = calls.path_of("v1", "models", model_name, "versions")
        call = calls.create(versions, path, media_type_of(path))
        return AsyncModelVersion(self._session, await self._session.json(call))

    async def _queue(self, path: str, body: Mapping[str, Any]) -> AsyncJob:
        created = await self._session.json(calls.create(path, body))
        return await self.job(created["id"])
