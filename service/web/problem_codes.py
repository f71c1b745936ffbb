"""Every problem that a reply can report: its code, status and meaning, from `problem_codes.md`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ENTRY = re.compile(r"^### (\S+): (\d+) (.+)\n\n(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is written about one kind of problem."""

    status: int
    title: str
    description: str


PROBLEMS = {
    code: Problem(int(status), title, description)
    for code, status, title, description in _ENTRY.findall(
        Path(__file__).with_suffix(".md").read_text()
    )
}
