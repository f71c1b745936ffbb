"""The state of a comparison: all that its next attempt needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

import numpy as np

from service.jobs.comparisons.order import Chain
from service.jobs.comparisons.results import EntryResult, Error
from service.jobs.comparisons.schemas import RankBy
from service.jobs.training.schemas import JobCreate
from service.storage.arrays import Arrays, below, pack, under
from svm.errors import CheckpointMismatch
from svm.model.serialization import from_arrays, to_arrays
from svm.training.training import Training
from svm.training.warm_start import WarmStart

PLAIN = ("done", "chain", "position", "left", "spent_s", "cpu_s", "curve")


@dataclass(frozen=True, slots=True)
class Model:
    """A model that an entry trained, and what another training needs to begin with it."""

    entry: int
    warm_start: WarmStart
    record: dict[str, Any]
    """`spec` and `result` of a model version; empty if it does not become one."""


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
    """Of the current one so far."""
    curve: list[list[float]] = field(default_factory=list)
    """Of the current one."""
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

    def part(self, chain: int) -> ComparisonState:
        """Of a chain that another worker does."""
        return ComparisonState(
            results=list(self.results), chain=chain, left=self.left, spent_s=self.spent_s
        )

    def absorb(self, part: ComparisonState, chain: Chain, by: RankBy) -> None:
        """Add the trainings that another worker has done."""
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

    def packed(self, training: Training | None) -> bytes:
        """With the current training, if it has begun."""
        plain = {
            "results": [asdict(each) for each in self.results],
            **{name: getattr(self, name) for name in PLAIN},
        }
        arrays: dict[str, Any] = {"state": np.asarray(json.dumps(plain))}
        for name, model in (("latest", self.latest), ("best", self.best)):
            if model is not None:
                header = {"entry": model.entry, "record": model.record}
                arrays[name] = np.asarray(json.dumps(header))
                arrays |= under(f"{name}.model", to_arrays(model.warm_start.fitted))
                arrays |= under(f"{name}.start", model.warm_start.to_arrays())
        if training is not None:
            arrays |= under("training", training.checkpoint())
        return pack(arrays)

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
