"""Every setting of the service: environment variables with the prefix `SVM_`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.addresses import callback_targets, host_names, proxy_addresses

PREFIX = "SVM_"
OTHER_VARIABLES = {"SVM_URL", "SVM_API_KEY"}
"""Environment variables of clients."""
MIB = 1024 * 1024
GIB = 1024 * MIB


class Limits(BaseModel):
    """Limits of one request, dataset or job; `/v1/info` shows them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    upload_bytes: PositiveInt = 2 * GIB
    """Largest upload as it is sent."""
    inflated_bytes: PositiveInt = 4 * GIB
    """Largest upload after decompression, and at most a hundred times what was sent."""
    control_body_bytes: PositiveInt = MIB
    """Largest JSON body of a control request, such as `POST /v1/jobs`."""
    predict_body_bytes: PositiveInt = 32 * MIB
    """Largest body of a prediction, after decompression."""
    bodies_bytes: PositiveInt = 40 * MIB
    """Memory for the bodies of all current requests, in each replica; at least one of the largest
    size is always accepted. Further ones receive 503. Small bodies that arrive in one piece are
    not counted, nor are uploads, which are written to files."""
    predict_rows: PositiveInt = 100_000
    """Most rows of one prediction; `POST /v1/batch-predictions` takes more."""
    rows: PositiveInt = 5_000_000
    """Most rows of a dataset."""
    columns: PositiveInt = 20_000
    """Most columns of a dense dataset."""
    sparse_columns: PositiveInt = 10_000_000
    """Most columns of a sparse dataset."""
    stored_values: PositiveInt = 1_000_000_000
    """Most numbers stored for one dataset: rows times columns if dense, non-zeros if sparse."""
    cell_bytes: PositiveInt = 4096
    """Longest cell of CSV and TSV, but for columns of texts."""
    line_bytes: PositiveInt = MIB
    """Longest line of CSV, TSV, NDJSON and LIBSVM. A cell of a column of texts has half of it at
    most, in every format."""
    classes: Annotated[PositiveInt, Field(le=1000)] = 100
    """Most classes of a training with a problem for each pair; `one-vs-rest` takes 1,000, and
    datasets with more different labels have no classes."""
    kernel_rows: PositiveInt = 20_000
    """Most rows of a dataset for a kernel solver."""
    comparison_entries: PositiveInt = 100
    """Most trainings of one comparison, combinations of its grid included."""
    queued_jobs: PositiveInt = 1000
    """Most jobs in the queue, paused ones included."""
    queued_jobs_per_caller: PositiveInt | None = None
    """Most queued jobs of one caller; None: only the queue's limit. If one caller has filled the
    queue, a tenth more is reserved for callers with few queued jobs."""
    running_jobs_per_caller: PositiveInt | None = None
    """Most running jobs of one caller; None: all workers, as long as no other caller has a job in
    the queue."""
    requests_per_s: PositiveFloat | None = None
    """Rate limit of one caller, in each replica; None: no limit. A key can have its own rate."""
    job_s: PositiveFloat = 3600
    """Longest run of a job."""
    event_streams: PositiveInt = 200
    """Most event streams open at once in one replica."""
    history_s: PositiveFloat = 30 * 24 * 3600
    """How long events and traces of a job are kept after its end, and replies to requests with an
    Idempotency-Key (these for at least a day)."""
    audit_s: PositiveFloat = 30 * 24 * 3600
    """How long the audit trail is kept."""
    worker_memory_bytes: PositiveInt = 2 * GIB
    """Most memory of one training process; a job that needs more fails."""
    disk_free_bytes: NonNegativeInt = GIB
    """Disk space that stays free for running jobs; with less, uploads and new jobs are refused."""
    disk_free_share: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """The same as a share of the disk; the smaller of the two applies. Also the share of the inodes
    that stay free, or 1,000 if that is less."""


def _own_database(given: dict[str, Any]) -> str:
    return f"sqlite:///{(given['data_dir'] / 'service.db').resolve()}"


def _own_files(given: dict[str, Any]) -> str:
    return str((given["data_dir"] / "blobs").resolve())


def _check_database(url: str) -> str:
    kind = url.partition(":")[0]
    if not (kind in ("postgresql", "postgres") or re.match(r"sqlite:///.*[^/]$", url)):
        raise ValueError("give postgresql://user:password@host/name or sqlite:///path/of/a/file")
    return url.replace("postgres://", "postgresql://", 1)


def _check_files(url: str) -> str:
    if "://" in url and not re.match(r"s3://[^/]+", url):
        raise ValueError("give s3://bucket/prefix or the path of a directory")
    return url


def _readable_by(read: Callable[[str], object]) -> AfterValidator:
    """Text that this function can read; it raises ValueError otherwise."""

    def check(text: str) -> str:
        read(text)
        return text

    return AfterValidator(check)


def _check_callback_secret(text: str, given: ValidationInfo) -> str:
    if given.data.get("callback_hosts") and not text:
        raise ValueError("callbacks are signed: give `whsec_` and 24 to 64 random bytes in base64")
    callback_secrets(text)
    return text


def _check_dask(address: str) -> str:
    if not re.match(r"(tcp|tls)://[^/]+:[0-9]+$", address):
        raise ValueError("give tcp://host:port or tls://host:port of the scheduler of Dask")
    return address


DatabaseUrl = Annotated[str, AfterValidator(_check_database)]
FilesUrl = Annotated[str, AfterValidator(_check_files)]


class Settings(BaseSettings):
    """How this instance runs; the defaults are the embedded service on one machine."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    data_dir: Path = Path("var")
    """Folder of the database and the files, unless the next two settings name other places. Also of
    the compiled loops, if the cache of the user cannot be written."""
    database_url: DatabaseUrl = Field(default_factory=_own_database)
    """`postgresql://user:password@host/name`, required for several machines or replicas; a database
    with the encoding UTF8. Default: SQLite in the data directory."""
    blob_url: FilesUrl = Field(default_factory=_own_files)
    """`s3://bucket/prefix`, with the usual variables `AWS_…` for endpoint, region and credentials;
    or a directory. Default: in the data directory."""
    blob_cache_bytes: PositiveInt = 4 * GIB
    """Disk space in the data directory for copies of files on S3."""
    processes: Annotated[PositiveInt, Field(le=64)] = 1
    """Processes of `serve` that answer requests on this machine; `--processes` overrides it. More
    than one on Linux only."""
    workers: NonNegativeInt = 2
    """Training processes on this machine; 0 for a replica that only serves."""
    dask_address: Annotated[str, AfterValidator(_check_dask)] | None = None
    """`tcp://host:port` or `tls://host:port` of a scheduler of Dask, whose workers share the passes
    of long trainings; None: all trainings stay on one machine. Needs the extra `cluster`."""
    dask_unencrypted: bool = False
    """Whether `tcp://` may lead to an address that is not private."""
    lease_s: PositiveFloat = 10
    """Lease of a job: if its worker does not renew it in this time, another attempt begins. Also
    the lease of a request on its Idempotency-Key."""
    checkpoint_s: PositiveFloat = 5
    """Shortest time between two checkpoints of a job."""
    loaded_models_bytes: PositiveInt = 256 * MIB
    """Memory for loaded models, within 15 %: with all that serving them needs, but for 120 MB once
    there is a model with a kernel. Each of several processes has an equal share for its own."""
    header_s: PositiveFloat = 10
    """Timeout for the header of a request."""
    body_idle_s: PositiveFloat = 15
    """Timeout for the body of a request: ends it if less than 4 KiB arrive in this time."""
    keep_alive_s: PositiveInt = 75
    """How long a connection stays open between two requests. A proxy must close it first, or it
    sends a request into a connection that was just closed: nginx closes after 60 s."""
    host: str = "127.0.0.1"
    """Address that `serve` listens on; `--host` overrides it."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port that `serve` listens on, 0 for a free one; `--port` overrides it."""
    connections: PositiveInt = 4096
    """Most connections open at once; further ones receive 503. Fewer if the process may open
    too few files: half of what its hard limit allows besides 128 other files."""
    auth: Literal["auto", "on", "off"] = "auto"
    """Whether callers need an API key. `auto`: if a key was ever created, or if the service listens
    on an address that other machines can reach; `off`: never."""
    hosts: Annotated[str, _readable_by(host_names)] = ""
    """Names by which callers reach the service, separated by commas: `svm.example.com`,
    `*.example.com` for all its subdomains, `*` for any. `localhost`, all IP addresses and the name
    it listens on are always allowed; a request with another Host receives 421."""
    proxies: Annotated[str, _readable_by(proxy_addresses)] = ""
    """Addresses or networks of proxies, separated by commas, whose `X-Forwarded-For` and
    `X-Forwarded-Proto` are trusted; `*` for all, if only proxies can reach the service.
    Empty: none, the caller's address is that of its connection."""
    callback_hosts: Annotated[str, _readable_by(callback_targets)] = ""
    """Hosts that a job's `callback` may call, separated by commas: `hooks.example.com`,
    `*.example.com` for all its subdomains, `*` for any; they must have public addresses. An address
    or network such as `10.0.0.0/24` allows those addresses, for hosts that are allowed by name,
    too. Empty: no callbacks."""
    callback_secret: Annotated[
        str, AfterValidator(_check_callback_secret), Field(validate_default=True)
    ] = ""
    """Signs callbacks: `whsec_` and 24 to 64 random bytes in base64. While the secret is being
    changed, the new and the old one, separated by a space: receivers accept either."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged, as JSON lines on standard error."""
    limits: Limits = Field(default_factory=Limits)

    @property
    def sqlite_file(self) -> Path | None:
        """None with PostgreSQL, which many processes may share."""
        kind, _, path = self.database_url.partition(":///")
        return Path(path.partition("?")[0]) if kind == "sqlite" else None

    def environment(self) -> dict[str, str]:
        """The variables from which another process builds equal settings."""
        values = self.model_dump(mode="json", exclude_none=True)
        return {
            f"{PREFIX}{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in values.items()
        }


def callback_secrets(text: str) -> list[bytes]:
    """The secrets in a list separated by spaces. Raises ValueError, which does not show them."""
    secrets = []
    for part in text.split():
        try:
            secret = base64.b64decode(part.removeprefix("whsec_"), validate=True)
        except ValueError:
            secret = b""
        if not part.startswith("whsec_") or not 24 <= len(secret) <= 64:
            raise ValueError("give `whsec_` and 24 to 64 random bytes in base64")
        secrets.append(secret)
    return secrets


def misspelled(names: Iterable[str]) -> dict[str, str | None]:
    """Variables with the prefix that are not settings, each with the setting probably meant."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    known |= {f"{PREFIX}LIMITS__{name.upper()}" for name in Limits.model_fields}
    return {
        name: next(iter(get_close_matches(name, known, 1, cutoff=0.8)), None)
        for name in sorted(names)
        if name.startswith(PREFIX) and name not in known | OTHER_VARIABLES
    }
