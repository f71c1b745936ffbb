"""A card as Markdown (CommonMark with tables)."""

from __future__ import annotations

import json
import re
from typing import Any

from service.models.card import Card
from service.models.versions import ModelVersion
from service.web.http.times import rfc3339


def as_markdown(card: Card, version: ModelVersion) -> str:
    """For people; names of callers are shown as they are and mean nothing in it."""
    parts = [
        f"# {version.model_name} version {version.version}",
        text(card.summary),
        *_section("Intended use", card.intended_use),
        *_section("Limits", card.limits),
        *_section("Data", card.data),
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
                ("made", rfc3339(version.created_at)),
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _settings(version: ModelVersion) -> list[str]:
    if not version.spec:
        return []
    return ["## Settings", _fenced(json.dumps(version.spec, indent=2, ensure_ascii=False))]


def _lineage(version: ModelVersion) -> list[tuple[str, str]]:
    if version.imported is not None:
        origin = version.imported["origin"]
        told = [(name, origin.get(name)) for name in ("name", "version", "created_at", "digest")]
        return [
            ("imported from", version.imported["format"]),
            *((f"{name}, says the file", text(str(value)[:100])) for name, value in told),
        ]
    return [
        ("data digest", f"`{version.dataset_digest}`"),
        ("dataset", f"`{version.dataset_id}`"),
        ("job", f"`{version.job_id}`"),
        ("began at", text(str(version.spec.get("warm_start_from") or "nothing"))),
        ("seed", str(version.seed)),
    ]


def text(words: str) -> str:
    """Words of callers in Markdown, none of them markup."""
    plain = "".join(c if c.isprintable() else " " for c in words)
    return re.sub(r"([\\`*_{}\[\]()#+!|>~<&$])", r"\\\1", plain)


def _section(title: str, sentences: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {text(sentence)}" for sentence in sentences)]


def _classes(version: ModelVersion) -> list[str]:
    """Precision and recall of each class, where they were measured best."""
    metrics = version.result.get("metrics", {})
    part = next((part for part in ("validation", "train") if metrics.get(part)), None)
    measured = metrics[part].get("per_class") if part else None
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
    which = {"validation": "held-out rows", "train": "training rows"}[str(part)]
    head = ("class", "precision", "recall", "F1", f"{which}")
    return [f"Of the {which}, by class:", _table(head, rows)]


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _fenced(code: str) -> str:
    """With a fence longer than any in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}json\n{code}\n{fence}"
