"""Progress of jobs and uploads, in a terminal or a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.client import notebook
from service.client.fields import JobFields

Show = Callable[[JobFields], None]


def is_wanted(progress: bool | None) -> bool:
    """None: only in a terminal or a notebook."""
    return sys.stderr.isatty() or notebook.in_kernel() if progress is None else progress


@contextmanager
def show_job(job: JobFields, progress: bool) -> Iterator[Show]:
    """Shows a bar on standard error; call the result with the job after each change."""
    if not progress:
        yield lambda _: None
        return
    if notebook.in_kernel():
        display = notebook.Display(_html(job, 0.0))
        began = time.monotonic()
        yield lambda job: display.show(_html(job, time.monotonic() - began))
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[detail]}"),
        Elapsed(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(_title(job), total=1.0, detail=_detail(job))

        def show(job: JobFields) -> None:
            bar.update(task, description=_title(job), completed=_fraction(job), detail=_detail(job))

        yield show


@contextmanager
def show_upload(path: Path, progress: bool) -> Iterator[Callable[[int], None]]:
    """Shows the progress of an upload; call the result with the number of bytes sent."""
    if not progress:
        yield lambda _: None
        return
    if notebook.in_kernel():
        total, done = max(path.stat().st_size, 1), 0
        display = notebook.Display(notebook.bar(path.name, 0, ""))

        def advance(size: int) -> None:
            nonlocal done
            done += size
            display.show(notebook.bar(path.name, done / total, f"{done / 1e6:,.1f} MB"))

        yield advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(path.name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=path.stat().st_size)
        yield lambda size: bar.advance(task, size)


def _html(job: JobFields, elapsed_s: float) -> str:
    detail = f"{_detail(job)}, {elapsed_s:.1f} s".removeprefix(", ")
    return notebook.bar(_title(job), _fraction(job), detail)


def _fraction(job: JobFields) -> float:
    return 1.0 if job.state == "succeeded" else job.progress.get("fraction") or 0.0


def _title(job: JobFields) -> str:
    what = job.spec.get("model_name") or job.kind
    return f"{what} {job.state}"


def _detail(job: JobFields) -> str:
    texts = []
    if not job.ended and job.progress.get("compiling"):
        texts.append("compiling for this machine, once")
    if epoch := job.progress.get("epoch"):
        texts.append(f"epoch {epoch:,}")
    if (gap := job.progress.get("relative_gap")) is not None:
        texts.append(f"gap {100 * gap:.3g} %")
    if not job.ended and (eta := job.progress.get("eta_s")) is not None:
        texts.append(f"{eta:.0f} s left")
    return ", ".join(texts)
