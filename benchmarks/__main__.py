"""All measurements one after the other, or those that are named.

python -m benchmarks [passes] [gaps] [footprint] [course-results]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import course_results, footprint, gaps, passes

MEASUREMENTS: dict[str, Callable[[], object]] = {
    "passes": passes.main,
    "gaps": gaps.main,
    "footprint": footprint.main,
    "course-results": course_results.main,
}

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("names", nargs="*", metavar="name", help=", ".join(MEASUREMENTS))
names = parser.parse_args().names or list(MEASUREMENTS)
if unknown := set(names) - set(MEASUREMENTS):
    parser.error(f"no measurement is called {min(unknown)}; there are {', '.join(MEASUREMENTS)}")
for name in names:
    print(f"\n== {name}", flush=True)
    MEASUREMENTS[name]()
