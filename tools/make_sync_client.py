"""Generates `service/client/synchronous` from `service/client/asynchronous`: `make client`.

It only replaces words, so that both do the same; a test checks that the files are up to date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "service" / "client"
NOTE = "# Generated from the module of this name in `asynchronous` by `make client`.\n"
WORDS = {
    r"async (def|with|for) ": r"\1 ",
    r"await anyio\.Path": "Path",
    r"import anyio": "import time",
    r"anyio\.sleep": "time.sleep",
    r"await ": "",
    r"asynccontextmanager": "contextmanager",
    r"AsyncIterator": "Iterator",
    r"\bhttpx2\.AsyncClient": "httpx2.Client",
    r"\bAsync(Client|Session|Dataset|Job|ModelVersion|Model|Predictor)\b": r"\1",
    r"\ba(read|close|iter_bytes)\(": r"\1(",
    r"__a(enter|exit)__": r"__\1__",
    r"client\.asynchronous": "client.synchronous",
}


def modules() -> dict[str, str]:
    """The synchronous modules by file name."""
    return {
        path.name: formatted(_synchronous(path.read_text()))
        for path in sorted((CLIENT / "asynchronous").glob("*.py"))
    }


def _synchronous(text: str) -> str:
    for word, other in WORDS.items():
        text = re.sub(word, other, text)
    return NOTE + text if text else text


def formatted(text: str) -> str:
    ruff = str(Path(sys.executable).parent / "ruff")
    name = ("--stdin-filename", str(CLIENT / "synchronous" / "made.py"), "-")
    for command in (("check", "--fix-only"), ("format",)):
        text = subprocess.run(
            [ruff, *command, "--quiet", *name],
            input=text,
            cwd=CLIENT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


if __name__ == "__main__":
    (CLIENT / "synchronous").mkdir(exist_ok=True)
    for name, text in modules().items():
        (CLIENT / "synchronous" / name).write_text(text)
