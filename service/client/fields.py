"""What the service tells of its resources, as attributes.

Each class names the members that it relies on; members that a later service adds are there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Resource:
    """What the service last said of something; all of it is in `data`."""

    data: dict[str, Any]

    if not TYPE_CHECKING:  # so that a name which is no member is an error to the type checker

        def __getattr__(self, name: str) -> Any:
            if name != "data" and name in self.data:
                return self.data[name]
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._title()}>"

    def _title(self) -> str:
        return str(self.data.get("id", ""))


class DatasetFields(Resource):
    """A dataset; `None` where the format of the upload has no such thing."""

    id: str
    """Null where the upload was only validated."""
    name: str | None
    created_at: str
    format: str
    """Media type of the upload."""
    size_bytes: int
    n_samples: int
    n_features: int
    sparse: bool
    target: str | None
    """Name of the label column."""
    classes: list[Any] | None
    """Sorted labels."""
    class_counts: list[int] | None
    n_distinct_labels: int
    matrix_digest: str
    """sha-256 of values and labels."""
    warnings: list[dict[str, Any]]
    """What to be aware of before training: `code`, `message`, `columns`."""
    labels: dict[str, str]
    parent: str | None
    inherited_rows: int | None
    columns: list[dict[str, Any]] | None
    """`name`, `min`, `max`, `mean` and `std` of each feature; lists of datasets leave it out."""

    def _title(self) -> str:
        return f"{self.id}: {self.n_samples:,} × {self.n_features:,}"


class JobFields(Resource):
    """A job as it is now."""

    id: str
    kind: str
    state: str
    """`queued`, `running`, `paused`, `succeeded`, `failed` or `canceled`."""
    stop_reason: str | None
    converged: bool | None
    cancel_requested: bool
    pause_requested: bool
    progress: dict[str, Any]
    """`fraction`, `epoch`, `primal`, `dual`, `relative_gap`, `eta_s` and more."""
    spec: dict[str, Any]
    """The request with all defaults written out."""
    dataset_id: str
    dataset_digest: str
    priority: int
    labels: dict[str, str]
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    elapsed_s: float
    model: dict[str, Any] | None
    """`name` and `version` of what was learnt."""
    epochs: int | None
    updates: int | None
    warnings: list[str]
    error: dict[str, Any] | None
    """`code`, `detail` and `hint` of a failure."""
    metrics: dict[str, Any] | None
    """Lists of jobs leave out metrics and certificate."""
    certificate: dict[str, Any] | None
    """How far from the optimum the model is at most: `primal`, `dual`, `gap`, `relative_gap`."""

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "canceled")

    def _title(self) -> str:
        return f"{self.id}: {self.kind}, {self.state}"


class ModelFields(Resource):
    """A name under which versions are kept."""

    name: str
    created_at: str
    latest_version: int | None
    aliases: dict[str, int]
    """Aliases and the versions they point to."""

    def _title(self) -> str:
        return f"{self.name}: latest version {self.latest_version}"


class ModelVersionFields(Resource):
    """A trained model and where it comes from."""

    name: str
    version: int
    created_at: str
    digest: str
    """sha-256 of the model's content: equal models have equal digests."""
    artifact_sha256: str
    size_bytes: int
    classes: list[Any]
    """Sorted; the columns of decision values and probabilities follow this order."""
    columns: list[str] | None
    n_features: int
    n_support_vectors: int | None
    calibration: str | None
    """What makes probabilities of scores, None where nothing does."""
    metrics: dict[str, Any]
    certificate: dict[str, Any]
    converged: bool | None
    stop_reason: str | None
    epochs: int | None
    updates: int | None
    spec: dict[str, Any]
    seed: int | None
    job_id: str | None
    """None for an imported model, as seed and dataset."""
    dataset_id: str | None
    dataset_digest: str | None
    imported: dict[str, Any] | None
    """Of a model that was not trained here: `format` and `origin`, as its file tells them."""
    quarantined_at: str | None
    """Since when its file is known to be damaged."""

    def _title(self) -> str:
        return f"{self.name}/{self.version}"


def reference(of: str | DatasetFields | ModelFields | ModelVersionFields) -> str:
    """What a request calls it: the id of a dataset, `name` or `name/version` of a model."""
    if isinstance(of, str):
        return of
    if isinstance(of, DatasetFields):
        return of.id
    return of.name if isinstance(of, ModelFields) else f"{of.name}/{of.version}"
