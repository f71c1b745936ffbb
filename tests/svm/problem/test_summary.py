"""What a certificate says in words, checked by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from svm import Pipeline, Stopping, Training
from svm.problem.certificate import Certificate, PairCertificate
from svm.solvers import SMO, AnyChoice, DualCoordinateDescent, Newton
from svm.transforms.features import Nystroem, RandomFourier
from tests.svm.cases.words import is_true, said_excess

CLASSES = np.array(["a", "b", "c"])


def certificate(
    primal: float, dual: float, *, zero: float = 1.0, asked: float = 1e-3, pairs: int = 1
) -> Certificate:
    worst = PairCertificate((0, 1), primal, dual, primal, zero)
    best = PairCertificate((1, 2), primal, primal, primal, zero)
    return Certificate((best,) * (pairs - 1) + (worst,), asked)


def test_sentences_are_true() -> None:
    """The numbers in them are never below the excess, and at most a tenth above it."""
    random = np.random.default_rng(0)
    for _ in range(5000):
        dual = 10.0 ** random.uniform(-12, 3)
        primal = dual * (1 + 10.0 ** random.uniform(-12, 12))
        one = certificate(primal, dual, zero=10.0 ** random.uniform(-3, 3))
        sentence = one.summary(CLASSES)
        assert is_true(one, sentence, primal, dual), sentence
        if (said := said_excess(sentence)) is None:
            assert one.worst.excess is None
            continue
        kind, value = said
        assert (kind == "difference") == one.worst.negligible
        above = primal - dual if kind == "difference" else primal / dual - 1.0
        whole = 1.0 if "times" in sentence else 0.0
        assert above * (1 - 1e-12) <= value
        assert value + whole <= 1.11 * (above + whole)


@pytest.mark.parametrize(
    ("primal", "dual", "status"),
    [
        (1.0, 1.0, "certified"),
        (1.0, 0.9991, "certified"),
        (1.0, 0.998, "rough"),
        (1.0, 0.8, "open"),
        (1.0, 0.0, "open"),
        (0.0, 0.0, "certified"),
        (1e-7, 0.0, "rough"),
    ],
)
def test_three_levels(primal: float, dual: float, status: str) -> None:
    assert certificate(primal, dual).status == status


def test_worst_pair_is_named() -> None:
    """Its classes by their labels."""
    assert certificate(1.0, 0.1, pairs=3).summary(CLASSES) == (
        "Not converged: its cost may be up to 10 times the lowest possible, in the worst of 3 "
        "pairs (a against b)."
    )


@pytest.mark.parametrize("features", [Nystroem(n_components=20), RandomFourier(n_components=20)])
def test_approximated_kernel_is_named(features: Nystroem | RandomFourier) -> None:
    """The certificate is about the features, not about the kernel."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    training = Training(Pipeline(solver=Newton(C=1.0), features=features), X, X[:, 0] > 0, seed=0)
    for _ in training:
        pass
    shown = training.result().certificate.as_dict(np.array([False, True]))
    assert shown["kernel"] == "approximated"
    assert "with the approximated kernel" in shown["summary"]


@pytest.mark.parametrize("kind", [SMO, DualCoordinateDescent, Newton])
def test_converged_means_proven(kind: type[AnyChoice]) -> None:
    """A solver that stops by its own tolerance before the gap is proven has stalled."""
    random = np.random.default_rng(1)
    seen = set()
    for scale in (1e-3, 1.0, 1e3):
        for C in (1e-3, 1.0, 1e5):
            X = random.normal(size=(60, 2)) * scale
            labels = X[:, 0] + 0.3 * scale * random.normal(size=60) > 0
            solver = kind(C=C)
            for stopping in (
                Stopping(duality_gap=1e-15, max_epochs=3000),
                Stopping(duality_gap=1e-3, max_epochs=300),
                Stopping(max_epochs=300),
            ):
                training = Training(Pipeline(solver=solver, stopping=stopping), X, labels, seed=0)
                for _ in training:
                    pass
                result = training.result()
                seen.add(str(result.stop_reason))
                gap = result.certificate.worst.relative_gap
                assert result.converged == (gap <= (stopping.duality_gap or 1e-3)) or (
                    result.stop_reason == "max-epochs"
                )
    assert "gap-reached" in seen or "converged" in seen
