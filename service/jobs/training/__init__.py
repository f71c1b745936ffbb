"""Jobs that train a model."""

from __future__ import annotations

from service.jobs.core.kind import Kind

KIND = Kind("train", "job", "train", package=__name__)
