"""The shape of the tree: how wide packages are, how long modules, and that imports form no circle.

Imports inside functions count like all others.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from svm.solvers import CHOICES
from tools.count_code import count_lines

ROOT = Path(__file__).parents[2]
TREES = ("svm", "service", "tests")

WIDEST = 24
"""Most modules and packages side by side."""
LONGEST = 450
"""Most lines of code in a module, without blank lines, comments and docstrings."""


def _packages() -> list[Path]:
    return sorted({path.parent for tree in TREES for path in (ROOT / tree).rglob("*.py")})


def _members(package: Path) -> set[str]:
    """Names of the modules and packages directly in a package."""
    modules = {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    return modules | {path.name for path in package.iterdir() if any(path.glob("*.py"))}


@cache
def _imports(path: Path) -> frozenset[str]:
    """Dotted names that a module imports; of `from a import b`, a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def _edges(package: Path) -> dict[str, set[str]]:
    """Which members of a package each member imports."""
    prefix = ".".join(package.relative_to(ROOT).parts) + "."
    members = _members(package)
    edges: dict[str, set[str]] = defaultdict(set)
    for member in members:
        folder = package / member
        for path in [package / f"{member}.py", *folder.rglob("*.py")]:
            if not path.is_file():
                continue
            for name in _imports(path):
                other = name.removeprefix(prefix).partition(".")[0]
                if name.startswith(prefix) and other in members - {member}:
                    edges[member].add(other)
    return edges


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_packages_have_at_most_24_members() -> None:
    """No package has more modules and packages side by side than a reader can take in."""
    wide = {_name(package) for package in _packages() if len(_members(package)) > WIDEST}
    assert wide == set()


def test_members_of_a_package_import_each_other_in_no_circle() -> None:
    """They can be read in some order, each after those that it imports. Tests share helpers."""
    circles = {}
    for package in _packages():
        if package.relative_to(ROOT).parts[0] == "tests":
            continue
        try:
            TopologicalSorter(_edges(package)).prepare()
        except CycleError as error:
            circles[_name(package)] = error.args[1]
    assert circles == {}


def test_modules_have_at_most_450_lines_of_code() -> None:
    """A longer module usually holds two ideas. Tests of one idea may be longer."""
    packages = (package for package in _packages() if package.relative_to(ROOT).parts[0] != "tests")
    paths = [path for package in packages for path in package.glob("*.py")]
    long = {_name(path): n for path in paths if (n := count_lines(path)[0]) > LONGEST}
    assert long == {}


def test_solvers_are_known_to_others_by_their_capabilities() -> None:
    """Outside of `svm.solvers` no module imports the class of one: a new solver is a file."""
    classes = {solver.__name__ for solver in CHOICES.values()}
    paths = [path for tree in ("svm", "service") for path in (ROOT / tree).rglob("*.py")]
    importing = {
        str(path.relative_to(ROOT)): named
        for path in paths
        if (named := sorted(name for name in _imports(path) if name.rpartition(".")[2] in classes))
    }
    inside = {name for name in importing if name.startswith("svm/solvers/")}
    assert set(importing) - inside == {"svm/__init__.py"}
