"""Passes as tasks of a real cluster of Dask: the bits stay, whatever is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.jobs.spread.connection import Connection, check_private
from service.jobs.spread.dask_passes import DaskPasses, DatasetRecipe, _Sent, choose_spread
from service.jobs.spread.pass_worker import PassResult, WorkerReply
from svm.model.pipeline import Pipeline
from svm.problem.problem import Problem
from svm.solvers import Newton
from svm.stopping import Stopping
from svm.training.preparation import Prepared
from svm.training.training import Execution, Training
from tests.service.jobs.engine.spread.clusters import ROOT, Cluster, FileRecipe, cluster
from tests.svm.cases.trainings import bits, train

PIPELINE = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-3))
ROWS, FEATURES = 45_000, 80


class Spread:
    """Trainings on a cluster."""

    def __init__(self, made: Cluster, folder: Path) -> None:
        self.cluster = made
        self.connection = Connection(made.address)
        random = np.random.default_rng(3)
        self.X = random.normal(size=(ROWS, FEATURES))
        self.y = np.sign(self.X[:, :5].sum(axis=1) + random.normal(size=ROWS))
        self.recipe: Any = FileRecipe(str(folder / "X.npy"))
        np.save(self.recipe.path, self.X)
        self.expected = bits(train(PIPELINE, self.X, self.y).result())
        self.warnings: list[str] = []

    def begin(self, silent_s: float = 5.0) -> Training:
        self.warnings = []

        def given(prepared: Prepared, problem: Problem) -> DaskPasses:
            return DaskPasses(
                problem,
                self.recipe,
                self.connection,
                warn=self.warnings.append,
                silent_s=silent_s,
            )

        return Training(PIPELINE, self.X, self.y, seed=0, how=Execution(spread=given))

    def assert_workers_do_all(self) -> None:
        training = self.begin()
        for _ in training:
            pass
        assert bits(training.result()) == self.expected
        others: Any = training.problems[0].cluster
        assert others._own._values == {}
        assert not self.warnings

    def bits_with(self, at_epoch: Callable[[int], None], silent_s: float = 5.0) -> dict[str, Any]:
        training = self.begin(silent_s)
        for progress in training:
            at_epoch(progress.epoch)
        return bits(training.result())


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    with cluster(2) as made:
        spread = Spread(made, tmp_path_factory.mktemp("rows"))
        made.wait(spread.connection, 2)
        yield spread
        spread.connection.close()


def test_bits_are_those_of_this_process(spread: Spread) -> None:
    """All passes are done by the workers."""
    spread.assert_workers_do_all()


def test_rows_are_read_before_the_first_pass(spread: Spread) -> None:
    """While the process of the job trains on a sample."""
    others: Any = spread.begin().problems[0].cluster
    for _ in range(2):
        sent, answered = others._replies.get(timeout=60.0)
        assert (sent.number, answered.answer.missing) == (0, ())


def test_killed_worker_is_replaced(spread: Spread) -> None:
    """The other one makes again what it had, and a new one takes part."""

    def at_epoch(epoch: int) -> None:
        if epoch == 2:
            spread.cluster.lose_worker()
            spread.cluster.add_worker()

    assert spread.bits_with(at_epoch) == spread.expected
    spread.cluster.wait(spread.connection, 2)


@pytest.mark.long
def test_silent_worker_is_not_awaited(spread: Spread) -> None:
    """A second one does its part. Its late answers have the same bits."""
    stopped = spread.cluster.workers[0]

    def stop_at_second(epoch: int) -> None:
        if epoch == 2:
            stopped.send_signal(signal.SIGSTOP)

    try:
        assert spread.bits_with(stop_at_second, silent_s=1.0) == spread.expected
    finally:
        stopped.send_signal(signal.SIGCONT)
    assert not spread.warnings
    spread.cluster.wait(spread.connection, 2)
    assert spread.bits_with(lambda _: None) == spread.expected
    assert not spread.warnings


def test_worker_without_access_is_refused_by_name(spread: Spread) -> None:
    """Here its file store is the default, a local folder. The job does not fail."""
    given, spread.recipe = spread.recipe, DatasetRecipe(*[None] * 3)  # type: ignore[arg-type]
    try:
        assert spread.bits_with(lambda _: None) == spread.expected
    finally:
        spread.recipe = given
    assert len(spread.warnings) == 2
    for warning in spread.warnings:
        assert "is not used: SVM_BLOB_URL is the local folder" in warning


def test_worker_with_other_versions_is_refused_by_name(spread: Spread) -> None:
    training = spread.begin()
    others: Any = training.problems[0].cluster
    others._versions = "svm-service 0"
    for _ in training:
        pass
    assert bits(training.result()) == spread.expected
    assert len(spread.warnings) == 2
    named = " ".join(spread.warnings)
    assert all(address in named for address in spread.connection.workers())
    assert "but the job svm-service 0; install the same on both" in named


def test_different_result_of_a_second_worker_is_an_alarm(spread: Spread) -> None:
    """As from bad memory: here the answer that was taken had other checksums."""
    training = spread.begin()
    others: Any = training.problems[0].cluster
    sent = _Sent(0, (0,), "tcp://10.0.0.1:1", 0.0)
    others._late[sent] = {0: 1, 1: 2}
    others._compare(sent, WorkerReply("host:1", "tcp://10.0.0.1:1", PassResult(checksums={0: 1})))
    assert not spread.warnings
    others._late[sent] = {0: 1, 1: 2}
    others._compare(sent, WorkerReply("host:1", "tcp://10.0.0.1:1", PassResult(checksums={1: 3})))
    assert "worker host:1 of Dask at tcp://10.0.0.1:1 computed another result" in spread.warnings[0]


def test_lost_scheduler_is_no_failure_of_the_job(spread: Spread) -> None:
    """Meanwhile this process does the passes."""

    def at_epoch(epoch: int) -> None:
        if epoch == 2:
            spread.cluster.restart_scheduler()

    assert spread.bits_with(at_epoch) == spread.expected


@pytest.mark.long
def test_dask_is_imported_only_for_an_address() -> None:
    """Not by the service or its workers; a job that must be spread has a warning why it is not."""
    code = (
        "import sys, service.app, service.jobs.engine.worker_process as w; w.load_all();"
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    warnings: list[str] = []
    nothing: Any = None
    assert choose_spread("auto", None, nothing, nothing, warnings.append) is None
    chosen = choose_spread("always", None, nothing, nothing, warnings.append)
    assert chosen is not None
    assert chosen(nothing, nothing) is None
    assert warnings == [
        "The training was not spread over machines: this service has no SVM_DASK_ADDRESS."
    ]


@pytest.mark.parametrize(
    ("address", "unencrypted", "refused"),
    [
        ("tcp://8.8.8.8:8786", False, True),
        ("tcp://8.8.8.8:8786", True, False),
        ("tls://8.8.8.8:8786", False, False),
        ("tcp://10.0.0.2:8786", False, False),
        ("tcp://localhost:8786", False, False),
    ],
)
def test_address_that_others_can_read_needs_tls(
    address: str, unencrypted: bool, refused: bool
) -> None:
    if not refused:
        check_private(address, unencrypted=unencrypted)
        return
    with pytest.raises(ValueError, match="use tls://"):
        check_private(address, unencrypted=unencrypted)
