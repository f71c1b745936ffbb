"""Scores of all rows of a dataset, block by block; used by several kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from service.common.phases import SCORING
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt, Work
from service.jobs.core.leases import CANCELED
from service.jobs.core.model_columns import adapt_rows, labeled_for
from service.jobs.parts.leases import PartWork
from service.jobs.parts.lending import Lending
from service.models.outputs import Shares
from service.storage.arrays import Arrays
from svm.data.columns import text_columns
from svm.data.matrices import Indices, Matrix
from svm.errors import InvalidData
from svm.model.pipeline import FittedPipeline

UnknownCells = dict[str, Any]
"""How many cells the training rows had nothing like, by column: `unseen` levels of categories, and
`missing` cells of columns that had none; and how many `words` of texts. None for a model of plain
numbers."""

BLOCK_ROWS = 4096
"""Rows between two checks for a command."""
MAX_COLUMNS = 100
"""Whose unknown cells are reported."""
PIECES = 16
"""All rows are cut into this many pieces at most."""

WORDS = "unknown_words"

Outputs = dict[str, npt.NDArray[Any]]
"""By output: class numbers for `label` and `label_or_none`, -1 for none, else the values; one entry
a row. Of texts `WORDS`, too: how many words no training text had."""


class Scoring:
    """The outputs of a model for all rows of a dataset, by the `model` that the spec names.

    The rows are in pieces of equal length, which a long job lends to others.
    """

    def __init__(self, context: RunContext, work: Work) -> None:
        """Raises what the stores raise."""
        model = work.job.spec["model"]
        self.dataset = context.datasets.get(work.job.dataset_id)
        self.version = context.models.get_version(model["name"], model["version"])
        self.fitted = context.models.files.load(self.version)
        self._datasets = context.datasets
        self.data = context.datasets.open(self.dataset)
        self._outputs: list[str] = work.job.spec["outputs"]
        self._some = bool(work.job.spec.get("validation_only"))
        given = {name: work.job.spec[name] for name in Shares._fields if name in work.job.spec}
        self._shares = Shares(**given)
        self._taken = adapt_rows(self.fitted, self.dataset, self.version)
        self.outputs: Outputs = {}
        """For the rows that are done."""
        self.unknown: UnknownCells | None = None
        """Once all rows are done."""
        n = self.dataset.n_samples
        rows = BLOCK_ROWS * -(-n // (PIECES * BLOCK_ROWS))
        self.pieces = [range(start, min(n, start + rows)) for start in range(0, n, rows)]

    def blocks(self, work: Work, piece: int, done: int) -> Iterator[tuple[slice, Outputs]]:
        """The rows of a piece after the first `done`, block by block, and their outputs.

        Raises InvalidData and Interrupted.
        """
        rows = self.pieces[piece]
        for start in range(rows.start + done, rows.stop, BLOCK_ROWS):
            work.check()
            stop = min(rows.stop, start + BLOCK_ROWS)
            X = self.read(np.arange(start, stop))
            yield (
                slice(start, stop),
                dict(_outputs(self.fitted, X, start, self._outputs, self._shares)),
            )

    @cached_property
    def truth(self) -> npt.NDArray[Any]:
        """(n_samples,) class numbers of the model, or numeric targets; -1 of other classes if only
        validation rows are measured. Raises InvalidData."""
        labeled, numbers = labeled_for(self.dataset, self.version.classes, some=self._some)
        data = self._datasets.open(labeled)
        if numbers is None:
            assert data.values is not None
            return data.values
        assert data.codes is not None
        return numbers[data.codes]

    def read(self, rows: Indices) -> Matrix:
        """Some rows, as the model takes them."""
        X: Matrix = self._taken(self.data.X.read(rows))
        return X

    def unknown_cells(self, work: Work) -> UnknownCells | None:
        """Unknown cells of all rows. Raises Interrupted."""
        encoder = self.fitted.encoder
        if encoder.is_plain:
            return None
        unseen = np.zeros(len(encoder.columns), dtype=np.int64)
        missing = unseen.copy()
        n = self.dataset.n_samples
        for start in range(0, n, BLOCK_ROWS):
            work.check()
            X = np.asarray(self.read(np.arange(start, min(n, start + BLOCK_ROWS))))
            unseen += np.count_nonzero(encoder.unseen(X), axis=0)
            missing += np.count_nonzero(encoder.newly_missing(X), axis=0)
        missing[text_columns(encoder.columns)] = 0  # a missing text has no words, as an empty one
        names = [column.name for column in encoder.columns]
        cells = {
            reason: {
                names[j]: int(counts[j])
                for j in np.argsort(-counts, kind="stable")[:MAX_COLUMNS]
                if counts[j]
            }
            for reason, counts in (("unseen", unseen), ("missing", missing))
        }
        return {**cells, "words": int(self.outputs[WORDS].sum()) if WORDS in self.outputs else 0}


def score(
    context: RunContext, attempt: Attempt, then: Callable[[Scoring], None] = lambda _: None
) -> Scoring | None:
    """The outputs that the job's spec names (label, label_or_none, decision, probability; value,
    interval), of all rows, in order. `then` is called at the end; what was scored is kept if it is
    interrupted.

    None if the job was canceled: it has ended then. Raises what the stores raise, InvalidData,
    Interrupted after the checkpoint was saved, and LeaseLost.
    """
    scoring = Scoring(context, attempt)
    run = _Run(context, attempt, scoring)
    attempt.begin(SCORING)

    def work() -> None:
        run.score()
        scoring.unknown = scoring.unknown_cells(attempt)
        then(scoring)

    if attempt.carry_through(work, run.packed):
        attempt.finish(CANCELED)
        return None
    return scoring


def score_piece(context: RunContext, part: PartWork) -> None:
    """Score one piece for another worker. Raises as `score`."""
    part.check()
    scoring = part.once(lambda: Scoring(context, part))
    rows = scoring.pieces[part.number]
    done: list[Outputs] = []
    for block, outputs in scoring.blocks(part, part.number, 0):  # too short to be saved
        done.append(outputs)
        part.show({"fraction": (block.stop - rows.start) / len(rows)})
    part.deliver({name: np.concatenate([each[name] for each in done]) for name in done[0]})


class _Run:
    """Scores the pieces on this worker, and gets those that others have scored."""

    def __init__(self, context: RunContext, attempt: Attempt, scoring: Scoring) -> None:
        self._attempt = attempt
        self._scoring = scoring
        self._lending = Lending(context.offers, attempt)
        self._outputs = scoring.outputs
        self._done = [0] * len(scoring.pieces)
        """Rows of each piece."""
        saved, _ = context.resume(attempt.job, dict)  # only time is lost
        if "pieces" in saved:
            done = saved.pop("pieces").tolist()
            start = 0
            for piece, count in enumerate(done):
                some = {name: values[start : start + count] for name, values in saved.items()}
                self._keep(piece, some)
                start += count
        self._began = attempt.elapsed_s, sum(self._done) / scoring.dataset.n_samples

    def score(self) -> None:
        """Score all rows. Raises as `score`."""
        attempt = self._attempt
        while (piece := self._next()) is not None:
            for _, outputs in self._scoring.blocks(attempt, piece, self._done[piece]):
                self._keep(piece, outputs)
                self._show()
                if attempt.checkpoint_is_due:
                    attempt.save(self.packed())
                self._lending.lend((k for k in self._left if k != piece), lambda _: None)

    def _keep(self, piece: int, outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add the outputs of the next rows of a piece."""
        start = self._scoring.pieces[piece].start + self._done[piece]
        for name, values in outputs.items():
            if name not in self._outputs:
                n = self._scoring.dataset.n_samples
                self._outputs[name] = np.zeros((n, *values.shape[1:]), values.dtype)
            self._outputs[name][start : start + len(values)] = values
            count = len(values)
        if outputs:
            self._done[piece] += count

    @property
    def _left(self) -> list[int]:
        pieces = enumerate(self._scoring.pieces)
        return [piece for piece, rows in pieces if self._done[piece] < len(rows)]

    def _next(self) -> int | None:
        """A piece that is not done and not lent; None at the end."""
        lending = self._lending
        while self._left:
            self._attempt.check()
            for piece, outputs in lending.results(self._left):
                self._done[piece] = 0
                self._keep(piece, outputs)
            if not self._left:
                break
            if (chosen := lending.choose(self._left)) is not None:
                return chosen[0]
            self._show()
        return None

    def _show(self) -> None:
        lent = self._lending.fractions
        pieces = self._scoring.pieces
        done = sum(self._done) + sum(len(pieces[k]) * share for k, share in lent.items())
        fraction = min(1.0, done / self._scoring.dataset.n_samples)
        spent_s, new = self._attempt.elapsed_s - self._began[0], fraction - self._began[1]
        eta_s = spent_s * (1.0 - fraction) / new if new > 0.0 else None
        self._attempt.show({"fraction": fraction, "parts": len(lent), "eta_s": eta_s})

    def packed(self) -> Arrays:
        starts = [rows.start for rows in self._scoring.pieces]
        parts = [slice(start, start + done) for start, done in zip(starts, self._done, strict=True)]
        return {
            "pieces": np.asarray(self._done),
            **{
                name: np.concatenate([values[part] for part in parts])
                for name, values in self._outputs.items()
            },
        }


def _outputs(
    fitted: FittedPipeline, X: Matrix, start: int, outputs: list[str], shares: Shares
) -> list[tuple[str, npt.NDArray[Any]]]:
    checked = fitted.encoder.checked(X)
    words = np.zeros(X.shape[0], dtype=np.int64) if fitted.encoder.texts else None
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scores = fitted.scores_of_checked(checked, words)
    sound = np.isfinite(scores).all(axis=1)
    if not sound.all():
        row = start + int(np.argmin(sound)) + 1
        message = f"row {row} has numbers so large that its prediction overflows"
        raise InvalidData("non-finite-value", message)
    outputs_: list[tuple[str, npt.NDArray[Any]]] = [] if words is None else [(WORDS, words)]
    for name in outputs:
        match name:
            case "label":
                decision = fitted.decision_from_scores(scores)
                made: npt.NDArray[Any] = fitted.codes_from_decision(decision).astype(np.int32)
            case "decision":
                made = fitted.decision_from_scores(scores)
            case "probability":
                made = fitted.probabilities_from_scores(scores)
            case "value":
                made = fitted.values_from_scores(scores)
            case "label_or_none":
                made = fitted.codes_or_none(scores, shares.withheld)
            case _:
                made = fitted.intervals_from_scores(scores, shares.coverage)
        outputs_.append((name, made))
    return outputs_
