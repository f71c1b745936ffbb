"""Every setting, solver and problem is documented."""

from __future__ import annotations

import pytest

from service.cli import cli
from service.settings import Limits
from svm.solvers import CHOICES
from tools.make_tables import DOCS, TABLES, made

PAGES = sorted(path.name for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", [*PAGES, "decisions/README.md"])
def test_tables_are_up_to_date(page: str) -> None:
    """`make docs` would change nothing."""
    text = (DOCS / page).read_text()
    assert text == made(text)


def test_every_table_is_on_a_page() -> None:
    """Settings, limits, problems and decisions are all shown."""
    text = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert [name for name in TABLES if f"<!-- table: {name} -->" not in text] == []


def test_every_limit_says_what_it_does() -> None:
    """The table has no empty cell."""
    assert [n for n, field in Limits.model_fields.items() if not field.description] == []


def test_every_solver_has_a_section() -> None:
    """What it does and when to use it, under its name."""
    text = (DOCS / "solvers.md").read_text()
    assert [name for name in CHOICES if f"## {name}\n" not in text] == []


def test_every_command_is_documented() -> None:
    """Each under its name, with what it takes."""
    text = (DOCS / "command-line.md").read_text()
    names = [c.name or c.callback.__name__ for c in cli.registered_commands if c.callback]
    names += [group.name for group in cli.registered_groups if group.name]
    assert [name for name in names if f"svm-service {name}" not in text] == []


def test_every_page_is_on_the_index() -> None:
    """And every link of the index leads to one."""
    index = (DOCS / "README.md").read_text()
    assert [page for page in PAGES if f"({page})" not in index] == ["README.md"]
