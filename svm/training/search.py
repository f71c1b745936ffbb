"""`auto` as a search: which family of functions, and which C, for the data at hand.

Every candidate is a `Pipeline`. All are compared on the same folds of a sample of the rows, those
behind are dropped after each of the first folds, and of the rest the simplest within one standard
error of the best is kept. The amount of work is fixed, not the time: the choice has the same bits
wherever, and in whatever order, its tasks are computed.

    search = Search(Pipeline(solver=Auto(), scaling="standardize"), X, labels, seed=0)
    while tasks := search.open_tasks():
        search.take(tasks[0], search.compute(tasks[0]))
    training = Training(search.outcome().pipeline, X, labels, seed=0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from svm.data.columns import Columns, text_columns
from svm.data.matrices import Indices, Vector
from svm.data.randomness import generator
from svm.data.splitting import Apart, folds
from svm.data.stored_rows import StoredRows, is_csr, stored_values
from svm.errors import Diverged, InvalidData
from svm.hyperparameters import Effort
from svm.kernel.kernels import GaussianKernel
from svm.model.measures import Groups, GroupSums
from svm.model.multiclass import label_name
from svm.model.pipeline import Pipeline
from svm.stopping import Stopping
from svm.training.candidates import (
    AMOUNTS,
    EXACT_ROWS,
    FAMILIES,
    FINALISTS,
    FOLDS,
    LAST_FOLDS,
    TITLES,
    Candidate,
    Family,
    approximated,
    first_candidates,
    sample_sizes,
)
from svm.training.preparation import Prepared, preprocessing_key
from svm.training.training import Execution, Training

LOOSE_GAP, MOST_EPOCHS, UPDATES_OF_ROW = 1e-2, 50, 100
"""A comparison needs no exact optimum."""


@dataclass(frozen=True)
class Task:
    """One training: a candidate on all but one fold."""

    is_last: bool
    """Whether it belongs to the comparison on more rows."""
    fold: int
    candidate: Candidate

    @property
    def key(self) -> str:
        """A text of its own for each task of a search."""
        return f"{'last' if self.is_last else 'first'} {self.fold} {self.candidate!r}"


@dataclass(frozen=True)
class Tried:
    """What is known about a candidate."""

    candidate: Candidate
    loss: float
    """Of rows that its trainings did not see: the share of wrong ones, or the mean absolute error.
    Classes and rows count as they do in the training."""
    deviation: float
    """The standard error of the loss."""
    folds: int
    """Trainings that measured it."""


@dataclass(frozen=True)
class Outcome:
    """The end of a search."""

    pipeline: Pipeline
    """To train on all rows."""
    chosen: Candidate
    tried: tuple[Tried, ...]
    """Of the comparison that decided; then those that were dropped before."""
    loss: float
    """Cross-fitted: of each fold by the candidate that the other folds would choose."""
    rows: int
    """That were compared on."""
    groups: Mapping[str, Any]
    """What groups of these rows say about the share of wrong ones, as metrics have it."""

    @property
    def best(self) -> list[Tried]:
        """Of each family that was tried, the simplest first."""
        measured = {each.candidate: each for each in self.tried if each.loss < math.inf}
        first = [measured[one] for one in _first_of_families(list(measured))]
        return sorted(first, key=lambda each: FAMILIES.index(each.candidate.family))

    @property
    def summary(self) -> str:
        """What was tried, and what it gained, as a sentence."""
        numbers = self.pipeline.predicts_numbers

        def shown(loss: float) -> str:
            if not numbers:
                return f"{100.0 * max(0.0, 1.0 - loss):.1f} %"
            return f"{loss:,.0f}" if loss >= 1000.0 else f"{loss:.4g}"

        parts = ", ".join(f"{TITLES[t.candidate.family]} {shown(t.loss)}" for t in self.best)
        what = "mean absolute error" if numbers else "accuracy"
        kept = f"the {TITLES[self.chosen.family]} one"
        if self.tried[0].candidate != self.chosen:
            kept += ", the simplest as good as the best"
        said = f"auto tried {len(self.tried)} settings: {what} {parts or 'unknown'}; it kept {kept}"
        expected = f"expects {shown(self.loss)} on new rows"
        return f"{said}, and {expected}, as it chooses and measures on different folds"


class Search:
    """Compares candidates. Its state are the results of its tasks."""

    def __init__(
        self,
        pipeline: Pipeline,
        X: Any,
        labels: Any,
        *,
        seed: int,
        columns: Columns | None = None,
        weights: Vector | None = None,
        rows: Indices | None = None,
        apart: Apart | None = None,
        tries_unscaled: bool = True,
        effort: Effort = "balanced",
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        """X, labels, columns and weights as of a `Training`; if `rows` of X are given, only these
        take part, and labels and weights are theirs. `apart`: what keeps rows of X apart in folds.
        `pipeline` has the solver `auto`, and everything that is not compared. `tries_unscaled`: a
        linear model without scaling, too. Raises InvalidData."""
        self._usual, self._columns, self._weights, self._seed = pipeline, columns, weights, seed
        self._X, self._labels = X, np.asarray(labels)
        self._tries_unscaled, self._amount = tries_unscaled, AMOUNTS[effort]
        self._interrupted = interrupted
        self._numbers = np.arange(X.shape[0]) if rows is None else rows
        n = len(self._numbers)
        self.of_numbers = pipeline.predicts_numbers
        codes = np.zeros(n, np.int64)
        if not self.of_numbers:
            codes = np.unique(self._labels, return_inverse=True)[1]
        self._importance = self._importances(codes)
        self._groups = None if apart is None else apart.of(self._numbers).groups
        counts = sample_sizes(effort, n, stored_values(X, self._numbers))
        some = np.flatnonzero(self._importance)
        self._rows = [some[sample(codes[some], m, seed, k)] for k, m in enumerate(counts)]
        self._folds = []
        for each in self._rows:
            own = None if apart is None else apart.of(self._numbers[each])
            self._folds.append(folds(codes[each], FOLDS, seed=seed, apart=own))
        if min(map(len, self._folds)) < LAST_FOLDS:
            raise InvalidData("not-separable", "the rows of one fold alone can be held out")
        self._samples: dict[bool, Any] = {}
        self.results: dict[str, Vector] = {}
        """By `Task.key`: γ, or NaN; then the losses of the rows of its fold. A search of the same
        data and settings continues from them."""
        self._prepared: tuple[Any, Prepared] | None = None
        self._has_more = len(self._rows[1]) > len(self._rows[0])

    def _importances(self, codes: Indices) -> Vector:
        """(n_samples,) how much the loss of each row counts."""
        own = np.ones(len(codes)) if self._weights is None else self._weights
        match self._usual.class_weight:
            case "balanced":
                own = own / np.bincount(codes)[codes]
            case dict() as given:
                names = map(label_name, np.unique(self._labels).tolist())
                factors: Vector = np.array([given.get(name, 1.0) for name in names])
                own = own * factors[codes]
        return own

    def tasks(self) -> list[Task]:
        """All that are known, in order: those of a phase follow from the results of the earlier
        ones."""
        found: list[Task] = []
        for phase in self._phases():
            found += phase
            if any(task.key not in self.results for task in phase):
                break
        return found

    def open_tasks(self) -> list[Task]:
        """Those that can be computed now; none at the end."""
        return [task for task in self.tasks() if task.key not in self.results]

    @property
    def fraction(self) -> float:
        """About how much of the work is done."""
        return len(self.results) / self._amount.most_trainings(self._first, self._has_more)

    def take(self, task: Task, result: Vector) -> None:
        """Keep the result of a task."""
        self.results[task.key] = result

    def compute(self, task: Task) -> Vector:
        """The result of a task: losses are infinite if its rows cannot be trained on. Raises
        Interrupted."""
        rows = self._rows[task.is_last]
        if task.is_last not in self._samples:
            X, chosen = self._X, self._numbers[rows]
            some = X.read(chosen) if isinstance(X, StoredRows) else X[chosen]
            self._samples = {task.is_last: some}
        X, labels = self._samples[task.is_last], self._labels[rows]
        inside, outside = self._folds[task.is_last][task.fold]
        updates = None if task.candidate.gamma is None else UPDATES_OF_ROW * len(rows)
        loose = Stopping(duality_gap=LOOSE_GAP, max_epochs=MOST_EPOCHS, max_updates=updates)
        pipeline = replace(task.candidate.pipeline(self._usual), stopping=loose)
        key = task.is_last, task.fold, preprocessing_key(pipeline)
        prepared = self._prepared[1] if self._prepared and self._prepared[0] == key else None
        try:
            training = Training(
                *(pipeline, X[inside], labels[inside]),
                seed=self._seed,
                columns=self._columns,
                weights=None if self._weights is None else self._weights[rows[inside]],
                bounds_kernel=False,
                how=Execution(interrupted=self._interrupted, owns_rows=True, prepared=prepared),
            )
            self._prepared = key, training.prepared
            for _ in training:
                pass
            predicted = training.result().fitted.predict(X[outside])
        except (InvalidData, Diverged):
            return np.full(len(outside) + 1, np.inf)
        kernel = training.prepared.kernel
        gamma = float(kernel.gamma) if isinstance(kernel, GaussianKernel) else math.nan
        truth = labels[outside]
        losses = np.abs(predicted - truth) if self.of_numbers else predicted != truth
        return np.concatenate(([gamma], losses))

    def tried(self) -> list[Tried]:
        """What is known so far about each candidate that a training measured, the best first."""
        done = [task.candidate for task in self.tasks() if task.key in self.results]
        return self._ranked(list(dict.fromkeys(done)))

    @property
    def rows(self) -> int:
        """How many are compared on at first."""
        return len(self._rows[0])

    @property
    def _first(self) -> list[Candidate]:
        """The candidates to begin with."""
        sparse = is_csr(self._X) or bool(text_columns(self._columns or ()))
        unscaled = self._tries_unscaled
        return first_candidates(self._usual, self._X.shape[1], sparse=sparse, unscaled=unscaled)

    def _neighbors(self, best: Candidate) -> list[Candidate]:
        around = [replace(best, C=10.0 * best.C), replace(best, C=best.C / 10.0)]
        if best.gamma is not None:
            gamma = float(self.results[Task(False, 0, best).key][0])
            around += [replace(best, gamma=4.0 * gamma), replace(best, gamma=gamma / 8.0)]
        return around

    def _phases(self) -> Iterator[list[Task]]:
        """Each is asked for when the results of those before are known."""
        some = self._first
        yield _in_order(some, [0])
        for _ in range(self._amount.rounds):
            ranked = [each.candidate for each in self._ranked(some, folds=1)]
            best = _first_of_families(ranked) if self._amount.of_families else ranked[:1]
            around = [near for one in best for near in self._neighbors(one)]
            more = [one for one in dict.fromkeys(around) if one not in some]
            yield _in_order(more, [0])
            some = some + more
        some = self._kept(some, self._amount.kept[0], folds=1)
        yield _in_order(some, [1])
        some = self._kept(some, self._amount.kept[1], folds=2)
        yield _in_order(some, range(2, len(self._folds[0])))
        if self._has_more:
            finalists = self._kept(some, FINALISTS, folds=FOLDS)
            yield _in_order(finalists, range(LAST_FOLDS), is_last=True)

    def _losses(self, candidate: Candidate, is_last: bool, folds: int = FOLDS) -> Vector:
        """(n_rows,) of the sample, NaN where no training of the first folds has measured them."""
        losses = np.full(len(self._rows[is_last]), np.nan)
        for fold, (_, outside) in enumerate(self._folds[is_last][:folds]):
            if (found := self.results.get(Task(is_last, fold, candidate).key)) is not None:
                losses[outside] = found[1:]
        return losses

    def _ranked(
        self, some: Sequence[Candidate], is_last: bool = False, folds: int = FOLDS
    ) -> list[Tried]:
        """The best on the first folds first, of equal ones the simplest."""
        found = []
        for one in some:
            mean, deviation = self._mean(self._losses(one, is_last, folds), is_last)
            known = sum(Task(is_last, fold, one).key in self.results for fold in range(FOLDS))
            found.append(Tried(one, mean, deviation, known))
        return sorted(found, key=lambda each: (each.loss, FAMILIES.index(each.candidate.family)))

    def _mean(self, losses: Vector, is_last: bool) -> tuple[float, float]:
        """The mean of losses that are known, and its standard error."""
        known = ~np.isnan(losses)
        losses, importance = losses[known], self._importance[self._rows[is_last]][known]
        importance = importance / importance.sum()
        mean = float(losses @ importance)
        if not math.isfinite(mean):
            return math.inf, math.inf
        return mean, float(np.sqrt(np.square(importance) @ np.square(losses - mean)))

    def _kept(self, some: Sequence[Candidate], count: int, folds: int) -> list[Candidate]:
        """The best on the first folds, the best of each family among them."""
        ranked = [each.candidate for each in self._ranked(some, folds=folds)]
        first = _first_of_families(ranked)
        others = [one for one in ranked if one not in first][: max(0, count - len(first))]
        return [one for one in ranked if one in first or one in others]

    def _chosen(self, losses: dict[Candidate, Vector], is_last: bool) -> Candidate:
        """The simplest family whose best one is within a standard error of the best of all."""
        some = list(losses)
        means = {one: self._mean(losses[one], is_last)[0] for one in some}
        best = min(some, key=lambda one: means[one])
        if means[best] == math.inf:  # none can be trained on a part of the rows
            return self._first[0]
        for family in FAMILIES:
            own = [one for one in some if one.family == family]
            if own:
                one = min(own, key=lambda each: means[each])
                difference, deviation = self._mean(losses[one] - losses[best], is_last)
                if difference <= deviation:
                    return one
        return best

    def outcome(self) -> Outcome:
        """Once no task is open. Rows of samples are released."""
        self._samples, self._prepared = {}, None
        *_, final = filter(None, self._phases())  # of few folds the last phase may be empty
        is_last = self._has_more
        some = list(dict.fromkeys(task.candidate for task in final))
        losses = {one: self._losses(one, is_last) for one in some}
        chosen = self._chosen(losses, is_last)
        crossed = np.full(len(self._rows[is_last]), np.nan)
        for _, here in self._folds[is_last][: LAST_FOLDS if is_last else FOLDS]:
            others = {one: each.copy() for one, each in losses.items()}
            for each in others.values():
                each[here] = np.nan
            crossed[here] = losses[self._chosen(others, is_last)][here]
        tried = self._ranked(some, is_last)
        candidates = dict.fromkeys(task.candidate for task in self.tasks())
        tried += self._ranked([one for one in candidates if one not in some])
        known = ~np.isnan(crossed)
        return Outcome(
            pipeline=self._final(chosen),
            chosen=chosen,
            tried=tuple(tried),
            loss=self._mean(crossed, is_last)[0],
            rows=int(np.count_nonzero(known)),
            groups=self._grouped(crossed[known], self._rows[is_last][known]),
        )

    def _grouped(self, losses: Vector, rows: Indices) -> dict[str, Any]:
        """What groups say about the share of wrong rows; empty without groups, and of numbers."""
        if self._groups is None or self.of_numbers or not np.isfinite(losses).all():
            return {}
        return GroupSums.of(Groups.of(self._groups[rows]), losses).metrics(len(rows))

    def _final(self, chosen: Candidate) -> Pipeline:
        if chosen == self._first[0]:
            return self._usual
        pipeline = chosen.pipeline(self._usual)
        in_files = isinstance(self._X, StoredRows)
        exact = chosen.gamma is None or (len(self._numbers) <= EXACT_ROWS and not in_files)
        return pipeline if exact else approximated(pipeline)


def _first_of_families(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first of each family."""
    first: dict[Family, Candidate] = {}
    for one in ranked:
        first.setdefault(one.family, one)
    return list(first.values())


def _in_order(
    some: Sequence[Candidate], folds: Sequence[int], *, is_last: bool = False
) -> list[Task]:
    """Trainings that can share prepared data follow each other."""

    def shared(one: Candidate) -> tuple[Any, ...]:
        return FAMILIES.index(one.family), one.scaling != "standardize", str(one.gamma)

    ordered = sorted(some, key=shared)
    return [Task(is_last, fold, one) for fold in folds for one in ordered]


def sample(codes: Indices, count: int, seed: int, number: int = 0) -> Indices:
    """Numbers of about `count` rows, ascending, with the same share of every class, but at least
    one row a fold: a function of the arguments alone. `number` distinguishes samples."""
    if len(codes) <= count:
        return np.arange(len(codes))
    random = generator("sizes", seed, number)
    chosen = []
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        share = max(FOLDS, round(count * len(members) / len(codes)))
        chosen.append(random.permutation(members)[:share])
    return np.sort(np.concatenate(chosen))
