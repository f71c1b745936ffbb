"""Checks whether the parts of a file are a valid model: all that our own training guarantees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from service.models.artifacts import BLOCK_VALUES, blocks, release
from service.models.exports.document import Parts
from service.models.imports.files import ARRAYS, REAL, invalid
from service.rows.cell_texts.number_text import MAX_LEVELS, MAX_LEVELS_IN_ALL, in_order
from service.settings import Limits
from svm.data.columns import Column, Columns
from svm.data.matrices import Vector, is_sparse
from svm.errors import InvalidData
from svm.kernel.kernels import AnyKernel, GaussianKernel
from svm.model.calibration import Calibration
from svm.model.multiclass import MulticlassName
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import from_arrays, to_arrays
from svm.transforms.features import Nystroem, RandomFourier, Terms, are_factors, check_features
from svm.transforms.scaling import ScalingName

_SCALED = {
    "none": (False, False),
    "standardize": (True, True),
    "min-max": (True, True),
    "max-abs": (False, True),
}
"""Whether a scaling has an offset, and whether it has a scale."""


def model_of(parts: Parts, columns: list[str] | None, limits: Limits) -> FittedPipeline:
    """The model. Raises InvalidContent (`invalid-model`)."""
    _check_values(parts, limits)
    try:
        model = from_arrays(parts)
        check_features(model.features.spec, model.features.n_inputs, sparse=False)
    except InvalidData as error:
        raise invalid(str(error)) from None
    unused = sorted(set(parts) - set(to_arrays(model)))
    if unused:
        raise invalid("the model has no use for it", unused[0])
    _check_classes(model.classes, limits)
    _check_scaling(model)
    _check_features(model)
    _check_kernel(model)
    if model.calibration is not None:
        _check_calibration(model.calibration)
    if columns is not None and len(columns) != model.n_features:
        raise invalid(f"it names {len(columns)} columns, but has {model.n_features} features")
    if not model.encoder.is_plain:
        _check_table(model.columns, columns, limits)
    return model


def _check_values(parts: Parts, limits: Limits) -> None:
    arrays = {name: parts[name] for name in parts if name in ARRAYS}
    for name in REAL & arrays.keys():
        if not _all(arrays[name], np.isfinite):
            raise invalid("a value is not finite", name)
    total = sum(array.size for array in arrays.values())
    if total > limits.stored_values:
        raise invalid(f"it has {total:,} numbers, at most {limits.stored_values:,} are allowed")
    if not 1 <= parts.get("n_features", 0) <= limits.sparse_columns:
        raise invalid(f"it is not between 1 and {limits.sparse_columns:,}", "n_features")
    scheme, scaling = parts.get("multiclass"), parts.get("scaling")
    if scheme not in get_args(MulticlassName):
        raise invalid(f"it is not one of {', '.join(get_args(MulticlassName))}", "multiclass")
    if scaling not in get_args(ScalingName):
        raise invalid(f"it is not one of {', '.join(get_args(ScalingName))}", "scaling")
    if "classes" not in parts:
        raise invalid("it is missing", "classes")


def _all(array: np.ndarray[Any, Any], is_valid: Callable[[Any], Any]) -> bool:
    """Whether all values are valid, block by block: a large part is never completely in memory."""
    return all(bool(np.all(is_valid(block))) for block in blocks(array))


def _check_classes(classes: Any, limits: Limits) -> None:
    labels = classes.tolist()
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise invalid("a label is not finite", "classes")
    if any(a >= b for a, b in pairwise(labels)):
        raise invalid("the labels are not strictly ascending", "classes")
    if classes.dtype.kind == "U" and max(map(len, labels)) > limits.cell_bytes:
        raise invalid("a label is too long", "classes")


def _check_scaling(model: FittedPipeline) -> None:
    scaling = model.scaling
    if (scaling.offset is not None, scaling.scale is not None) != _SCALED[scaling.name]:
        raise invalid(f"offset and scale are not those of {scaling.name}", "scaling")
    if scaling.scale is not None and not _all(scaling.scale, lambda scale: scale > 0):
        raise invalid("a scale is not greater than 0", "scaling_scale")


def _check_features(model: FittedPipeline) -> None:
    features = model.features
    directions, weights = features.directions, features.weights
    valid = directions is None and weights is None
    match features.spec:
        case RandomFourier(n_components=count):
            valid = directions is not None and directions.shape == (count, features.n_inputs)
            valid = valid and weights is not None and weights.shape == (count,)
        case Terms(terms=terms):
            valid = directions is None and are_factors(weights, len(terms), features.n_inputs)
        case Nystroem(n_components=count, kernel=kernel):
            rows = 0 if directions is None else len(directions)
            valid = 1 <= rows <= count and weights is not None and weights.shape == (rows, rows)
            _check_gamma(kernel, "features")
    if not valid:
        raise invalid("directions and weights are not those of this map", "features")


def _check_kernel(model: FittedPipeline) -> None:
    if model.kernel is None:
        return
    _check_gamma(model.kernel, "kernel")
    vectors = model.support_vectors
    if vectors is not None and is_sparse(vectors) and not vectors.has_canonical_format:
        raise invalid("the columns of a row are not strictly ascending", "vectors_indices")


def _check_gamma(kernel: AnyKernel, part: str) -> None:
    if isinstance(kernel, GaussianKernel) and kernel.gamma == "median":
        raise invalid("gamma must be a number in a trained model", part)


def _check_calibration(calibration: Calibration) -> None:
    knots, values, starts = calibration.knots, calibration.values, calibration.starts
    if values is None or starts is None:
        return
    if not _ascending(knots, starts, strictly=True):
        raise invalid("the knots of a problem are not ascending", "calibration_knots")
    probable = _all(values, lambda value: (value >= 0) & (value <= 1))
    if not probable or not _ascending(values, starts, strictly=False):
        raise invalid("they are not ascending probabilities", "calibration_values")


def _ascending(values: Vector, starts: npt.NDArray[np.int64], *, strictly: bool) -> bool:
    """Whether the values of each problem, which begin at `starts`, are ascending."""
    for begin in range(0, len(values), BLOCK_VALUES):
        steps = np.diff(values[begin : begin + BLOCK_VALUES + 1])
        ascends = steps > 0 if strictly else steps >= 0
        between = starts - begin - 1  # the step from one problem to the next
        ascends[between[(between >= 0) & (between < len(ascends))]] = True
        if not ascends.all():
            return False
        release(values)
    return True


def _check_table(table: Columns, names: list[str] | None, limits: Limits) -> None:
    """Raises InvalidContent (`invalid-model`) for what our own training does not make."""
    own = [column.name for column in table]
    if names is not None and names != own:
        raise invalid("their names are not those of the document's `columns`", "columns")
    if len(set(own)) < len(own):
        raise invalid("a name comes twice", "columns")
    if sum(len(column.levels) for column in table) > MAX_LEVELS_IN_ALL:
        raise invalid(f"they have more than {MAX_LEVELS_IN_ALL:,} levels", "columns")
    for column in table:
        _check_levels(column, limits)


def _check_levels(column: Column, limits: Limits) -> None:
    levels = column.levels
    if column.kind != "category":
        if levels:
            raise invalid("only a category has levels", "columns")
        return
    if len(levels) > MAX_LEVELS:
        raise invalid(f"a category has more than {MAX_LEVELS:,} levels", "columns")
    if any(not level or level != level.strip() for level in levels):
        raise invalid("a level is empty or has blanks around it", "columns")
    if max(map(len, levels), default=0) > limits.cell_bytes:
        raise invalid("a level is too long", "columns")
    if len(set(levels)) < len(levels) or list(levels) != in_order(levels):
        raise invalid("the levels of a category are not in order, each once", "columns")
