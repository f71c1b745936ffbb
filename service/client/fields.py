"""Members of the service's resources as attributes.

Each class declares the known members; members of a newer service are attributes, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from service.client import notebook


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


class DatasetFields(Resource):
    """A dataset; members that the format of the upload does not have are None."""

    id: str
    """Null if the upload was only validated."""
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
    """Warnings about the data: `code`, `message`, `columns`."""
    tags: dict[str, str]
    parent: str | None
    inherited_rows: int | None
    columns: list[dict[str, Any]] | None
    """`name`, `kind`, `min`, `max`, `mean`, `std` and more of each feature; lists of datasets leave
    it and the next ones out."""
    weight: str | None
    """Name of the column with the weights of the rows."""
    ignored_columns: list[dict[str, Any]]
    """Columns that are not kept: `name` and `reason`."""
    reading: dict[str, Any] | None
    """How the text of the upload was read."""

    def _repr_html_(self) -> str:
        return notebook.dataset(self.data)

    def _title(self) -> str:
        return f"{self.id}: {self.n_samples:,} × {self.n_features:,}"


class JobFields(Resource):
    """A job."""

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
    """The request with all defaults."""
    dataset_id: str
    dataset_digest: str
    priority: int
    tags: dict[str, str]
    callback: str | None
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    elapsed_s: float
    model: dict[str, Any] | None
    """`name` and `version` of the trained model."""
    epochs: int | None
    updates: int | None
    warnings: list[str]
    notes: list[str]
    """What was chosen on the way, such as the solver."""
    error: dict[str, Any] | None
    """`code`, `detail` and `hint` of a failure."""
    metrics: dict[str, Any] | None
    """Lists of jobs leave out metrics and certificate."""
    certificate: dict[str, Any] | None
    """What is proven about the cost: `primal`, `dual`, `excess`, `status`, `summary` and more."""

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "canceled")

    def _repr_html_(self) -> str:
        return notebook.job(self.data)

    def _title(self) -> str:
        return f"{self.id}: {self.kind}, {self.state}"


class ModelFields(Resource):
    """A name under which versions are kept."""

    name: str
    created_at: str
    latest_version: int | None
    aliases: dict[str, int]
    """Aliases and the versions they point to."""

    def _repr_html_(self) -> str:
        return notebook.model(self.data)

    def _reference(self) -> str:
        return self.name

    def _title(self) -> str:
        return f"{self.name}: latest version {self.latest_version}"


class ModelVersionFields(Resource):
    """A trained model and its origin."""

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
    table: dict[str, Any] | None
    """Of a model of a table: `columns` with their kinds and levels, and `notes`."""
    reading: dict[str, Any] | None
    """How the training file was written, which rows to predict may be, too."""
    n_support_vectors: int | None
    calibration: str | None
    """How scores become probabilities; None if they do not."""
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
    """Of an imported model: `format` and `origin`, which its file claims."""
    quarantined_at: str | None
    """When damage of its file was detected."""

    def _repr_html_(self) -> str:
        return notebook.version(self.data)

    def _reference(self) -> str:
        return f"{self.name}/{self.version}"

    def _title(self) -> str:
        return self._reference()


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
