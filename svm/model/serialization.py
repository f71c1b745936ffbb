"""Models as plain arrays, numbers and strings, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from svm.data.columns import Column, Kind
from svm.data.matrices import is_sparse
from svm.encoding.encoder import AnyEncoder, Encoder, Encoding, PlainEncoder
from svm.encoding.texts import Part, TextEncoder
from svm.encoding.tokens import PARTS
from svm.errors import InvalidData
from svm.kernel.kernels import KERNELS
from svm.model.calibration import Calibration
from svm.model.conformal import Conformal
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
from svm.model.rejection import Rejection
from svm.model.target import Target
from svm.transforms.features import FEATURES, FeatureMap
from svm.transforms.scaling import Scaling

FORMAT = 1
"""Number of the format that `to_arrays` writes; old formats stay readable."""
TABLE_FORMAT = 2
"""The same for a model with an encoder: releases that do not know it refuse to read it."""
CALIBRATION = ("knots", "values", "starts")
CSR = ("data", "indices", "indptr")
TEXT_ENCODING = ("tokens", "sublinear", "text_weights")


def to_arrays(model: FittedPipeline) -> dict[str, Any]:
    """Plain arrays, numbers and strings, from which `from_arrays` builds an equal model."""
    content: dict[str, Any] = {
        "format": FORMAT if model.encoder.is_plain else TABLE_FORMAT,
        "classes": model.classes,
        "scaling": model.scaling.name,
        "features": json.dumps(asdict(model.features.spec), sort_keys=True),
        "n_features": model.features.n_inputs,
        "multiclass": model.multiclass,
        "coefficients": model.coefficients,
        "intercepts": model.intercepts,
        "scaling_offset": model.scaling.offset,
        "scaling_scale": model.scaling.scale,
        "features_directions": model.features.directions,
        "features_weights": model.features.weights,
    }
    if model.target is not None:
        content["target"] = json.dumps(asdict(model.target), sort_keys=True)
    if model.conformal is not None:
        content["conformal_residuals"] = model.conformal.residuals
    if model.rejection is not None:
        content["rejection_decisions"] = model.rejection.decisions
    if model.calibration is not None:
        content["calibration"] = model.calibration.name
        for name in CALIBRATION:
            content[f"calibration_{name}"] = getattr(model.calibration, name)
    content |= _encoder_arrays(model.encoder)
    if model.kernel is not None:
        content["kernel"] = json.dumps(asdict(model.kernel), sort_keys=True)
        if is_sparse(model.support_vectors):
            for name in CSR:
                content[f"vectors_{name}"] = getattr(model.support_vectors, name)
        else:
            content["vectors"] = model.support_vectors
    return {name: value for name, value in content.items() if value is not None}


def from_arrays(content: Mapping[str, Any]) -> FittedPipeline:
    """The model of `to_arrays`. Raises InvalidData (`model-unreadable`)."""
    if content.get("format") not in (FORMAT, TABLE_FORMAT):
        raise InvalidData(
            "model-unreadable",
            f"the model has format {content.get('format')!r}; this version reads {FORMAT} and "
            f"{TABLE_FORMAT}",
        )
    try:
        model = _read(content)
        consistent = _consistent(model)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise InvalidData(
            "model-unreadable", "a part of the model is missing or damaged"
        ) from error
    if not consistent:
        raise InvalidData("model-unreadable", "the parts of the model do not fit together")
    return model


def _read(content: Mapping[str, Any]) -> FittedPipeline:
    features = json.loads(content["features"])
    if features["name"] == "nystroem":
        features["kernel"] = _made(KERNELS, features["kernel"])
    feature_map = FeatureMap(
        _made(FEATURES, features),
        int(content["n_features"]),
        content.get("features_directions"),
        content.get("features_weights"),
    )
    kernel, vectors = None, None
    if "kernel" in content:
        kernel = _made(KERNELS, json.loads(content["kernel"]))
        vectors = content.get("vectors")
        if vectors is None:
            from scipy.sparse import csr_array

            parts = tuple(content[f"vectors_{name}"] for name in CSR)
            shape = (len(parts[2]) - 1, feature_map.n_outputs)
            vectors = csr_array(parts, shape=shape)
            vectors.check_format()
    return FittedPipeline(
        classes=content["classes"],
        scaling=Scaling(
            content["scaling"], content.get("scaling_offset"), content.get("scaling_scale")
        ),
        features=feature_map,
        coefficients=content["coefficients"],
        intercepts=content["intercepts"],
        multiclass=content["multiclass"],
        kernel=kernel,
        support_vectors=vectors,
        calibration=Calibration(
            content["calibration"],
            content["calibration_knots"],
            content.get("calibration_values"),
            content.get("calibration_starts"),
        )
        if "calibration" in content
        else None,
        encoder=_encoder_from(content)
        if content["format"] == TABLE_FORMAT
        else PlainEncoder.of(feature_map.n_inputs),
        target=Target(**json.loads(content["target"])) if "target" in content else None,
        conformal=Conformal(content["conformal_residuals"])
        if "conformal_residuals" in content
        else None,
        rejection=Rejection(content["rejection_decisions"])
        if "rejection_decisions" in content
        else None,
    )


def _made(choices: Mapping[str, Any], spec: dict[str, Any]) -> Any:
    return choices[spec["name"]](**spec)


def _consistent(model: FittedPipeline) -> bool:
    n_problems = 1
    if model.target is None:
        n_problems = len(splits_of(model.multiclass, len(model.classes)))
    d = model.features.n_inputs
    if model.encoder.n_outputs != d:
        return False
    scaling = [v for v in (model.scaling.offset, model.scaling.scale) if v is not None]
    width = model.features.n_outputs
    if model.kernel is not None:
        assert model.support_vectors is not None
        if model.support_vectors.shape[1] != width:
            return False
        width = model.support_vectors.shape[0]
    directions, weights = model.features.directions, model.features.weights
    calibration, conformal, rejection = model.calibration, model.conformal, model.rejection
    return (calibration is None or calibration.fits(n_problems)) and (
        (conformal is None or (model.target is not None and conformal.is_sound))
        and (rejection is None or (model.target is None and rejection.is_sound))
        and model.coefficients.shape == (n_problems, width)
        and model.intercepts.shape == (n_problems,)
        and all(vector.shape == (d,) for vector in scaling)
        and (directions is None or directions.shape == (model.features.n_outputs, d))
        and (weights is None or len(weights) == model.features.n_weights)
    )


def _encoder_arrays(encoder: AnyEncoder) -> dict[str, Any]:
    """Arrays and texts, from which `_encoder_from` builds an equal encoder; none of plain rows."""
    if isinstance(encoder, PlainEncoder):
        return {}
    columns = [
        {"name": column.name, "kind": column.kind, "levels": column.levels}
        for column in encoder.columns
    ]
    encoding = asdict(encoder.encoding)
    if not encoder.texts:  # as before there were texts
        encoding = {name: encoding[name] for name in encoding if name not in TEXT_ENCODING}
    return _text_arrays(encoder.texts) | {
        "encoding": json.dumps(encoding, sort_keys=True),
        "columns": json.dumps(columns, sort_keys=True, ensure_ascii=False),
        "encoder_missing": encoder.missing,
        "encoder_counts": encoder.counts,
        "encoder_fills": encoder.fills,
    }


def _text_arrays(texts: Sequence[TextEncoder]) -> dict[str, Any]:
    """Arrays and texts, from which `_texts_from` builds equal encoders; none without texts."""
    if not texts:
        return {}
    parts = [part for text in texts for part in text.parts]
    tokens = "\n".join(token for part in parts for token in part.tokens)
    described = [
        {
            "n_texts": text.n_texts,
            "unicode": text.unicode,
            "parts": [[part.name, len(part.keys)] for part in text.parts],
        }
        for text in texts
    ]
    return {
        "texts": json.dumps(described, sort_keys=True),
        "texts_counts": np.concatenate([part.counts for part in parts]),
        "texts_tokens": np.frombuffer(tokens.encode("utf-8", "surrogatepass"), np.uint8),
    }


def _texts_from(
    content: Mapping[str, Any], encoding: Encoding, columns: Sequence[Column]
) -> tuple[TextEncoder, ...]:
    """The encoders of `_text_arrays`. Raises KeyError, TypeError or ValueError."""
    if "texts" not in content:
        return ()
    counts, octets = content["texts_counts"], content["texts_tokens"]
    joined = octets.tobytes().decode("utf-8", "surrogatepass")
    tokens = tuple(joined.split("\n")) if len(counts) else ()
    start, texts = 0, []
    names = [column.name for column in columns if column.kind == "text"]
    for name, described in zip(names, json.loads(content["texts"]), strict=True):
        sizes, parts = dict(described.pop("parts")), []
        for part, size in sizes.items():
            some = slice(start, start := start + len(range(size)))
            parts.append(Part.of(part, tokens[some], counts[some]))
        text = TextEncoder(
            parts=tuple(parts),
            sublinear=encoding.sublinear,
            weight=encoding.text_weights.get(name, 1.0),
            **described,
        )
        fits = (
            list(sizes) in ([*PARTS], [PARTS[0]], [PARTS[1]])
            and (type(text.n_texts), type(text.unicode)) == (int, str)
            and all(((part.counts > 0) & (part.counts <= text.n_texts)).all() for part in parts)
        )
        if not fits:
            raise ValueError("the parts of the texts do not fit together")
        texts.append(text)
    if not start == len(tokens) == len(counts):
        raise ValueError("the tokens and their counts do not fit together")
    return tuple(texts)


def _encoder_from(content: Mapping[str, Any]) -> Encoder:
    """The encoder of `_encoder_arrays`. Raises KeyError, TypeError or ValueError."""
    columns = tuple(
        Column(column["name"], column["kind"], tuple(column["levels"]))
        for column in json.loads(content["columns"])
    )
    encoding = Encoding(**json.loads(content["encoding"]))
    encoder = Encoder(
        encoding=encoding,
        columns=columns,
        missing=content["encoder_missing"],
        counts=content["encoder_counts"],
        fills=content["encoder_fills"],
        texts=_texts_from(content, encoding, columns),
    )
    counted = encoder.missing, encoder.counts
    texts = [text for column in columns for text in (column.name, *column.levels)]
    fits = (
        all(isinstance(text, str) for text in texts)
        and all(column.kind in get_args(Kind) for column in columns)
        and all(counts.dtype.kind == "i" and not (counts < 0).any() for counts in counted)
        and encoder.missing.shape == (len(columns),)
        and len(encoder.texts) == len(encoder.text_columns)
        and encoder.counts.shape == (sum(len(column.levels) for column in columns),)
        and encoder.fills.shape == encoder.sources.shape
        and bool(np.isfinite(encoder.fills).all())
    )
    if not fits:
        raise ValueError("the parts of the encoder do not fit together")
    return encoder
