"""A card as Markdown (CommonMark with tables)."""

from __future__ import annotations

import json
import re
from typing import Any

from service.common.schemas import rfc3339
from service.models.card import Card
from service.models.versions import ModelVersion

SHOWN_COLUMNS = 200


def as_markdown(card: Card, version: ModelVersion) -> str:
    """Names from callers are escaped, so that they are not markup."""
    parts = [
        f"# {version.model_name} version {version.version}",
        text(card.summary),
        *_section("Intended use", card.intended_use),
        *_section("Limits", card.limits),
        *_section("Data", card.data),
        *_columns(card, version),
        *_section("Certificate", card.certificate),
        *_section("Quality", card.quality),
        *_classes(version),
        *_settings(version),
        "## Lineage",
        _table(
            ("", ""),
            [
                ("model digest", f"`{version.digest}`"),
                *_lineage(version),
                ("created", rfc3339(version.created_at)),
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _columns(card: Card, version: ModelVersion) -> list[str]:
    table = version.result.get("table")
    if table is None:
        return []
    rows = [
        (text(column["name"]), column["kind"], text(_levels(column)), f"{column['missing']:,}")
        for column in table["columns"][:SHOWN_COLUMNS]
    ]
    listed = _table(("column", "kind", "levels", "missing"), rows)
    return ["## Columns", listed, *_section("Encoding", card.columns)[1:]]


def _levels(column: dict[str, Any]) -> str:
    levels = column.get("levels", [])
    more = column.get("n_levels", 0) - len(levels)
    return ", ".join(levels) + (f" and {more:,} more" if more else "")


def _settings(version: ModelVersion) -> list[str]:
    if not version.spec:
        return []
    return ["## Settings", _fenced(json.dumps(version.spec, indent=2, ensure_ascii=False))]


def _lineage(version: ModelVersion) -> list[tuple[str, str]]:
    if version.imported is not None:
        origin = version.imported["origin"]
        claims = [(name, origin.get(name)) for name in ("name", "version", "created_at", "digest")]
        return [
            ("imported from", version.imported["format"]),
            *((f"{name} (claimed)", text(str(value)[:100])) for name, value in claims),
        ]
    return [
        ("data digest", f"`{version.dataset_digest}`"),
        ("dataset", f"`{version.dataset_id}`"),
        ("job", f"`{version.job_id}`"),
        ("warm start from", text(str(version.spec.get("warm_start_from") or "nothing"))),
        ("seed", str(version.seed)),
    ]


def text(content: str) -> str:
    """Text from callers, escaped for Markdown."""
    plain = "".join(c if c.isprintable() else " " for c in content)
    return re.sub(r"([\\`*_{}\[\]()#+!|>~<&$])", r"\\\1", plain)


def _section(title: str, sentences: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {text(sentence)}" for sentence in sentences)]


def _classes(version: ModelVersion) -> list[str]:
    """Precision and recall of each class, of the validation set if there is one."""
    metrics = version.result.get("metrics", {})
    subset = next((name for name in ("validation", "train") if metrics.get(name)), None)
    measured = metrics[subset].get("per_class") if subset else None
    if not measured:
        return []
    rows = [
        (
            text(str(label)),
            *(f"{one[name]:.4f}" for name in ("precision", "recall", "f1")),
            f"{one['support']:,}",
        )
        for label, one in zip(version.classes, measured, strict=True)
    ]
    which = {"validation": "validation rows", "train": "training rows"}[str(subset)]
    return [f"By class, {which}:", _table(("class", "precision", "recall", "F1", "rows"), rows)]


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _fenced(code: str) -> str:
    """With a fence longer than any in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}json\n{code}\n{fence}"
