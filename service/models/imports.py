"""Imports of exported models, which are untrusted: the parts by name, checked before arrays are
read, the facts about the model, and whether it is a valid one: all that our own training
guarantees.

A JSON document is read piece by piece, and is never completely in memory. The members of an NPZ
archive are unpacked to files, whose headers are checked first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from service.common.strict_json import parse_json
from service.errors import Fault, InvalidContent
from service.models.artifacts import BLOCK_VALUES, blocks, map_array, release
from service.models.exports import JSON
from service.models.exports.document import (
    JSON_PARTS,
    MOST_JSON_VALUES,
    NAME,
    VERSION,
    About,
    Parts,
)
from service.rows.cell_texts.number_text import MAX_LEVELS, MAX_LEVELS_IN_ALL
from service.rows.cell_texts.reading import Reading
from service.rows.formats.archive import Archive, BadArchive
from service.rows.formats.npy import MAX_TEXT_BYTES, read_header, texts_of
from service.rows.json_reading.stream import Span, elements, is_object, members, raw
from service.rows.spec import HEADER_BYTES
from service.rows.table.arrays import ArrayWriter
from service.settings import Limits
from svm.data.columns import Column, Columns, in_order
from svm.data.matrices import Vector, is_sparse
from svm.errors import InvalidData
from svm.kernel.kernels import AnyKernel
from svm.model.calibration import Calibration
from svm.model.conformal import KEPT
from svm.model.multiclass import MulticlassName
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import from_arrays, to_arrays
from svm.model.target import Target
from svm.transforms.features import (
    Nystroem,
    RandomFourier,
    Splines,
    Terms,
    are_factors,
    check_features,
)
from svm.transforms.scaling import ScalingName
from svm.transforms.splines import are_knots

TEXTS = {
    *("scaling", "features", "multiclass", "kernel", "calibration", "encoding", "columns"),
    *("target", "texts"),
}
NUMBERS = {"format", "n_features"}
WHOLE = {
    *("calibration_starts", "vectors_indices", "vectors_indptr"),
    *("encoder_missing", "encoder_counts", "texts_counts"),
}
REAL = {
    *("coefficients", "intercepts", "scaling_offset", "scaling_scale", "features_directions"),
    *("features_weights", "calibration_knots", "calibration_values", "vectors", "vectors_data"),
    *("encoder_fills", "conformal_residuals", "rejection_decisions"),
}
OCTETS = "texts_tokens"
"""UTF-8."""
ARRAYS = WHOLE | REAL | {"classes", OCTETS}
UNBOUNDED = "conformal_residuals"
"""Errors, which may be infinite; JSON has null for these."""
TEXT_CHARACTERS = 4096
LONGER = {"columns": 4_000_000}
"""Characters of texts that hold the names of levels."""

_DTYPES = "<f8, <i8, <i4, |b1, |u1, <U…"
_DTYPE = re.compile(r"<f8|<i8|<i4|\|b1|\|u1|<U[1-9]\d{0,3}")

assert set(JSON_PARTS) <= TEXTS

SHORT_BYTES = 8 * TEXT_CHARACTERS
"""Longest part that is not an array."""

_TYPES: dict[str, set[type]] = {"f": {int, float}, "i": {int}, "u": {int}, "b": {bool}, "U": {str}}
ABOUT, README = "about", "readme"
MOST_MEMBERS = 40
_SUFFIX = ".npy"
ABOUT_BYTES = 2 * 1024**2
"""Longest JSON besides the model's parts: certificates of many pairs are long."""
ABOUT_VALUES = 200_000
"""Most values in it, since each is a Python object of many bytes."""

_FIELDS = {"format", "format_version", "columns", "origin", "parity"}
_SCALED = {
    "none": (False, False),
    "standardize": (True, True),
    "min-max": (True, True),
    "max-abs": (False, True),
}
"""Whether a scaling has an offset, and whether it has a scale."""


def read(path: Path, media_type: str, limits: Limits) -> tuple[Parts, About]:
    """The parts of the model, with large arrays in files next to `path`, and the facts about it.

    Raises InvalidRequest (`malformed-json`), TooLarge and InvalidContent (`invalid-model`).
    """
    if media_type != JSON:
        parts, about = _read_npz(path, limits, 4 * ABOUT_BYTES)
        return parts, _about(_parse(about))
    parts, spans = _read_json(path, limits)
    _check_fields(set(spans))
    if sum(span.end - span.start for span in spans.values()) > ABOUT_BYTES:
        raise _too_long()
    return parts, _about({name: _parse(raw(path, span)) for name, span in spans.items()})


def model_of(parts: Parts, columns: list[str] | None, limits: Limits) -> FittedPipeline:
    """The model. Raises InvalidContent (`invalid-model`)."""
    _check_values(parts, limits)
    try:
        model = from_arrays(parts)
        check_features(model.features.spec, model.features.n_inputs, sparse=False)
    except InvalidData as error:
        raise _invalid(str(error)) from None
    unused = sorted(set(parts) - set(to_arrays(model)))
    if unused:
        raise _invalid("the model has no use for it", unused[0])
    if model.target is None:
        _check_classes(model.classes, limits)
    else:
        _check_target(model, model.target)
    for name in ("conformal_residuals", "rejection_decisions"):
        if name in parts and not 1 <= len(parts[name]) <= KEPT:
            raise _invalid(f"the number of rows is not between 1 and {KEPT:,}", name)
    _check_scaling(model)
    _check_features(model)
    _check_kernel(model)
    if model.calibration is not None:
        _check_calibration(model.calibration)
    if columns is not None and len(columns) != model.n_features:
        raise _invalid(f"it names {len(columns)} columns, but has {model.n_features} features")
    if not model.encoder.is_plain:
        _check_table(model.columns, columns, limits)
    return model


def _parse(text: bytes) -> Any:
    if len(text) > ABOUT_BYTES or sum(map(text.count, (b",", b"[", b"{"))) > ABOUT_VALUES:
        raise _too_long()
    return parse_json(text)


def _too_long() -> Exception:
    return _invalid("the members besides the model's parts are too long")


def _about(document: Any) -> About:
    if type(document) is not dict or document.get("format") != NAME:
        raise _invalid(f"its format is not {NAME}")
    if document.get("format_version") != VERSION:
        raise _invalid(f"its format_version is not {VERSION}, the supported one")
    _check_fields(set(document))
    columns, origin = document.get("columns"), document.get("origin")
    if columns is not None and not (
        type(columns) is list and all(type(name) is str and name.strip() for name in columns)
    ):
        raise _invalid("`columns` is not null or a list of names")
    if columns is not None and len(set(columns)) < len(columns):
        raise _invalid("`columns` has a name twice")
    if type(origin) is not dict:
        raise _invalid("`origin` is not an object")
    try:
        Reading.of(origin.get("reading"))
    except ValueError as error:
        raise _invalid(f"`reading` of its origin: {error}") from None
    return About(columns, origin)


def _check_fields(names: set[str]) -> None:
    unknown = sorted(names - _FIELDS)
    if unknown:
        raise _invalid(f"it has an unknown member {unknown[0][:64]!r}")


def _read_json(path: Path, limits: Limits) -> tuple[Parts, dict[str, Span]]:
    """The parts of the model, with arrays in files next to `path`, and the spans of the other
    members.

    Raises InvalidRequest (`malformed-json`) and InvalidContent (`invalid-model`).
    """
    document = members(path)
    span = document.pop("model", None)
    if span is None:
        raise _invalid("the document has no member `model`, an object with the parts")
    spans = _json_object(path, span, "`model` is not an object with the parts", None)
    for name in spans:
        _check_name(name)
    parts: Parts = {}
    left = MOST_JSON_VALUES
    for name, part in spans.items():
        parts[name] = _json_part(path, name, part, limits, left)
        left -= parts[name].size if name in ARRAYS else 0
    return parts, document


def _json_part(path: Path, name: str, span: Span, limits: Limits, most_values: int) -> Any:
    if name in ARRAYS:
        return _json_array(path, name, span, limits, most_values)
    if span.end - span.start > 8 * LONGER.get(name, TEXT_CHARACTERS):
        raise _invalid("it is too long", name)
    value = parse_json(raw(path, span))
    if name in JSON_PARTS:
        expected = list if name in ("columns", "texts") else dict
        if type(value) is not expected:
            raise _invalid(f"must be {'a list' if expected is list else 'an object'}", name)
        value = json.dumps(value, sort_keys=True, ensure_ascii=False)
    _check_plain(name, value)
    return value


def _json_array(
    path: Path, name: str, span: Span, limits: Limits, most_values: int
) -> npt.NDArray[Any]:
    """From `dtype`, `shape` and the flat list `values`."""
    part = _json_object(path, span, "it is not an array: an object with dtype, shape, values", name)
    if set(part) != {"dtype", "shape", "values"}:
        raise _invalid("an array has the members dtype, shape and values, and no others", name)
    if max(value.end - value.start for key, value in part.items() if key != "values") > SHORT_BYTES:
        raise _invalid("its dtype or shape is too long", name)
    shape = parse_json(raw(path, part["shape"]))
    dtype = _check_array(name, parse_json(raw(path, part["dtype"])), shape, limits)
    count = math.prod(shape)
    if count > most_values:
        message = f"the model has more than {MOST_JSON_VALUES:,} numbers; import it as NPZ"
        raise _invalid(message, name)
    file = path.with_name(f"{name}.npy")
    with ArrayWriter(file, dtype.str) as writer:
        if _write_values(writer, path, name, part["values"], dtype, count) != count:
            raise _invalid("the number of its values does not match its shape", name)
        writer.finish(tuple(shape))
    return map_array(file, dtype, tuple(shape), HEADER_BYTES)


def _json_object(path: Path, span: Span, otherwise: str, name: str | None) -> dict[str, Span]:
    if not is_object(path, span):
        if span.end - span.start <= SHORT_BYTES:
            parse_json(raw(path, span))  # raises if it is not JSON
        raise _invalid(otherwise, name)
    return members(path, span)


def _write_values(
    writer: ArrayWriter, path: Path, name: str, span: Span, dtype: np.dtype[Any], count: int
) -> int:
    """Write at most `count` values; returns their number."""
    batches = elements(path, span)
    if batches is None:
        raise _invalid("its values are not a list", name)
    done = 0
    for batch in batches:
        done += len(batch)
        if done > count:
            break
        if name == UNBOUNDED:
            batch = [math.inf if value is None else value for value in batch]
        if not set(map(type, batch)) <= _TYPES[dtype.kind]:
            raise _invalid(f"its values are not of the type {dtype.str}", name)
        if dtype.kind == "U" and max(map(len, batch), default=0) > dtype.itemsize // 4:
            raise _invalid("a text is longer than its dtype says", name)
        try:
            writer.write(np.array(batch, dtype))
        except (OverflowError, ValueError):
            raise _invalid(f"a value is too large for {dtype.str}", name) from None
    return done


def _read_npz(path: Path, limits: Limits, about_bytes: int) -> tuple[Parts, bytes]:
    """The parts of the model, with arrays in files next to `path`, and the text of its member
    `about`, at most `about_bytes` long.

    Raises InvalidContent (`invalid-model`), and TooLarge for an archive that inflates too much.
    """
    try:
        archive = Archive(path, MOST_MEMBERS)
        names = [_npz_name(member) for member in archive.names if member != README + _SUFFIX]
        if ABOUT not in names:
            raise _invalid("the archive has no member about.npy, a text that describes the model")
        files = archive.unpack([name + _SUFFIX for name in names], path.parent, limits.upload_bytes)
    except BadArchive as error:
        raise _invalid(error.message) from None
    about = _npz_text(ABOUT, files.pop(ABOUT + _SUFFIX), about_bytes)
    parts = {
        name.removesuffix(_SUFFIX): _npz_part(name.removesuffix(_SUFFIX), file, limits)
        for name, file in files.items()
    }
    return parts, about.encode()


def _npz_name(member: str) -> str:
    name = member.removesuffix(_SUFFIX)
    if name == member:
        raise _invalid(f"the archive has a member {member[:64]!r}")
    if name != ABOUT:
        _check_name(name)
    return name


def _npz_part(name: str, file: Path, limits: Limits) -> Any:
    if name in ARRAYS:
        array = _npz_array(name, file, MAX_TEXT_BYTES)
        _check_array(name, array.dtype.str, array.shape, limits)
        if array.dtype.kind == "U":
            _npz_texts(name, array)
        return array
    if name in NUMBERS:
        array = _npz_array(name, file, 0)
        value = array.item() if array.shape == () else None
    else:
        value = _npz_text(name, file, 4 * LONGER.get(name, MAX_TEXT_BYTES // 4))
    _check_plain(name, value)
    return value


def _npz_text(name: str, file: Path, most_bytes: int) -> str:
    array = _npz_array(name, file, most_bytes)
    if array.shape != () or array.dtype.kind != "U":
        raise _invalid("it is not a text", name)
    return _npz_texts(name, array.reshape(1))[0]


def _npz_texts(name: str, array: npt.NDArray[Any]) -> list[str]:
    try:
        return texts_of(array)
    except InvalidContent:
        raise _invalid("a text contains an invalid character", name) from None


def _npz_array(name: str, file: Path, text_bytes: int) -> npt.NDArray[Any]:
    try:
        with file.open("rb") as opened:
            header = read_header(opened, file.stat().st_size, text_bytes=text_bytes)
    except InvalidContent as error:
        raise _invalid(error.faults[0].message, name) from None
    if header.fortran_order and len(header.shape) > 1:
        raise _invalid("it is not in C order", name)
    return map_array(file, header.dtype, header.shape, header.size)


def _invalid(message: str, part: str | None = None) -> InvalidContent:
    """The error of a file that is not a valid model; `part` is the part with the error."""
    fault = Fault(code="invalid-model", message=message, pointer=part and f"/model/{part}")
    where = f"{part}: " if part else ""
    return InvalidContent("invalid-model", f"{where}{message}", (fault,))


def _few_classes(limits: Limits) -> InvalidContent:
    return _invalid(f"the number of classes is not between 2 and {limits.classes}", "classes")


def _check_name(name: str) -> None:
    """Raises InvalidContent for an unknown part."""
    if name not in ARRAYS | TEXTS | NUMBERS:
        raise _invalid("this is not a part of a model", name[:64])


def _check_array(name: str, code: Any, shape: Any, limits: Limits) -> np.dtype[Any]:
    """The type of an array from its `code`. Raises InvalidContent if a model cannot have such a
    part."""
    if type(code) is not str or not _DTYPE.fullmatch(code):
        raise _invalid(f"its dtype is not one of {_DTYPES}", name)
    if not (type(shape) in (list, tuple) and all(type(n) is int and n >= 0 for n in shape)):
        raise _invalid("its shape is not a list of sizes", name)
    dtype = np.dtype(code)
    if name == "classes":
        if len(shape) != 1 or not (shape[0] == 0 or 2 <= shape[0] <= limits.classes):
            raise _few_classes(limits)
    elif len(shape) not in (1, 2) or dtype.kind != _kind_of(name):
        raise _invalid("it has the wrong type for this part", name)
    return dtype


def _kind_of(name: str) -> str:
    if name == OCTETS:
        return "u"
    return "i" if name in WHOLE else "f"


def _check_plain(name: str, value: Any) -> None:
    """Raises InvalidContent if a number is not an integer, or a text not a short text."""
    short = type(value) is str and len(value) <= LONGER.get(name, TEXT_CHARACTERS)
    if not (type(value) is int if name in NUMBERS else short):
        raise _invalid("it has the wrong type for this part", name)


def _check_values(parts: Parts, limits: Limits) -> None:
    arrays = {name: parts[name] for name in parts if name in ARRAYS}
    for name in (REAL - {UNBOUNDED}) & arrays.keys():
        if not _all(arrays[name], np.isfinite):
            raise _invalid("a value is not finite", name)
    total = sum(array.size for array in arrays.values())
    if total > limits.stored_values:
        raise _invalid(f"it has {total:,} numbers, at most {limits.stored_values:,} are allowed")
    if not 1 <= parts.get("n_features", 0) <= limits.sparse_columns:
        raise _invalid(f"it is not between 1 and {limits.sparse_columns:,}", "n_features")
    scheme, scaling = parts.get("multiclass"), parts.get("scaling")
    if scheme not in get_args(MulticlassName):
        raise _invalid(f"it is not one of {', '.join(get_args(MulticlassName))}", "multiclass")
    if scaling not in get_args(ScalingName):
        raise _invalid(f"it is not one of {', '.join(get_args(ScalingName))}", "scaling")
    if "classes" not in parts:
        raise _invalid("it is missing", "classes")


def _all(array: np.ndarray[Any, Any], is_valid: Callable[[Any], Any]) -> bool:
    """Whether all values are valid, block by block: a large part is never completely in memory."""
    return all(bool(np.all(is_valid(block))) for block in blocks(array))


def _check_classes(classes: Any, limits: Limits) -> None:
    labels = classes.tolist()
    if not labels:
        raise _few_classes(limits)
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise _invalid("a label is not finite", "classes")
    if any(a >= b for a, b in pairwise(labels)):
        raise _invalid("the labels are not strictly ascending", "classes")
    if classes.dtype.kind == "U" and max(map(len, labels)) > limits.cell_bytes:
        raise _invalid("a label is too long", "classes")


def _check_target(model: FittedPipeline, target: Target) -> None:
    if len(model.classes) > 0:
        raise _invalid("a model with a `target` has no classes", "classes")
    if model.calibration is not None:
        raise _invalid("a model with a `target` has no probabilities", "calibration")
    numbers = (target.center, target.scale, target.epsilon)
    valid = type(target.logarithm) is bool and {int, float}.issuperset(map(type, numbers))
    if not (valid and all(map(math.isfinite, numbers)) and target.scale > 0 <= target.epsilon):
        message = "it needs finite numbers center, scale > 0 and epsilon >= 0, and a logarithm"
        raise _invalid(f"{message} that is true or false", "target")


def _check_scaling(model: FittedPipeline) -> None:
    scaling = model.scaling
    if (scaling.offset is not None, scaling.scale is not None) != _SCALED[scaling.name]:
        raise _invalid(f"offset and scale are not those of {scaling.name}", "scaling")
    if scaling.scale is not None and not _all(scaling.scale, lambda scale: scale > 0):
        raise _invalid("a scale is not greater than 0", "scaling_scale")


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
        case Splines(n_knots=count):
            valid = directions is None and are_knots(weights, features.n_inputs, count)
        case Nystroem(n_components=count, kernel=kernel):
            rows = 0 if directions is None else len(directions)
            valid = 1 <= rows <= count and weights is not None and weights.shape == (rows, rows)
            _check_gamma(kernel, "features")
    if not valid:
        raise _invalid("directions and weights are not those of this map", "features")


def _check_kernel(model: FittedPipeline) -> None:
    if model.kernel is None:
        return
    _check_gamma(model.kernel, "kernel")
    vectors = model.support_vectors
    if vectors is not None and is_sparse(vectors) and not vectors.has_canonical_format:
        raise _invalid("the columns of a row are not strictly ascending", "vectors_indices")


def _check_gamma(kernel: AnyKernel, part: str) -> None:
    if isinstance(getattr(kernel, "gamma", None), str):
        raise _invalid("gamma must be a number in a trained model", part)


def _check_calibration(calibration: Calibration) -> None:
    knots, values, starts = calibration.knots, calibration.values, calibration.starts
    if values is None or starts is None:
        return
    if not _ascending(knots, starts, strictly=True):
        raise _invalid("the knots of a problem are not ascending", "calibration_knots")
    probable = _all(values, lambda value: (value >= 0) & (value <= 1))
    if not probable or not _ascending(values, starts, strictly=False):
        raise _invalid("they are not ascending probabilities", "calibration_values")


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
        raise _invalid("their names are not those of the document's `columns`", "columns")
    if len(set(own)) < len(own):
        raise _invalid("a name comes twice", "columns")
    if sum(len(column.levels) for column in table) > MAX_LEVELS_IN_ALL:
        raise _invalid(f"they have more than {MAX_LEVELS_IN_ALL:,} levels", "columns")
    for column in table:
        _check_levels(column, limits)


def _check_levels(column: Column, limits: Limits) -> None:
    levels = column.levels
    if column.kind != "category":
        if levels:
            raise _invalid("only a category has levels", "columns")
        return
    if len(levels) > MAX_LEVELS:
        raise _invalid(f"a category has more than {MAX_LEVELS:,} levels", "columns")
    if any(not level or level != level.strip() for level in levels):
        raise _invalid("a level is empty or has blanks around it", "columns")
    if max(map(len, levels), default=0) > limits.cell_bytes:
        raise _invalid("a level is too long", "columns")
    if len(set(levels)) < len(levels) or list(levels) != in_order(levels):
        raise _invalid("the levels of a category are not in order, each once", "columns")
