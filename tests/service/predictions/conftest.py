from __future__ import annotations

from tests.service.models.registered_models import shelf

__all__ = ["shelf"]
