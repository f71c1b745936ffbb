from __future__ import annotations

from tests.service.models.shelf import shelf

__all__ = ["shelf"]
