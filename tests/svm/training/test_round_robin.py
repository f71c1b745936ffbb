"""Runs of pairs grow, and the pairs keep pace with each other."""

from __future__ import annotations

import numpy as np

from svm.training.round_robin import GROWTH, RoundRobin


def test_pairs_keep_pace_in_few_runs() -> None:
    """With slices of any length: after the first round no pair has GROWTH times the work of
    another, up to one slice; and the pairs change only a few times."""
    seconds = np.random.default_rng(0).uniform(0.02, 0.3, size=6)
    queue, spent, order = RoundRobin(range(6)), np.zeros(6), []
    for _ in range(3000):
        pair = queue.next()
        order.append(pair)
        spent[pair] += seconds[pair]
        queue.requeue(pair, seconds[pair])
        if len(order) >= 6:
            largest = spent.max() - seconds[spent.argmax()]
            first = seconds.max() / seconds.min()  # slices of the first round differ
            assert largest <= GROWTH * first * spent.min()
    assert order[:6] == list(range(6))
    assert np.count_nonzero(np.diff(order)) <= 6 * 8


def test_a_finished_pair_is_removed() -> None:
    """A pair that is not put back leaves the others to run."""
    queue = RoundRobin([3, 5])
    assert (queue.next(), queue.next(), len(queue)) == (3, 5, 0)
    queue.requeue(5, 1.0)
    assert (queue.next(), len(queue)) == (5, 0)
