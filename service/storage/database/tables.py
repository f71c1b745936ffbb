"""The complete schema. The migrations build it.

Times are seconds since 1970 (UTC) by the database's clock, which can step back: rows are ordered by
`number` instead. JSON columns contain what the API shows.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

from service.storage.database.pages import numbered

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

datasets = Table(
    "datasets",
    metadata,
    Column("id", String, primary_key=True),
    numbered("datasets"),
    Column("name", String),
    Column("created_at", Float, nullable=False),
    Column("format", String, nullable=False),  # media type of the upload
    Column("size_bytes", BigInteger, nullable=False),  # of the stored arrays
    Column("n_samples", BigInteger, nullable=False),
    Column("n_features", BigInteger, nullable=False),
    Column("sparse", Boolean, nullable=False),
    Column("target", String),  # name of the label column, null if unlabeled or unnamed
    Column("columns", JSON),  # feature names, null if the format has none
    Column("classes", JSON),  # sorted labels, null if unlabeled
    Column("class_counts", JSON),
    Column("statistics", JSON, nullable=False),  # per column: min, max, mean, std
    Column("table", JSON),  # features with kind, levels, missing; null if all are finite numbers
    Column("reading", JSON),  # how the text was read, null for binary formats
    Column("ignored", JSON, nullable=False),  # columns of the file that were not kept, and why
    Column("weight", String),  # name of the column of weights
    Column("warnings", JSON, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("matrix_digest", String, nullable=False),  # of values and labels, not of the format
    Column("upload_key", String, nullable=False, unique=True),  # identifies a repeated upload
    Column("arrays", JSON, nullable=False),  # array name -> sha-256 of its blob
    Column("parent", String),  # the dataset it was made from, which can be deleted
    Column("inherited_rows", BigInteger),  # number of rows from the parent, after an append
    Column("last_upload", BigInteger, nullable=False),  # its number, 0 if never uploaded
)


def _tags_of(owners: Table, name: str) -> Table:
    """The same as the column `tags` of the owners, for filters."""
    return Table(
        name,
        metadata,
        Column("id", ForeignKey(owners.c.id, ondelete="CASCADE"), primary_key=True),
        Column("key", String, primary_key=True),
        Column("value", String, nullable=False),
        Column("number", BigInteger, nullable=False),  # of the owner: lists are ordered by it
    )


dataset_tags = _tags_of(datasets, "dataset_tags")

jobs = Table(
    "jobs",
    metadata,
    Column("id", String, primary_key=True),
    numbered("jobs"),
    Column("kind", String, nullable=False),
    Column("state", String, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("caller", String, nullable=False),  # callers share the workers
    Column("request_id", String),  # of the request that created the job, for the logs
    Column("callback", String),  # URL that is called at the end
    Column("spec", JSON, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("dataset_id", String, nullable=False),
    Column("dataset_digest", String, nullable=False),
    Column("model_name", String),
    Column("model_version", Integer),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("attempt", Integer, nullable=False),  # number of leases; writes of workers check it
    Column("attempts_without_progress", Integer, nullable=False),  # since the last checkpoint
    Column("lease_expires_at", Float),
    Column("worker", String),
    Column("worker_memory_bytes", BigInteger),  # resident, at its last heartbeat
    Column("worker_memory_limit_bytes", BigInteger),
    Column("cancel_requested", Boolean, nullable=False),
    Column("keep_model", Boolean, nullable=False),
    Column("pause_requested", Boolean, nullable=False),
    Column("progress", JSON, nullable=False),
    Column("elapsed_s", Float, nullable=False),  # training time, all attempts
    Column("checkpoint_key", String),
    Column("checkpoint_sha256", String),
    Column("stop_reason", String),
    Column("converged", Boolean),
    Column("result", JSON),  # metrics, certificate, epochs, updates
    Column("warnings", JSON, nullable=False),
    Column("error", JSON),
    Column("results_key", String),  # the file of a batch prediction
    Column("results_sha256", String),
    Column("results_bytes", BigInteger),
    Column("revision", Integer, nullable=False),  # increases with every visible change: the ETag
)

job_tags = _tags_of(jobs, "job_tags")

job_events = Table(
    "job_events",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),  # the job's revision after the event
    Column("kind", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("data", JSON, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String, primary_key=True),
    Column("job_id", String, nullable=False),  # which can be deleted
    Column("created_at", Float, nullable=False),
    Column("url", String, nullable=False),
    Column("body", String, nullable=False),  # JSON, as it is sent
    Column("attempts", Integer, nullable=False),  # number of leases; writes of senders check it
    Column("next_at", Float),  # of the next attempt, or end of the lease; null: none
    Column("delivered_at", Float),
    Column("last_error", String),
)

job_parts = Table(
    "job_parts",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),  # of leases, from a random number; writes check it
    Column("failures", Integer, nullable=False),  # leases lost since the last checkpoint
    Column("worker", String),  # null: waits, or is done
    Column("lease_expires_at", Float),
    Column("progress", JSON, nullable=False),
    Column("elapsed_s", Float, nullable=False),  # all attempts
    Column("checkpoint_key", String),  # at first what the job gave
    Column("checkpoint_sha256", String),
    Column("result_key", String),  # once it is done
    Column("result_sha256", String),
)

job_trace = Table(
    "job_trace",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("pair", Integer, primary_key=True),  # number of the binary problem, 0 with two classes
    Column("updates", BigInteger, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("classes", JSON, nullable=False),  # the pair's labels: negative, positive
    Column("elapsed_s", Float, nullable=False),
    Column("primal", Float, nullable=False),
    Column("dual", Float, nullable=False),
    Column("gap", Float, nullable=False),
    Column("solver_objective", Float, nullable=False),  # primal in the solver's own constants
    Column("train_error", Float, nullable=False),
    Column("validation_error", Float),
)

models = Table(
    "models",
    metadata,
    Column("name", String, primary_key=True),
    numbered("models"),
    Column("created_at", Float, nullable=False),
    Column("last_version", Integer, nullable=False),  # never decreases: versions are not reused
    Column("deleted_at", Float),
)

model_versions = Table(
    "model_versions",
    metadata,
    Column("model_name", ForeignKey("models.name"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("digest", String, nullable=False),  # canonical content: equal models, equal digests
    Column("artifact_key", String, nullable=False),
    Column("artifact_sha256", String, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("classes", JSON, nullable=False),
    Column("columns", JSON),
    Column("n_features", BigInteger, nullable=False),
    Column("n_support_vectors", BigInteger),
    Column("calibration", String),  # how scores become probabilities, null if they do not
    Column("job_id", String),  # this and the next three: null if the model was imported
    Column("dataset_id", String),
    Column("dataset_digest", String),
    Column("seed", BigInteger),
    Column("spec", JSON, nullable=False),
    Column("result", JSON, nullable=False),  # metrics, certificate, epochs, updates
    Column("quarantined_at", Float),  # the file did not match its digest
    Column("warm_start_key", String),  # state for a warm start
    Column("warm_start_sha256", String),
    Column("imported", JSON),  # format of the file, and the origin that it claims
)


def _of_version() -> ForeignKeyConstraint:
    """The rows are deleted with their version."""
    return ForeignKeyConstraint(
        ["model_name", "version"],
        ["model_versions.model_name", "model_versions.version"],
        ondelete="CASCADE",
    )


IN_ROWS = "rows/"
"""How keys begin whose content is in `model_files`, not in a file."""

model_files = Table(
    "model_files",
    metadata,
    Column("model_name", String, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("name", String, primary_key=True),  # the key in the version's row
    Column("content", LargeBinary, nullable=False),
    _of_version(),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("caller", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("fingerprint", String, nullable=False),  # sha-256 of the request
    Column("holder", String, nullable=False),  # the process that carries out the request
    Column("created_at", Float, nullable=False),
    Column("lease_expires_at", Float, nullable=False),
    Column("status", Integer),  # of the reply, null if there is none yet
    Column("headers", JSON),
    Column("body", LargeBinary),  # deflated
)

derived_files = Table(
    "derived_files",
    metadata,
    Column("model_name", String, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("name", String, primary_key=True),  # such as plots-2/roc.svg
    Column("created_at", Float, nullable=False),
    # The data that the file shows; it is deleted with them.
    Column("dataset_id", ForeignKey("datasets.id", ondelete="CASCADE")),
    Column("file_key", String, nullable=False),
    Column("file_sha256", String, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("about", JSON, nullable=False),  # facts for headers of a reply
    _of_version(),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String, primary_key=True),
    numbered("api_keys"),
    Column("name", String, nullable=False),  # of the caller, unique among keys not revoked
    Column("scopes", JSON, nullable=False),
    Column("sha256", String, nullable=False),  # of the key, which is not stored
    Column("requests_per_s", Float),  # null: the limit in the settings
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
)

audit = Table(
    "audit",
    metadata,
    Column("id", String, primary_key=True),
    numbered("audit"),
    Column("created_at", Float, nullable=False),
    Column("actor", String, nullable=False),  # name of the key, an address, or local
    Column("key_id", String),
    Column("address", String),
    Column("request_id", String),
    Column("action", String, nullable=False),  # such as job.cancel
    Column("resource", String, nullable=False),  # path below /v1/
    Column("subject", String, nullable=False),  # the first two parts of the path, for filters
    Column("result", JSON, nullable=False),  # what the change resulted in
)

identity = Table(
    "identity",
    metadata,
    Column("id", String, primary_key=True),  # one row: the mark of this database's files
    Column("secret", String, nullable=False),  # key of the signatures of page tokens
)

model_aliases = Table(
    "model_aliases",
    metadata,
    Column("model_name", ForeignKey("models.name"), primary_key=True),
    Column("alias", String, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("revision", Integer, nullable=False),  # increases with every move: the ETag
    Column("updated_at", Float, nullable=False),
)

model_changes = Table(
    "model_changes",
    metadata,
    Column("model_name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of the model's last change
)

_exists = models.c.deleted_at.is_(None)

INDEXES = [
    Index(None, models.c.number, models.c.name, sqlite_where=_exists, postgresql_where=_exists),
    *(
        Index(None, *(table.c[name] for name in columns.split()))
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
