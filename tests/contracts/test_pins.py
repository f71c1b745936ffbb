"""All pins install on the oldest Python of a fresh machine: Debian 12 has 3.11.2."""

from __future__ import annotations

from importlib.metadata import distributions

from packaging.specifiers import SpecifierSet

OLDEST = "3.11.2"


def test_pinned_versions_install_on_the_oldest_python() -> None:
    """What is installed here is what `constraints.txt` pins."""
    wanted = {each.name: each.metadata.json.get("requires_python", "") for each in distributions()}
    newer = {name: text for name, text in wanted.items() if OLDEST not in SpecifierSet(str(text))}
    assert newer == {}
