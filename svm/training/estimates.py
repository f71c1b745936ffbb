"""The peak memory of a training, estimated before the data is loaded.

The terms follow the code that allocates: `svm.training.preparation`, `svm.problem.problem`,
`svm.solvers.newton` (which certifies the other solvers' models). Measured peaks are in
`docs/decisions/0017`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from svm.data.columns import Column, Columns
from svm.data.shards import SHARD_VALUES
from svm.data.stored_rows import PIECE_VALUES
from svm.encoding.encoder import Encoding
from svm.encoding.fitting import GATHERED_VALUES
from svm.encoding.fitting_texts import MANY_CHARACTERS, MOST_TOKENS, SHORT
from svm.kernel.kernel_rows import CACHE_BYTES, ENTRY_BYTES, PIECE
from svm.model.multiclass import splits_of
from svm.model.pipeline import Pipeline
from svm.solvers.newton import FLOAT_BYTES, sample_bytes
from svm.solvers.protocol import ChoosesSolver
from svm.solvers.smoothing.smoothed_hinge import (
    DENSE_HESSIAN,
    GATHER_ROWS,
    HESSIAN_VALUES,
    LEAVES,
)
from svm.solvers.working_sets import LARGE_SET, MANY, MOST_ROWS, SMALL
from svm.training.default_epsilon import MOST_ROWS as MOST_ROWS_OF_FIRST_FIT
from svm.training.kernel_bound import LEAST_WORK, VALUE_COST
from svm.training.preparation import DENSE_OUTPUTS, encodes_sparse
from svm.transforms.features import Identity, Interactions, Nystroem, Polynomial, Square, n_outputs

INDEX = 4
SPARSE_ROW_VALUES = 4
"""If the certifier uses Hessian products: the scores and curvatures that it keeps."""
LONG_ROW = 1 << 17
"""Most numbers stored for a sparse row of data in files that are planned with."""
BOUND_ROW_VALUES = 24
BOUND_VALUES = 1 << 22
"""For each row, and in all, while the kernel itself bounds a model on Nyström features."""
FIRST_FIT = 5
"""Square matrices of the fit that the default ε comes from."""
VALUES = {"number": 1, "boolean": 1, "date": 4}
"""Outputs of a column of each kind, without its indicator."""
LETTERS = 6
"""Characters of a word of a text, with the blank behind it."""
WINDOWS = 2.2
"""Different runs of 2 to 4 characters in a text, for each of its characters."""
KEPT_TOKENS = 0.4
"""Share of the tokens that two texts have or more."""
LEARNED_TOKEN, KEPT_TOKEN = 280, 140
"""Bytes for each different token while an encoder learns it, and when it has it."""
CERTIFIER_VECTORS = 12
"""Vectors of the length of a mapped row, temporary, while a problem is certified."""
SHARED_ROW_VALUES = 4
"""For each row: what problems of one class against the rest share."""
THREADS = 4
"""Binary problems that may be trained at once, or threads that work on a single one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSize:
    """The size of the rows of a training, before any transform."""

    n_samples: int
    n_features: int
    stored_values: int
    """Numbers stored: n_samples · n_features if dense, non-zeros if sparse."""
    sparse: bool
    n_classes: int
    label_bytes: int = FLOAT_BYTES
    """Bytes of one label."""
    weighted: bool = False
    """Whether rows have weights; those of weight 0 are left out of a copy."""
    table: Columns | None = None
    """The columns, if the rows are raw values of a table."""
    text_bytes: int = 0
    """Of all texts of a table, in UTF-8."""

    def part(self, n_samples: int) -> DataSize:
        """Of at most this many of the rows."""
        n = min(n_samples, self.n_samples)
        values, texts = (
            count * n // self.n_samples for count in (self.stored_values, self.text_bytes)
        )
        table = self.table and [
            replace(column, characters=column.characters * n // self.n_samples)
            for column in self.table
        ]
        return replace(self, n_samples=n, stored_values=values, text_bytes=texts, table=table)


def rows_bytes(size: DataSize) -> int:
    """X itself, in float64, with its texts."""
    each = FLOAT_BYTES + INDEX if size.sparse else FLOAT_BYTES
    starts = INDEX * size.n_samples if size.sparse else 0
    return each * size.stored_values + starts + size.text_bytes


def training_bytes(pipeline: Pipeline, size: DataSize, *, in_files: bool) -> int:
    """Most bytes beyond X itself. Of data in files, only pieces are in memory."""
    if size.weighted:
        left_out = 0 if in_files else rows_bytes(size)
        weights = 3 * FLOAT_BYTES * size.n_samples
        rest = replace(size, weighted=False)
        return left_out + weights + training_bytes(pipeline, rest, in_files=in_files)
    if size.table is not None:
        return _table_bytes(pipeline, size, size.table, in_files=in_files)
    n, width = size.n_samples, n_outputs(pipeline.features, size.n_features)
    still_sparse = size.sparse and isinstance(pipeline.features, Identity | Square)
    problems = splits_of(pipeline.multiclass, size.n_classes)
    # One-vs-one: every row is in as many problems as there are other classes.
    shares = size.n_classes if len(problems) == size.n_classes > 2 else size.n_classes - 1
    threads = min(len(problems), THREADS)
    solver = pipeline.solver.trained_by(width)
    per_row, per_problem = solver.row_values
    per_row += SPARSE_ROW_VALUES if still_sparse else 0
    sides = 2 if pipeline.predicts_numbers else 1  # of each row, beside X
    values = per_row + per_problem * shares
    if len(problems) == size.n_classes > 2 and pipeline.class_weight is None:
        values -= min(SHARED_ROW_VALUES, per_problem) * (shares - 1)
    total = n * (sides * FLOAT_BYTES * values + 3 * size.label_bytes)
    if pipeline.predicts_numbers:
        total += FIRST_FIT * FLOAT_BYTES * min(n, MOST_ROWS_OF_FIRST_FIT) ** 2
    kept = solver.kept_vectors
    if pipeline.stopping.patience is not None:  # the state of the lowest error
        kept += 1
        total += n * FLOAT_BYTES * shares
    passing = CERTIFIER_VECTORS + solver.passing_vectors * (threads - 1)
    total += FLOAT_BYTES * width * (kept * len(problems) + passing)
    if isinstance(pipeline.features, Nystroem):
        total += _bound_bytes(size, width)
        if pipeline.solver.dtype == "float32" and not in_files:
            total += FLOAT_BYTES * n * width  # the features of the model served
    if pipeline.solver.computes_kernel:
        # X as kernel values are computed from it; rows of the kernel matrix, cached and in use.
        K = size.n_classes
        total += 2 * rows_bytes(size) if still_sparse else FLOAT_BYTES * (n + PIECE * K) * width
        total += min(n * (FLOAT_BYTES * n + ENTRY_BYTES * K), CACHE_BYTES)
        total += FLOAT_BYTES * n * (LARGE_SET + 2 * PIECE * THREADS)
    all_small = isinstance(pipeline.solver, ChoosesSolver) and n <= SMALL * size.n_classes
    if len(problems) >= MANY and n <= MOST_ROWS and (all_small or pipeline.solver.computes_kernel):
        total += 2 * FLOAT_BYTES * n * n  # side by side
    longest, each = max(width, size.n_features), FLOAT_BYTES + INDEX if size.sparse else FLOAT_BYTES
    values = max(size.stored_values, n * longest)
    if still_sparse:
        longest, values = min(longest, LONG_ROW), size.stored_values
    shards = 1 + values // SHARD_VALUES
    workers = threads if len(problems) > 1 else min(shards, THREADS)
    if pipeline.kernel is None and not still_sparse and width <= DENSE_HESSIAN:
        hessians = 2 + min(shards, LEAVES, max(2, HESSIAN_VALUES // (width + 1) ** 2))
        passing = workers * (width + 2 * min(GATHER_ROWS, n))
        total += FLOAT_BYTES * width * (threads * hessians * width + passing)
    if pipeline.kernel is None:  # the solver or its certifier
        total += (threads if solver.samples_rows else 1) * sample_bytes(n, values, each)
    if in_files:
        return total + (4 + 2 * workers) * each * min(PIECE_VALUES + longest, values)
    return total + _copies(pipeline, size, width)


def encoded_sizes(pipeline: Pipeline, size: DataSize, columns: Columns) -> list[DataSize]:
    """The sizes of the outputs of an encoder, at most: dense or CSR, or both if their form depends
    on the data."""
    numbers = sum(VALUES[column.kind] + 1 for column in columns if column.kind in VALUES)
    levels = [len(column.levels) for column in columns if column.kind == "category"]
    texts = [column for column in columns if column.kind == "text"]
    _, tokens, entries = _tokens(pipeline.encoding, size, texts)
    most = numbers + sum(levels) + 2 * len(levels) + len(texts) + tokens
    sparse = replace(
        size,
        table=None,
        text_bytes=0,
        n_features=most,
        stored_values=size.n_samples * (numbers + len(levels) + len(texts)) + entries,
        sparse=True,
    )
    if texts:
        return [sparse]
    width = most if not encodes_sparse(pipeline, most) else min(most, DENSE_OUTPUTS)
    dense = replace(sparse, n_features=width, stored_values=size.n_samples * width, sparse=False)
    return [dense, sparse] if encodes_sparse(pipeline, most) else [dense]


def _tokens(encoding: Encoding, size: DataSize, texts: Sequence[Column]) -> tuple[int, int, int]:
    """How many different tokens an encoder counts, how many of these it keeps, and how many
    different ones each text has, all together.

    Different ones grow more slowly than the texts (Heaps' law). The constants are those of film
    reviews and of generated messages; manuals have two to three times as many runs of characters:
    a training that was refused for too high an estimate would have no way to show that."""
    different: list[float] = []
    entries = 0.0
    n_characters = max(1, sum(text.characters for text in texts))
    for text in texts:
        n, parts = text.characters, encoding.tokens
        # Most characters take three bytes: there are no blanks between words.
        dense = 5 * size.text_bytes > 12 * n_characters
        short = dense or n <= SHORT * size.n_samples
        if parts in ("words", "both", "auto"):
            words = n / LETTERS
            different.append(min(2.0 * words, 4.0 * words**0.8))
            entries += 2.0 * words
        if parts in ("characters", "both") or (parts == "auto" and short):
            different.append(min(WINDOWS * n, 18.0 * n**0.5))
            entries += WINDOWS * n
    rare = 1 if encoding.min_count > 1 else MOST_TOKENS
    kept = sum(KEPT_TOKENS * part if part > rare else part for part in different)
    counted = sum(different) if n_characters <= MANY_CHARACTERS else 1.2 * kept
    return math.ceil(counted), math.ceil(kept), math.ceil(entries)


def _table_bytes(pipeline: Pipeline, size: DataSize, columns: Columns, *, in_files: bool) -> int:
    """Most bytes of a training on a table, with the encoded rows."""
    forms = encoded_sizes(pipeline, size, columns)
    texts = [column for column in columns if column.kind == "text"]
    tokens, kept, entries = _tokens(pipeline.encoding, size, texts)
    # Numbers, plain and scaled; places of levels, and their outputs.
    passing = 4 * FLOAT_BYTES * (forms[-1].stored_values - entries)
    if in_files:  # a piece of raw rows, of their numbers and of outputs
        passing = 6 * FLOAT_BYTES * (PIECE_VALUES + (0 if texts else forms[0].n_features))
        passing += FLOAT_BYTES * size.n_samples * len(texts)  # where texts end
    # Columns with gaps, as a whole.
    passing += 2 * FLOAT_BYTES * min(max(GATHERED_VALUES, size.n_samples), size.stored_values)
    whole = replace(pipeline, scaling="none")  # the encoder scales its outputs
    copies = 0 if in_files else 2
    training = max(
        copies * rows_bytes(form) + training_bytes(whole, form, in_files=in_files) for form in forms
    )
    if texts and not in_files:  # their blocks, which are joined before anything else is made
        rows = rows_bytes(forms[0])
        training = max(training - rows, copies * rows)
    return passing + max(LEARNED_TOKEN * tokens, KEPT_TOKEN * kept + training)


def _bound_bytes(size: DataSize, width: int) -> int:
    """While the kernel itself bounds a model on Nyström features; with the rows of one group."""
    n, each = size.n_samples, size.stored_values / size.n_samples + VALUE_COST[size.sparse]
    work = max(0.5 * n * width * (size.n_features + width), LEAST_WORK)
    group = min(1.0, math.sqrt(2.0 * work / each) / n)
    passing = FLOAT_BYTES * (BOUND_ROW_VALUES * n + min(BOUND_VALUES, n * n))
    return passing + math.ceil(group * rows_bytes(size))


def _copies(pipeline: Pipeline, size: DataSize, width: int) -> int:
    """The copies of X that scaling, features and precision make, one after the other."""
    copy = rows_bytes(size)
    total = copy if pipeline.scaling != "none" else 0
    match pipeline.features:
        case Identity():
            made = copy
        case Square():
            made = copy
            total += copy
        case Polynomial() | Interactions():
            made = FLOAT_BYTES * size.n_samples * width
            total += 2 * made
        case _:
            made = FLOAT_BYTES * size.n_samples * width
            total += made
    return total + (made // 2 if pipeline.solver.dtype == "float32" else 0)
