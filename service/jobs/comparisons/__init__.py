"""Jobs that train several models on the same rows and rank them."""

from __future__ import annotations

from service.jobs.core.kind import Kind

KIND = Kind("compare", "comparison", "train", package=__name__)
