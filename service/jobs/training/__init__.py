"""Jobs that train a model."""

from __future__ import annotations

from service.jobs.core.kind import Kind

KIND = Kind(
    "train",
    "job",
    "train",
    package=__name__,
    about="Training in the background: queue, watch, pause, cancel. A crash loses no job.",
    guide="guide/#train",
    title=lambda spec: str(spec["model_name"]),
)
