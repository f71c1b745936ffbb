"""Jobs that measure a model on a labeled dataset."""

from __future__ import annotations

from service.jobs.core.kind import Kind

KIND = Kind(
    "evaluate",
    "evaluation",
    "train",
    package=__name__,
    about="A model compared with labeled data, as a job.",
    guide="evaluations-and-comparisons/#evaluations",
    title=lambda spec: f"Evaluation of {spec['model']['name']}",
)
