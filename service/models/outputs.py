"""The outputs that a model offers, and how replies hold them: whether a model predicts classes or
numbers is asked here, for all that predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from annotated_types import Gt, Lt

from service.errors import Fault, InvalidContent
from service.rows.faults import invalid_field, shown
from service.rows.spec import Label
from svm.errors import InvalidData
from svm.model.pipeline import FittedPipeline

OutputName: TypeAlias = Literal[
    "label", "decision", "probability", "value", "interval", "explanation"
]
NAMES: tuple[OutputName, ...] = get_args(OutputName)
Coverage: TypeAlias = Annotated[float, Gt(0), Lt(1)]
"""The share of new rows whose target is in its interval, on average."""
COVERAGE = 0.9

CALIBRATED = {
    "probability": (
        "the model has no probabilities",
        "ask for `decision`, or train again with `calibration` and `validation`",
    ),
    "interval": (
        "the model has no prediction intervals, which need rows that it was not trained on",
        'ask for `value`, or train again with `validation`, such as {"fraction": 0.2}',
    ),
}
"""What needs a calibration: why there is none, and what to do."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output that a model offers."""

    member: str
    """Its name in a JSON document of all rows."""
    columns: tuple[str, ...] = ()
    """Those in a table; an explanation has none."""

    @property
    def shape(self) -> list[int]:
        """Of a tensor, after the number of rows."""
        return [] if len(self.columns) == 1 else [len(self.columns)]


Offer: TypeAlias = Mapping[str, Output]
"""The outputs of a model by name, the default first."""


def offer_of(classes: Sequence[Label], calibration: object | None) -> Offer:
    """What a model offers; no `classes` have models of numbers, and `calibration` is that of
    probabilities or intervals."""
    if not classes:
        offer = {"value": Output("values", ("value",))}
        more = {"interval": Output("intervals", ("interval_low", "interval_high"))}
    else:
        decision = ("decision",) if len(classes) == 2 else _columns("decision", classes)
        offer = {"label": Output("label", ("label",)), "decision": Output("decision", decision)}
        more = {"probability": Output("probability", _columns("probability", classes))}
    if calibration is not None:
        offer |= more
    return offer | {"explanation": Output("explanation")}


def _columns(name: str, classes: Sequence[Label]) -> tuple[str, ...]:
    return tuple(f"{name}:{label}" for label in classes)


def arrays_of(offer: Offer) -> list[str]:
    """The outputs that are arrays of numbers or labels."""
    return [name for name, output in offer.items() if output.columns]


def check_offered(names: Sequence[str], offer: Offer) -> None:
    """Raises InvalidContent: `not-calibrated`, or `invalid-field` for an output of the other kind
    of model."""
    has_numbers = "value" in offer
    for name in names:
        if name in offer:
            continue
        if name == ("interval" if has_numbers else "probability"):
            code, (message, hint) = "not-calibrated", CALIBRATED[name]
        else:
            code, hint = "invalid-field", f"it offers {', '.join(offer)}"
            message = f"the model predicts {'numbers' if has_numbers else 'classes'}, not {name}"
        fault = Fault(code=code, message=message, pointer="/outputs", hint=hint)
        raise InvalidContent(code, f"{message}; {hint}", (fault,))


def check_coverage(fitted: FittedPipeline, coverage: float, pointer: str) -> None:
    """Raises InvalidContent if the model, which has intervals, has too few errors for these."""
    assert fitted.conformal is not None
    try:
        fitted.conformal.rank(coverage)
    except InvalidData as error:
        raise InvalidContent.at(pointer, error.code, error.message) from None


def checked_coverage(value: Any, pointer: str) -> float:
    """A coverage that JSON gives. Raises InvalidContent `invalid-field`."""
    if type(value) is not float or not 0.0 < value < 1.0:
        raise invalid_field(pointer, f"give a number between 0 and 1, not {shown(value)}")
    return value
