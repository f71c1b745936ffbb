"""Jobs that measure a model on a labeled dataset."""

from __future__ import annotations

from service.jobs.core.kind import Kind

KIND = Kind("evaluate", "evaluation", "train", package=__name__)
