"""Which columns a file has, what they are called, which are features, and which have a role beside
them."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from service.common.label_names import called_label
from service.errors import InvalidContent, InvalidRequest
from service.rows.cell_texts.number_text import BOOLEANS, MISSING_TEXTS, NUMBER, is_value
from service.rows.faults import called, listed, no_features, refuse, too_many, warning
from service.rows.spec import (
    BESIDE,
    DELIMITED,
    MOST_OTHERS,
    LabelKind,
    ParseSpec,
    ReadLimits,
    Roles,
    Stored,
)
from svm.data.columns import Kind

NO_TARGET = "none"
KINDS = ("number", "category", "boolean", "date", "text")
ROLES = ("feature", "label", *BESIDE, "ignored")
ASKED = "the caller asks for it"
"""Why a column is ignored, if `schema` has it so."""
_KINDS_BESIDE = (("weight", "number"), ("group", "text"))
MAX_NAME_BYTES = 4096
_UNNAMED = "columns without a name are called by their position, counted from 1"
_FIRST_NUMBER = re.compile("0|1|(?:19|20)[0-9]{2}")
"""Of names that count: positions or years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of a file, by their positions in it."""

    n_cells: int
    names: list[str] | None
    features: Sequence[int]
    target: int | None = None
    """Position of the label column."""
    beside: dict[str, int] = field(default_factory=dict)
    """Positions of the columns beside the features, by role."""
    ignored: list[tuple[str | int, str]] = field(default_factory=list)
    """Columns that are not kept, and why."""
    kinds: dict[int, Kind] = field(default_factory=dict)
    """Of the columns whose kind is demanded."""
    wanted: frozenset[int] = frozenset()
    """Those of the features that the caller names as features."""
    label_kind: LabelKind | None = None
    label_is_named: bool = False
    """Whether the label is the one column that is called so, and the caller names none."""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    """About the names."""

    @property
    def n_features(self) -> int:
        return len(self.features)

    @property
    def may_be_plain(self) -> bool:
        """Whether nothing but finite numbers is demanded, and each cell is one or the label."""
        n_others = self.n_cells - self.n_features - (self.target is not None)
        return n_others == 0 and set(self.kinds.values()) <= {"number"}

    @property
    def feature_names(self) -> list[str] | None:
        return None if self.names is None else [self.names[i] for i in self.features]

    @property
    def target_name(self) -> str | None:
        return None if self.names is None or self.target is None else self.names[self.target]

    def column(self, position: int) -> str | int:
        """What a fault calls a column."""
        return position if self.names is None else self.names[position]


def make_layout(
    spec: ParseSpec, n_cells: int, names: list[str] | None, unnamed: Collection[int] = ()
) -> Layout:
    """The columns as the caller has them, or the dataset that the rows are appended to. Those at
    `unnamed` have no name, and are not kept.

    Raises InvalidContent, InvalidRequest and TooLarge if the columns are not as asked for.
    """
    warnings: list[dict[str, Any]] = []
    if names is not None:
        names, warnings = distinct_names(names, spec.limits.cell_bytes, unnamed)
    texts = names or list(map(str, range(n_cells)))
    roles = _roles(spec, texts)
    of_role = _of_role(roles, texts)
    shown: Sequence[str | int] = names or range(n_cells)
    ignored = [(shown[i], "it has no name") for i in unnamed]
    asked = [i for i in of_role["ignored"] if i not in unnamed]
    ignored += [(shown[i], ASKED) for i in asked]
    only = {role: _only(of_role, role) for role in ("label", *BESIDE)}
    label = only.pop("label")
    beside = {role: position for role, position in only.items() if position is not None}
    dropped = {*unnamed, *asked, *beside.values()}
    if spec.asked.target in texts and texts.index(spec.asked.target) in dropped:
        message = f"`target` names {spec.asked.target[:64]!r}, but it is ignored or has another "
        message += "role; name another column as `target`"
        raise InvalidRequest("invalid-parameter", message)
    if label is not None and (
        spec.asked.target not in (None, texts[label]) or spec.labels is not None
    ):
        message = "the label is given twice: by `schema`, and by `target` or `labels`"
        raise InvalidRequest("invalid-parameter", message)
    kept = [i for i in range(n_cells) if i not in dropped]
    target, label_is_named = label, False
    if label is None:
        target, label_is_named, told = _label(spec, kept, names, roles)
        warnings += told
    layout = Layout(
        n_cells=n_cells,
        names=names,
        features=[i for i in kept if i != target],
        target=target,
        beside=beside,
        ignored=ignored,
        wanted=frozenset(of_role["feature"]),
        label_kind=None if target is None else _label_kind(roles.get(texts[target], {})),
        label_is_named=label_is_named,
        warnings=warnings,
    )
    _check_features(spec, layout)
    if target is not None and target in layout.wanted:
        name = texts[target][:64]
        message = f"`schema` says that {name!r} is a feature, but it is the label"
        hint = "name the label with `target`, or say target=none"
        raise InvalidRequest("invalid-parameter", f"{message}; {hint}")
    return replace(layout, kinds=_kinds(spec, layout, texts, roles))


def _may_be_named(spec: ParseSpec) -> bool:
    return spec.labels is None and spec.onto is None and spec.asked.target is None


def _label(
    spec: ParseSpec, kept: list[int], names: list[str] | None, roles: Roles
) -> tuple[int | None, bool, list[dict[str, Any]]]:
    """The position of the label among the columns that are `kept`, whether it was chosen by its
    name, and what to know about that."""
    target = _target(spec, kept, names)
    if names is None or target is None or not _may_be_named(spec):
        return target, False, []
    said = {names[i]: roles.get(names[i], {}) for i in kept}
    labels = called_label(
        name
        for name, one in said.items()
        if "role" not in one and one.get("kind") in (None, "category", "number")
    )
    if len(labels) > 1:
        message = f"the columns {listed(labels)} are called like labels; the last column, "
        message += f"{called(names[target])}, is taken; for another one, name it with `target`"
        return target, False, [warning("likely-targets", message, labels)]
    if not labels or labels[0] == names[target]:
        return target, False, []
    message = f"the column {called(labels[0])} is taken as the label because of its name; for the "
    message += f"last one, say target={names[target][:64]}"
    return names.index(labels[0]), True, [warning("label-by-name", message, labels)]


def _check_features(spec: ParseSpec, layout: Layout) -> None:
    if layout.n_features == 0:
        if layout.target is None:
            raise no_features(layout.ignored)
        message = "there is no feature column: the only column holds the labels"
        hint = "without labels say target=none"
        if spec.file.media_type in DELIMITED:
            hint = f"is the delimiter right? {hint}"
        raise refuse("empty-data", message, column=layout.column(layout.target), hint=hint)
    if layout.n_features > spec.limits.columns:
        raise too_many("columns", spec.limits.columns)
    check_n_features(spec, layout.n_features)
    if spec.onto is not None:
        feature_order(spec.onto, layout.feature_names, layout.n_features)


def feature_order(stored: Stored, names: list[str] | None, n_features: int) -> list[int] | None:
    """The position of each feature of a dataset in a table; None if all have their own place.

    They are matched by name if both have names, else by position. Raises InvalidContent
    `feature-mismatch`.
    """
    if names is None or stored.columns is None:
        stored.features.check_width(n_features)
        return None
    return None if names == stored.columns else stored.features.order("the table", names)


def check_n_features(spec: ParseSpec, n_features: int) -> None:
    """Raises InvalidContent `feature-mismatch` if `n_features` was given and is another."""
    if spec.asked.n_features is not None and n_features != spec.asked.n_features:
        raise InvalidContent(
            "feature-mismatch",
            f"the data have {n_features} feature columns, n_features says {spec.asked.n_features}",
            extra={"expected": spec.asked.n_features, "got": n_features},
        )


def has_header(spec: ParseSpec, first: list[str], text: str) -> bool:
    """Whether the `first` record of a file names the columns; `text` is how the file begins.

    Left to us (`auto`), it does if the target is given by its name, if it holds all names of the
    dataset that the rows are appended to, or if no feature cell of it is a number and not all of
    them are empty. A word among numbers is a mistake in the data, not a header. Raises
    InvalidContent `bad-column-name` if it may be either: numbers that count, such as 0, 1, 2, … or
    2019, 2020, …, beside a label that comes only once; booleans without a number.
    """
    if spec.asked.header != "auto":
        return spec.asked.header == "present"
    target = None if spec.labels is not None else spec.asked.target
    if target is not None and target != NO_TARGET and not target.isdecimal():
        return True
    cells = [cell.strip() for cell in first]
    if any(cells.count(word) > 1 for word in MISSING_TEXTS if word):
        message = "the first record has words for missing cells, or columns are called so"
        raise refuse("bad-column-name", message, hint="say header=present or header=absent")
    if spec.onto is not None and spec.onto.columns and set(cells).issuperset(spec.onto.columns):
        return True
    label = None
    if spec.labels is None and target != NO_TARGET:
        named = called_label(cells) if _may_be_named(spec) else []
        usual = cells.index(named[0]) if len(named) == 1 else len(cells) - 1
        position = usual if target is None else int(target)
        label = cells.pop(position) if position < len(cells) else None
    start = int(cells[0]) if cells and _FIRST_NUMBER.fullmatch(cells[0]) else 0
    counted = cells == [str(i) for i in range(start, start + len(cells))]
    if len(cells) > 1 and counted and label and not NUMBER.fullmatch(label):
        if text.count(label) > 1:
            return False
        message = "the first record may be a header of numbered columns, or data"
        raise refuse("bad-column-name", message, hint="say header=present or header=absent")
    if any(is_value(cell) and cell not in BOOLEANS for cell in cells):
        return False
    if BOOLEANS.keys().isdisjoint(cells):
        return any(cells)
    if "" in cells or len(set(cells)) < len(cells):  # no header is like that
        return False
    message = "the first record holds booleans, or columns are called so"
    raise refuse("bad-column-name", message, hint="say header=present or header=absent")


def distinct_names(
    names: list[str], limit_bytes: int = MAX_NAME_BYTES, unnamed: Collection[int] = ()
) -> tuple[list[str], list[dict[str, Any]]]:
    """Names without blanks around them: one that comes again gets the first free suffix, an empty
    one its position from 1 unless it is to stay `unnamed`; with warnings that say so.

    Raises InvalidContent for a name that is too long, or holds a NUL character.
    """
    names = [name.strip() for name in names]
    taken = set(names)
    short = 4 * max(map(len, names), default=0) <= limit_bytes
    if short and len(taken) == len(names) and all(names) and "\0" not in "".join(names):
        return names, []  # thousands of names are looked at together
    counts: Counter[str] = Counter()
    repeated: list[str] = []
    numbered: list[str] = []
    for position, name in enumerate(names):
        if len(name.encode()) > limit_bytes:
            what = f"the name of column {position + 1} has more than {limit_bytes:,} bytes"
            raise refuse("csv-cell-too-large", what, column=position, value=name, hint="shorten it")
        if "\0" in name:
            what = f"the name of column {position + 1} holds a NUL character"
            raise refuse("bad-column-name", what, column=position, value=name, hint="remove it")
        counts[name] += 1
        if (name and counts[name] == 1) or position in unnamed:
            continue
        stem = f"{name}." if name else "column "
        number = counts[name] - 1 if name else position + 1
        while (new := f"{stem}{number}") in taken:
            number += 1
        taken.add(new)
        names[position] = new
        counts[name] = number + 1 if name else 0
        (repeated if name else numbered).append(new)
    warnings: list[dict[str, Any]] = []
    for new_names, what in ((repeated, "names that come again got a number"), (numbered, _UNNAMED)):
        if new_names:
            message = f"{what}: {listed(new_names)}"
            warnings.append(warning("renamed-columns", message, new_names))
    return names, warnings


def _target(spec: ParseSpec, kept: list[int], names: list[str] | None) -> int | None:
    """The position of the label among the columns that are `kept`."""
    if spec.labels is not None:
        if spec.asked.target not in (None, NO_TARGET):
            raise InvalidRequest(
                "invalid-parameter", "the labels are in a file of their own: leave out `target`"
            )
        return None
    target = spec.asked.target
    if target == NO_TARGET or not kept:
        return None
    if target is None and spec.onto is not None:  # as in the dataset that the rows are appended to
        if not spec.onto.labeled:
            return None
        target = spec.onto.target if names is not None else None
    if target is None:
        return kept[-1]
    if names is not None and target in names:
        return names.index(target)
    position = int(target) if target.isdecimal() and len(target) < 10 else len(kept) + max(kept)
    if names is None and position in kept:
        return position
    if names is not None and position < len(kept):
        return kept[position]
    if names is None:
        hint = f"the columns have no names; give a position from 0 to {len(kept) - 1}, or none"
    else:
        known = [names[i] for i in kept]
        close = difflib.get_close_matches(target, known, 3) or known[:5]
        hint = f"the columns are called {', '.join(close)}, …"
    message = f"there is no column {target[:64]!r} to take the labels from"
    raise refuse("target-missing", message, value=target[:64], hint=hint)


def check_columns(n_cells: int, limits: ReadLimits) -> None:
    """Raises TooLarge if the first row has more cells than columns are allowed, besides those of
    the labels, weights, groups and times."""
    if n_cells > limits.columns + MOST_OTHERS:
        raise too_many("columns", limits.columns)


def _check_obeyed(roles: Roles, texts: list[str], layout: Layout) -> None:
    """Raises InvalidRequest for a kind or role that would do nothing."""
    if not roles:
        return
    of_features = {texts[i] for i in {*layout.features, layout.target} if i is not None}
    for name in roles.keys() - of_features:
        if roles[name].get("role") == "feature":
            message = f"`schema`: the column {name[:64]!r} has no name; give it one in the file"
            raise InvalidRequest("invalid-parameter", message)
        if "kind" in roles[name]:
            message = (
                f"`schema`: {name[:64]!r} has no kind, as it is neither a feature nor the label"
            )
            raise InvalidRequest("invalid-parameter", f"{message}; leave out its kind")


def _kinds(spec: ParseSpec, layout: Layout, texts: list[str], roles: Roles) -> dict[int, Kind]:
    """The kinds that columns must have: as the caller says, as their role demands, and as those of
    the dataset that the rows are appended to. Raises InvalidRequest if these differ."""
    _check_obeyed(roles, texts, layout)
    said = {
        i: roles[texts[i]]["kind"]
        for i in (layout.features if roles else ())
        if "kind" in roles.get(texts[i], {})
    }
    kinds: dict[int, str] = dict(said)
    if spec.onto is not None:
        order = feature_order(spec.onto, layout.feature_names, layout.n_features)
        places = layout.features if order is None else [layout.features[i] for i in order]
        kinds = {i: column.kind for i, column in zip(places, spec.onto.kinds, strict=True)}
    for i, kind in said.items():
        if kinds.get(i, kind) != kind:
            message = f"`schema`: the column {texts[i][:64]!r} is a {kinds[i]} in the dataset"
            raise InvalidRequest("invalid-parameter", f"{message}; leave out its kind")
    kinds |= {layout.beside[role]: kind for role, kind in _KINDS_BESIDE if role in layout.beside}
    if "time" in layout.beside and spec.onto is not None and spec.onto.time is not None:
        kinds[layout.beside["time"]] = "date" if spec.onto.time_is_date else "number"
    return cast("dict[int, Kind]", kinds)


def _label_kind(said: dict[str, str]) -> LabelKind | None:
    """Raises InvalidRequest if it is not the kind of a label."""
    match said.get("kind"):
        case None | "category" | "number" as kind:
            return kind
        case kind:
            message = f"`schema`: the label is a category or a number, not a {kind}"
            raise InvalidRequest("invalid-parameter", message)


def check_roles(roles: Any) -> Roles:
    """The roles, if they are so. Raises InvalidRequest for what is not a kind or a role."""
    if not isinstance(roles, dict):
        message = "`schema` should be an object of columns"
        raise InvalidRequest("invalid-parameter", message)
    for name, said in roles.items():
        if not isinstance(said, dict) or not said or not said.keys() <= {"kind", "role"}:
            example = '{"column": {"kind": "category", "role": "feature"}}'
            message = f"`schema` of {name[:64]!r} should be an object, as in {example}"
            raise InvalidRequest("invalid-parameter", message)
        for key, allowed in (("kind", KINDS), ("role", ROLES)):
            if key in said and said[key] not in allowed:
                message = f"`schema`: the {key} of {name[:64]!r} is one of {', '.join(allowed)}"
                raise InvalidRequest("invalid-parameter", message)
    return roles


def _roles(spec: ParseSpec, texts: list[str]) -> Roles:
    """What the caller says of columns, and the dataset that the rows are appended to."""
    unknown = [name for name in spec.asked.schema if name not in texts]
    if unknown:
        message = f"there is no column {unknown[0][:64]!r} to have a role or kind"
        like = {text.lower(): text for text in texts}.get(unknown[0].lower())
        hint = f"the columns are called {', '.join(texts[:5])}, …"
        hint = hint if like is None else f"did you mean {like!r}?"
        raise InvalidRequest("invalid-parameter", f"{message}; {hint}")
    roles: Roles = {}
    if spec.onto is not None:
        names = (one["name"] for one in spec.onto.ignored)
        roles = {name: {"role": "ignored"} for name in names if name in texts}
        roles |= {
            one["name"]: {"role": one["role"]} for one in spec.onto.beside if one["name"] in texts
        }
    return roles | spec.asked.schema


def _of_role(roles: Roles, texts: list[str]) -> dict[str, list[int]]:
    """The positions of the columns that have each role."""
    places: dict[str, list[int]] = {role: [] for role in ROLES}
    for i, name in enumerate(texts if roles else ()):
        role = roles.get(name, {}).get("role")
        if role is not None:
            places[role].append(i)
    return places


def _only(of_role: dict[str, list[int]], role: str) -> int | None:
    if len(of_role[role]) > 1:
        message = f"`schema` has two columns with the role {role}"
        raise InvalidRequest("invalid-parameter", message)
    return next(iter(of_role[role]), None)
