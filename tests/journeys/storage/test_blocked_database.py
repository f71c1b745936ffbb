"""A database that is blocked for writing: reads and probes still work."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.journeys.server import Server, running

WRITERS = 60
REPLY_S = 5.0
"""On a busy machine; one that waits for the lock waits until its caller gives up."""
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_by_another_process(file: Path) -> Iterator[None]:
    """The write lock of SQLite."""
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield
        holder.kill()


@contextmanager
def locked_by_another_transaction(url: str, dataset_id: str) -> Iterator[None]:
    """The row of a dataset in PostgreSQL."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1 FROM datasets WHERE id = %s FOR UPDATE", [dataset_id])
        yield
        connection.rollback()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_reads_and_probes_do_not_wait_for_writers(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """With any number of waiting writers. If too many wait, further ones receive 503 with
    Retry-After; the others are carried out when the database is free."""
    settings = {"SVM_WORKERS": "0"}
    if kind == "postgresql":
        settings["SVM_DATABASE_URL"] = request.getfixturevalue("postgres_database_url")
    with running(tmp_path / "var", **settings) as server:
        dataset_id = server.upload(b"a,b,y\n1,2,x\n3,4,z\n5,6,x\n")["id"]
        blocked = (
            locked_by_another_process(tmp_path / "var" / "service.db")
            if kind == "sqlite"
            else locked_by_another_transaction(settings["SVM_DATABASE_URL"], dataset_id)
        )
        with blocked:
            writers = [_begin_to_write(server, dataset_id, number) for number in range(WRITERS)]
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                for path in ("/readyz", f"/v1/datasets/{dataset_id}", "/v1/jobs", "/metrics"):
                    begun = time.monotonic()
                    assert server.http.get(path).status_code == 200
                    assert time.monotonic() - begun < REPLY_S, path
        replies = [writer.getresponse() for writer in writers]
        assert {reply.status for reply in replies} == {200, 503}
        assert sum(reply.status == 200 for reply in replies) >= 16
        for reply in replies:
            body = json.loads(reply.read())
            if reply.status == 503:
                assert body["code"] == "storage-unavailable"
                assert int(reply.headers["Retry-After"]) > 0
        for writer in writers:
            writer.close()


def _begin_to_write(server: Server, dataset_id: str, number: int) -> http.client.HTTPConnection:
    """A request whose reply is read later."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    body = json.dumps({"tags": {"number": str(number)}})
    headers = {"Content-Type": "application/json"}
    connection.request("PATCH", f"/v1/datasets/{dataset_id}", body, headers)
    return connection
