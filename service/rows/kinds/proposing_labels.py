"""The label column of a table, and what to say if it cannot be one."""

from __future__ import annotations

from typing import Any

from service.errors import Fault, InvalidContent
from service.rows.cell_texts.levels import alike
from service.rows.cell_texts.words import MISSING_TEXTS
from service.rows.faults import Faults
from service.rows.kinds.blocks.cells import Cells
from service.rows.kinds.blocks.coding import Coder
from service.rows.kinds.deciding import MIN_ROWS_OF_IDENTIFIERS
from service.rows.kinds.feature import Batch
from service.rows.kinds.gathering import Lookup
from service.rows.spec import ParseSpec
from service.rows.table.labels import MAX_CLASSES, Labels, Target

MOST_FRACTIONS = 20
"""More different labels with fractions are measurements."""
SHOWN = 5
TOO_MANY = "too-many-classes"


class LabelColumn:
    """Takes the cells of the label column."""

    def __init__(self, spec: ParseSpec, faults: Faults, column: str | int) -> None:
        self.warnings: list[dict[str, Any]] = []
        words = MISSING_TEXTS | frozenset(spec.missing)
        self._labels = Labels(faults, column, keep_text=spec.text_labels, missing=words)
        self._lookup = Lookup()
        self._coder = Coder([self._lookup])
        self._faults = faults
        self._likely: list[str] = []
        self._hint: str | None = None
        self._chosen = spec.target is not None or spec.onto is not None
        self._column = column
        self._refused: InvalidContent | None = None

    def add(self, batch: Batch, position: int, *, typed: bool) -> None:
        """Those of some rows. A missing one is a fault."""
        if self._refused is not None:
            return
        try:
            if typed:
                self._labels.add_json(list(batch[position]))
            elif isinstance(batch, Cells) and len(self._lookup) <= MAX_CLASSES:
                codes = self._coder.codes(batch, [position], [0])[:, 0]
                self._labels.add_codes(list(self._lookup), codes)
            else:
                one = batch.texts([position]) if isinstance(batch, Cells) else batch
                self._labels.add_texts(list(one[position]))
        except InvalidContent as error:
            if error.code != TOO_MANY:
                raise
            self._refused = error

    def skip(self, n_rows: int) -> None:
        """Rows whose labels are unknown."""
        self._labels.skip(n_rows)

    def propose(self, likely: list[str]) -> None:
        """Name columns that are likely to hold the labels in every error about this one, unless the
        caller chose it."""
        if self._chosen or not likely:
            return
        self._likely = likely
        names = ", ".join(map(repr, likely[:SHOWN]))
        self._hint = f"name the label with `target`; likely are {names}"
        self._labels.hint = f"remove the row, or {self._hint}"
        self._faults.advise(self._column, self._labels.hint, {"likely_targets": likely})

    def finish(self) -> Target:
        """Raises InvalidContent."""
        if self._refused is not None:
            if self._hint is None:
                raise self._refused
            raise self._refusal(self._refused.detail.split(";")[0], self._hint)
        target = self._labels.finish()
        texts = [label for label in target.classes or () if isinstance(label, str)]
        if (pair := alike(texts)) is not None:
            message = f"the classes {pair[0]!r} and {pair[1]!r} differ in case or blanks only"
            self.warnings.append({"code": "similar-levels", "message": message})
        if self._chosen:
            return target
        count = self._labels.count
        if target.classes is not None and isinstance(target.classes[0], str):
            if len(target.classes) == count >= MIN_ROWS_OF_IDENTIFIERS:
                message = f"the last column, {self._column!r}, has a different text in every row"
                hint = self._hint or "name the label with `target`, or say target=none"
                raise self._refusal(message, hint)
        elif self._hint is not None and _are_measurements(target):
            message = f"the last column, {self._column!r}, is taken as the label; {self._hint}"
            self.warnings.append({"code": "likely-targets", "message": message})
        return target

    def _refusal(self, message: str, hint: str) -> InvalidContent:
        fault = Fault(code=TOO_MANY, message=message, column=self._column, hint=hint)
        extra = {"likely_targets": self._likely}
        return InvalidContent(TOO_MANY, f"{message}; {hint}", (fault,), extra=extra)


def _are_measurements(target: Target) -> bool:
    """Whether numbers are unlikely to be classes."""
    classes = target.classes
    return classes is None or (len(classes) > MOST_FRACTIONS and isinstance(classes[0], float))
