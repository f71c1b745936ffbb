"""What an encoder does, in words."""

from __future__ import annotations

import numpy as np

from svm.encoding.encoder import Encoder


def notes(encoder: Encoder) -> list[str]:
    """One sentence for each category, each date and each column with missing cells."""
    sentences, start, first = [], 0, 0
    for j, column in enumerate(encoder.columns):
        missing = int(encoder.missing[j])
        if column.kind == "category":
            counts = encoder.counts[start : start + len(column.levels)]
            start += len(column.levels)
            sentences.append(_category(encoder, column.name, counts.tolist(), missing))
            continue
        width = 4 if column.kind == "date" else 1
        fill = float(encoder.fills[first + width - 1])
        first += width
        if column.kind == "date":
            sentences.append(f"{column.name}: year, month, weekday and days since 1970-01-01")
        if missing:
            how, value = encoder.encoding.missing, f"{fill:g}"
            if column.kind == "date":
                value = str(np.datetime64(int(fill // 1), "D"))
            if how == "constant" and column.kind != "number":
                how = "median"
            cells = "1 missing cell" if missing == 1 else f"{missing:,} missing cells"
            sentences.append(f"{column.name}: {cells} filled with the {how} {value}")
    return sentences


def _category(encoder: Encoder, name: str, counts: list[int], missing: int) -> str:
    seen = sum(count > 0 for count in counts)
    rare = sum(0 < count < encoder.encoding.min_count for count in counts)
    parts = [f"{name}: {seen:,} level{'' if seen == 1 else 's'}"]
    if rare:
        parts.append(f"{rare:,} rare one{'' if rare == 1 else 's'} together")
    if missing:
        parts.append(f"{missing:,} missing cell{'' if missing == 1 else 's'} as one more")
    return ", ".join(parts)
