"""Writes the files of exports, each with its parity, which compares its predictions with the
service's on the training rows. For the process that renders files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from service import __version__
from service.errors import InvalidContent
from service.models.exports import ExportFormat, document, plain
from service.models.exports.document import About
from service.models.schemas import ModelVersionRead
from service.models.sources import Sources
from service.storage.database.tables import ModelVersion
from svm.data.matrices import Vector, dense
from svm.data.texts import texts_of
from svm.encoding.encoder import PlainEncoder
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import to_arrays

_ORIGIN = (
    *("name", "version", "created_at", "digest", "dataset_digest", "job_id", "seed", "spec"),
    *("metrics", "certificate", "converged", "stop_reason", "epochs", "updates"),
    *("n_support_vectors", "reading"),
)
MOST_ROWS = 100_000
BLOCK_VALUES = 4_000_000
"""Values of the dense rows that are compared at once."""

Predict: TypeAlias = Callable[[Vector], tuple[Any, ...]]
"""Labels (n,) and decision values of dense rows (n, n_features), or the numbers alone."""


def export(form: ExportFormat, sources: Sources, path: Path) -> tuple[dict[str, Any], None]:
    """Write the file; returns its parity, and None, since it shows no data.

    Raises InvalidContent (`export-unsupported`), Corrupt.
    """
    about = About(sources.version.columns, origin_of(sources.version))
    if form == "onnx":
        parity = _write_onnx(sources, about, path)
    else:
        parity = _write_document(form, sources, about, path)
    return {"parity": parity}, None


def origin_of(version: ModelVersion) -> dict[str, Any]:
    """The origin of a model; of an imported one, the origin in its file."""
    if version.imported is not None:
        origin: dict[str, Any] = version.imported["origin"]
        return origin
    read = ModelVersionRead.of(version).model_dump(mode="json")
    return {"service": f"svm-service {__version__}"} | {name: read[name] for name in _ORIGIN}


def _write_document(
    form: ExportFormat, sources: Sources, about: About, path: Path
) -> dict[str, Any] | None:
    parts = to_arrays(sources.fitted)
    document.write(form, parts, about, path)
    model = plain.load(path)  # as other programs do

    def predict(X: Vector) -> tuple[Any, ...]:
        texts = _numbered_texts(sources.fitted, X)
        if sources.fitted.target is not None:
            return (plain.predict(model, X, texts),)
        values = plain.decision(model, plain.scores(model, X, texts))
        codes = sources.fitted.codes_from_decision(values)
        return model["classes"][codes], values

    parity = parity_of(sources, predict, f"NumPy {np.__version__}")
    document.write(form, parts, About(about.columns, about.origin, parity), path)
    return parity


def _numbered_texts(fitted: FittedPipeline, X: Vector) -> dict[int, str]:
    """The texts of raw rows by their raw values."""
    if isinstance(fitted.encoder, PlainEncoder):
        return {}
    cells = np.unique(np.asarray(X).take(fitted.encoder.text_columns, axis=1))
    places: list[int] = cells[~np.isnan(cells)].astype(np.int64).tolist()
    return dict(zip(places, texts_of(X).take(places), strict=True))


def _write_onnx(sources: Sources, about: About, path: Path) -> dict[str, Any] | None:
    try:
        import onnxruntime

        from service.models.exports.graph import feed, graph_of
    except ImportError:
        raise InvalidContent(
            "export-unsupported",
            "this service cannot write ONNX, because its libraries are not installed; install "
            "the extra `onnx` of svm-service, or use npz or json",
        ) from None
    model = graph_of(sources.fitted, sources.version.model_name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    fitted = sources.fitted
    outputs = ["label", "decision"] if fitted.target is None else ["value"]

    def predict(X: Vector) -> tuple[Any, ...]:
        plain = fitted.encoder.is_plain
        rows = {"X": np.ascontiguousarray(X)} if plain else feed(fitted.columns, X)
        return tuple(session.run(outputs, rows))

    parity = parity_of(sources, predict, f"onnxruntime {onnxruntime.__version__}")
    described = About(about.columns, about.origin, parity).as_dict()
    entry = model.metadata_props.add()
    entry.key, entry.value = document.NAME, json.dumps(described, ensure_ascii=False)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return parity


def parity_of(sources: Sources, predict: Predict, measured_with: str) -> dict[str, Any] | None:
    """None without data.

    `labels_equal`: the share of rows with the same label. `max_score_difference`: the largest
    |a - b| / max(1, |b|) of decision values; 1 is the margin. Of numbers `max_value_difference`:
    the same, with the standard deviation of the target in place of 1, or 0 with logarithms.
    """
    fitted, target = sources.fitted, sources.fitted.target
    unit = 1.0 if target is None else 0.0 if target.logarithm else target.scale
    equal, largest, count = 0, 0.0, 0
    step = max(1, BLOCK_VALUES // max(fitted.n_features, fitted.features.n_inputs))
    for X in sources.blocks(MOST_ROWS, step):
        rows = dense(X)
        *labels, given = predict(rows)
        if target is None:
            expected = fitted.decision_function(X)
            equal += int((np.asarray(labels[0]) == fitted.labels_from_decision(expected)).sum())
        else:
            expected = fitted.predict(X)
        differences = np.abs(given - expected) / np.maximum(unit, np.abs(expected))
        largest = max(largest, float(differences.max()))
        count += len(rows)
    if count == 0:
        return None
    same = {"max_value_difference": largest}
    if target is None:
        same = {"labels_equal": equal / count, "max_score_difference": largest}
    return {"rows": count, **same, "measured_with": measured_with}
