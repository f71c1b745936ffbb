"""A table from cells whose kinds are found while they are read.

Each pass over the file gathers all columns. If a column turns out to be something else, the file is
read again. Then the raw values are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from service.common.label_names import called_label
from service.errors import MAX_FAULTS, InvalidContent
from service.rows.cell_faults import ragged
from service.rows.cell_texts.number_text import MAX_LEVELS_IN_ALL, MISSING_VALUES
from service.rows.faults import Faults, called, no_features, refuse, shown, too_many, warning
from service.rows.kinds.blocks import AllColumns, ValueRows
from service.rows.kinds.deciding import decide, free_texts
from service.rows.kinds.feature import (
    Again,
    Ambiguous,
    Batch,
    Feature,
    Gatherer,
    Ignored,
    Kept,
    KeptFeatures,
    Passes,
    Question,
    Wrong,
    texts_of,
)
from service.rows.kinds.free_texts import FreeTexts, are_sentences
from service.rows.kinds.gathering import (
    MOST_LABELS,
    NO_WORDS,
    PLACEHOLDER,
    FormColumn,
    TextColumn,
    TypedTexts,
    TypedValues,
    ValueColumn,
    Values,
    Words,
)
from service.rows.kinds.locating import add_wrong, refuse_undecided
from service.rows.kinds.proposing_labels import LabelColumn
from service.rows.spec import BesideColumn, ParseSpec, TableColumn
from service.rows.table.arrays import ArrayWriter, blocks
from service.rows.table.beside import code_texts, write_groups, write_values
from service.rows.table.layout import ASKED, Layout, make_layout
from service.rows.table.left_out import ignoring
from service.rows.table.texts import TextSpool, text_positions, write_texts
from service.rows.table.writers import Table, kept_kinds, plain_bits, write_rows
from svm.data.columns import Column, Kind

MAX_PASSES = 6
HEAD_ROWS = 4096
"""Rows from which the form of a column is guessed: fewer than `MAX_LEVELS`."""
MAX_TEXT_BYTES = 32 * 1024 * 1024
"""Of the different texts of all columns in memory."""
LIST_HINT = "a single row is [[1, 2]], not [1, 2]"


class Builder:
    """Makes the table of one upload."""

    def __init__(
        self, spec: ParseSpec, columns: Layout, passes: Passes, *, typed: bool = False
    ) -> None:
        """`typed`: cells are values of JSON, else texts."""
        self._typed = typed
        self._spec = spec
        self._columns = columns
        self._passes = passes
        self._folder = Path(spec.out)
        self._words: Words = MISSING_VALUES | {PLACEHOLDER, *spec.asked.missing}
        self._features: list[Feature] = []
        self._n_samples = 0
        self._texts: TextSpool
        """Those of the columns of texts, by their place among the features."""
        self._marks: set[str] = set()
        """Decimal marks that columns of numbers can only have."""

    def build(self, *, comma_likely: bool) -> Table:
        """Write the arrays. Raises ServiceError with every fault of the file."""
        self._features = self._begin()
        for _ in range(MAX_PASSES):
            faults = Faults()
            labels = self._pass(faults)
            if not self._settle(comma_likely=comma_likely):
                break
        for feature in self._features:
            if isinstance(feature.decision, Again):
                wanted = feature.position in self._beside
                several = Wrong(None) if wanted else Ignored("its cells are of several kinds")
                feature.decision = several
        add_wrong(self._features, self._columns, self._passes, faults)
        faults.check()
        refuse_undecided(self._features, self._columns)
        kept = self._kept()
        layout = self._columns
        features = self._features[: layout.n_features]
        target = labels.decide(_likely_labels(features, layout))
        ignored = _ignored_columns(self._features, layout)
        if not kept:
            raise no_features(ignored)
        columns = _columns_of(kept, layout)
        beside = self._write_beside()
        table = kept_kinds(columns)
        self._write(kept, table)
        self._texts.remove()
        return Table(
            n_samples=self._n_samples,
            n_features=len(kept),
            sparse=False,
            columns=layout.names and [one.name for one in columns],
            target=layout.target_name,
            labels=target,
            table=table,
            beside=beside,
            ignored=[{"name": str(column), "reason": reason} for column, reason in ignored],
            reading=_reading(kept, columns, self._marks, self._spec.asked.missing)
            if table or not self._typed
            else None,  # numbers of JSON leave no choice
            warnings=[*layout.warnings, *_warnings(kept, ignored, layout)],
        )

    def _begin(self) -> list[Feature]:
        """What each column is like in its first rows."""
        passes = self._passes(Faults(), ())
        first = next(passes, None)
        if first is None:
            raise InvalidContent("empty-data", "there is no row")
        several = next(passes, None) is not None
        features = []
        for position in (*self._columns.features, *self._beside):
            role = self._beside.get(position)
            if role == "time" and position not in self._columns.kinds:
                kinds = self._columns.kinds | {position: self._kind_of_time(first[position])}
                self._columns = replace(self._columns, kinds=kinds)
            question = self._question(position)
            kind = question.kind
            make: Callable[[], Gatherer] | None = None
            if kind == "text":
                make = partial(free_texts, question, typed=self._typed)
                if role == "group":
                    words = question.asked | {PLACEHOLDER}
                    words = NO_WORDS if self._typed else words
                    longest = self._spec.limits.cell_bytes
                    make = partial(FreeTexts, words, longest, typed=self._typed)
                features.append(Feature(position, make))
                continue
            if self._typed:
                cell = next((cell for cell in first[position] if cell not in (None, "")), None)
                of_texts = kind in ("category", "date") or (kind is None and type(cell) is str)
                typed = TypedTexts if of_texts else TypedValues
                if of_texts and several and kind in (None, "date"):
                    make = self._of_head(TypedTexts(kind), first[position], position)
                features.append(Feature(position, make or partial(typed, kind)))
                continue
            if kind in (None, "number") and self._spec.asked.decimal != ",":
                trial = ValueColumn(self._words)
                trial.add(first[position])
                if trial.n_values - trial.n_booleans > len(trial.exceptions):
                    make = partial(ValueColumn, self._words)
            if make is None and several and kind in (None, "number", "date"):
                make = self._of_head(TextColumn(self._words), first[position], position)
            features.append(Feature(position, make or partial(TextColumn, self._words)))
        return features

    def _of_head(
        self, head: TextColumn, cells: Sequence[Any], position: int
    ) -> Callable[[], Gatherer] | None:
        """What reads a column as its first cells are written, if only one form is possible."""
        head.add(cells[:HEAD_ROWS])
        decision = decide(head, self._question(position, comma_likely=True))
        if not isinstance(decision, Kept) or decision.form is None:
            return None
        notes = {name: note for name, note in decision.notes.items() if name != "odd"}
        form, kind = decision.form, decision.kind
        typed = head.typed
        return partial(FormColumn, head.words, form, kind, notes, typed=typed, tentative=True)

    def _question(self, position: int, **known: Any) -> Question:
        """`known`: of the column and the rest of the file."""
        return Question(
            spec=self._spec,
            kind=self._columns.kinds.get(position),
            wanted=position in self._columns.wanted,
            odd=self._spec.asked.odd_cells == "missing" and position not in self._beside,
            **known,
        )

    @property
    def _beside(self) -> dict[int, str]:
        """The roles of columns beside the features, by position."""
        return {position: role for role, position in self._columns.beside.items()}

    def _kind_of_time(self, cells: Sequence[Any]) -> Kind:
        """Times are numbers if the first ones are, else dates."""
        if self._typed:
            first = next((cell for cell in cells if cell not in (None, "")), None)
            return "date" if isinstance(first, str) else "number"
        head = TextColumn(self._words)
        head.add(cells[:HEAD_ROWS])
        decision = decide(head, Question(spec=self._spec, comma_likely=True))
        if isinstance(decision, Ambiguous):
            return "date" if decision.code == "not-a-date" else "number"
        of_numbers = isinstance(decision, Kept | Wrong) and decision.kind == "number"
        return "number" if of_numbers else "date"

    def _pass(self, faults: Faults) -> LabelColumn:
        labels = LabelColumn(self._spec, faults, self._columns, typed=self._typed)
        n_samples = 0
        features = AllColumns(self._features)
        texts = [
            (i, g)
            for i, one in enumerate(self._features)
            if isinstance(g := one.gatherer, FreeTexts)
        ]
        self._texts = TextSpool(self._folder, [i for i, _ in texts])
        with ArrayWriter(self._folder / "spool", "<f8") as spool:
            before = 0
            for batch in self._passes(faults, texts_of(self._features)):
                known = faults.total == before
                before = faults.total
                values = features.add(batch)
                n_samples += len(values)
                if n_samples > self._spec.limits.rows:
                    raise too_many("rows", self._spec.limits.rows)
                if n_samples * len(self._features) > self._spec.limits.stored_values:
                    raise too_many("values", self._spec.limits.stored_values)
                if known:
                    labels.add(batch)
                else:  # of rows that are wrong
                    labels.skip(len(values))
                for i, column in texts:
                    self._texts.add(i, column.taken())
                if faults.total == 0:
                    spool.write(plain_bits(values))
                self._forget_texts()
            spool.finish((n_samples, len(self._features)))
        if n_samples == 0:
            raise InvalidContent("empty-data", "there is no row")
        self._n_samples = n_samples
        return labels

    def _forget_texts(self) -> None:
        """Bound what is in memory: the column with the most texts is free text."""
        columns = [one for feature in self._features if (one := feature.gatherer).n_texts > 1]
        while columns and sum(one.text_bytes for one in columns) > MAX_TEXT_BYTES:
            max(columns, key=lambda one: one.text_bytes).forget()
            columns = [one for one in columns if one.n_texts > 1]

    def _settle(self, *, comma_likely: bool) -> bool:
        """Decide all columns; whether the file has to be read again."""
        marks = self._marks = {mark for one in self._features if (mark := one.gatherer.mark)}
        decimal = next(iter(marks)) if len(marks) == 1 else None
        undecided = comma_likely if not marks else len(marks) > 1
        again = False
        for feature in self._features:
            question = self._question(
                feature.position,
                comma_likely=undecided,
                of_file=decimal,
                tried_plain=feature.tried_plain,
            )
            feature.decision = decide(feature.gatherer, question)
            if isinstance(feature.decision, Again):
                feature.make = feature.decision.gatherer
                again = True
        if again:  # those that are decided are read as they were
            for feature in self._features:
                feature.begin()
        return again

    def _kept(self) -> KeptFeatures:
        kept = [
            (one, one.decision)
            for one in self._features[: self._columns.n_features]
            if isinstance(one.decision, Kept)
        ]
        if sum(len(decision.levels) for _, decision in kept) > MAX_LEVELS_IN_ALL:
            message = f"all columns together have more than {MAX_LEVELS_IN_ALL:,} levels"
            hint = "ignore some columns of texts by `schema`"
            raise refuse("too-many-levels", message, hint=hint)
        return kept

    def _write_beside(self) -> list[BesideColumn]:
        """Write the arrays of the columns beside the features."""
        written = []
        for i, (position, role) in enumerate(self._beside.items(), self._columns.n_features):
            decision, column = self._features[i].decision, self._columns.column(position)
            assert isinstance(decision, Kept), "a column of a demanded kind"
            values = np.concatenate([block[:, i] for block in blocks(self._folder / "spool")])
            if role == "group":
                given, names = code_texts(self._texts.runs([i]))
                codes = np.full(len(values), -1)
                codes[~np.isnan(values)] = given
                write_groups(self._folder, codes, names)
            else:
                if decision.values is not None:
                    values = decision.values[values.astype(np.int64)]
                write_values(self._folder, role, values, column)
            written.append({"role": role, "name": str(column), "kind": decision.kind})
        return written

    def _write(self, kept: KeptFeatures, table: list[TableColumn]) -> None:
        spool = self._folder / "spool"
        as_it_is = all(decision.values is None for _, decision in kept)
        texts = text_positions(table)
        if as_it_is and len(kept) == len(self._features) and not texts:
            spool.replace(self._folder / "X.npy")
            return
        place = {feature.position: i for i, feature in enumerate(self._features)}
        places = [place[feature.position] for feature, _ in kept]
        if texts:
            write_texts(self._folder, self._texts.runs(places[i] for i in texts))

        def rows() -> Iterator[Values]:
            for block in blocks(spool):
                columns = [block[:, i] for i in places]
                for i, (_, decision) in enumerate(kept):
                    if decision.values is not None:
                        columns[i] = decision.values[columns[i].astype(np.int64)]
                yield np.column_stack(columns)

        write_rows(self._folder, rows(), table, len(kept), self._spec.limits)
        spool.unlink()


def _columns_of(kept: KeptFeatures, columns: Layout) -> list[Column]:
    """The features with their kinds; without names they are called by their position."""
    named = columns.names is not None
    return [
        Column(
            str(columns.column(feature.position)) if named else str(i),
            decision.kind,
            tuple(decision.levels),
            decision.missing,
        )
        for i, (feature, decision) in enumerate(kept)
    ]


def _ignored_columns(features: Sequence[Feature], columns: Layout) -> list[tuple[str | int, str]]:
    """Those that the caller ignores, then those that are not fit to be features."""
    proposed = [
        (columns.column(one.position), one.decision.reason)
        for one in features
        if isinstance(one.decision, Ignored)
    ]
    return [*columns.ignored, *proposed]


def _warnings(
    kept: KeptFeatures, ignored: list[tuple[str | int, str]], columns: Layout
) -> Iterator[dict[str, Any]]:
    for column, reason in ignored:
        if reason != ASKED:
            yield ignoring(column, reason)
    for feature, decision in kept:
        for code, message in decision.warnings:
            name = columns.column(feature.position)
            if decision.kind == "text" and are_sentences([str(name)]):
                message += "; the first line must hold the names of the columns, and this is a "
                message += "sentence: if it is a row, say that names are absent"
            yield warning(code, f"column {called(name)}: {message}", [name])


def _reading(
    kept: KeptFeatures, table: list[Column], marks: set[str], missing: Iterable[str]
) -> dict[str, Any]:
    """The part of `reading` that the columns decide.

    `marks` are the decimal marks of the file, `missing` the caller's words.
    """
    by_column: dict[str, dict[str, Any]] = {}
    for column, (feature, decision) in zip(table, kept, strict=True):
        notes = decision.notes
        if len(marks) > 1 and decision.kind == "number" and feature.gatherer.mark == ".":
            notes = {"decimal": "."} | notes
        if notes:
            by_column[column.name] = notes
    decimals = {notes["decimal"] for notes in by_column.values() if "decimal" in notes}
    thousands = {notes["thousands"] for notes in by_column.values() if "thousands" in notes}
    words = {word for _, decision in kept for word in decision.missing_words}
    return {
        "decimal": min(decimals) if decimals else ".",
        "thousands": min(thousands) if thousands else None,
        "missing": sorted(words.union(missing)),
        "columns": by_column,
    }


def _likely_labels(features: Sequence[Feature], columns: Layout) -> list[str]:
    """Names of columns with few values, as labels have; first those that are called like labels,
    then those with the fewest."""
    counted = [
        (one.decision.n_labels, str(columns.column(one.position)))
        for one in features
        if isinstance(one.decision, Kept) and one.decision.n_labels is not None
    ]
    likely = [name for n, name in sorted(counted, key=itemgetter(0)) if 1 < n <= MOST_LABELS]
    named = called_label(likely)
    return sorted(likely, key=lambda name: name not in named)


def build(
    spec: ParseSpec,
    n_cells: int,
    names: list[str] | None,
    passes: Passes,
    unnamed: Collection[int] = (),
) -> Table:
    """The table of cells with types. Those at `unnamed` are not kept. Raises ServiceError with
    every fault."""
    columns = make_layout(spec, n_cells, names, unnamed)
    return Builder(spec, columns, passes, typed=True).build(comma_likely=False)


def batches_of_lists(rows: Iterator[list[Any]], n_cells: int, faults: Faults) -> Iterator[Batch]:
    """Rows that are lists, column by column; others are faults. Raises InvalidContent for the first
    one after a hundred of them."""
    done = 0
    for batch in rows:
        if set(map(type, batch)) == {list} and set(map(len, batch)) == {n_cells}:
            done += len(batch)
            yield ValueRows(batch)
            continue
        good = []
        for number, row in enumerate(batch, done + 1):
            if type(row) is not list:
                message = f"the row is {shown(row)}, not a list of numbers"
                faults.add("invalid-field", message, row=number, hint=LIST_HINT)
            elif len(row) != n_cells:
                faults.add(*ragged(len(row), n_cells), row=number)
            else:
                good.append(row)
                continue
            if faults.total > MAX_FAULTS:
                faults.check()
            good.append([None] * n_cells)  # the file is refused
        done += len(batch)
        yield list(zip(*good, strict=True))
