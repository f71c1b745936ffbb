"""Writes the tables in `docs/` that come from the code: `make docs`. A test compares them.

A table is between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from service.settings import GIB, MIB, Limits, Settings
from service.web.problems import PROBLEMS

DOCS = Path(__file__).parents[1] / "docs"
_TABLE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def made(text: str) -> str:
    """The page with its tables as they should be."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", text)


def _settings() -> str:
    return _table(("variable", "default", "what it does"), _rows(Settings, "SVM_"))


def _limits() -> str:
    return _table(("variable", "default", "what it does"), _rows(Limits, "SVM_LIMITS__"))


def _problems() -> str:
    rows = (
        (f"`{code}`", problem.status, f"**{problem.title}.** {problem.description}")
        for code, problem in sorted(PROBLEMS.items())
    )
    return _table(("code", "status", "what it means"), rows)


def _decisions() -> str:
    pages = sorted((DOCS / "decisions").glob("0*.md"))
    titles = (page.read_text().partition("\n")[0].removeprefix("# ") for page in pages)
    return "\n".join(f"- [{t}]({page.name})" for page, t in zip(pages, titles, strict=True))


TABLES: dict[str, Callable[[], str]] = {
    "settings": _settings,
    "limits": _limits,
    "problems": _problems,
    "decisions": _decisions,
}


def _rows(model: Any, prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        if name != "limits":
            said = " ".join((field.description or "").split())
            yield f"`{prefix}{name.upper()}`", _default(name, field.default), said


def _default(name: str, value: Any) -> str:
    if value is PydanticUndefined:
        return "in the data directory"
    if value is None:
        return "none"
    if name.endswith("_bytes") and isinstance(value, int):
        for unit, size in (("GiB", GIB), ("MiB", MIB)):
            if value % size == 0:
                return f"{value // size} {unit}"
    return f"{value:,}" if isinstance(value, (int, float)) else f"`{value}`"


def _table(columns: tuple[str, ...], rows: Any) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


if __name__ == "__main__":
    for page in DOCS.rglob("*.md"):
        page.write_text(made(page.read_text()))
