"""The outputs that a model offers, and how replies hold them: whether a model predicts classes or
numbers is asked here, for all that predict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

from annotated_types import Gt, Lt

from service.errors import InvalidContent, pointer
from service.rows.faults import invalid_field, refuse, shown
from service.rows.spec import Label
from service.storage.database.tables import ModelVersion
from svm.errors import InvalidData
from svm.model.pipeline import FittedPipeline

OutputName: TypeAlias = Literal[
    "label", "decision", "probability", "label_or_none", "value", "interval", "explanation"
]
NAMES: tuple[OutputName, ...] = get_args(OutputName)
Share: TypeAlias = Annotated[float, Gt(0), Lt(1)]


class Shares(NamedTuple):
    """What a request says about outputs that are made from rows that the model did not see."""

    coverage: float = 0.9
    """Of `interval`: the share of new rows whose target is inside, on average."""
    withheld: float = 0.05
    """Of `label_or_none`: the share of answers to known classes that are withheld, on average."""


SHARE_OF: Mapping[str, str] = {"interval": "coverage", "label_or_none": "withheld"}
"""The share that a request gives, by the output; these are answered only if they are named."""
USUAL = Shares()

CALIBRATED = {
    "probability": (
        "the model has no probabilities",
        "ask for `decision`, or train again with `calibration` and `validation`",
    ),
    "interval": (
        "the model has no prediction intervals, which need rows that it was not trained on",
        'ask for `value`, or train again with `validation`, such as {"fraction": 0.2}',
    ),
    "label_or_none": (
        "the model withholds no label, which needs rows that it was not trained on",
        'ask for `label`, or train again with `validation`, such as {"fraction": 0.2}',
    ),
}
"""What needs validation rows: why there is none, and what to do."""


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


def offer_of(
    classes: Sequence[Label], calibration: object | None, rejection: object | None
) -> Offer:
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
    if rejection is not None:
        offer["label_or_none"] = Output("label_or_none", ("label_or_none",))
    return offer | {"explanation": Output("explanation")}


def offer_of_version(version: ModelVersion) -> Offer:
    """The same, from the record of a version."""
    return offer_of(version.classes, version.calibration, version.result.get("rejection_rows"))


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
        if name in CALIBRATED and has_numbers == (name == "interval"):
            code, (message, hint) = "not-calibrated", CALIBRATED[name]
        else:
            code, hint = "invalid-field", f"it offers {', '.join(offer)}"
            message = f"the model predicts {'numbers' if has_numbers else 'classes'}, not {name}"
        raise refuse(code, message, pointer="/outputs", hint=hint)


def check_shares(
    fitted: FittedPipeline, names: Iterable[str], shares: Shares, at: str | None = None
) -> None:
    """Raises InvalidContent if the model, which offers these outputs, was measured on too few rows
    for their shares; `at` is the pointer, by default to the share."""
    for name in SHARE_OF.keys() & set(names):
        try:
            if name == "interval" and fitted.conformal is not None:
                fitted.conformal.rank(shares.coverage)
            elif fitted.rejection is not None:
                fitted.rejection.rank(shares.withheld)
        except InvalidData as error:
            at = at or f"/{SHARE_OF[name]}"
            raise InvalidContent.at(at, error.code, error.message) from None


def shares_in(document: Mapping[str, Any], *path: str | int) -> Shares:
    """The shares that a JSON object at `path` gives. Raises InvalidContent `invalid-field`."""
    given = {name: document[name] for name in Shares._fields if name in document}
    for name, value in given.items():
        if type(value) is not float or not 0.0 < value < 1.0:
            message = f"give a number between 0 and 1, not {shown(value)}"
            raise invalid_field(pointer((*path, name)), message)
    return USUAL._replace(**given) if given else USUAL
