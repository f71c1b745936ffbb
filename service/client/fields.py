"""Members of the service's resources as attributes.

`members` declares the known ones; members of a newer service are attributes, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from httpx2 import ServerSentEvent

from service.client import notebook
from service.client.calls import path_of
from service.client.errors import ClientError
from service.client.members import DatasetMembers, JobMembers, ModelMembers, ModelVersionMembers

PLURALS = {"predict": "batch-predictions", "evaluate": "evaluations", "compare": "comparisons"}
"""Kinds of jobs with results, and their paths."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job."""

    id: int
    """Increases with each event of a job, not always by one."""
    kind: str
    """`state`, `progress`, `checkpoint`, `warning` or `end`."""
    data: dict[str, Any]

    @classmethod
    def of(cls, message: ServerSentEvent) -> Event | None:
        """None for a message without data, which only sets the retry time."""
        if not message.data:
            return None
        return cls(int(message.id), message.event, json.loads(message.data))


class Resource:
    """A resource as it was at the last call; `data` has all members."""

    def __init__(self, session: Any, data: dict[str, Any]) -> None:
        self._session = session
        self.data = data

    if not TYPE_CHECKING:  # so that the type checker reports unknown names

        def __getattr__(self, name: str) -> Any:
            if name != "data" and name in self.data:
                return self.data[name]
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._title()}>"

    def _repr_html_(self) -> str | None:
        """In notebooks."""
        return None

    def _reference(self) -> str:
        """In requests."""
        id: str = self.data["id"]
        return id

    def _title(self) -> str:
        return str(self.data.get("id", ""))


class DatasetFields(DatasetMembers, Resource):
    """A dataset; members that the format of the upload does not have are None."""

    id: str
    """Null if the upload was only validated."""
    created_at: str

    def _repr_html_(self) -> str:
        return notebook.dataset(self.data)

    def _title(self) -> str:
        return f"{self.id}: {self.n_samples:,} × {self.n_features:,}"

    def _path(self, *parts: str) -> str:
        return path_of("v1", "datasets", self.id, *parts)


class JobFields(JobMembers, Resource):
    """A job."""

    @property
    def ended(self) -> bool:
        return self.state in notebook.ENDED

    def _repr_html_(self) -> str:
        return notebook.job(self.data)

    def _title(self) -> str:
        return f"{self.id}: {self.kind}, {self.state}"

    def _path(self, *parts: str) -> str:
        return path_of("v1", "jobs", self.id, *parts)

    def _results_path(self) -> str:
        if self.kind not in PLURALS:
            raise ClientError(
                f"{self.id} is of kind {self.kind}, without results: use its metrics and model"
            )
        return path_of("v1", PLURALS[self.kind], self.id)


class ModelFields(ModelMembers, Resource):
    """A name under which versions are kept."""

    def _repr_html_(self) -> str:
        return notebook.model(self.data)

    def _reference(self) -> str:
        return self.name

    def _title(self) -> str:
        return f"{self.name}: latest version {self.latest_version}"

    def _path(self, *parts: object) -> str:
        return path_of("v1", "models", self.name, *parts)


class ModelVersionFields(ModelVersionMembers, Resource):
    """A trained model and its origin."""

    @property
    def classes_(self) -> Any:
        """(n_classes,) as scikit-learn's estimators have them: the columns of `predict_proba` and,
        of more than two classes, of `decision_function`."""
        import numpy as np

        return np.array(self.classes)

    def _repr_html_(self) -> str:
        return notebook.version(self.data)

    def _reference(self) -> str:
        return f"{self.name}/{self.version}"

    def _title(self) -> str:
        return self._reference()

    def _path(self, *parts: str) -> str:
        return path_of("v1", "models", self.name, "versions", self.version, *parts)


class Results(dict[str, Any]):
    """Results of an evaluation, a comparison or a batch prediction; notebooks show a table."""

    def _repr_html_(self) -> str | None:
        return notebook.results(self)


AnyDataset: TypeAlias = str | DatasetFields
"""A dataset, or its id."""
AnyModel: TypeAlias = str | ModelFields | ModelVersionFields
"""A model or one of its versions, or a name, `name/version` or `name/alias`."""


def reference(of: AnyDataset | AnyModel) -> str:
    """The reference in a request: the id of a dataset, `name` or `name/version` of a model."""
    return of if isinstance(of, str) else of._reference()
