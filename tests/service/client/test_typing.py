"""Type checkers find both packages in an editable installation, and know what `predict` returns."""

from __future__ import annotations

import json
import re
import site
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
from service.client import Client
from svm.solvers import Pegasos

client = Client("http://127.0.0.1:8000")
which: str = input()
reveal_type(client.predict("iris", [[1.0]]))
reveal_type(client.predict("iris", [[1.0]], "decision"))
reveal_type(client.predict("iris", [[1.0]], ["label", "decision"]))
reveal_type(client.model("iris").predict([[1.0]], "explanation"))
reveal_type(client.predict("iris", [[1.0]], which))
reveal_type(client.dataset("latest").n_samples)
reveal_type(Pegasos(C=1.0))
"""
ARRAY, OBJECT = r"(numpy\.)?ndarray\[.*\]|NDArray\[Any\]", r"(builtins\.)?dict\[.*str, Any\]"
REVEALED = [ARRAY, ARRAY, OBJECT, OBJECT, rf"({ARRAY}) \| {OBJECT}", "(builtins.)?int", ".*Pegasos"]


@pytest.fixture
def users_python(tmp_path: Path) -> Path:
    """Of an environment with an editable installation of this clone, made without options."""
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True)
    return python


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_script_outside_of_the_clone_is_typed(
    users_python: Path, tmp_path: Path, checker: str
) -> None:
    """In strict mode."""
    if find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed; `pip install {checker}` adds it")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    option = {"mypy": "--strict --python-executable", "pyright": "--pythonpath"}[checker]
    done = subprocess.run(
        [sys.executable, "-m", checker, *option.split(), users_python, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    revealed = re.findall(r'(?:Revealed type is|Type of ".*" is) "(.*)"', done.stdout)
    assert len(revealed) == len(REVEALED), done.stdout
    for given, expected in zip(revealed, REVEALED, strict=True):
        assert re.fullmatch(expected, given), (given, expected)
