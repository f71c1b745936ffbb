"""The columns of a model of a table, as its version shows them."""

from __future__ import annotations

from typing import Any

from svm.encoding.encoder import Encoder, PlainEncoder, describe
from svm.model.pipeline import FittedPipeline

SHOWN_LEVELS = 20
"""Of a category; its `n_levels` counts all of them."""
SHOWN_NOTES = 200


def described(fitted: FittedPipeline) -> dict[str, Any] | None:
    """`columns` and `notes`: what their encoding did. None for a model of plain numbers."""
    encoder = fitted.encoder
    if isinstance(encoder, PlainEncoder):
        return None
    return {"columns": _columns(encoder), "notes": _notes(encoder)}


def _columns(encoder: Encoder) -> list[dict[str, Any]]:
    columns = []
    for column, missing in zip(encoder.columns, encoder.missing.tolist(), strict=True):
        entry: dict[str, Any] = {"name": column.name, "kind": column.kind, "missing": missing}
        if column.kind == "category":
            entry["levels"] = list(column.levels[:SHOWN_LEVELS])
            entry["n_levels"] = len(column.levels)
        columns.append(entry)
    return columns


def _notes(encoder: Encoder) -> list[str]:
    sentences = describe(encoder)
    if len(sentences) <= SHOWN_NOTES:
        return sentences
    left_out = len(sentences) - SHOWN_NOTES
    return [*sentences[:SHOWN_NOTES], f"and {left_out:,} more columns"]
