"""The code on the pages is run as it stands, from top to bottom, against a service.

`sh` and `python` blocks of a page share a folder, its Python blocks their names. A block below a
comment `<!-- not run: REASON -->` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.server import Server
from tools.make_tables import DOCS

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
ADDRESS = "http://127.0.0.1:8000"
PRELUDE = """\
set -euo pipefail
curl() { command curl --silent --show-error --fail-with-body --max-time 60 "$@"; }
make() { command make --dry-run -C "$ROOT" "$@"; }
"""
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.+?) -->\n)?^```(?P<language>sh|python)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """Code on a page."""

    language: str
    code: str
    place: str
    """Page and line."""
    reason: str | None
    """Why it is not run."""


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            found["language"],
            found["code"],
            f"{page.name}:{text.count(chr(10), 0, found.start('code')) + 1}",
            found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda page: page.name)
def test_code_of_the_page_runs(
    page: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block ends well, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SVM_URL", server.url)
    own = page.name != "operations.md"  # which backs up the data of the service
    monkeypatch.setenv("SVM_DATA_DIR", str(tmp_path / "var" if own else server.data_dir))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ROOT", str(ROOT))
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        code = block.code.replace(ADDRESS, server.url)
        if block.reason is not None:
            continue
        if block.language == "sh":
            _run_shell(block, code)
        else:
            exec(compile(code, block.place, "exec"), names)


def _run_shell(block: Block, code: str) -> None:
    done = subprocess.run(
        ["bash", "-c", PRELUDE + code], capture_output=True, text=True, timeout=100
    )
    said = f"{block.place}\n{code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == 0, said


def test_few_blocks_are_left_out() -> None:
    """What cannot run on one machine is the exception."""
    all_blocks = [block for page in PAGES for block in blocks(page)]
    assert sum(block.reason is not None for block in all_blocks) <= 2
    assert len(all_blocks) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_columns_of_tables_have_names(page: Path) -> None:
    """Screen readers say the name of the column with each cell."""
    heads = re.findall(r"^\|(.*)\|\n\|[ :|-]+\|$", page.read_text(), re.MULTILINE)
    assert [head for head in heads if not all(map(str.strip, head.split("|")))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Files that a page links to are there, and so are the headings."""
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), f"{page.name}: {target}"
        if heading:
            slugs = {
                re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                for line in file.read_text().splitlines()
                if line.startswith("#")
            }
            assert heading in slugs, f"{page.name}: {target}"
