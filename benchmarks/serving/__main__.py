"""Measure predictions over HTTP.

python -m benchmarks.serving [--only "JSON 1 ×"] [--peers FOLDER] [--page docs/speed.md]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.serving.compare import main
from benchmarks.serving.loads import LOADS

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=3.0)
parser.add_argument("--only", default="", help="loads whose description contains this")
parser.add_argument("--peers", type=Path, help="folder of virtual environments of peers")
parser.add_argument("--page", type=Path, help="write the figures as a page of Markdown")
chosen = parser.parse_args()
main(
    [load for load in LOADS if chosen.only in str(load)],
    chosen.rounds,
    chosen.seconds,
    chosen.peers,
    chosen.page,
)
