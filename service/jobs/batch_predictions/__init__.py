"""Jobs that predict all rows of a dataset and write a file."""

from __future__ import annotations

from service.jobs.core.kind import Kind

KIND = Kind(
    "predict",
    "batch prediction",
    "predict",
    package=__name__,
    about="Predictions for a whole dataset, as a job.",
    guide="guide/#predict",
    title=lambda spec: f"Predictions of {spec['model']['name']}",
)
