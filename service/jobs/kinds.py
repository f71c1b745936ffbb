"""The kinds of jobs: workers, filters and the application read them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from service.jobs import batch_predictions, comparisons, evaluations, training

KINDS = {
    kind.name: kind
    for kind in (
        training.KIND,
        batch_predictions.KIND,
        evaluations.KIND,
        comparisons.KIND,
    )
}

if TYPE_CHECKING:
    KindName: TypeAlias = str
else:
    KindName = Literal[tuple(KINDS)]
