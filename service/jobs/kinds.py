"""The kinds of jobs: workers, filters and the application read them here."""

from __future__ import annotations

from collections.abc import Mapping

from service.jobs import batch_predictions, comparisons, evaluations, training
from service.jobs.core.kind import Kind

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        training.KIND,
        batch_predictions.KIND,
        evaluations.KIND,
        comparisons.KIND,
    )
}
