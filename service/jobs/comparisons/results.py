"""The results of the entries of a comparison, their ranking, and the state in which an attempt is
saved: all that the next one needs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

import numpy as np

from service.jobs.comparisons.entries import Chain, size_of, spec_of
from service.jobs.comparisons.schemas import (
    CostRead,
    EntryRead,
    ErrorScoresRead,
    RankBy,
    ScoresRead,
)
from service.jobs.training.schemas import JobCreate
from service.storage.arrays import Arrays, below, under
from svm.data.matrices import Array
from svm.errors import CheckpointMismatch
from svm.model.measures import Confusion
from svm.model.serialization import from_arrays, to_arrays
from svm.training.preparation import preprocessing_key
from svm.training.results import TrainingResult
from svm.training.training import Training
from svm.training.warm_start import WarmStart

COLUMNS = ("elapsed_s", "primal", "dual", "gap")
GROWTH = 1.1
"""The time between two points grows so: a curve from a millisecond to an hour has 160 points."""


def add_point(curve: list[list[float]], elapsed_s: float, primal: float, dual: float) -> None:
    """Add a point; the latest one is always the last, and stays if it is far from those before."""
    point = [elapsed_s, primal, dual, primal - dual]
    if len(curve) > 1 and curve[-1][0] < GROWTH * curve[-2][0]:
        curve[-1] = point
    else:
        curve.append(point)


COSTS = ("mae", "rmse", "median_absolute_error")
"""Scores of which the lowest is the best."""


def kept_of(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `measured` of a split."""
    if "confusion_matrix" not in metrics:
        return None
    names = "confusion_matrix", "weighted", "group_sums"
    return {name: metrics[name] for name in names if name in metrics}


def scores_in(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Those that entries show, of classes or of numbers; the usual one first."""
    kinds = ScoresRead, ErrorScoresRead
    names = next(kind.model_fields for kind in kinds if metrics.keys() >= kind.model_fields.keys())
    return {name: metrics[name] for name in names}


Error = dict[str, Any]
"""`code`, `detail` and `hint`."""
NO_INTERVALS = (
    "The model has no prediction intervals, since its validation rows chose it among the entries: "
    "a job with its `spec` and another `seed` learns them."
)
OUT_OF_MEMORY: Error = {
    "code": "out-of-memory",
    "detail": "a worker's memory is too small for this entry",
    "hint": "give workers more memory, or train it with a solver that streams",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """The result of training one entry on one split of the rows: plain values."""

    elapsed_s: float
    cpu_s: float
    measured: dict[str, Any] | None
    """The metrics of classes from which those of several splits follow."""
    fold: dict[str, Any] | None
    """A fold has its score, `stop_reason`, `epochs` and `relative_gap`."""


@dataclass(frozen=True, kw_only=True)
class EntryResult:
    """The result of one entry so far: plain values, stored in checkpoints and results."""

    splits: dict[int, SplitResult] = field(default_factory=dict)
    """Results of its trainings so far."""
    warm_start_from: int | None = None
    """Position of the entry with whose model it began."""
    model: dict[str, Any] | None = None
    """What `model_result` gives of the training that the entry shows."""
    validation: dict[str, Any] | None = None
    """The metrics of the validation set or, once all are measured, of the folds, in the same form
    as a job's."""
    curve: list[list[float]] = field(default_factory=list)
    objective: str = ""
    """Equal for equal objectives."""
    regularization: float = 0.0
    error: Error | None = None
    """Why it was given up."""

    @classmethod
    def of(cls, plain: dict[str, Any]) -> EntryResult:
        """From its JSON. Raises TypeError if it has other fields."""
        splits = {int(k): SplitResult(**each) for k, each in plain.pop("splits").items()}
        return cls(splits=splits, **plain)

    def merged(self, other: EntryResult) -> EntryResult:
        """With what `other` has more, which began with what this one had then."""
        newer = other if other.model is not None else self
        error = self.error or other.error
        return replace(newer, splits=self.splits | other.splits, error=error)

    @property
    def is_finished(self) -> bool:
        return self.model is not None and self.validation is not None and self.error is None

    @property
    def _in_order(self) -> list[SplitResult]:
        return [self.splits[k] for k in sorted(self.splits)]

    @property
    def elapsed_s(self) -> float:
        return sum(each.elapsed_s for each in self._in_order)

    @property
    def cpu_s(self) -> float:
        return sum(each.cpu_s for each in self._in_order)

    @property
    def folds(self) -> list[dict[str, Any]]:
        return [each.fold for each in self._in_order if each.fold is not None]

    @property
    def confusion(self) -> Confusion:
        """That of the validation set; with folds the sum of all."""
        parts = [each.measured for each in self._in_order if each.measured is not None]
        return Confusion.total([Confusion.of_metrics(one) for one in parts])

    def score(self, rank_by: RankBy) -> float | None:
        """None until the entry has finished."""
        assert self.validation is not None or not self.is_finished
        return self.validation[rank_by] if self.validation and self.is_finished else None

    def sort_key(self, rank_by: RankBy) -> tuple[float, ...]:
        """Ascending from the best: of equal scores the smaller model, then the larger λ, then the
        fewer updates, of the trainings that entries show. Times do not count, so that the same
        comparison always has the same order."""
        score = self.score(rank_by)
        assert self.model is not None
        size, updates = self.model["size_bytes"], self.model["updates"]
        cost = math.inf if score is None else score if rank_by in COSTS else -score
        return cost, size, -self.regularization, updates


def model_result(result: TrainingResult, train: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `EntryRead` that come from the training of a model."""
    certificate = result.certificate.as_dict(result.fitted.classes)
    return {
        "train": scores_in(train),
        "certificate": {name: certificate[name] for name in CostRead.model_fields},
        "stop_reason": result.stop_reason,
        "converged": result.converged,
        "epochs": result.epochs,
        "updates": result.updates,
        "n_support_vectors": result.n_support_vectors,
        "size_bytes": result.fitted.nbytes,
        "warnings": list(result.warnings),
        "notes": list(result.notes),
    }


def objective_of(entry: JobCreate, result: TrainingResult) -> str:
    """Equal for trainings on the same rows that minimize the same function."""
    values = [f"{value:.12g}" for value in result.warm_start.regularization]
    content = repr(
        (
            *(values, preprocessing_key(entry.pipeline()), entry.solver.intercept),
            *(entry.solver.loss_name, entry.class_weight, size_of(entry)),
        )
    )
    return hashlib.sha256(content.encode()).hexdigest()


def report(
    entries: Sequence[JobCreate],
    results: Sequence[EntryResult],
    rank_by: RankBy,
    behind: Callable[[int], Mapping[int, Mapping[str, Any]]] = lambda _: {},
) -> dict[str, Any]:
    """The JSON of `ComparisonResults`, complete or so far. `behind` gives what the entries have of
    the same name, from the best one."""
    ranked = ranking(results, rank_by)
    distances = behind(ranked[0]) if ranked else {}
    ranks = {k: rank for rank, k in enumerate(ranked, start=1)}
    by_objective: dict[str, list[int]] = {}
    for k in sorted(ranked):
        by_objective.setdefault(results[k].objective, []).append(k)
    numbers = {key: number for number, key in enumerate(by_objective, start=1)}
    order = [*ranked, *(k for k in range(len(entries)) if k not in ranks)]
    return {
        "entries": [
            {
                **dict.fromkeys(EntryRead.model_fields),
                "number": k + 1,
                "rank": ranks.get(k),
                "objective": numbers.get(results[k].objective),
                "spec": spec_of(entries[k]),
                "rows": size_of(entries[k])[0],
                "columns": size_of(entries[k])[1],
                **_entry(results[k], rank_by),
                "behind": distances.get(k),
            }
            for k in order
        ],
        "objectives": [
            {"number": number, **_objective([(k, results[k]) for k in members])}
            for number, members in enumerate(by_objective.values(), start=1)
        ],
    }


def ranking(results: Sequence[EntryResult], rank_by: RankBy) -> list[int]:
    """The positions of those that have finished, the best first."""
    finished = [k for k, each in enumerate(results) if each.is_finished]
    return sorted(finished, key=lambda k: (*results[k].sort_key(rank_by), k))


def _entry(result: EntryResult, rank_by: RankBy) -> dict[str, Any]:
    validation, finished = None, result.is_finished
    if finished and result.validation is not None:
        validation = scores_in(result.validation)
        folds = [fold[next(iter(validation))] for fold in result.folds]
        validation |= {"folds": folds or None, "n_effective": result.validation.get("n_effective")}
    begun = result.elapsed_s > 0
    state = "failed" if result.error else "finished" if finished else "waiting"
    return {
        "warnings": [],
        "notes": [],
        **(result.model or {} if finished else {}),
        "state": state,
        "score": result.score(rank_by),
        "validation": validation,
        "warm_start_from": None if result.warm_start_from is None else result.warm_start_from + 1,
        "elapsed_s": result.elapsed_s if begun else None,
        "cpu_s": result.cpu_s if begun else None,
        "trace": {"columns": list(COLUMNS), "rows": result.curve} if finished else None,
        "error": result.error,
    }


def _objective(members: list[tuple[int, EntryResult]]) -> dict[str, Any]:
    costs = sorted((result.curve[-1][1], k) for k, result in members)
    dual = max(result.curve[-1][2] for _, result in members)
    return {
        "regularization": members[0][1].regularization,
        "entries": [k + 1 for _, k in costs],
        "dual": dual,
        "excess": [max(0.0, cost - dual) / cost if cost > 0 else 0.0 for cost, _ in costs],
    }


def place_of(entry: int, split: int) -> str:
    """A key."""
    return f"{entry}.{split}"


PLAIN = ("done", "chain", "position", "left", "spent_s", "cpu_s", "curve")


@dataclass(frozen=True, slots=True)
class Model:
    """A model that an entry trained, and what another training needs to begin with it."""

    entry: int
    warm_start: WarmStart
    record: dict[str, Any]
    """`spec`, `result` and `n_support_vectors` of a model version; empty if it does not become
    one."""


@dataclass(kw_only=True)
class ComparisonState:
    """Changes while the comparison runs; between two changes it can be saved."""

    results: list[EntryResult]
    """One an entry."""
    done: list[int] = field(default_factory=list)
    """The numbers of the chains that are done."""
    chain: int | None = None
    """The current one."""
    position: int = 0
    """Trainings of it that are done."""
    left: int = 0
    """Trainings of all chains that are not."""
    spent_s: float = 0.0
    """Time that all took that are done."""
    cpu_s: float = 0.0
    """Processor time of the current one so far."""
    curve: list[list[float]] = field(default_factory=list)
    """The curve of the current one."""
    predicted: dict[str, Array] = field(default_factory=dict)
    """By `place_of` a training: what `ValidationRows` keeps of its predictions."""
    latest: Model | None = None
    """The next training can begin with it."""
    best: Model | None = None

    def fail(self, entry: int, error: Error) -> None:
        self.results[entry] = replace(self.results[entry], error=error)

    def passed(self, elapsed_s: float) -> None:
        """The current training is done."""
        self.position += 1
        self.left -= 1
        self.spent_s += elapsed_s
        self.cpu_s, self.curve = 0.0, []

    def ended(self) -> None:
        """The current chain is done."""
        assert self.chain is not None
        self.done.append(self.chain)
        self.chain, self.position, self.latest = None, 0, None

    def keep_if_best(self, model: Model, rank_by: RankBy) -> None:
        def key(one: Model) -> tuple[float, ...]:
            return *self.results[one.entry].sort_key(rank_by), one.entry

        if self.best is None or key(model) < key(self.best):
            self.best = model

    def part(self, number: int, chain: Chain) -> ComparisonState:
        """The state of a chain that another worker does."""
        starts = tuple(f"{step.entry}." for step in chain.steps)
        return ComparisonState(
            results=list(self.results),
            chain=number,
            left=self.left,
            spent_s=self.spent_s,
            predicted={k: some for k, some in self.predicted.items() if k.startswith(starts)},
        )

    def absorb(self, part: ComparisonState, chain: Chain, by: RankBy) -> None:
        """Add the trainings that another worker has done."""
        self.predicted |= part.predicted
        for step in chain.steps[: part.position]:
            result = part.results[step.entry]
            self.results[step.entry] = self.results[step.entry].merged(result)
            if step.split in result.splits:  # not if it failed
                self.spent_s += result.splits[step.split].elapsed_s
        if part.best is not None:
            self.keep_if_best(part.best, by)
        self.left -= part.position

    def resume(self, part: ComparisonState, chain: Chain, by: RankBy) -> None:
        """Continue a chain that another worker had begun."""
        self.absorb(part, chain, by)
        self.position, self.latest = part.position, part.latest
        self.cpu_s, self.curve = part.cpu_s, part.curve

    def packed(self, training: Training | None) -> Arrays:
        """With the current training, if it has begun."""
        plain = {
            "results": [asdict(each) for each in self.results],
            **{name: getattr(self, name) for name in PLAIN},
        }
        arrays: dict[str, Any] = {"state": np.asarray(json.dumps(plain))}
        arrays |= under("predicted", self.predicted)
        for name, model in (("latest", self.latest), ("best", self.best)):
            if model is not None:
                header = {"entry": model.entry, "record": model.record}
                arrays[name] = np.asarray(json.dumps(header))
                arrays |= under(f"{name}.model", to_arrays(model.warm_start.fitted))
                arrays |= under(f"{name}.start", model.warm_start.to_arrays())
        if training is not None:
            arrays |= under("training", training.checkpoint())
        return arrays

    @classmethod
    def begun(
        cls, entries: Sequence[JobCreate], errors: Sequence[Error | None], arrays: Arrays
    ) -> tuple[ComparisonState, Arrays]:
        """As `unpacked`; at the start, with these errors of the entries, if there are no arrays."""
        if arrays:
            return cls.unpacked(arrays, entries)
        return cls(results=[EntryResult(error=error) for error in errors]), {}

    @classmethod
    def unpacked(
        cls, arrays: Arrays, entries: Sequence[JobCreate]
    ) -> tuple[ComparisonState, Arrays]:
        """The state, and the checkpoint of the current training, empty if it had not begun.

        Raises CheckpointMismatch if another release packed it.
        """
        try:
            return cls._read(arrays, entries), below("training", arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointMismatch("the checkpoint is of another release") from error

    @classmethod
    def _read(cls, arrays: Arrays, entries: Sequence[JobCreate]) -> ComparisonState:
        plain = json.loads(str(arrays["state"]))
        state = cls(**plain | {"results": [EntryResult.of(each) for each in plain["results"]]})
        state.predicted = below("predicted", arrays)
        for name in ("latest", "best"):
            if name in arrays:
                header = json.loads(str(arrays[name]))
                fitted = from_arrays(
                    {
                        key: array.item() if array.ndim == 0 else array
                        for key, array in below(f"{name}.model", arrays).items()
                    }
                )
                pipeline = entries[header["entry"]].pipeline()
                warm_start = WarmStart.from_arrays(pipeline, fitted, below(f"{name}.start", arrays))
                setattr(state, name, Model(header["entry"], warm_start, header["record"]))
        return state


def read_results(file: IO[bytes]) -> list[EntryResult] | None:
    """The results in `ComparisonState.packed`, without reading its models; None if another release
    packed it."""
    with np.load(file, allow_pickle=False) as arrays:
        try:
            plain = json.loads(str(arrays["state"]))
            return [EntryResult.of(each) for each in plain["results"]]
        except (KeyError, TypeError):
            return None


def headline(best: dict[str, Any], made: Any) -> dict[str, Any]:
    """The fields of lists; those about a training are those of the model that it made."""
    scores = scores_in(best["validation"])
    return {
        "best": best["number"],
        "score": best["score"],
        "metrics": {
            "train": best["train"] if made is best else scores_in(made["metrics"]["train"]),
            "validation": scores,
        },
        "epochs": made["epochs"],
        "updates": made["updates"],
    }


def all_failed(entries: Sequence[EntryResult]) -> Error:
    """The error of a comparison without a result."""
    first = next(each.error for each in entries if each.error is not None)
    detail = f"none of the {len(entries)} entries could be trained; the first: {first['detail']}"
    return {**first, "detail": detail}
