"""The label column of a table, and what to say if it cannot be one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.errors import Fault, InvalidContent
from service.rows.cell_texts.number_text import MISSING_TEXTS
from service.rows.faults import Faults, called, warning
from service.rows.kinds.blocks import Cells, Coder
from service.rows.kinds.deciding import MIN_ROWS_OF_IDENTIFIERS
from service.rows.kinds.feature import Batch
from service.rows.kinds.gathering import Lookup
from service.rows.spec import ParseSpec
from service.rows.table.labels import MAX_CLASSES, MOST_CLASSES, Labels, Target, kind_of
from service.rows.table.layout import Layout
from service.rows.table.left_out import target_hint

TOO_MANY = "too-many-classes"


class LabelColumn(Labels):
    """Takes the cells of the label column, if there is one."""

    def __init__(
        self, spec: ParseSpec, faults: Faults, layout: Layout, *, typed: bool = False
    ) -> None:
        """`typed`: cells are values of JSON, else texts. If `schema` says that the label is a
        category, only an empty cell is no label."""
        words = spec.no_label(MISSING_TEXTS | frozenset(spec.asked.missing))
        if layout.label_kind == "category":
            words = frozenset({"", *spec.asked.missing})
        kind = layout.label_kind or spec.label_kind
        self._position, self._typed = layout.target, typed
        column = None if layout.target is None else layout.column(layout.target)
        super().__init__(faults, column, kind=kind, missing=words, decimal=spec.asked.decimal)
        self._texts = Lookup()
        self._coder = Coder([self._texts])
        described = column is not None and str(column) in spec.asked.schema
        self._chosen = described or spec.asked.target is not None or spec.onto is not None
        self._named = layout.label_is_named
        self._refused: InvalidContent | None = None
        self.lacks_advice = False
        """Whether the labels, which the caller did not choose, are many numbers, and no other
        column was proposed."""

    def add(self, batch: Batch) -> None:
        """Those of some rows."""
        position = self._position
        if position is None or self._refused is not None:
            return
        try:
            if self._typed:
                self.add_json(list(batch[position]))
            elif isinstance(batch, Cells) and len(self._texts) <= MAX_CLASSES:
                codes = self._coder.codes(batch, [position], [0])[:, 0]
                self.add_codes(list(self._texts), codes)
            else:
                one = batch.texts([position]) if isinstance(batch, Cells) else batch
                self.add_texts(list(one[position]))
        except InvalidContent as error:
            if error.code != TOO_MANY:
                raise
            self._refused = error

    def decide(self, likely: Sequence[str] = ()) -> Target | None:
        """The labels, if there is a column of them. `likely`: other columns that may hold them,
        which errors about this one name unless the caller chose it. Raises InvalidContent."""
        if self._column is None:
            return None
        likely = [] if self._chosen else list(likely)
        hint = target_hint(likely) if likely else None
        if self._refused is not None:
            if hint is None:
                raise self._refused
            raise self._refusal(self._refused.detail.split(";")[0], hint, likely)
        target = replace(self.finish(), likely=likely)
        if self._chosen:
            return target
        last = f"the last column, {called(self._column)},"
        if self._named:
            last = f"the column {called(self._column)}"
        texts = kind_of(target.classes) == "text"
        if texts and len(target.classes or ()) == self.count >= MIN_ROWS_OF_IDENTIFIERS:
            nearly = [one["message"] for one in target.warnings if one["code"] == "nearly-read"]
            hint = "; ".join([*nearly, hint or "name the label with `target`, or say target=none"])
            raise self._refusal(f"{last} has a different text in every row", hint, likely)
        measured = target.classes is None and target.n_distinct > MOST_CLASSES
        if measured and hint is not None:
            message = f"{last} is taken as the label, a number to predict; for classes, {hint}"
            target.warnings.append(warning("likely-targets", message, likely))
        self.lacks_advice = measured and hint is None
        return target

    def _refusal(self, message: str, hint: str, likely: Sequence[str]) -> InvalidContent:
        fault = Fault(code=TOO_MANY, message=message, column=self._column, hint=hint)
        extra = {"likely_targets": likely}
        return InvalidContent(TOO_MANY, f"{message}; {hint}", (fault,), extra=extra)
