"""What the reading child needs for an upload in CSV: CPU time, and memory beyond an idle one's.

    python -m benchmarks.uploads [names] [--rows 1000000]

The mixed table is that of a shop: 14 numbers, 9 whole numbers, 8 categories, a date, a date-time, a
boolean, numbers and categories with gaps, a price with its currency, and a label. Each upload has a
process of its own, so that its peak of memory is that of one upload.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from service.datasets.upload_routes import read_limits
from service.rows.parsing_process import read
from service.rows.spec import CSV, ParseSpec, SentFile
from service.settings import Limits

LIMITS = read_limits(Limits())
BLOCK_ROWS = 20_000
MB = 1e6
Writer: TypeAlias = Callable[[TextIO, int], None]


def main(arguments: Sequence[str] = ()) -> dict[str, tuple[float, float]]:
    """Print and return, for each upload, seconds of CPU time and MB."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.uploads", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(WRITERS))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the mixed table")
    asked = parser.parse_args(arguments)
    figures = {}
    for name in asked.names or WRITERS:
        figures[name] = measured(WRITERS[name], asked.rows)
        print(f"{name:>24} {figures[name][0]:8.3f} s {figures[name][1]:8.1f} MB", flush=True)
    return figures


def measured(write: Writer, rows: int) -> tuple[float, float]:
    """CPU time in seconds and memory in MB of one upload, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body"
        with path.open("w") as file:
            write(file, rows)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(_read, (folder,))


def _read(folder: str) -> tuple[float, float]:
    small = Path(folder) / "small"
    with small.open("w") as file:
        small_mixed(file, 0)
    out = Path(folder) / "out"
    out.mkdir()
    spec = ParseSpec(file=SentFile(str(small), CSV), out=str(out), limits=LIMITS)
    read(spec)  # a child has read something before
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    read(ParseSpec(file=SentFile(f"{folder}/body", CSV), out=str(out), limits=LIMITS))
    took = time.process_time() - begun
    return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) * 1024 / MB


def mixed(file: TextIO, rows: int) -> None:
    """40 columns of a shop, and the label `kept`."""
    random = np.random.default_rng(0)
    names = [f"number_{i}" for i in range(14)] + [f"count_{i}" for i in range(9)]
    names += [f"sort_{i}" for i in range(8)]
    names += [
        "day",
        "at",
        "member",
        "weight",
        "height",
        "parts",
        "place",
        "origin",
        "price",
        "kept",
    ]
    file.write(",".join(names) + "\n")
    for start in range(0, rows, BLOCK_ROWS):
        n = min(BLOCK_ROWS, rows - start)
        columns = [_texts(random.normal(10 ** (i % 5), 3, n), f"%.{i % 4 + 2}f") for i in range(14)]
        columns += [_texts(random.integers(0, 10 ** (i % 6 + 1), n), "%d") for i in range(9)]
        columns += [_levels(random, n, 2 + 5 * i, 0.0) for i in range(8)]
        seconds = random.integers(1_500_000_000, 1_700_000_000, n).astype("datetime64[s]")
        columns.append(np.datetime_as_string(seconds, "D"))
        columns.append(np.char.replace(np.datetime_as_string(seconds[::-1]), "T", " "))
        columns.append(np.where(random.random(n) < 0.5, "true", "false"))
        for decimals, share in ((1, 0.1), (2, 0.02), (0, 0.3)):
            texts = _texts(random.normal(70, 10, n), f"%.{decimals}f")
            columns.append(np.where(random.random(n) < share, "", texts))
        columns += [_levels(random, n, 12, 0.05), _levels(random, n, 40, 0.5)]
        columns.append(_texts(random.lognormal(4, 1, n), "$%.2f"))
        columns.append(_levels(random, n, 2, 0.0))
        file.write("\n".join(map(",".join, zip(*(c.tolist() for c in columns), strict=True))))
        file.write("\n")


def numbers(file: TextIO, rows: int, columns: int) -> None:
    """Numbers, and a label of two classes."""
    random = np.random.default_rng(0)
    file.write(",".join(f"x{i}" for i in range(columns)) + ",y\n")
    for start in range(0, rows, 1000):
        X = random.normal(size=(min(1000, rows - start), columns))
        lines = [",".join([f"{x:.5f}" for x in row]) for row in X.tolist()]
        file.write("".join(f"{line},{i % 2}\n" for i, line in enumerate(lines)))


def small_mixed(file: TextIO, rows: int) -> None:
    """150 rows with texts, gaps and dates."""
    file.write("age,job,since,pay,bought\n")
    for i in range(150):
        job = ("nurse", "cook", "clerk", "")[i % 4]
        file.write(
            f"{20 + i % 40},{job},2024-{i % 12 + 1:02d}-{i % 28 + 1:02d},{i * 13.5},{i % 2}\n"
        )


WRITERS: dict[str, Writer] = {
    "mixed": mixed,
    "500,000 x 20": lambda file, rows: numbers(file, rows // 2, 20),
    "2,000 x 3,000": lambda file, _: numbers(file, 2_000, 3_000),
    "30 x 20,000": lambda file, _: numbers(file, 30, 19_999),
    "small": small_mixed,
}


def _texts(
    values: npt.NDArray[np.float64] | npt.NDArray[np.int64], form: str
) -> npt.NDArray[np.str_]:
    return np.array([form % value for value in values.tolist()])


def _levels(random: np.random.Generator, n: int, count: int, gaps: float) -> npt.NDArray[np.str_]:
    texts = np.array([f"level {chr(97 + i % 26)}{i}" for i in range(count)])
    return np.where(random.random(n) < gaps, "", texts[random.integers(0, count, n)])


if __name__ == "__main__":
    main(sys.argv[1:])
