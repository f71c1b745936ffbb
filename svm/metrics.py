"""How well predictions match the true classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def confusion_matrix(
    true_codes: npt.NDArray[Any], predicted_codes: npt.NDArray[Any], n_classes: int
) -> npt.NDArray[np.int64]:
    """(n_classes, n_classes) counts by true (row) and predicted class.

    Codes are integers 0 … n_classes - 1, (n,).
    """
    pairs = true_codes.astype(np.int64) * n_classes + predicted_codes
    return np.bincount(pairs, minlength=n_classes * n_classes).reshape(n_classes, n_classes)


def classification_metrics(confusion: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Accuracy, the confusion matrix itself, and precision, recall, F1 of each class.

    A ratio whose denominator is 0 is given as 0.
    """
    n_classes = len(confusion)
    hits = np.diag(confusion)
    support, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    precision = hits / np.maximum(predicted, 1)
    recall = hits / np.maximum(support, 1)
    total = precision + recall
    f1 = np.where(total > 0, 2.0 * precision * recall / np.where(total > 0, total, 1.0), 0.0)
    return {
        "accuracy": float(hits.sum() / max(1, confusion.sum())),
        "confusion_matrix": confusion.tolist(),
        "per_class": [
            {
                "precision": float(precision[k]),
                "recall": float(recall[k]),
                "f1": float(f1[k]),
                "support": int(support[k]),
            }
            for k in range(n_classes)
        ],
    }
