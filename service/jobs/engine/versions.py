"""Versions that must be equal in a whole cluster, so that all workers make the same bits."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

from service import __version__

LIBRARIES = ("numpy", "scipy", "numba", "distributed")


@cache
def versions() -> dict[str, str]:
    """By name: this service, Python, and the libraries that decide the bits of a model."""
    libraries = {name: version(name) for name in LIBRARIES}
    return {"svm-service": __version__, "Python": platform.python_version(), **libraries}


def difference(theirs: dict[str, str]) -> str | None:
    """How the versions here differ from `theirs`, in words; None if they are equal."""
    ours = versions()
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not names:
        return None
    unequal = ", ".join(
        f"{name} {ours.get(name, 'none')} here and {theirs.get(name, 'none')} there"
        for name in names
    )
    return f"{unequal}; install the same versions for the service and its workers"
