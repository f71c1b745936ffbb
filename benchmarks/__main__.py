"""All measurements one after the other, or those that are named.

python -m benchmarks [passes] [gaps] [growth] [footprint] [course-results]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from benchmarks import course_results, footprint, gaps, growth, passes

MEASUREMENTS: dict[str, Callable[[], object]] = {
    "passes": passes.main,
    "gaps": gaps.main,
    "growth": growth.main,
    "footprint": footprint.main,
    "course-results": course_results.main,
}


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
        MEASUREMENTS[name]()


if __name__ == "__main__":
    main()
