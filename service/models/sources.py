"""Inputs of plots and exports: a version, its model, its data and its learning curve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from service.datasets.dataset import DataInFiles, Dataset
from service.datasets.rows_of_classes import RowsOfClasses
from service.datasets.store import DatasetStore
from service.errors import NotFound
from service.models.registry import ModelRegistry
from service.storage.database import Database
from service.storage.database.tables import ModelVersion, job_trace
from svm.data.matrices import Indices, Matrix, Vector
from svm.data.stored_rows import pieces
from svm.model.pipeline import FittedPipeline

MULTIPLICATIONS = 2e10
"""Cost limit of scoring rows for one file: some seconds."""
FEWEST_ROWS = 200


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Labeled rows, evenly spread over those that the model was measured on."""

    X: Matrix
    """(n, n_features)"""
    codes: npt.NDArray[np.int64]
    """(n,) classes by number; 0 of a model of numbers."""
    scores: Vector
    """(n, n_problems)"""
    validation: bool
    """Whether they are of the validation set, or training rows."""
    n_total: int
    """Number of rows that they were chosen from."""
    values: Vector | None
    """(n,) numeric targets, of a model of numbers."""

    @property
    def description(self) -> str:
        """Such as "2,000 of 8,100 training rows"."""
        count = f"{len(self.codes):,}"
        if len(self.codes) < self.n_total:
            count += f" of {self.n_total:,}"
        return f"{count} {'validation' if self.validation else 'training'} rows"


class Sources:
    """Inputs from one version; each is read once, at its first use."""

    def __init__(
        self,
        version: ModelVersion,
        database: Database,
        registry: ModelRegistry,
        datasets: DatasetStore,
    ) -> None:
        self.version = version
        self._database = database
        self._registry = registry
        self._datasets = datasets

    @cached_property
    def fitted(self) -> FittedPipeline:
        """The model. Raises Corrupt."""
        return self._registry.files.load(self.version)

    @cached_property
    def _labeled(self) -> Dataset | None:
        """The training data, labeled as the model predicts; None if they were deleted."""
        if self.version.dataset_id is None:  # imported
            return None
        with suppress(NotFound):
            return self._datasets.get(self.version.dataset_id).taken_as(self.version.predicts)
        return None

    @cached_property
    def data(self) -> DataInFiles | None:
        """Their arrays. Raises Corrupt."""
        with suppress(NotFound):
            return None if self._labeled is None else self._datasets.open(self._labeled)
        return None

    @cached_property
    def trace(self) -> list[dict[str, Any]]:
        """Rows of the job's learning curve, ordered by pair and updates; empty if removed."""
        statement = (
            sa.select(job_trace)
            .where(job_trace.c.job_id == self.version.job_id)
            .order_by(job_trace.c.pair, job_trace.c.updates)
        )
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    @cached_property
    def cost_of_a_row(self) -> int:
        """Approximate number of multiplications to score a row."""
        fitted = self.fitted
        cost = fitted.coefficients.size
        if fitted.support_vectors is not None:
            cost += fitted.support_vectors.shape[0] * fitted.features.n_outputs
        if fitted.features.directions is not None:
            cost += fitted.features.directions.size
        return cost + fitted.n_features

    def rows(self, most: int, *, measured: bool = True) -> ScoredRows | None:
        """At most `most` rows with their scores: of the validation set, if there is one and
        `measured`, else of all rows. None without data."""
        if self._labeled is None or self.data is None:
            return None
        spec, values = self.version.spec, self.data.values
        rows = RowsOfClasses(self.data, self._labeled, spec.get("classes"))
        validation = spec.get("validation") or {}
        has_validation = measured and "fraction" in validation
        candidates = rows.everything
        if has_validation:
            seed = self.version.seed
            assert seed is not None
            candidates = rows.validated_on(spec, seed)
        chosen = self._spread(candidates, most)
        width = max(self.fitted.features.n_outputs, len(self.fitted.intercepts))
        parts = list(pieces(self.data.X, width, chosen))
        scores = np.concatenate([self.fitted.problem_scores(X) for X in parts])
        return ScoredRows(
            self.data.X.read(chosen),
            rows.codes(chosen),
            scores,
            has_validation,
            len(candidates),
            None if values is None else values[chosen],
        )

    def blocks(self, most: int, size: int) -> Iterator[Matrix]:
        """At most `most` of all rows, `size` rows at a time; none without data."""
        if self.data is None:
            return
        chosen = self._spread(np.arange(self.data.X.n_rows), most)
        for start in range(0, len(chosen), size):
            yield self.data.X.read(chosen[start : start + size])

    def _spread(self, candidates: Indices, most: int) -> Indices:
        """At most `most` of these rows, evenly spread, and not more than can be scored fast."""
        affordable = max(FEWEST_ROWS, int(MULTIPLICATIONS / self.cost_of_a_row))
        return evenly(candidates, min(most, affordable))


def evenly(candidates: Indices, most: int) -> Indices:
    """At most `most` of these rows, evenly spread."""
    count = min(most, len(candidates))
    chosen: Indices = candidates[np.linspace(0, len(candidates) - 1, count).astype(np.int64)]
    return chosen
