"""The parts of an exported model: names, types and shapes, checked before arrays are read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from service.errors import Fault, InvalidContent
from service.models.exports.document import JSON_PARTS
from service.settings import Limits

TEXTS = {"scaling", "features", "multiclass", "kernel", "calibration", "encoding", "columns"}
NUMBERS = {"format", "n_features"}
WHOLE = {
    *("calibration_starts", "vectors_indices", "vectors_indptr"),
    *("encoder_missing", "encoder_counts"),
}
REAL = {
    *("coefficients", "intercepts", "scaling_offset", "scaling_scale", "features_directions"),
    *("features_weights", "calibration_knots", "calibration_values", "vectors", "vectors_data"),
    "encoder_fills",
}
ARRAYS = WHOLE | REAL | {"classes"}
TEXT_CHARACTERS = 4096
LONGER = {"columns": 4_000_000}
"""Characters of texts that hold the names of levels."""

_DTYPES = "<f8, <i8, <i4, |b1, <U…"
_DTYPE = re.compile(r"<f8|<i8|<i4|\|b1|<U[1-9]\d{0,3}")

assert set(JSON_PARTS) <= TEXTS


def invalid(message: str, part: str | None = None) -> InvalidContent:
    """The error of a file that is not a valid model; `part` is the part with the error."""
    fault = Fault(code="invalid-model", message=message, pointer=part and f"/model/{part}")
    where = f"{part}: " if part else ""
    return InvalidContent("invalid-model", f"{where}{message}", (fault,))


def check_name(name: str) -> None:
    """Raises InvalidContent for an unknown part."""
    if name not in ARRAYS | TEXTS | NUMBERS:
        raise invalid("this is not a part of a model", name[:64])


def check_array(name: str, code: Any, shape: Any, limits: Limits) -> np.dtype[Any]:
    """The type of an array from its `code`. Raises InvalidContent if a model cannot have such a
    part."""
    if type(code) is not str or not _DTYPE.fullmatch(code):
        raise invalid(f"its dtype is not one of {_DTYPES}", name)
    if not (type(shape) in (list, tuple) and all(type(n) is int and n >= 0 for n in shape)):
        raise invalid("its shape is not a list of sizes", name)
    dtype = np.dtype(code)
    if name == "classes":
        if len(shape) != 1 or not 2 <= shape[0] <= limits.classes:
            raise invalid(f"the number of classes is not between 2 and {limits.classes}", name)
    elif len(shape) not in (1, 2) or dtype.kind not in ("i" if name in WHOLE else "f"):
        raise invalid("it has the wrong type for this part", name)
    return dtype


def check_text(name: str, text: Any) -> None:
    """Raises InvalidContent if it is not a short text."""
    if type(text) is not str or len(text) > LONGER.get(name, TEXT_CHARACTERS):
        raise invalid("it has the wrong type for this part", name)


def check_number(name: str, number: Any) -> None:
    """Raises InvalidContent if it is not an integer."""
    if type(number) is not int:
        raise invalid("it has the wrong type for this part", name)
