"""The complete schema, and the records that its rows become. The migrations build it.

Times are seconds since 1970 (UTC) by the database's clock, which can step back: rows are ordered by
`number` instead. JSON columns contain what the API shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import sqlalchemy as sa
from sqlalchemy import Column

from service.storage.database.pages import numbered

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_JSON = sa.JSON(none_as_null=True)
_TYPES = {str: sa.String, int: sa.BigInteger, float: sa.Float, bool: sa.Boolean}


def _table(name: str, record: type, *others: sa.schema.SchemaItem, key: str = "id") -> sa.Table:
    """The table whose rows become these records: a column for each field, NULL if that can be None,
    JSON if it is a list or a dictionary. `others` are constraints, and columns instead of those."""
    given = {column.name: column for column in others if isinstance(column, Column)}
    columns: list[Column[Any]] = []
    for field, kind in get_type_hints(record).items():
        kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        type_ = _TYPES.get(str if get_origin(kind) is Literal else kinds[0], _JSON)
        own: Column[Any] = Column(
            field, type_, primary_key=field in key.split(), nullable=type(None) in kinds
        )
        columns.append(numbered(name) if field == "number" else given.get(field, own))
    constraints = (one for one in others if not isinstance(one, Column))
    return sa.Table(name, metadata, *columns, *constraints)


datasets = sa.Table(
    "datasets",
    metadata,
    Column("id", sa.String, primary_key=True),
    numbered("datasets"),
    Column("name", sa.String),
    Column("created_at", sa.Float, nullable=False),
    Column("format", sa.String, nullable=False),  # media type of the upload
    Column("size_bytes", sa.BigInteger, nullable=False),  # of the stored arrays
    Column("n_samples", sa.BigInteger, nullable=False),
    Column("n_features", sa.BigInteger, nullable=False),
    Column("sparse", sa.Boolean, nullable=False),
    Column("target", sa.String),  # name of the label column, null if unlabeled or unnamed
    Column("columns", sa.JSON),  # feature names, null if the format has none
    Column("classes", sa.JSON),  # sorted labels, null if unlabeled
    Column("class_counts", sa.JSON),
    Column("statistics", sa.JSON, nullable=False),  # per column: min, max, mean, std
    Column("table", sa.JSON),  # features with kind, levels, missing; null if all are finite numbers
    Column("reading", sa.JSON),  # how the text was read, null for binary formats
    Column("ignored", sa.JSON, nullable=False),  # columns of the file that were not kept, and why
    Column("beside", sa.JSON, nullable=False),  # columns with a role beside the features
    Column("warnings", sa.JSON, nullable=False),
    Column("tags", sa.JSON, nullable=False),
    Column("matrix_digest", sa.String, nullable=False),  # of values and labels, not of the format
    Column("upload_key", sa.String, nullable=False, unique=True),  # identifies a repeated upload
    Column("arrays", sa.JSON, nullable=False),  # array name -> sha-256 of its blob
    Column("parent", sa.String),  # the dataset it was made from, which can be deleted
    Column("inherited_rows", sa.BigInteger),  # number of rows from the parent, after an append
    Column("last_upload", sa.BigInteger, nullable=False),  # its number, 0 if never uploaded
)


def _tags_of(owners: sa.Table, name: str) -> sa.Table:
    """The same as the column `tags` of the owners, for filters."""
    return sa.Table(
        name,
        metadata,
        Column("id", sa.ForeignKey(owners.c.id, ondelete="CASCADE"), primary_key=True),
        Column("key", sa.String, primary_key=True),
        Column("value", sa.String, nullable=False),
        Column("number", sa.BigInteger, nullable=False),  # of the owner: lists are ordered by it
    )


dataset_tags = _tags_of(datasets, "dataset_tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row of `jobs`, as it was when it was read."""

    id: str
    number: int
    """Gives its place in lists and in the queue."""
    kind: str
    state: str
    priority: int
    caller: str
    """Who created it; callers share the workers fairly."""
    request_id: str | None
    """The request that made it, for the logs."""
    callback: str | None
    """The URL that is called when the job ends."""
    spec: dict[str, Any]
    """The request that made the job, with every default written out."""
    tags: dict[str, str]
    dataset_id: str
    dataset_digest: str
    model_name: str | None
    model_version: int | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    attempt: int
    """Number of leases; writes of workers check it."""
    attempts_without_progress: int
    """Since the last checkpoint."""
    lease_expires_at: float | None
    worker: str | None
    worker_memory_bytes: int | None
    """Resident memory of the worker at its last heartbeat, and its limit."""
    worker_memory_limit_bytes: int | None
    cancel_requested: bool
    keep_model: bool
    pause_requested: bool
    """A worker must save and release the job; false again once it has."""
    progress: dict[str, Any]
    elapsed_s: float
    """Time of training, all attempts."""
    checkpoint_key: str | None
    checkpoint_sha256: str | None
    stop_reason: str | None
    converged: bool | None
    result: dict[str, Any] | None
    """Metrics, certificate, epochs, updates."""
    warnings: list[str]
    error: dict[str, Any] | None
    results_key: str | None
    """Name of the file of results."""
    results_sha256: str | None
    results_bytes: int | None
    revision: int
    """Grows with every visible change: the ETag, and the number of the job's last event."""


jobs = _table("jobs", JobRow)

job_tags = _tags_of(jobs, "job_tags")

job_events = sa.Table(
    "job_events",
    metadata,
    Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),  # the job's revision after the event
    Column("kind", sa.String, nullable=False),
    Column("created_at", sa.Float, nullable=False),
    Column("data", sa.JSON, nullable=False),
)


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """A callback that is sent, or was."""

    id: str
    job_id: str
    """Of a job that can be deleted."""
    created_at: float
    url: str
    body: str
    """JSON, as it is sent."""
    attempts: int
    """Number of leases; writes of senders check it."""
    next_at: float | None
    """Time of the next attempt, or the end of the lease; None if there is none."""
    delivered_at: float | None
    last_error: str | None


deliveries = _table("deliveries", DeliveryRow)

job_parts = sa.Table(
    "job_parts",
    metadata,
    Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),
    Column(
        "attempt", sa.Integer, nullable=False
    ),  # of leases, from a random number; writes check it
    Column("failures", sa.Integer, nullable=False),  # leases lost since the last checkpoint
    Column("worker", sa.String),  # null: waits, or is done
    Column("lease_expires_at", sa.Float),
    Column("progress", sa.JSON, nullable=False),
    Column("elapsed_s", sa.Float, nullable=False),  # all attempts
    Column("checkpoint_key", sa.String),  # at first what the job gave
    Column("checkpoint_sha256", sa.String),
    Column("result_key", sa.String),  # once it is done
    Column("result_sha256", sa.String),
)

job_trace = sa.Table(
    "job_trace",
    metadata,
    Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "pair", sa.Integer, primary_key=True
    ),  # number of the binary problem, 0 with two classes
    Column("updates", sa.BigInteger, primary_key=True),
    Column("epoch", sa.Integer, nullable=False),
    Column("classes", sa.JSON, nullable=False),  # the pair's labels: negative, positive
    Column("elapsed_s", sa.Float, nullable=False),
    Column("primal", sa.Float, nullable=False),
    Column("dual", sa.Float, nullable=False),
    Column("gap", sa.Float, nullable=False),
    Column("solver_objective", sa.Float, nullable=False),  # primal in the solver's own constants
    Column("train_error", sa.Float, nullable=False),
    Column("validation_error", sa.Float),
)

models = sa.Table(
    "models",
    metadata,
    Column("name", sa.String, primary_key=True),
    numbered("models"),
    Column("created_at", sa.Float, nullable=False),
    Column("last_version", sa.Integer, nullable=False),  # never decreases: versions are not reused
    Column("deleted_at", sa.Float),
)

Label: TypeAlias = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """The files of a version, and what is in them."""

    digest: str
    """Of the canonical content: equal models have equal digests."""
    artifact_key: str
    artifact_sha256: str
    size_bytes: int
    warm_start_key: str | None
    """None if there is no state for a warm start."""
    warm_start_sha256: str | None
    classes: list[Label]
    columns: list[str] | None
    n_features: int
    calibration: str | None
    """How scores become probabilities or intervals; None if they do not."""


@dataclass(frozen=True, kw_only=True)
class ModelOrigin:
    """How a version was made; an imported one has no job, dataset and seed."""

    spec: dict[str, Any]
    result: dict[str, Any]
    """Metrics, certificate, epochs, updates: what is shown, and needs no column."""
    job_id: str | None = None
    dataset_id: str | None = None
    dataset_digest: str | None = None
    seed: int | None = None
    n_support_vectors: int | None = None
    imported: dict[str, Any] | None = None
    """`format` and `origin`, which the file claims; None for a model that was trained here."""


@dataclass(frozen=True, kw_only=True)
class ModelVersion(ModelOrigin, StoredModel):
    """A model and its origin; only `quarantined_at` can change."""

    model_name: str
    version: int
    created_at: float
    quarantined_at: float | None
    """When the file did not match its digest."""

    @property
    def predicts(self) -> Literal["classes", "numbers"]:
        return "classes" if self.classes else "numbers"

    @property
    def kinds(self) -> set[str]:
        """Those of its columns; none if all are numbers without gaps."""
        table = self.result.get("table") or {"columns": ()}
        return {column["kind"] for column in table["columns"]}


model_versions = _table(
    "model_versions",
    ModelVersion,
    Column("model_name", sa.ForeignKey("models.name"), primary_key=True),
    key="model_name version",
)


def _of_version() -> sa.ForeignKeyConstraint:
    """The rows are deleted with their version."""
    return sa.ForeignKeyConstraint(
        ["model_name", "version"],
        ["model_versions.model_name", "model_versions.version"],
        ondelete="CASCADE",
    )


IN_ROWS = "rows/"
"""How keys begin whose content is in `model_files`, not in a file."""

model_files = sa.Table(
    "model_files",
    metadata,
    Column("model_name", sa.String, primary_key=True),
    Column("version", sa.BigInteger, primary_key=True),
    Column("name", sa.String, primary_key=True),  # the key in the version's row
    Column("content", sa.LargeBinary, nullable=False),
    _of_version(),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    Column("caller", sa.String, primary_key=True),
    Column("key", sa.String, primary_key=True),
    Column("fingerprint", sa.String, nullable=False),  # sha-256 of the request
    Column("holder", sa.String, nullable=False),  # the process that carries out the request
    Column("created_at", sa.Float, nullable=False),
    Column("lease_expires_at", sa.Float, nullable=False),
    Column("status", sa.Integer),  # of the reply, null if there is none yet
    Column("headers", sa.JSON),
    Column("body", sa.LargeBinary),  # deflated
)


@dataclass(frozen=True, slots=True)
class DerivedFile:
    """A plot or an export of a version."""

    model_name: str
    version: int
    name: str
    """Such as `plots-2/roc.svg`."""
    created_at: float
    dataset_id: str | None
    """The dataset whose data the file shows; it is deleted with them."""
    file_key: str
    file_sha256: str
    size_bytes: int
    about: dict[str, Any]
    """Facts for headers of a reply."""


derived_files = _table(
    "derived_files",
    DerivedFile,
    Column("dataset_id", sa.ForeignKey("datasets.id", ondelete="CASCADE")),
    _of_version(),
    key="model_name version name",
)


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without its text, which is not stored."""

    id: str
    number: int
    name: str
    """Of the caller, who may have several keys over time; unique among keys not revoked."""
    scopes: list[str]
    sha256: str
    """Of the whole key. It has 256 random bits, so a slow hash would not be safer."""
    requests_per_s: float | None
    """None: the limit in the settings."""
    created_at: float
    revoked_at: float | None


api_keys = _table("api_keys", Key)

Action: TypeAlias = Literal[
    "dataset.create",
    "dataset.update",
    "dataset.delete",
    "job.create",
    "job.cancel",
    "job.pause",
    "job.resume",
    "job.delete",
    "model.delete",
    "version.create",
    "version.delete",
    "alias.set",
    "alias.delete",
    "key.create",
    "key.revoke",
]


@dataclass(frozen=True, slots=True)
class Change:
    """Who changed what."""

    id: str
    number: int
    created_at: float
    actor: str
    """Name of the key, an address, or `local`."""
    key_id: str | None
    address: str | None
    request_id: str | None
    action: Action
    resource: str
    """Its path below `/v1/`, such as `models/iris/aliases/default`."""
    subject: str
    """The first two parts of `resource`: all that is about one model has the same."""
    result: dict[str, Any]
    """What the change resulted in."""


audit = _table("audit", Change)

identity = sa.Table(
    "identity",
    metadata,
    Column("id", sa.String, primary_key=True),  # one row: the mark of this database's files
    Column("secret", sa.String, nullable=False),  # key of the signatures of page tokens
)


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that points to a version; `revision` grows with every move."""

    model_name: str
    alias: str
    version: int
    revision: int
    updated_at: float

    @property
    def etag(self) -> str:
        """Unique for each state, also if an alias is removed and set again."""
        return f"{self.revision}-{self.updated_at:.4f}"


model_aliases = _table(
    "model_aliases",
    Alias,
    Column("model_name", sa.ForeignKey("models.name"), primary_key=True),
    key="model_name alias",
)

model_changes = sa.Table(
    "model_changes",
    metadata,
    Column("model_name", sa.String, primary_key=True),
    Column("number", sa.BigInteger, nullable=False),  # of the model's last change
)

_exists = models.c.deleted_at.is_(None)

INDEXES = [
    sa.Index(None, models.c.number, models.c.name, sqlite_where=_exists, postgresql_where=_exists),
    *(
        sa.Index(None, *(table.c[name] for name in columns.split()))
        for table, lists in (
            (audit, ("created_at id", "number id")),
            (audit, (f"{of} number id" for of in ("actor", "key_id", "action", "subject"))),
            (dataset_tags, ("key value number id",)),
            (datasets, ("number id", "last_upload id")),
            (deliveries, ("job_id", "next_at")),
            (derived_files, ("dataset_id",)),
            (idempotency_keys, ("created_at",)),
            (job_tags, ("key value number id",)),
            # Lists of jobs by dataset or model have kind and state, too: rows of another kind or
            # state are skipped without being read.
            (jobs, ("number id", "dataset_id number id kind state", "finished_at")),
            (jobs, ("kind number id", "kind state number id")),
            (jobs, ("model_name number id kind state",)),
            (jobs, ("state number id", "state priority number id")),
            (model_changes, ("number",)),
            (models, ("number",)),
        )
        for columns in lists
    ),
]
"""In the order in which they are created: PostgreSQL's choice between two that cost the same
depends on it, and `Table.indexes` has no order."""
