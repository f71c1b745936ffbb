"""What notebooks show: resources as small tables; and the progress of jobs and uploads, in a
terminal or a notebook.

Colors are only in borders and bars, with the words beside them: texts have the color of the page,
so that they are readable in light and in dark notebooks. All values are escaped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any, TypeAlias

from service.client.members import JobMembers
from service.common import phases

GOOD, WARN, BAD = "#2e9e4f", "#d08700", "#d1434b"
STATUS = {
    "certified": (GOOD, "certified"),
    "rough": (WARN, "rough"),
    "open": (BAD, "not converged"),
}
"""The three levels of a certificate: color and word, as on the service's pages."""
ENDED = ("succeeded", "failed", "canceled")
"""States of jobs that do not change."""
MANY = 20
"""Most classes and entries that are listed."""
Show: TypeAlias = Callable[[str, float | None, str], None]
"""Shows what is done: its title, the fraction of it, None if that is not known, and details."""


def in_kernel() -> bool:
    """Whether this program is a cell of a notebook. Its standard error is not a terminal."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None) is not None


class Display:
    """A place below the cell, whose content changes."""

    def __init__(self, html: str) -> None:
        room: Any = import_module("IPython.display")
        self._html = room.HTML
        self._handle = room.display(room.HTML(html), display_id=True)

    def show(self, html: str) -> None:
        self._handle.update(self._html(html))


def bar(title: str, fraction: float | None, detail: str) -> str:
    """`fraction` from 0 to 1; None if it is not known."""
    percent = None if fraction is None else f"{100 * min(max(fraction, 0.0), 1.0):.0f}"
    value, after = ("", "") if percent is None else (f' value="{percent}"', f"{percent} % ")
    return (
        f"<div>{escape(title)} "
        f'<progress{value} max="100" style="vertical-align: middle"></progress> '
        f"{after}<small>{escape(detail)}</small></div>"
    )


def dataset(data: Mapping[str, Any]) -> str:
    counts = list(zip(data.get("classes") or (), data.get("class_counts") or (), strict=False))
    classes = [f"{label} ({count:,})" for label, count in counts[:MANY]]
    classes += [f"and {len(counts) - MANY:,} more"] if len(counts) > MANY else []
    features = f"{data['n_features']:,}" + (", sparse" if data["sparse"] else "")
    notes = [warning["message"] for warning in data.get("warnings") or ()]
    notes += _audit(data)
    return _card(
        f"Dataset {data.get('name') or ''}",
        data.get("id") or "only validated, not stored",
        {
            "rows": f"{data['n_samples']:,}",
            "features": features,
            "label": data.get("target"),
            "classes": ", ".join(classes) or None,
        },
        notes=notes,
    )


def job(data: Mapping[str, Any]) -> str:
    model, error = data.get("model"), data.get("error")
    progress = data.get("progress") or {}
    ended = data["state"] in ENDED
    return _card(
        f"Job {data['kind']}, {data['state']}",
        data["id"],
        {
            "model": _version(model) if model else data["spec"].get("model_name"),
            "dataset": data.get("dataset_id"),
            "progress": None if ended else f"{100 * (progress.get('fraction') or 0):.0f} %",
            "phases": phases.told(progress) or None,
            "ended": data.get("stop_reason"),
            **_accuracies(data.get("metrics")),
            "error": error and f"{error['detail']} ({error['code']})",
            "what to do": error and error.get("hint"),
        },
        data.get("certificate"),
        [*(data.get("warnings") or ()), *_audit(data), *(data.get("notes") or ())],
    )


def _audit(data: Mapping[str, Any]) -> list[str]:
    return [f"{one['found']} {one['why']}" for one in data.get("audit") or ()]


def model(data: Mapping[str, Any]) -> str:
    aliases = [f"{alias} = {number}" for alias, number in sorted(data["aliases"].items())]
    fields = {"latest version": data["latest_version"], "aliases": ", ".join(aliases) or None}
    return _card(f"Model {data['name']}", "", fields)


def version(data: Mapping[str, Any]) -> str:
    solver = (data.get("spec") or {}).get("solver") or {}
    return _card(
        f"Model {_version(data)}",
        "",
        {
            "classes": ", ".join(map(str, data["classes"][:MANY])),
            "features": f"{data['n_features']:,}",
            "solver": solver.get("name"),
            **_accuracies(data.get("metrics")),
            "support vectors": data.get("n_support_vectors"),
            "dataset": data.get("dataset_id"),
        },
        data.get("certificate"),
    )


def results(data: Mapping[str, Any]) -> str | None:
    """The table of a comparison or an evaluation; None for other results."""
    if "entries" in data:
        return _comparison(data)
    if "per_class" in (data.get("metrics") or {}):
        return _evaluation(data)
    return None


def _comparison(data: Mapping[str, Any]) -> str:
    rows = [_entry(entry) for entry in data["entries"][:MANY]]
    best = data.get("model")
    title = "Comparison" + (f", the best is {_version(best)}" if best else "")
    more = len(data["entries"]) - MANY
    notes = [f"and {more:,} more entries"] if more > 0 else []
    names = ("rank", "solver", "λ or C", "score", "certificate", "seconds")
    return _card(title, data.get("id", ""), {}, notes=notes, table=_table(names, rows))


def _entry(entry: Mapping[str, Any]) -> tuple[str, ...]:
    solver = entry["spec"]["solver"]
    weight = [f"{name} = {solver[name]:g}" for name in ("lambda", "C") if solver.get(name)]
    certificate, error = entry.get("certificate"), entry.get("error")
    proven = _level(certificate) if certificate else escape(error["detail"] if error else "")
    seconds = entry.get("elapsed_s")
    return (
        _text(entry.get("rank")),
        escape(solver["name"]),
        escape(", ".join(weight)),
        _text(_percent(entry.get("score"))),
        proven,
        _text(None if seconds is None else f"{seconds:.3g}"),
    )


def _evaluation(data: Mapping[str, Any]) -> str:
    metrics = data["metrics"]
    shares = ("precision", "recall", "f1")
    rows = [
        (escape(str(one["label"])), *(_text(_percent(one[name])) for name in shares))
        for one in metrics["per_class"][:MANY]
    ]
    fields = {
        "rows": f"{metrics['n_samples']:,}",
        "rows trained on": metrics.get("trained_rows"),
        "accuracy": _percent(metrics["accuracy"]),
        "balanced accuracy": _percent(metrics["balanced_accuracy"]),
    }
    title = f"Evaluation of {_version(data['model'])}"
    return _card(title, data["dataset_id"], fields, table=_table(("class", *shares), rows))


def _card(
    title: str,
    under: str,
    fields: Mapping[str, Any],
    certificate: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
    table: str = "",
) -> str:
    parts = [f"<strong>{escape(title.strip())}</strong> <small>{escape(under)}</small>"]
    rows = [(escape(name), escape(str(v))) for name, v in fields.items() if v is not None]
    if rows:
        cells = "".join(f"<tr><th {_LEFT}>{name}</th><td {_LEFT}>{v}</td></tr>" for name, v in rows)
        parts.append(f"<table>{cells}</table>")
    parts.append(table)
    if certificate and certificate.get("summary"):
        color, word = STATUS.get(certificate["status"], (WARN, certificate["status"]))
        style = f"border-left: 4px solid {color}; padding-left: .6em"
        summary = escape(certificate["summary"])
        parts.append(f'<div style="{style}"><strong>{escape(word)}</strong> {summary}</div>')
    parts += [f"<div><small>note: {escape(note)}</small></div>" for note in notes]
    return f"<div>{''.join(parts)}</div>"


_LEFT = 'style="text-align: left"'


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML."""
    head = "".join(f"<th {_LEFT}>{escape(name)}</th>" for name in names)
    lines = ("".join(f"<td {_LEFT}>{cell}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _level(certificate: Mapping[str, Any]) -> str:
    """The word of the certificate, with its color at the left, and the gap."""
    gap = certificate.get("relative_gap")
    color, word = STATUS.get(certificate.get("status", ""), (WARN, ""))
    text = ", ".join(part for part in (word, _percent(gap) and f"gap {_percent(gap)}") if part)
    return f'<span style="border-left: 4px solid {color}; padding-left: .4em">{escape(text)}</span>'


def _version(of: Mapping[str, Any]) -> str:
    return f"{of['name']}/{of['version']}"


def _accuracies(metrics: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {
        f"{part} accuracy": _percent(values["accuracy"])
        for part, values in (metrics or {}).items()
        if isinstance(values, Mapping) and "accuracy" in values
    }


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3g} %"


def _text(value: Any) -> str:
    return "" if value is None else escape(str(value))


def is_wanted(progress: bool | None) -> bool:
    """None: only in a terminal or a notebook."""
    return sys.stderr.isatty() or in_kernel() if progress is None else progress


@contextmanager
def show_bar(wanted: bool, title: str) -> Iterator[Show]:
    """Shows a bar below the cell, or on standard error; call the result after each change."""
    began = time.monotonic()
    if not wanted:
        yield lambda *_: None
        return
    if in_kernel():
        display = Display(bar(title, 0.0, ""))

        def show(title: str, fraction: float | None, detail: str) -> None:
            elapsed = f"{time.monotonic() - began:.1f} s"
            display.show(bar(title, fraction, ", ".join(filter(None, (detail, elapsed)))))

        yield show
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.table import Column

    details = TextColumn("{task.fields[detail]}", table_column=Column())  # is wrapped, not cut
    texts = TextColumn("{task.description}"), details
    columns = texts[0], BarColumn(), TaskProgressColumn(), texts[1], Elapsed()
    with Progress(*columns, console=Console(stderr=True)) as rich:
        task = rich.add_task(title, total=None, detail="")

        def update(title: str, fraction: float | None, detail: str) -> None:
            total = None if fraction is None else 1.0
            rich.update(task, description=title, total=total, completed=fraction, detail=detail)

        yield update


def job_title(job: JobMembers) -> str:
    what = job.spec.get("model_name") or job.kind
    return f"{what} {job.state}"


def job_progress(job: JobMembers) -> tuple[str, float | None, str]:
    """What a bar shows of a job."""
    done = 1.0 if job.state == "succeeded" else job.progress.get("fraction") or None
    return job_title(job), done, _detail(job)


def upload_progress(name: str, n_bytes: int, size: int, seconds: float) -> tuple[str, float, str]:
    """What a bar shows of an upload, `n_bytes` of whose `size` were sent."""
    speed = f"{n_bytes / 1e6 / max(seconds, 1e-3):,.1f} MB/s"
    return name, n_bytes / max(size, 1), f"{n_bytes / 1e6:,.1f} of {size / 1e6:,.1f} MB, {speed}"


def _detail(job: JobMembers) -> str:
    if job.state in ENDED:
        return phases.told(job.progress)
    texts = [phases.now(job.progress)]
    if epoch := job.progress.get("epoch"):
        texts.append(f"epoch {epoch:,}")
    if (gap := job.progress.get("relative_gap")) is not None:
        texts.append(f"gap {100 * gap:.3g} %")
    return ", ".join(filter(None, texts))
