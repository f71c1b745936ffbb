"""The synchronous client is up to date, and clients do not import the service."""

from __future__ import annotations

import subprocess
import sys

from tools.make_sync_client import CLIENT, modules


def test_synchronous_client_is_up_to_date() -> None:
    """`make client` would change nothing."""
    made = {path.name: path.read_text() for path in (CLIENT / "synchronous").glob("*.py")}
    assert made == modules()


def test_client_is_small() -> None:
    """Its import loads of the service only names and words that both sides use, no web framework,
    and no NumPy."""
    program = (
        "import sys, service.client;"
        "print(sorted({name.partition('.')[0] for name in sys.modules}));"
        "print(sorted(name for name in sys.modules if name.startswith('service')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    packages, own = done.stdout.splitlines()
    for heavy in ("fastapi", "starlette", "pydantic", "sqlalchemy", "numpy", "scipy", "svm"):
        assert f"'{heavy}'" not in packages
    parts = own[1:-1].split(", ")
    assert all(
        part.startswith(("'service'", "'service.client", "'service.common")) for part in parts
    )
