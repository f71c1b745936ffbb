"""What the passes of a training take if several machines share them, estimated from its sizes."""

from __future__ import annotations

from service.common.schemas import ReadModel
from svm.data.shards import expected_shards
from svm.model.pipeline import Pipeline
from svm.solvers.newton import FLOAT_BYTES
from svm.training.estimates import DataSize, encoded_sizes, expected_passes
from svm.transforms.features import Identity, Square, n_outputs

LABEL_BYTES = 1


class SpreadPlanRead(ReadModel):
    """What the passes of a training take if other machines share them."""

    shards: int
    """Runs of rows, of about a million numbers each, over which passes are sums. `spread: auto`
    asks other machines from more than 512 on."""
    passes: int
    """How often rows are read, by the steps of trainings that were counted. `newton` takes about 4
    steps for each decimal digit of the relative gap, less 2, and 5 fewer if there are enough rows
    to begin on a sample; each step reads all rows once, and those near the margin twice more.
    `gradient-descent` reads all rows once in each epoch, of which there are at most those that
    `stopping` allows, and then as `newton` for its certificate. Preparation and metrics, which the
    job's own worker computes, are not counted."""
    bytes_once: int
    """Sent once: the labels and weights of all rows, and to each worker which rows they are."""
    bytes_per_epoch: int
    """To and from each worker in a step of `newton` or an epoch of `gradient-descent`."""
    memory_bytes: int
    """In all workers together: labels, weights and scores of the rows. Beside them each worker
    keeps the rows that fit in half of its memory, and reads the others again in each pass."""


def spread_plan(pipeline: Pipeline, size: DataSize, n: int) -> SpreadPlanRead | None:
    """Of a training on n rows of data of this size; None if other machines cannot share it. For
    `auto` that of `newton`."""
    if size.n_classes != 2:
        return None
    if size.table is not None:
        size = encoded_sizes(pipeline, size, size.table)[-1]
    d = n_outputs(pipeline.features, size.n_features)
    sparse = size.sparse and isinstance(pipeline.features, Identity | Square)
    stored = size.stored_values * d // size.n_features if sparse else size.n_samples * d
    values = stored * n // size.n_samples
    shards = expected_shards(n, d, values)
    expected = expected_passes(
        pipeline.solver, pipeline.stopping, n, d, values, sparse=sparse, shards=shards
    )
    if expected is None:
        return None
    weighted = size.weighted or pipeline.class_weight is not None
    row_bytes = LABEL_BYTES + (FLOAT_BYTES if weighted else 0)
    return SpreadPlanRead(
        shards=shards,
        passes=expected.passes,
        bytes_once=n * row_bytes + (0 if n == size.n_samples else -(-size.n_samples // 8)),
        bytes_per_epoch=FLOAT_BYTES * expected.epoch_numbers,
        memory_bytes=n * (row_bytes + FLOAT_BYTES * expected.row_values),
    )
