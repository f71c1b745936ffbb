"""Forecasts of the time left."""

from __future__ import annotations

import math
import weakref

import numpy as np
import pytest

from service.jobs.training.summary import Forecast, Forecasts
from svm.model.pipeline import Pipeline
from svm.solvers import DualCoordinateDescent
from svm.stopping import Stopping
from svm.training.training import Training


def left(forecast: Forecast, elapsed_s: float, gap: float | None, epoch: int) -> float | None:
    """After one more evaluation."""
    forecast.add(elapsed_s, gap, epoch)
    return forecast.left(elapsed_s)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_gap_that_falls_as_a_power_of_time_is_forecast_exactly(power: float) -> None:
    """From the second point on; before it there is no forecast."""
    forecast, end = Forecast(Stopping(duality_gap=1e-3)), 1e3 ** (1 / power)
    times = [end * 2.0**-k for k in range(7, 0, -1)]
    shown = [left(forecast, t, t**-power, 1) for t in times]
    assert shown[0] is None
    for time, some in zip(times[1:], shown[1:], strict=True):
        assert some == pytest.approx(end - time)


def test_epochs_that_become_slower_take_longer() -> None:
    """Of a kernel method whose epoch k takes k seconds: 500 are not done in 5 times the time of
    100."""
    forecast = Forecast(Stopping(max_epochs=500))
    shown = [left(forecast, 0.5 * k * k, 0.5, k) for k in (10, 50, 100)]
    assert shown[1:] == [pytest.approx(0.5 * (500**2 - k * k)) for k in (50, 100)]


def test_a_linear_method_is_not_called_slow() -> None:
    """A gap that halves each second is forecast within a factor of 3 after a third of the time."""
    forecast, end = Forecast(Stopping(duality_gap=1e-6)), math.log2(1e6)
    shown = {t: left(forecast, float(t), 0.5**t, t) for t in range(1, 20)}
    for t in range(7, 20):
        some = shown[t]
        assert some is not None
        assert (end - t) / 3.0 <= some <= 3.0 * (end - t)


def test_unknown_values_give_no_forecast() -> None:
    """Before the first evaluation, and if the gap does not fall."""
    forecast = Forecast(Stopping(duality_gap=1e-3))
    assert left(forecast, 1.0, None, 0) is None
    assert left(forecast, 2.0, 0.5, 0) is None
    forecast = Forecast(Stopping(duality_gap=1e-3, cost_change=None))
    assert left(forecast, 1.0, 0.5, 5) is None
    assert left(forecast, 10.0, 0.5, 5) is None
    assert left(forecast, 20.0, 1e-4, 6) == 0.0
    assert forecast.left(21.0) is None  # the end that was forecast has passed


def test_a_training_is_not_kept_in_memory() -> None:
    """Its states take as much as the model, which is measured later."""
    training = Training(
        Pipeline(solver=DualCoordinateDescent(C=1.0)), np.eye(4), [0, 1, 2, 3], seed=0
    )
    forecasts, progress = Forecasts(), next(iter(training))
    forecasts.left_s(progress, training, others=lambda left: left, most_s=1.0)
    ended = weakref.ref(training)
    del training
    assert ended() is None
