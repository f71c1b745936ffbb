"""The parts that an exported model may have, checked by what a file announces of them: before
anything of an array is read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from service.errors import Fault, InvalidContent
from service.models.exports.document import JSON_PARTS
from service.settings import Limits

TEXTS = {"scaling", "features", "multiclass", "kernel", "calibration"}
NUMBERS = {"format", "n_features"}
WHOLE = {"calibration_starts", "vectors_indices", "vectors_indptr"}
REAL = {
    *("coefficients", "intercepts", "scaling_offset", "scaling_scale", "features_directions"),
    *("features_weights", "calibration_knots", "calibration_values", "vectors", "vectors_data"),
}
ARRAYS = WHOLE | REAL | {"classes"}
TEXT_CHARACTERS = 4096

_DTYPES = "<f8, <i8, <i4, |b1, <U…"
_DTYPE = re.compile(r"<f8|<i8|<i4|\|b1|<U[1-9]\d{0,3}")

assert set(JSON_PARTS) <= TEXTS


def invalid(message: str, part: str | None = None) -> InvalidContent:
    """The problem of a file that is no sound model; `part` says where."""
    fault = Fault(code="invalid-model", message=message, pointer=part and f"/model/{part}")
    where = f"{part}: " if part else ""
    return InvalidContent("invalid-model", f"{where}{message}", (fault,))


def check_name(name: str) -> None:
    """Raises InvalidContent for a part that no model has."""
    if name not in ARRAYS | TEXTS | NUMBERS:
        raise invalid("there is no part of this name", name[:64])


def check_array(name: str, code: Any, shape: Any, limits: Limits) -> np.dtype[Any]:
    """The type of an array, announced by its `code`. Raises InvalidContent where no model has such
    a part."""
    if type(code) is not str or not _DTYPE.fullmatch(code):
        raise invalid(f"its dtype is none of {_DTYPES}", name)
    if not (type(shape) in (list, tuple) and all(type(n) is int and n >= 0 for n in shape)):
        raise invalid("its shape is not a list of sizes", name)
    dtype = np.dtype(code)
    if name == "classes":
        if len(shape) != 1 or not 2 <= shape[0] <= limits.classes:
            raise invalid(f"there are not 2 … {limits.classes} classes", name)
    elif len(shape) not in (1, 2) or dtype.kind not in ("i" if name in WHOLE else "f"):
        raise invalid("it is not of the type that this part has", name)
    return dtype


def check_text(name: str, text: Any) -> None:
    """Raises InvalidContent for another value than a short text."""
    if type(text) is not str or len(text) > TEXT_CHARACTERS:
        raise invalid("it is not of the type that this part has", name)


def check_number(name: str, number: Any) -> None:
    """Raises InvalidContent for another value than a whole number."""
    if type(number) is not int:
        raise invalid("it is not of the type that this part has", name)
