"""Machine code on disk survives processes that compile at once, end early, or cannot write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]

LOOP = """
from svm.loops import compiled

@compiled
def total(x):
    result = 0.0
    for i in range(x.size):
        result += x[i]
    return result
"""
CALL = """
import resource, sys
import numpy as np
from loop import total

dtypes, ask, bytes_per_file = sys.argv[1].split(","), sys.argv[2] == "ask", int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_per_file, resource.RLIM_INFINITY))

def before_rename(event, arguments):
    if ask and event == "os.rename":
        print("rename", flush=True)
        sys.stdin.readline()

sys.addaudithook(before_rename)
for dtype in dtypes:
    assert total(np.arange(4, dtype=dtype)[:: 1]) == 6
    assert total(np.arange(8, dtype=dtype)[:: 2]) == 12
print(total.stats.cache_hits.total(), flush=True)
"""
LOAD = """
import json, os, sys
import loop, svm.loops

svm.loops.load_compiled()
threads = len(os.listdir("/proc/self/task"))
loaded = [str(overload) for overload in loop.total.overloads]
print(json.dumps([loaded, loop.total.stats.cache_misses.total(), threads]))
"""
CALLS = """
import sys
import numpy as np
from svm.loops import compiled

@compiled
def smooth(x, width):
    for i in range(width, x.size):
        total = 0.0
        for j in range(width):
            total += x[i - j] * x[j] - np.sqrt(np.abs(x[i]))
        x[i] = total if total < x[i] else x[i] / (1.0 + total * total)

@compiled
def outer(x):
    smooth(x, 2)
    smooth(x, 3)
    smooth(x, x.size // 2)
    return x.sum()

outer(np.arange(8.0))
(overload,) = outer.overloads.values()
print(*(function.name for function in overload.library.get_defined_functions()))
"""
ENVIRONMENT = {**os.environ, "NUMBA_CACHE_DIR": "code", "PYTHONPATH": str(REPOSITORY)}
UNLIMITED = -1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "call.py").write_text(CALL)
    return tmp_path


def call(
    folder: Path, *dtypes: str, ask: bool = False, bytes_per_file: int = UNLIMITED
) -> subprocess.Popen[str]:
    """A process that calls the loop; with `ask`, it prints a line before it renames a file, and
    waits for one."""
    return subprocess.Popen(
        [sys.executable, "call.py", ",".join(dtypes), "ask" if ask else "-", str(bytes_per_file)],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def hits(process: subprocess.Popen[str]) -> int:
    """How many signatures the process found on disk; it must succeed."""
    return int(output(process))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "code").rglob("*") if path.is_file())


def test_every_signature_is_compiled_once(folder: Path) -> None:
    assert hits(call(folder, "float64", "float32")) == 0
    assert len(files(folder)) == 4
    assert hits(call(folder, "float64", "float32", "int64")) == 4


@pytest.mark.long
def test_two_processes_that_compile_at_once_do_not_mix_their_code(folder: Path) -> None:
    first, second = (call(folder, dtype, ask=True) for dtype in ("float64", "float32"))
    for process in (first, second):
        assert process.stdout is not None
        assert process.stdout.readline() == "rename\n"  # both have seen an empty folder
    for process in (first, second, second, first):
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout is not None
        process.stdout.readline()
    output(first)
    output(second)
    hits(call(folder, "float64", "float32"))


@pytest.mark.long
def test_all_code_on_disk_is_loaded_at_once(folder: Path) -> None:
    """So that forks have it. Nothing is compiled, also of a damaged file, and no thread starts."""

    def load() -> list[Any]:
        command = [sys.executable, "-c", LOAD]
        run = subprocess.run(command, env=ENVIRONMENT, cwd=folder, stdout=-1, check=True)
        loaded: list[Any] = json.loads(run.stdout)
        return loaded

    assert load() == [[], 0, 1]
    output(call(folder, "float64"))
    loaded, compiled, threads = load()
    assert (len(loaded), compiled, threads) == (2, 0, 1)
    damaged = files(folder)[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert len(load()[0]) == 1


def test_a_loop_contains_the_code_of_those_that_it_calls(folder: Path) -> None:
    """It would run code that the process had loaded before, with other last bits."""
    (folder / "calls.py").write_text(CALLS)
    command = [sys.executable, "calls.py"]
    run = subprocess.run(command, env=ENVIRONMENT, cwd=folder, stdout=-1, check=True, text=True)
    assert "outer" in run.stdout
    assert "smooth" not in run.stdout


@pytest.mark.long
def test_damaged_files_are_compiled_again(folder: Path) -> None:
    """Empty, cut, or half of them zeros; what was compiled again is found."""
    hits(call(folder, "float64"))
    for damage in ("empty", "cut", "zeros"):
        for path in files(folder):
            content = path.read_bytes()
            half = len(content) // 2
            damaged = {"empty": b"", "cut": content[:half], "zeros": content[:half] + bytes(half)}
            path.write_bytes(damaged[damage])
        assert hits(call(folder, "float64")) == 0, damage
        assert hits(call(folder, "float64")) == 2, damage


@pytest.mark.long
def test_code_of_a_module_that_has_moved_is_compiled_again(folder: Path) -> None:
    """The file of the loop that calls it did not change."""
    moved = "from svm.loops import compiled\n\n@compiled\ndef add(a, b):\n    return a + b\n"
    (folder / "old.py").write_text(moved)
    (folder / "places.py").write_text("from old import add\n")
    loop = LOOP.replace("\n@", "from places import add\n\n@", 1)
    (folder / "loop.py").write_text(loop.replace("result += x[i]", "result = add(result, x[i])"))
    assert hits(call(folder, "float64")) == 0
    (folder / "old.py").rename(folder / "new.py")
    (folder / "places.py").write_text("from new import add\n")
    assert hits(call(folder, "float64")) == 0
    assert hits(call(folder, "float64")) == 2


def test_a_loop_runs_if_its_code_cannot_be_written(folder: Path) -> None:
    assert hits(call(folder, "float64", bytes_per_file=100)) == 0
    assert files(folder) == []
