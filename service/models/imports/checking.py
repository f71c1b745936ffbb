"""Whether the parts of a file are a model that this service can serve: all that a training of its
own guarantees by itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

import numpy as np

from service.models.exports.document import Parts
from service.models.imports.reading import invalid
from service.settings import Limits
from svm.calibration import Calibration
from svm.errors import InvalidData
from svm.features import Nystroem, RandomFourier, check_features
from svm.kernels import AnyKernel, GaussianKernel
from svm.matrices import is_sparse
from svm.multiclass import MulticlassName
from svm.pipeline import FittedPipeline
from svm.plain_form import from_arrays
from svm.scaling import ScalingName

TEXTS = {"scaling", "features", "multiclass", "kernel", "calibration"}
NUMBERS = {"format", "n_features"}
WHOLE = {"calibration_starts", "vectors_indices", "vectors_indptr"}
REAL = {
    *("coefficients", "intercepts", "scaling_offset", "scaling_scale", "features_directions"),
    *("features_weights", "calibration_knots", "calibration_values", "vectors", "vectors_data"),
}
TEXT_CHARACTERS = 4096
_SCALED = {
    "none": (False, False),
    "standardize": (True, True),
    "min-max": (True, True),
    "max-abs": (False, True),
}
"""Whether a scaling has an offset, and whether it has a scale."""


def model_of(parts: Parts, columns: list[str] | None, limits: Limits) -> FittedPipeline:
    """The model. Raises InvalidContent (`invalid-model`)."""
    _check_types(parts, limits)
    try:
        model = from_arrays(parts)
        check_features(model.features.spec, model.n_features, sparse=False)
    except InvalidData as error:
        raise invalid(str(error)) from None
    unused = sorted(set(parts) - set(model.to_arrays()))
    if unused:
        raise invalid("the other parts leave no use for it", unused[0])
    _check_classes(model.classes, limits)
    _check_scaling(model)
    _check_features(model)
    _check_kernel(model)
    if model.calibration is not None:
        _check_calibration(model.calibration)
    if columns is not None and len(columns) != model.n_features:
        raise invalid(f"{len(columns)} columns are named for {model.n_features} features")
    return model


def _check_types(parts: Parts, limits: Limits) -> None:
    total = 0
    for name, part in parts.items():
        if name in TEXTS:
            fits = type(part) is str and len(part) <= TEXT_CHARACTERS
        elif name in NUMBERS:
            fits = type(part) is int
        elif name in WHOLE | REAL or name == "classes":
            fits = isinstance(part, np.ndarray) and _fits(name, part)
            total += part.size if isinstance(part, np.ndarray) else 0
        else:
            raise invalid("there is no part of this name", name[:64])
        if not fits:
            raise invalid("it is not of the type that this part has", name)
        if name in REAL and not np.isfinite(part).all():
            raise invalid("a value is not finite", name)
    if total > limits.stored_values:
        raise invalid(f"it has {total:,} numbers, at most {limits.stored_values:,} are allowed")
    if not 1 <= parts.get("n_features", 0) <= limits.sparse_columns:
        raise invalid(f"it is not within 1 … {limits.sparse_columns:,}", "n_features")
    scheme, scaling = parts.get("multiclass"), parts.get("scaling")
    if scheme not in get_args(MulticlassName):
        raise invalid(f"it is none of {', '.join(get_args(MulticlassName))}", "multiclass")
    if scaling not in get_args(ScalingName):
        raise invalid(f"it is none of {', '.join(get_args(ScalingName))}", "scaling")
    if not 2 <= len(parts.get("classes", ())) <= limits.classes:
        raise invalid(f"there are not 2 … {limits.classes} classes", "classes")


def _fits(name: str, part: np.ndarray[Any, Any]) -> bool:
    if name == "classes":
        return part.ndim == 1
    return part.dtype.kind in "i" if name in WHOLE else part.dtype == np.float64


def _check_classes(classes: Any, limits: Limits) -> None:
    labels = classes.tolist()
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise invalid("a label is not finite", "classes")
    if any(a >= b for a, b in pairwise(labels)):
        raise invalid("the labels are not ascending, each once", "classes")
    if classes.dtype.kind == "U" and max(map(len, labels)) > limits.cell_bytes:
        raise invalid("a label is too long", "classes")


def _check_scaling(model: FittedPipeline) -> None:
    scaling = model.scaling
    if (scaling.offset is not None, scaling.scale is not None) != _SCALED[scaling.name]:
        raise invalid(f"offset and scale are not those of {scaling.name}", "scaling")
    if scaling.scale is not None and not (scaling.scale > 0).all():
        raise invalid("a scale is not above 0", "scaling_scale")


def _check_features(model: FittedPipeline) -> None:
    features = model.features
    directions, weights = features.directions, features.weights
    match features.spec:
        case RandomFourier(n_components=count):
            sound = directions is not None and directions.shape == (count, model.n_features)
            sound = sound and weights is not None and weights.shape == (count,)
        case Nystroem(n_components=count, kernel=kernel):
            rows = 0 if directions is None else len(directions)
            sound = 1 <= rows <= count and weights is not None and weights.shape == (rows, rows)
            _check_gamma(kernel, "features")
        case _:
            sound = directions is None and weights is None
    if not sound:
        raise invalid("directions and weights are not those of this map", "features")


def _check_kernel(model: FittedPipeline) -> None:
    if model.kernel is None:
        return
    _check_gamma(model.kernel, "kernel")
    vectors = model.support_vectors
    if vectors is not None and is_sparse(vectors) and not vectors.has_canonical_format:
        raise invalid("the columns of a row are not ascending, each once", "vectors_indices")


def _check_gamma(kernel: AnyKernel, part: str) -> None:
    if isinstance(kernel, GaussianKernel) and kernel.gamma == "median":
        raise invalid("gamma must be a number once a model is trained", part)


def _check_calibration(calibration: Calibration) -> None:
    knots, values, starts = calibration.knots, calibration.values, calibration.starts
    if values is None or starts is None:
        return
    inside = np.ones(len(knots), dtype=bool)  # whether a knot follows another of its problem
    inside[starts[:-1]] = False
    if not (np.diff(knots, prepend=-np.inf)[inside] > 0).all():
        raise invalid("the knots of a problem are not ascending", "calibration_knots")
    if not ((values >= 0) & (values <= 1)).all() or (np.diff(values, prepend=0)[inside] < 0).any():
        raise invalid("they are no rising probabilities", "calibration_values")
