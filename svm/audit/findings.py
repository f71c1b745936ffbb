"""What an audit says: findings by name, each with its grade, why it matters, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

Grade: TypeAlias = Literal["fact", "ask", "error"]
"""A fact is to be known, `ask` a question that only the owner of the data can answer; a score is
wrong with an error."""
FindingName: TypeAlias = Literal[
    "equal-to-label",
    "missing-pattern",
    "identifier",
    "group",
    "single-column",
    "date-after-event",
    "duplicates",
    "near-duplicates",
    "sorted-by-label",
    "more-columns-than-rows",
    "constant-after-splitting",
    "trained-rows",
    "trained-groups",
    "class-never-predicted",
    "score-within-baseline",
]
NAMES: tuple[FindingName, ...] = get_args(FindingName)
SHOWN = 5


class About(NamedTuple):
    """What is the same in all findings of a name."""

    grade: Grade
    why: str
    to_do: str


ABOUT: Mapping[FindingName, About] = {
    "equal-to-label": About(
        "error",
        "The model copies the label, and has nothing to copy when the label is not known.",
        "Ignore the column, or say that it is the label.",
    ),
    "missing-pattern": About(
        "ask",
        "If the cell is filled in only after the label is known, rows to predict have it empty.",
        "Ask when the cell is filled in. If it is after the label is known, ignore the column.",
    ),
    "identifier": About(
        "ask",
        "A number of a row tells where the row was in the file or in the archive. New rows have "
        "other numbers.",
        "Ignore the column.",
    ),
    "group": About(
        "ask",
        "A random split has rows of a group on both sides, and the score measures whether the "
        "groups are recognized. It is too good for rows of new groups.",
        "If rows to predict come from new groups, give the column the role `group`.",
    ),
    "single-column": About(
        "ask",
        "A column that nearly decides the label alone is often filled in after it, or computed "
        "from it.",
        "Ask whether the value is known before the label is. If it is not, ignore the column.",
    ),
    "date-after-event": About(
        "ask",
        "One of these dates may be of the event that is to be predicted, or of a time after it.",
        "Ask which dates are known when the label is not. Ignore the others.",
    ),
    "duplicates": About(
        "fact",
        "A random split has equal rows on both sides. The score of these measures memory, and is "
        "too good for new rows.",
        "Remove the copies. If equal rows belong together, give a column the role `group`.",
    ),
    "near-duplicates": About(
        "fact",
        "A random split has nearly equal rows on both sides. The score of these measures memory, "
        "and is too good for new rows.",
        "If these rows belong together, such as measurements of one object, give the column that "
        "names them the role `group`.",
    ),
    "sorted-by-label": About(
        "fact",
        "Parts that are cut from the file without shuffling have other classes, or other values, "
        "than the rest. A `fraction` or `folds` shuffle the rows; a split by time does not.",
        "Shuffle the rows before you cut the file yourself.",
    ),
    "more-columns-than-rows": About(
        "fact",
        "With this many columns some go with the label by chance, and a model can fit any labels.",
        "Trust only scores of rows that were not trained on, and choose columns on training rows.",
    ),
    "constant-after-splitting": About(
        "fact",
        "The column varies in the dataset, but not in the training rows: nothing was learned of "
        "it.",
        "Use another `seed` or a smaller `fraction`, or ignore the column.",
    ),
    "trained-rows": About(
        "error",
        "These rows measure memory. On new rows the model is probably worse.",
        "Leave them out with `leave_out_trained`, or measure on other rows.",
    ),
    "trained-groups": About(
        "error",
        "Rows of a group are alike: a model that was trained on some knows the others again. On "
        "new groups it is probably worse.",
        "Measure on rows of other groups.",
    ),
    "class-never-predicted": About(
        "fact",
        "The accuracy hides it if the class is small.",
        'Try `"class_weight": "balanced"`, larger weights for the class, or a larger C.',
    ),
    "score-within-baseline": About(
        "fact",
        "The model may have learned nothing: a prediction that ignores the columns may be as good.",
        "Use more rows or other columns, and do not rely on this model.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding; `ABOUT` has the rest of what is reported."""

    name: FindingName
    found: str
    """A sentence with the numbers."""
    columns: tuple[str | int, ...] = ()
    """Names, or positions from 0; the strongest first."""
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def grade(self) -> Grade:
        return ABOUT[self.name].grade

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "found": self.found,
            "columns": list(self.columns),
            "numbers": dict(self.numbers),
        }


def told(findings: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Stored findings with their grade, why they matter and what to do."""
    return [{**one, **ABOUT[one["name"]]._asdict()} for one in findings or ()]


def listed(columns: Sequence[str | int]) -> str:
    """Names, or numbers from 1, for a sentence."""
    shown = [
        f"`{name[:64]}`" if isinstance(name, str) else f"column {name + 1:,}"
        for name in columns[:SHOWN]
    ]
    if len(columns) > SHOWN:
        return f"{', '.join(shown)} and {len(columns) - SHOWN:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def percent(share: float) -> str:
    """Never 100 % for what is not all."""
    text = f"{100 * share:.3g}"
    return f"{text if text != '100' or share == 1 else '99.9'} %"
