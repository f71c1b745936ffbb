"""The connection of one process to the scheduler of Dask, and what a worker of Dask needs to work
for a service: its versions, and the shared stores."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from service import __version__
from service.settings import Settings
from svm.training.checkpoints import platform


class NoAccess(Exception):
    """A worker cannot do the work: what it has, and what it needs."""


def versions() -> str:
    """On which the bits of results depend."""
    return f"svm-service {__version__} {platform()}"


def check_versions(expected: str) -> None:
    """Raises NoAccess if this process has other versions than the one that asks it."""
    if versions() != expected:
        raise NoAccess(f"it has {versions()}, but the job {expected}; install the same on both")


def check_store(settings: Settings) -> None:
    """Raises NoAccess if the files of this process are not those of all machines."""
    if not settings.blob_url.startswith("s3://"):
        raise NoAccess(
            f"SVM_BLOB_URL is the local folder {settings.blob_url}; give it the S3 store of "
            "the service, and the variables AWS_… that lead there"
        )


def check_database(settings: Settings) -> None:
    """Raises NoAccess if the database of this process is not that of all machines."""
    if settings.sqlite_file is not None:
        raise NoAccess(
            "SVM_DATABASE_URL is a local file; give it the PostgreSQL database of the service"
        )


LOOK_S = 1.0
"""How often to ask which workers there are …"""
RETRY_S = 5.0
"""… and, without a connection, how often to try."""
TIMEOUT_S = 2.0
"""Time limit of each."""
TLS_FILES = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
FETCHES = 8
"""Answers that are fetched at once."""

logger = logging.getLogger(__name__)


class Connection:
    """Made when it is first used, in the process that uses it; Dask is imported then."""

    def __init__(self, address: str, *, unencrypted: bool = False) -> None:
        """`unencrypted`: also to an address that others may listen to."""
        self._address = address
        self._unencrypted = unencrypted
        self._client: Any = None
        self._try_at = 0.0
        self._workers: list[str] = []
        self._look_at = 0.0
        self.trouble = ""
        """Why there is no connection."""
        self.fetching = ThreadPoolExecutor(FETCHES, thread_name_prefix="dask-answers")
        """Threads that fetch answers, which can hang: never Dask's own. They begin when needed."""

    @property
    def client(self) -> Any:
        """A `distributed.Client` that is connected, or None."""
        if self._client is not None and self._client.status == "running":
            return self._client
        now = time.monotonic()
        if now >= self._try_at:
            self._client = self._connected()
            self._try_at = now + RETRY_S
            self._look_at = 0.0
        is_running = self._client is not None and self._client.status == "running"
        return self._client if is_running else None

    def workers(self) -> list[str]:
        """Addresses of the workers, sorted."""
        client, now = self.client, time.monotonic()
        if client is None:
            return []
        if now >= self._look_at:
            try:
                info = client.sync(
                    client.scheduler.identity, n_workers=-1, callback_timeout=TIMEOUT_S
                )
                self._workers = sorted(info["workers"])
            except (OSError, RuntimeError) as error:  # also TimeoutError
                logger.warning("the scheduler of Dask does not answer: %s", error)
                self._workers = []
            self._look_at = time.monotonic() + LOOK_S
        return self._workers

    def close(self) -> None:
        if self._client is not None:
            self._client.close(timeout=TIMEOUT_S)

    def _connected(self) -> Any:
        try:
            import dask
            from distributed import Client
        except ImportError:
            logger.error("SVM_DASK_ADDRESS needs the extra `cluster`: dask is not installed")
            return None
        if self._client is not None:
            try:
                self._client.close(timeout=TIMEOUT_S)
            except (OSError, RuntimeError):
                logger.warning("the lost connection to Dask could not be closed")
        try:
            # What a worker lacks is sent with its task, once: labels can be large.
            dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})
            check_private(self._address, unencrypted=self._unencrypted)
            client = Client(  # type: ignore[no-untyped-call]
                self._address,
                timeout=TIMEOUT_S,
                set_as_default=False,
                security=security_for(self._address),
            )
        except (OSError, ValueError, RuntimeError) as error:
            self.trouble = str(error) or "no answer"
            if self._address.startswith("tls:"):  # it hears no TLS, or refuses the certificate
                self.trouble += "; does the scheduler run with `--protocol tls`?"
            logger.warning("no connection to Dask at %s: %s", self._address, self.trouble)
            return None
        self.trouble = ""
        return client


def security_for(address: str) -> Any:
    """The `distributed.Security` of Dask's own settings. Raises ValueError if they are not enough
    for an address with TLS, and OSError if their files cannot be read."""
    from distributed.security import Security

    security = Security()  # type: ignore[no-untyped-call]
    encrypted = address.startswith("tls:")
    given = security.get_connection_args("client")  # type: ignore[no-untyped-call]
    if encrypted and given["ssl_context"] is None:
        names = ", ".join(f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in TLS_FILES)
        raise ValueError(f"tls:// needs certificates: set {names}")
    return security


def check_private(address: str, *, unencrypted: bool) -> None:
    """Raises ValueError if others may read what is sent to this address, and OSError if its name
    has no address."""
    parts = urlsplit(address)
    if unencrypted or parts.scheme == "tls":
        return
    for *_, (ip, *_) in socket.getaddrinfo(parts.hostname, parts.port, proto=socket.IPPROTO_TCP):
        if not ipaddress.ip_address(ip).is_private:
            raise ValueError(
                f"{address} is not a private address ({ip}): use tls:// with the settings "
                "of Dask for TLS, or say SVM_DASK_UNENCRYPTED=true"
            )


class DaskHelpers:
    """Asks each worker of Dask to take parts, once until it has answered: the task says nothing of
    the parts, which are in the database."""

    def __init__(self, connection: Connection, take_parts: Callable[[str], int]) -> None:
        """`take_parts` is called in a worker of Dask, with the versions of this process."""
        self._connection = connection
        self._take_parts = take_parts
        self._asked: dict[str, Any] = {}

    def ask(self) -> None:
        """There may be parts to take. What is lost here is no loss: the job does them itself."""
        self._asked = {
            worker: future for worker, future in self._asked.items() if not future.done()
        }
        for worker in self._connection.workers():
            client = self._connection.client
            if client is None or worker in self._asked:
                continue
            key = f"svm-parts-{secrets.token_hex(8)}"
            try:
                self._asked[worker] = client.submit(
                    self._take_parts, versions(), key=key, workers=[worker], pure=False
                )
            except (OSError, RuntimeError, CancelledError) as error:
                logger.warning("a worker of Dask could not be asked for help: %s", error)
