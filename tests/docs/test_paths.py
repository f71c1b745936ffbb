"""Files, folders, modules and links that the Markdown pages name exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PATH = re.compile(r"`((?:svm|service|tests|benchmarks|docs)/[\w./-]*)`")
MODULE = re.compile(r"`((?:svm|service|benchmarks)\.(?!example)\w[\w.]*)`")
LINK = re.compile(r"\]\((?!https?://)([^)\s#]+)")


def named(page: Path, pattern: re.Pattern[str]) -> list[str]:
    return pattern.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_things_exist(page: Path) -> None:
    """Paths from the root of the repository, modules and their attributes, and linked files."""
    missing = [path for path in named(page, PATH) if not (ROOT / path).exists()]
    missing += [name for name in named(page, MODULE) if not _importable(name)]
    missing += [link for link in named(page, LINK) if not (page.parent / link).exists()]
    assert [name for name in missing if "NAME" not in name] == []


def test_map_shows_every_package() -> None:
    """The map in CONTRIBUTING.md has all packages but those of tests, two levels deep."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("<!-- map -->\n```\n")[2]
    shown = sorted(_folders(text.partition("```")[0]))
    packages = (
        file.parent.relative_to(ROOT)
        for top in ("svm", "service", "tools")
        for file in (ROOT / top).rglob("__init__.py")
    )
    assert shown == sorted(f"{p.as_posix()}/" for p in packages if len(p.parts) <= 3)


def test_pictures_are_small() -> None:
    """All together at most 150 kB."""
    sizes = [file.stat().st_size for file in (ROOT / "docs" / "images").iterdir()]
    assert 0 < sum(sizes) <= 150_000


def _folders(tree: str) -> Iterator[str]:
    """Whole paths from a tree that is indented by four."""
    parents: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 4
        parents = [*parents[:depth], name]
        yield "".join(parents)


def _importable(name: str) -> bool:
    """Whether it is a module, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    try:
        if importlib.util.find_spec(name):
            return True
    except ModuleNotFoundError:
        pass
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return False
