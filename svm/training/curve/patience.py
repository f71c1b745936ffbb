"""A training ends when the error on the validation set falls no further."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from svm.checkpoints import Arrays, flatten, restore
from svm.stopping import StopReason
from svm.training.binary_training import BinaryTraining


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is remembered of a pair; part of a checkpoint."""

    epoch: int = 0
    """The last one that was looked at."""
    lowest: float = math.inf
    """Error of all epochs so far."""
    waited: int = 0
    """Epochs since then."""


@dataclass(frozen=True)
class Watched:
    """A pair whose validation error is watched, at one moment."""

    watch: Watch
    best: Any
    """The state of the solver at the lowest error."""

    @classmethod
    def restored(
        cls, pair: BinaryTraining, checkpoint: Mapping[str, npt.NDArray[Any]], prefix: str
    ) -> Watched:
        """From the arrays of `to_arrays`. Raises CheckpointMismatch."""
        return cls(
            restore(Watch(), checkpoint, f"{prefix}watch."),
            restore(pair.state, checkpoint, f"{prefix}best."),
        )

    def to_arrays(self, prefix: str) -> Arrays:
        """For a checkpoint."""
        return flatten(self.watch, f"{prefix}watch.") | flatten(self.best, f"{prefix}best.")

    def after(self, pair: BinaryTraining, error: float | None) -> Watched:
        """With the validation error of the pair, which has finished another epoch."""
        epoch = pair.state.epoch
        if error is None or error < self.watch.lowest:
            lowest = math.inf if error is None else error
            return Watched(Watch(epoch=epoch, lowest=lowest), pair.state)
        return Watched(replace(self.watch, epoch=epoch, waited=self.watch.waited + 1), self.best)

    def ended(self, pair: BinaryTraining, patience: int) -> BinaryTraining:
        """The pair, or its end at the lowest error if it has waited long enough."""
        if self.watch.waited < patience or pair.progress.stop_reason:
            return pair
        return pair.ended_at(self.best, StopReason.PATIENCE)
