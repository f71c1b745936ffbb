"""A cluster whose connections are encrypted, by Dask's own settings."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.config
import pytest

from service.jobs.spread.connection import Connection
from service.jobs.spread.dask_passes import choose_spread
from svm.encoding.encoder import PlainEncoder
from tests.service.jobs.engine.spread.clusters import cluster
from tests.service.jobs.engine.spread.test_dask_passes import Spread

PREFIX = "DASK_DISTRIBUTED__COMM__TLS__"


def tls_variables(folder: Path) -> dict[str, str]:
    """Dask's settings: one certificate for all, which is its own authority."""
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=svm", "-days", "2"]
    files = ["-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *request, *files], check=True, capture_output=True)
    roles = ("SCHEDULER", "WORKER", "CLIENT")
    named = {"CA_FILE": certificate}
    named |= {f"{role}__CERT": certificate for role in roles}
    named |= {f"{role}__KEY": key for role in roles}
    return {PREFIX + name: value for name, value in named.items()}


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The variables, which this process has read too."""
    variables = tls_variables(tmp_path)
    with monkeypatch.context() as environment:
        for name, value in variables.items():
            environment.setenv(name, value)
        dask.config.refresh()
        yield variables
    dask.config.refresh()


@pytest.mark.long
def test_passes_of_an_encrypted_cluster(certified: dict[str, str], tmp_path: Path) -> None:
    """The workers do all of them, with the settings of Dask alone."""
    with cluster(1, certified, scheme="tls") as made:
        spread = Spread(made, tmp_path)
        made.wait(spread.connection, 1)
        spread.assert_workers_do_all()
        spread.connection.close()


def test_settings_without_certificates_are_no_failure_of_the_job() -> None:
    """It is trained here, with a warning that says what is missing."""
    warnings: list[str] = []
    nothing: Any = None
    connection = Connection("tls://127.0.0.1:1")
    chosen = choose_spread("always", connection, nothing, nothing, warnings.append)
    assert chosen is not None
    plain: Any = SimpleNamespace(encoder=PlainEncoder.of(1))
    assert chosen(plain, nothing) is None
    assert len(warnings) == 1
    assert "needs certificates: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, " in warnings[0]


def test_scheduler_without_tls_is_named(certified: dict[str, str]) -> None:
    """`dask scheduler` speaks TLS only with `--protocol tls`."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        connection = Connection(f"tls://127.0.0.1:{deaf.getsockname()[1]}")
        assert connection.workers() == []
        assert "does the scheduler run with `--protocol tls`?" in connection.trouble
