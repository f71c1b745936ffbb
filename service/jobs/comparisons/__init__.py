"""Jobs that train several models on the same rows and rank them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.jobs.core.kind import Kind


def _title(spec: Mapping[str, Any]) -> str:
    name = spec.get("model_name")
    return f"Comparison for {name}" if name else "Comparison"


KIND = Kind(
    "compare",
    "comparison",
    "train",
    package=__name__,
    about="Several models trained on the same rows and ranked, as a job.",
    guide="evaluations-and-comparisons/#comparisons",
    title=_title,
)
