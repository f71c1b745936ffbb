from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.models.example_models import Gallery, open_gallery
from tests.service.models.registered_models import shelf

__all__ = ["shelf"]


@pytest.fixture(scope="package")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """One service with trained versions, for the tests that only look at them."""
    with open_gallery(tmp_path_factory.mktemp("gallery")) as gallery:
        yield gallery
