from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.models.example_models import NUMERIC, ExampleModels, open_examples
from tests.service.models.registered_models import registered

__all__ = ["registered"]


@pytest.fixture(scope="package")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleModels]:
    """One service with trained versions, for tests that only read them."""
    with open_examples(tmp_path_factory.mktemp("examples")) as examples:
        yield examples


@pytest.fixture(scope="package")
def numeric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleModels]:
    """The same of numeric targets."""
    with open_examples(tmp_path_factory.mktemp("numeric"), NUMERIC) as examples:
        yield examples
