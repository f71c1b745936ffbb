from __future__ import annotations

from tests.service.models.registered_models import registered

__all__ = ["registered"]
