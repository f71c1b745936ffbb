"""Counts the code of `svm` and `service`: lines, files, and the share of imports (`make check`).

A line of code has a token of Python that is neither a comment nor part of a docstring.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_lines(path: Path) -> tuple[int, int]:
    """The lines of code of a module, and how many of them import something."""
    source = path.read_text()
    documented: set[int] = set()
    importing: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            importing |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented), len(lines & importing)


def main() -> None:
    counts = [
        count_lines(path) for room in ("svm", "service") for path in (ROOT / room).rglob("*.py")
    ]
    lines, imports = (sum(column) for column in zip(*counts, strict=True))
    print(f"{lines:,} lines of code in {len(counts)} files, {imports / lines:.1%} of them imports")


if __name__ == "__main__":
    main()
