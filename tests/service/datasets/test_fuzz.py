"""Every parser of uploads, for minutes: files of all shapes, damaged at random."""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psutil
import pytest

from service.errors import ServiceError
from service.rows.format_table import FORMATS
from service.rows.parser import Parser
from service.rows.spec import CSV, LIBSVM, NPY, TSV, XLSX
from service.web.problems import PROBLEMS
from tests.mutation import mutated
from tests.seeds import seed_from
from tests.service.rows.reading import make_spec
from tests.service.rows.test_digest import File, files, random_labels, random_matrix
from tests.service.rows.test_parser import readers
from tests.service.rows.workbooks import sheet, workbook

SECONDS = float(os.environ.get("FUZZ_SECONDS", "80"))
"""For each format."""
HANG_S = 2.0
"""Of work; a process that does not work is ended by its time limit, as `parsing-failed`."""
MEMORY_BYTES = 512 * 1024 * 1024
"""The files are small: a quarter of what the process may take."""


def libsvm(rng: np.random.Generator) -> bytes:
    X = random_matrix(rng)
    X[rng.random(X.shape) < 0.7] = 0
    rows = (" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v) for row in X.tolist())
    return "\n".join(f"{rng.integers(3)} {row}" for row in rows).encode()


def spreadsheet(rng: np.random.Generator) -> bytes:
    """Numbers, texts, dates, booleans and gaps; half of the sheets have damaged XML."""
    days = [datetime.date(2024, 1, 1 + k) for k in range(20)]
    kinds: list[list[Any]] = [
        [1, -2.5, 1e300, None],
        ["red", "green", "n/a", ""],
        [*days, None],
        [True, False],
    ]
    columns = [kinds[int(rng.integers(4))] for _ in range(int(rng.integers(1, 6)))]
    rows: list[list[Any]] = [[f"c{k}" for k in range(len(columns))]]
    for _ in range(int(rng.integers(0, 60))):
        rows.append([values[int(rng.integers(len(values)))] for values in columns])
    xml = sheet(rows)
    if rng.random() < 0.5:  # damage to the archive is found by its checksums
        xml = mutated(xml.encode(), rng).decode(errors="replace")
    return workbook({"data": xml})


def valid(rng: np.random.Generator, media_type: str) -> File:
    """A file of the format, small or not so small."""
    if media_type == LIBSVM:
        return File(libsvm(rng), LIBSVM)
    if media_type == XLSX:
        return File(spreadsheet(rng), XLSX)
    X = random_matrix(rng)
    found = [file for file in files(X, random_labels(rng, len(X))) if file.media_type == media_type]
    return found[int(rng.integers(len(found)))]


def options(rng: np.random.Generator, media_type: str) -> dict[str, Any]:
    found: dict[str, Any] = {"target": [None, "none", "0", "label", "x"][int(rng.integers(5))]}
    if media_type in (CSV, TSV):
        found["header"] = ["auto", "present", "absent"][int(rng.integers(3))]
        found["delimiter"] = [None, ";", " "][int(rng.integers(3))]
    if media_type == LIBSVM:
        found["index_base"] = [None, 0, 1][int(rng.integers(3))]
        found["n_features"] = [None, 5, 10**6][int(rng.integers(3))]
    return found


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("media_type", FORMATS)
def test_damaged_files_of_every_format(media_type: str, tmp_path: Path) -> None:
    """The process lives, answers in time, and names what is wrong by a code of the table."""
    rng = np.random.default_rng(seed_from("FUZZ_SEED"))
    parser = Parser()
    codes: Counter[str] = Counter()
    longest = 0.0

    async def outcome(file: File) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        own = dict(file.options) if rng.random() < 0.5 else options(rng, media_type)
        content = file.content.encode() if isinstance(file.content, str) else file.content
        if media_type != XLSX or rng.random() < 0.1:  # its sheet is damaged already
            content = mutated(content, rng)
        if media_type == NPY and "labels" in own:
            own["labels"] = mutated(str(own["labels"]).encode(), rng)
        spec = make_spec(folder, content, media_type, **own)
        unknown: set[str] = set()
        try:
            await parser.parse(spec)
            code = "read"
        except ServiceError as error:
            code = error.code
            unknown = {code, *(fault.code for fault in error.faults)} - set(PROBLEMS)
        assert not unknown
        if code == "parsing-failed":  # the process died: this is the file to look at
            kept = Path(tempfile.gettempdir()) / "fuzz-crash"
            kept.write_bytes(content)
            raise AssertionError(f"{kept} with {own}")
        shutil.rmtree(folder)
        return code

    async def main() -> None:
        nonlocal longest
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            file = valid(rng, media_type)
            for _ in range(1 if media_type == XLSX else 20):
                before = _seconds()
                codes[await outcome(file)] += 1
                longest = max(longest, _seconds() - before)

    anyio.run(main)
    (process,) = readers()
    peak = _peak(process)
    parser.close()
    print(f"\n{media_type}: {codes.total():,} files, {longest:.2f} s, {peak >> 20} MiB, {codes}")
    assert longest < HANG_S
    assert peak < MEMORY_BYTES
    assert codes["read"] > 0
    assert len(codes) > 3


def _seconds() -> float:
    """Of work that the parsing process has done: what others do meanwhile does not count."""
    return sum(sum(process.cpu_times()[:2]) for process in readers())


def _peak(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
