"""What MLflow loads: predicts from an NPZ export with NumPy alone.

`mlflow_models` copies this file and `PROGRAM` into the logged model, as its code: the NPZ file has
arrays and JSON. Nothing else of this project is imported.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

OUTPUTS = ("label", "decision", "probability", "label_or_none")
NUMBERS = ("value", "interval")
"""The outputs of a model of numbers."""
PROGRAM = "svm_service_export"
"""The module that predicts from an NPZ file."""


class Predictor:
    """A model of the service for `mlflow.pyfunc`."""

    def __init__(self, path: Path) -> None:
        self._program: Any = import_module(PROGRAM)
        self._model: dict[str, Any] = self._program.load(path)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """The label of each row, or what `params["output"]` names: `decision` values;
        `probability`, (n_samples, n_classes), of a calibrated model; `label_or_none`, a list with
        None where a label is withheld, with `params["withheld"]`. Of a model of numbers the value,
        or its `interval`, (n_samples, 2), with `params["coverage"]`.

        Raises ValueError for another output.
        """
        outputs = NUMBERS if "target" in self._model else OUTPUTS
        output = (params or {}).get("output", outputs[0])
        if output not in outputs:
            raise ValueError(f"output {output!r}: not one of {', '.join(outputs)}")
        if output == "interval" and "conformal_residuals" not in self._model:
            raise ValueError("the model has no prediction intervals: train it with `validation`")
        if output == "probability" and "calibration" not in self._model:
            raise ValueError("the model is not calibrated: it has no probabilities")
        if output == "label_or_none" and "rejection_decisions" not in self._model:
            raise ValueError("the model withholds no label: train it with `validation`")
        rows = self._rows(model_input)
        if output == outputs[0]:
            return self._program.predict(self._model, rows)
        scores = self._program.scores(self._model, rows)
        if output == "decision":
            return self._program.decision(self._model, scores)
        if output == "label_or_none":
            withheld = (params or {}).get("withheld", 0.05)
            return self._program.labels_or_none(self._model, scores, withheld)
        if output == "interval":
            return self._program.intervals(self._model, scores, (params or {}).get("coverage", 0.9))
        return self._program.probabilities(self._model, scores)

    def _rows(self, data: Any) -> Any:
        """A table as lists of its cells, in the order of the model's columns; else an array."""
        columns = self._model.get("columns")
        if columns is None or not hasattr(data, "columns"):
            return np.asarray(data) if columns is None else data
        table = data[[column["name"] for column in columns]].astype(object)
        table = table.where(table.notna(), None)
        return [list(map(_cell, row)) for row in table.itertuples(index=False, name=None)]


def _cell(cell: Any) -> Any:
    return cell.isoformat() if hasattr(cell, "isoformat") else cell


def _load_pyfunc(data_path: str) -> Predictor:
    """The name that MLflow calls; `data_path` is the NPZ file."""
    return Predictor(Path(data_path))
