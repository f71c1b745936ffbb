"""Writes the files of exports, each with its parity. For the process that renders files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np

from service import __version__
from service.errors import InvalidContent
from service.models.exports import ExportFormat, document, file_name, plain
from service.models.exports.document import About
from service.models.exports.parity import parity_of
from service.models.schemas import ModelVersionRead
from service.models.sources import Sources
from service.models.versions import ModelVersion
from svm.data.matrices import Vector
from svm.model.serialization import to_arrays

EXPORTS: dict[str, ExportFormat] = {file_name(form): form for form in get_args(ExportFormat)}
"""By file name."""

_ORIGIN = (
    *("name", "version", "created_at", "digest", "dataset_digest", "job_id", "seed", "spec"),
    *("metrics", "certificate", "converged", "stop_reason", "epochs", "updates"),
    *("n_support_vectors", "reading"),
)


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

    def predict(X: Vector) -> tuple[Any, Vector]:
        values = plain.decision(model, plain.scores(model, X))
        codes = sources.fitted.codes_from_decision(values)
        return model["classes"][codes], values

    parity = parity_of(sources, predict, f"NumPy {np.__version__}")
    document.write(form, parts, About(about.columns, about.origin, parity), path)
    return parity


def _write_onnx(sources: Sources, about: About, path: Path) -> dict[str, Any] | None:
    try:
        import onnxruntime

        from service.models.exports.graph import graph_of
        from service.models.exports.table_graph import feed
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

    def predict(X: Vector) -> tuple[Any, Vector]:
        fitted = sources.fitted
        plain = fitted.encoder.is_plain
        rows = {"X": np.ascontiguousarray(X)} if plain else feed(fitted.columns, X)
        labels, decision = session.run(["label", "decision"], rows)
        return labels, decision

    parity = parity_of(sources, predict, f"onnxruntime {onnxruntime.__version__}")
    described = About(about.columns, about.origin, parity).as_dict()
    entry = model.metadata_props.add()
    entry.key, entry.value = document.NAME, json.dumps(described, ensure_ascii=False)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return parity
