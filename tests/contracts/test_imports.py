"""Who may import what, beyond the layers of `pyproject.toml`, which `make check` looks at."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "svm").rglob("*.py")) + sorted((ROOT / "service").rglob("*.py"))


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def _imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it."""
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _importers(*packages: str) -> set[str]:
    """The files, relative to the root, that import one of these packages."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if any(name.partition(".")[0] in packages for name in _imports(path))
    }


def test_only_routes_and_web_speak_http() -> None:
    """Stores, registries and workers know neither; `common` has types of requests and replies."""
    speakers = _importers("fastapi", "starlette", "uvicorn")
    others = {
        path
        for path in speakers
        if not path.startswith(("service/web/", "service/common/", "service/dashboard/"))
        and not path.endswith("routes.py")
    }
    assert others == {"service/app/application.py", "service/cli/serving.py"}
    assert "service/jobs/collection/routes.py" in speakers


def test_only_artifacts_unpickle() -> None:
    """One module reads pickles of models, through its allow-list; `joblib` may count processors
    elsewhere. Numba keeps machine code, which is not safer than a pickle, in pickles."""
    loads = {
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        for node in _nodes(path)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("joblib.load", "joblib.dump", "joblib.numpy_pickle")
    }
    pickles = _importers("pickle", "cloudpickle", "dill", "shelve", "marshal")
    parts_of_joblib = {
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if any(name.startswith("joblib.") for name in _imports(path))
    }
    assert loads | parts_of_joblib | pickles == {
        "service/models/artifacts.py",
        "svm/loops/machine_code.py",
    }


def test_application_is_not_a_service_locator() -> None:
    """Nothing reads or sets `app.state`: the lifespan gives values to requests."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        for node in _nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr == "state"
        and ast.unparse(node.value).rpartition(".")[2] in ("app", "_app")
    }
    assert found == set()


def test_nothing_allows_pickles_in_arrays() -> None:
    """`allow_pickle=True` stands nowhere."""
    given = {
        (path.relative_to(ROOT).as_posix(), ast.unparse(node.value))
        for path in MODULES
        for node in _nodes(path)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle"
    }
    assert ("service/models/exports/plain.py", "False") in given
    assert {value for _, value in given} == {"False"}


def test_api_process_stays_small() -> None:
    """Building the application imports none of the large libraries that other processes use."""
    heavy = [
        "alembic",
        "contourpy",
        "duckdb",
        "joblib",
        "llvmlite",
        "numba",
        "onnx",
        "onnxruntime",
        "pandas",
        "scipy",
        "sklearn",
    ]
    program = (
        "import service.cli.serving, service.jobs.engine.supervisor, service.app, sys; "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stdout.strip() == "[]"
