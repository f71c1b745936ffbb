"""Warm starts: a training that begins from the model of a finished one, on more or other rows.

    later = Training(pipeline, X, labels, seed=0, warm_start=earlier.result().warm_start)

The later training keeps the encoder, scaling, feature map and kernel of the earlier one, so that
the weights mean the same. It is evaluated before its first update: if the model is good enough, it
is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from svm.data.columns import Columns, PlainColumns
from svm.data.matrices import Array, Indices, Vector
from svm.errors import InvalidData
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.problem.problem import Problem
from svm.solvers import sources_of
from svm.solvers.protocol import Inheritance

ARRAYS = ("steps", "regularization", "rows", "dual_coefficients", "ends")


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """A model, and the parts of its solvers' states that a later training begins from."""

    pipeline: Pipeline
    fitted: FittedPipeline
    steps: Indices
    """(n_problems,) t of every binary training."""
    regularization: Vector
    """(n_problems,) λ of every binary training."""
    rows: Indices
    """Rows with a dual coefficient, problem after problem, ascending in each. Row i of the new X
    must be row i of the earlier one."""
    dual_coefficients: Vector
    """(len(rows),) αᵢ/(λn) > 0, of a numeric target βᵢ/(λn); empty unless the solver has them."""
    ends: Indices
    """(n_problems,) the end of each problem's part of `rows`."""

    def to_arrays(self) -> dict[str, Array]:
        """Everything but the model and its settings, as plain arrays."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_arrays(
        cls, pipeline: Pipeline, fitted: FittedPipeline, arrays: Mapping[str, Array]
    ) -> WarmStart:
        """The inverse of `to_arrays`. Raises KeyError."""
        return cls(pipeline=pipeline, fitted=fitted, **{name: arrays[name] for name in ARRAYS})

    def with_rows(self, numbers: Indices) -> WarmStart:
        """The warm start with `numbers[i]` in place of row i; rows that become -1 are left out."""
        renumbered = numbers[self.rows]
        kept = renumbered >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        return replace(
            self,
            rows=renumbered[kept],
            dual_coefficients=self.dual_coefficients[kept],
            ends=before[self.ends],
        )

    def among(self, kept: Indices) -> WarmStart:
        """The warm start with the numbers of rows among the rows `kept`; others are left out."""
        numbers = np.full(max(kept.max(), self.rows.max(initial=-1)) + 1, -1)
        numbers[kept] = np.arange(len(kept))
        return self.with_rows(numbers)

    def of_problem(self, k: int, problem: Problem) -> Inheritance:
        """What binary problem k begins from."""
        part = slice(self.ends[k - 1] if k > 0 else 0, self.ends[k])
        everywhere = np.zeros(problem.X.shape[0])
        rows = self.rows[part]
        everywhere[rows] = self.dual_coefficients[part]
        linear, target = self.fitted.kernel is None, self.fitted.target
        w = self.fitted.coefficients[k] if linear else np.empty(0)
        intercept, duals = float(self.fitted.intercepts[k]), everywhere[problem.rows]
        if target is not None:
            w, intercept = target.as_solvers(w, intercept)
            duals = np.maximum(problem.y * duals, 0.0)
        return Inheritance(
            w=w,
            intercept=intercept,
            step=int(self.steps[k]),
            regularization=float(self.regularization[k]),
            dual_coefficients=duals,
        )


def check_warm_start(pipeline: Pipeline, earlier: Pipeline) -> None:
    """Raises InvalidData (`warm-start-unsupported`) with the first difference that matters.

    λ or C, class weights, precision, intercept and stopping may differ.
    """
    solver, other = pipeline.solver, earlier.solver
    sources = sources_of(solver)
    if other.name not in sources:
        raise _unsupported(
            f"{solver.name} can start from models of {', '.join(sources)}; this one was "
            f"trained by {other.name}"
        )
    if solver.warm_start_obstacle:
        raise _unsupported(solver.warm_start_obstacle)
    wanted, present = _fixed_settings(pipeline), _fixed_settings(earlier)
    for name in wanted | present:
        if wanted.get(name) != present.get(name):
            raise _unsupported(
                f"{name}: the model has {present.get(name)}, the training {wanted.get(name)}"
            )


def check_same_data(
    warm_start: WarmStart,
    classes: Array,
    n_samples: int,
    n_features: int,
    columns: Columns,
) -> None:
    """Raises InvalidData (`warm-start-unsupported`) if classes, features or rows differ."""
    fitted = warm_start.fitted
    if fitted.classes.tolist() != classes.tolist():
        raise _unsupported(
            f"classes: the model has {fitted.classes.tolist()}, the data {classes.tolist()}"
        )
    if fitted.n_features != n_features:
        raise _unsupported(f"features: the model has {fitted.n_features}, the data {n_features}")
    if fitted.columns != columns:
        raise _unsupported(f"columns: {_difference(fitted.columns, columns)}")
    if warm_start.rows.max(initial=-1) >= n_samples:
        raise _unsupported("rows: the data has fewer rows than the model was trained on")


def _difference(earlier: Columns, given: Columns) -> str:
    if isinstance(earlier, PlainColumns) or isinstance(given, PlainColumns):
        plain, kinds = "plain numbers", "a table with kinds of columns"
        model, data = (plain, kinds) if isinstance(earlier, PlainColumns) else (kinds, plain)
        return f"the model has {model}, the data {data}"
    old, new = next((a, b) for a, b in zip(earlier, given, strict=True) if a != b)
    if (old.name, old.kind) == (new.name, new.kind):
        return f"{old.name!r} has other levels than in the model; recode the data to the model's"
    return f"the model has {old.name!r} ({old.kind}) where the data has {new.name!r} ({new.kind})"


def _fixed_settings(pipeline: Pipeline) -> dict[str, Any]:
    """The settings that a warm start must share with the model."""
    kernel = {} if pipeline.kernel is None else asdict(pipeline.kernel)
    return {
        **{f"kernel.{k}": v for k, v in kernel.items()},
        **{f"encoding.{k}": v for k, v in asdict(pipeline.encoding).items()},
        "scaling": pipeline.scaling,
        **{f"features.{k}": v for k, v in asdict(pipeline.features).items()},
        "multiclass": pipeline.multiclass,
        "target": f"{pipeline.target_scale} numbers" if pipeline.predicts_numbers else "classes",
    }


def _unsupported(message: str) -> InvalidData:
    return InvalidData("warm-start-unsupported", message)
