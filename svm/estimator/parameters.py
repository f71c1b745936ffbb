"""The parameters of `SVMClassifier` that are names or objects: solver, kernel, features.

An object's own parameters are reached as `solver__C`, `kernel__gamma`, `features__n_components`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from svm.errors import InvalidHyperparameter
from svm.hyperparameters import Checked
from svm.kernel import KERNELS
from svm.solvers import CHOICES
from svm.solvers.other_names import did_you_mean
from svm.transforms.features import FEATURES

NAMED: dict[str, dict[str, type[Any]]] = {
    "solver": CHOICES,
    "kernel": KERNELS,
    "features": FEATURES,
}


def as_object(parameter: str, value: Any) -> Any:
    """The solver, kernel or feature map that a name means, with its defaults; objects as given."""
    kinds = NAMED[parameter]
    if isinstance(value, str) and value in kinds:
        return kinds[value]()
    if isinstance(value, tuple(kinds.values())):
        return value
    expected = f"an object, or one of {', '.join(kinds)}"
    raise InvalidHyperparameter(parameter, value, expected, did_you_mean(str(value), kinds))


def nested(parameter: str, value: Any) -> dict[str, Any]:
    """The parameters of an object or name, as `solver__C`; none of a value that is neither, which
    `fit` refuses."""
    try:
        made = as_object(parameter, value)
    except InvalidHyperparameter:
        return {}
    return {f"{parameter}__{name}": getattr(made, name) for name in _names(made)}


def changed(parameter: str, value: Any, changes: dict[str, Any]) -> Any:
    """The object with some parameters changed."""
    made = as_object(parameter, value)
    if unknown := sorted(changes.keys() - _names(made)):
        names = _names(made)
        expected = f"one of the parameters {', '.join(names)}"
        meant = did_you_mean(unknown[0], [name.rstrip("_") for name in names])
        raise InvalidHyperparameter(parameter, unknown[0], expected, meant)
    return replace(made, **changes)


def _names(made: Checked) -> list[str]:
    return [field.name for field in fields(made) if field.name != "name"]
