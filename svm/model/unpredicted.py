"""Classes that a model does not predict for any row that it was measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from svm.model.multiclass import label_name

SHOWN_CLASSES = 5
SHOWN_CHARACTERS = 40


def unpredicted(
    metrics: Mapping[str, Any], classes: Sequence[Any], class_weight: Any
) -> tuple[str, ...]:
    """A sentence about classes that have training or validation rows and are predicted for none of
    these, and what to try."""
    measured = (metrics.get(subset) or {} for subset in ("train", "validation"))
    counts = [each["confusion_matrix"] for each in measured if each.get("confusion_matrix")]
    if not counts:
        return ()
    confusion = np.sum(counts, axis=0)
    predicted = np.flatnonzero(confusion.sum(axis=0))
    missed = np.flatnonzero(confusion.sum(axis=1) * (confusion.sum(axis=0) == 0))
    if not len(missed):
        return ()
    names = [label_name(classes[k])[:SHOWN_CHARACTERS] for k in missed[:SHOWN_CLASSES]]
    shown = ", ".join(names) + (", …" if len(missed) > SHOWN_CLASSES else "")
    said = f"The model never predicts {shown}"
    if len(predicted) == 1:
        only = label_name(classes[predicted[0]])[:SHOWN_CHARACTERS]
        said = f"The model predicts {only} for every row, and never {shown}"
    weight = "a larger `class_weight` for it" if class_weight else '`"class_weight": "balanced"`'
    return (f"{said}: try {weight}, a larger C, or `scaling`.",)
