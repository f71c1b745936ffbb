"""Codes raised in the code, codes in the table, and codes in the document agree."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from service import errors
from service.errors import ServiceError
from service.web.problems import PROBLEMS

SERVICE = Path(__file__).parents[2] / "service"
FAMILIES = {family.__name__: family for family in ServiceError.__subclasses__()}


@cache
def _raised() -> list[tuple[str, str, str]]:
    """(place, family, code) for every error that is built with a literal code."""
    found = []
    for path in sorted(SERVICE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            code = node.args[0]
            if name in FAMILIES and isinstance(code, ast.Constant) and isinstance(code.value, str):
                place = f"{path.relative_to(SERVICE)}:{node.lineno}"
                found.append((place, name, code.value))
    return found


def test_every_raised_code_is_in_the_table() -> None:
    """A code that the table does not know would have no title and no page."""
    assert len(_raised()) > 100
    unknown = [(place, code) for place, _, code in _raised() if code not in PROBLEMS]
    assert unknown == []


def test_codes_of_a_family_have_one_status() -> None:
    """What callers catch by its family is what clients see by its status."""
    seen: dict[str, set[int]] = {}
    for _, family, code in _raised():
        seen.setdefault(family, set()).add(PROBLEMS[code].status)
    assert {family: len(statuses) for family, statuses in seen.items()} == dict.fromkeys(seen, 1)


def test_every_code_in_the_table_is_used() -> None:
    """The table promises nothing that cannot happen; the training of a job raises some codes."""
    text = "".join(
        path.read_text()
        for package in (SERVICE, SERVICE.parent / "svm")
        for path in package.rglob("*.py")
    )
    unused = [code for code in PROBLEMS if f'"{code}"' not in text]
    assert unused == []


def test_error_tree_is_drawn_in_its_docstring() -> None:
    """The docstring of `service.errors` names every family."""
    assert errors.__doc__ is not None
    assert [family for family in FAMILIES if family not in errors.__doc__] == []
