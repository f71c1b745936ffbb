# Generated from the module of this name in `asynchronous` by `make client`.
"""The client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack, overload

from service.client import calls, errors, progress, specs
from service.client.calls import Retries
from service.client.fields import AnyDataset, AnyModel, reference
from service.client.members import TrainSpec
from service.client.rows import Array, OneOutput, Outputs, media_type_of, upload_call
from service.client.synchronous.resources import (
    Dataset,
    Job,
    Model,
    ModelVersion,
    predict,
)
from service.client.synchronous.session import Session


class Client:
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
        self._session = Session(url, api_key, retries)
        self.url = self._session.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def info(self) -> dict[str, Any]:
        """Version and limits of the service."""
        return dict(self._session.json(calls.get("/v1/info")))

    def solvers(self) -> list[dict[str, Any]]:
        """The objective of each solver, and its parameters as JSON Schema."""
        return list((self._session.json(calls.get("/v1/solvers")))["solvers"])

    def upload(
        self,
        data: Any,
        labels: Any = None,
        *,
        columns: Sequence[str] | None = None,
        media_type: str | None = None,
        weights: Any = None,
        progress_bar: bool | None = None,
        **options: Any,
    ) -> Dataset:
        """Upload a dataset.

        `data` is the path of a file in any format of the service, also in a zip file of its own or
        compressed by gzip (`.csv.gz`), bytes with their `media_type`,
        a table (a pandas or polars frame, an Arrow table, a list of records, a dictionary of
        columns), a SciPy sparse matrix, or anything that NumPy can convert to an array. Texts,
        categories, booleans, dates and missing cells of a table are kept.
        `labels` has one entry for each row, or is the path of a file with one line for each;
        without it, the label column of a table or file is the last one or the one in the option
        `target`, and arrays are unlabeled. `columns` are the feature names of an array. `weights`
        has one for each row of a table.
        Further options are those of the service: `name`, `target`, `schema` (such as
        `{"age": {"kind": "category"}}`), `missing` (a list of words), `missing_labels`, `header`,
        `delimiter`, `encoding`, `decimal`, `thousands`, `odd_cells`, `dayfirst`, `sheet`, `dense`,
        `index_base`, `n_features`, `validate_only`.
        A repeated upload returns the existing dataset. Files have a progress bar, by default in
        terminals and notebooks.
        Raises ValueError for data that no format supports.
        """
        call = upload_call("/v1/datasets", data, labels, columns, media_type, options, weights)
        call = replace(call, progress_bar=progress.is_wanted(progress_bar))
        return Dataset(self._session, self._session.json(call))

    def dataset(self, id: str) -> Dataset:
        path = calls.path_of("v1", "datasets", id)
        return Dataset(self._session, self._session.json(calls.get(path)))

    def datasets(self, *, tag: str | None = None) -> Iterator[Dataset]:
        """All datasets, newest first; with `tag` (`key=value`) those that have it."""
        for data in self._session.pages(calls.get("/v1/datasets", tag=tag), "datasets"):
            yield Dataset(self._session, data)

    def train(
        self,
        dataset: AnyDataset,
        model_name: str,
        solver: Any = "auto",
        **spec: Unpack[TrainSpec],
    ) -> Job:
        """Queue a training of a new version of `model_name`.

        `solver` is a name (`auto` chooses by the data), a mapping such as
        `{"name": "pegasos", "lambda": 0.01}`, or one of the classes of `svm.solvers`;
        `svm.transforms.features` and `svm.stopping` have classes for `features` and `stopping`.
        """
        body = specs.training(dataset, model_name, solver, **spec)
        return Job(self._session, self._session.json(calls.create("/v1/jobs", body)))

    def plan(
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
        body = specs.training(dataset, model_name, solver, **spec)
        call = calls.create("/v1/jobs", body, params={"validate_only": True})
        plan: dict[str, Any] = self._session.json(call)
        return plan

    def train_all(self, trainings: Sequence[Mapping[str, Any]]) -> list[Job | errors.Problem]:
        """Queue up to 1,000 trainings in one request. Each is a mapping of the arguments of
        `train`, such as `{"dataset": dataset, "model_name": "sizes", "solver": "newton"}`.

        Returns the job of each, or the problem for which it was refused.
        """
        body = {"jobs": [specs.training(**training) for training in trainings]}
        reply = self._session.json(calls.create("/v1/jobs:batch", body))
        return [
            Job(self._session, entry["job"])
            if "job" in entry
            else errors.problem_of(entry["error"]["status"], entry["error"])
            for entry in reply["jobs"]
        ]

    def job(self, id: str) -> Job:
        path = calls.path_of("v1", "jobs", id)
        return Job(self._session, self._session.json(calls.get(path)))

    def jobs(
        self,
        *,
        state: str | None = None,
        model_name: str | None = None,
        dataset_id: str | None = None,
        tag: str | None = None,
    ) -> Iterator[Job]:
        """Matching jobs, newest first, without metrics and certificates."""
        call = calls.get(
            "/v1/jobs", state=state, model_name=model_name, dataset_id=dataset_id, tag=tag
        )
        for data in self._session.pages(call, "jobs"):
            yield Job(self._session, data)

    def model(self, name: str) -> Model:
        path = calls.path_of("v1", "models", name)
        return Model(self._session, self._session.json(calls.get(path)))

    def models(self) -> Iterator[Model]:
        """All models, newest first."""
        for data in self._session.pages(calls.get("/v1/models"), "models"):
            yield Model(self._session, data)

    def model_version(self, name: str, version: int) -> ModelVersion:
        path = calls.path_of("v1", "models", name, "versions", version)
        return ModelVersion(self._session, self._session.json(calls.get(path)))

    def audit(
        self,
        *,
        key: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Who changed what, newest first; needs a key with the scope `admin`.

        `key` is the id or name of a key, `action` such as `alias.set`, `resource` such as
        `models/iris` (with its versions and aliases), `since` and `until` are RFC 3339 times.
        """
        call = calls.get(
            "/v1/audit", key=key, action=action, resource=resource, since=since, until=until
        )
        for change in self._session.pages(call, "changes"):
            yield change

    @overload
    def predict(self, model: AnyModel, rows: Any, outputs: OneOutput = "label") -> Array: ...

    @overload
    def predict(self, model: AnyModel, rows: Any, outputs: Outputs) -> dict[str, Any]: ...

    @overload
    def predict(self, model: AnyModel, rows: Any, outputs: str) -> Array | dict[str, Any]: ...

    def predict(
        self, model: AnyModel, rows: Any, outputs: str | Outputs = "label"
    ) -> Array | dict[str, Any]:
        """Predict rows: an array, lists, a sparse matrix, a frame, mappings by feature name, or the
        path of a file.

        `model` is a name, a version such as `iris/3`, or an alias such as `iris/candidate`. One of
        the outputs `label`, `decision` and `probability` is returned as an array, (n_samples,) or
        (n_samples, n_classes). Several, or an `explanation`, are returned as a dict with `model`,
        `classes`, and an entry for each output; with `probability` also `warnings`, if labels are
        not the class with the largest probability.
        """
        return predict(self._session, reference(model), rows, outputs)

    def predict_dataset(
        self,
        dataset: AnyDataset,
        model: AnyModel,
        outputs: Sequence[str] = ("label",),
        *,
        format: str = "csv",
        tags: Mapping[str, str] | None = None,
        callback: str | None = None,
    ) -> Job:
        """Queue the prediction of all rows of a dataset; `download_results` of the job saves the
        file, in the `format` `csv`, `ndjson`, `npy` or `parquet`."""
        body = {
            "dataset_id": reference(dataset),
            "model": reference(model),
            "outputs": list(outputs),
            "format": format,
            "tags": dict(tags or {}),
            "callback": callback,
        }
        return self._queue("/v1/batch-predictions", body)

    def evaluate(
        self,
        dataset: AnyDataset,
        model: AnyModel,
        *,
        importance: bool = False,
        tags: Mapping[str, str] | None = None,
        callback: str | None = None,
    ) -> Job:
        """Queue the evaluation of a model on a labeled dataset; `results` of the job then has
        confusion matrix, precision and recall, ROC curves, margins and calibration; with
        `importance` also how much the accuracy depends on each column."""
        about = {"dataset_id": reference(dataset), "model": reference(model)}
        body = {**about, "importance": importance, "tags": dict(tags or {}), "callback": callback}
        return self._queue("/v1/evaluations", body)

    def compare(
        self,
        dataset: AnyDataset,
        solvers: Sequence[Any] = (),
        *,
        grid: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Job:
        """Queue a comparison: trainings on one dataset with the same validation set. `results` of
        the job ranks them, and has cost against time for those with the same objective.

        Each of `solvers` is one as in `train`, or a mapping `{"solver": …, "scaling": …}`; a `grid`
        has every combination, such as `{"solver": ["newton"], "C": [0.1, 1, 10]}`. Further options
        are those of the service: `scaling`, `features`, `stopping`, `validation`, `rank_by`,
        `sizes`, `model_name` to keep the best model, and more.
        """
        body = specs.comparison(dataset, solvers, grid, options)
        return self._queue("/v1/comparisons", body)

    def import_model(self, name: str, path: str | Path) -> ModelVersion:
        """Import a model that was exported as JSON or NPZ as the next version of `name`."""
        path = Path(path)
        versions = calls.path_of("v1", "models", name, "versions")
        call = calls.create(versions, path, media_type_of(path))
        return ModelVersion(self._session, self._session.json(call))

    def _queue(self, path: str, body: Mapping[str, Any]) -> Job:
        created = self._session.json(calls.create(path, body))
        return self.job(created["id"])
