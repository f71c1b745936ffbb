"""Kill any process at any time: no accepted job is lost, none has two results, no incomplete model
is visible, and every model has the bits of an undisturbed training."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import psycopg
import pytest

from tests import servers
from tests.seeds import seed_from
from tests.torture.killing import torture
from tests.torture.stacks import KINDS, cluster, one_machine
from tests.torture.stream import Stream

WITHIN_S = float(os.environ.get("TORTURE_WITHIN_S", "30"))
"""Time limit for recovery after a kill, also on a busy machine."""
KILLS = int(os.environ.get("TORTURE_KILLS", "160"))
"""Number of kills on one machine, and in a cluster."""


@pytest.mark.torture
@pytest.mark.timeout(300)
def test_some_kills_on_one_machine(tmp_path: Path) -> None:
    """One of each kind of process, with SQLite and files; two of the solvers."""
    seed = seed_from("TORTURE_SEED")
    with one_machine(tmp_path) as stack:
        stream = Stream(stack.urls, ("pegasos", "smo"), seed)
        print(torture(stack, stream, len(KINDS), seed, 2 * WITHIN_S, outstanding=3))


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_many_kills_on_one_machine(tmp_path: Path) -> None:
    """More kills, with all solvers."""
    seed = seed_from("TORTURE_SEED")
    with one_machine(tmp_path) as stack:
        print(torture(stack, Stream(stack.urls, seed=seed), KILLS, seed, WITHIN_S))


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_many_kills_in_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas, two worker machines, PostgreSQL and S3; processes of database
    connections are killed, too."""
    seed = seed_from("TORTURE_SEED")
    with servers.postgres() as database_url, servers.seaweedfs() as s3:
        for name, value in s3.environment().items():
            monkeypatch.setenv(name, value)
        with cluster(tmp_path, database_url, f"{s3.url}/torture") as stack:
            with psycopg.connect(database_url) as connection:
                stack.postgres = psutil.Process(connection.info.backend_pid).parent()
            stack.kinds = {**KINDS, "database": ("database",)}
            print(torture(stack, Stream(stack.urls, seed=seed), KILLS, seed, WITHIN_S))
