"""Which columns of a file are features, and which one holds labels or weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from service.errors import InvalidRequest
from service.rows.spec import LabelKind, ParseSpec, Roles
from service.rows.table.layout import Layout, distinct_names, make_layout
from svm.data.columns import Kind

KINDS = ("number", "category", "boolean", "date")
ROLES = ("feature", "label", "weight", "ignored")
ASKED = "the caller asks for it"
"""Why a column is ignored, if `schema` has it so."""


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """The columns of a file, by their positions in it."""

    layout: Layout
    """Of the features and the labels."""
    features: list[int]
    target: int | None
    weight: int | None
    weight_name: str | None
    ignored: list[dict[str, str]]
    kinds: dict[int, Kind]
    """Of the features whose kind is demanded, by position in the file."""
    wanted: frozenset[int]
    """Those of the features that the caller names as features."""
    n_cells: int
    label_kind: LabelKind | None

    def name(self, position: int) -> str | int:
        """What a fault calls a column of the file."""
        return self.names[position] if self.names is not None else position

    names: list[str] | None = None


def arranged(
    spec: ParseSpec, n_cells: int, names: list[str] | None, unnamed: list[int] | None = None
) -> ColumnRoles:
    """The columns as `spec` has them; those at `unnamed` are ignored.

    Raises InvalidContent, InvalidRequest and TooLarge.
    """
    known: list[str] | None = None
    renamed: list[dict[str, Any]] = []
    if names is not None:
        known, renamed = distinct_names(names, spec.limits.cell_bytes, unnamed or ())
    texts = known or list(map(str, range(n_cells)))
    roles = _roles(spec, texts)
    if spec.onto is not None:
        roles = _roles_of_stored(spec, texts) | roles
    ignored = [{"name": texts[i], "reason": "it has no name"} for i in unnamed or []]
    dropped = set(unnamed or [])
    for i, name in enumerate(texts):
        if i not in dropped and roles.get(name, {}).get("role") == "ignored":
            dropped.add(i)
            ignored.append({"name": name, "reason": ASKED})
    weight = _only(roles, texts, "weight")
    label = _only(roles, texts, "label")
    if weight is not None:
        dropped.add(weight)
    _check_target(spec, texts, dropped)
    kept = [i for i in range(n_cells) if i not in dropped]
    if label is not None:
        if spec.asked.target not in (None, texts[label]) or spec.labels is not None:
            message = "the label is given twice: by `schema`, and by `target` or `labels`"
            raise InvalidRequest("invalid-parameter", message)
        spec = spec.asking(target=texts[label])
    if known is None and spec.asked.target is not None and spec.asked.target.isdecimal():
        position = int(spec.asked.target) if len(spec.asked.target) < 10 else n_cells
        if position in kept:
            spec = spec.asking(target=str(kept.index(position)))
    layout = make_layout(spec, len(kept), None if known is None else [known[i] for i in kept])
    target = None if layout.target is None else kept[layout.target]
    if target is not None and roles.get(texts[target], {}).get("role") == "feature":
        message = f"`schema` says that {texts[target][:64]!r} is a feature, but it is the label"
        hint = "name the label with `target`, or say target=none"
        raise InvalidRequest("invalid-parameter", f"{message}; {hint}")
    features = [i for i in kept if i != target]
    _check_obeyed(roles, texts, features, target)
    kinds = {i: roles[texts[i]]["kind"] for i in features if "kind" in roles.get(texts[i], {})}
    wanted = (i for i in features if roles.get(texts[i], {}).get("role") == "feature")
    if spec.onto is not None:
        kinds = _kinds_of_stored(spec, texts, features, kinds)
    return ColumnRoles(
        layout=replace(layout, warnings=renamed),
        features=features,
        target=target,
        weight=weight,
        weight_name=None if weight is None else texts[weight],
        ignored=ignored,
        kinds=cast("dict[int, Kind]", kinds),
        wanted=frozenset(wanted),
        label_kind=None if target is None else _label_kind(roles.get(texts[target], {})),
        n_cells=n_cells,
        names=known,
    )


def _check_target(spec: ParseSpec, texts: list[str], dropped: set[int]) -> None:
    if spec.asked.target in texts and texts.index(spec.asked.target) in dropped:
        name = spec.asked.target[:64]
        message = f"`target` names {name!r}, but in `schema` it is ignored or has the weights"
        raise InvalidRequest("invalid-parameter", f"{message}; name another column as `target`")


def _label_kind(said: dict[str, str]) -> LabelKind | None:
    """Raises InvalidRequest if it is not the kind of a label."""
    match said.get("kind"):
        case None | "category" | "number" as kind:
            return kind
        case kind:
            message = f"`schema`: the label is a category or a number, not a {kind}"
            raise InvalidRequest("invalid-parameter", message)


def _check_obeyed(
    roles: dict[str, dict[str, str]], texts: list[str], features: list[int], target: int | None
) -> None:
    """Raises InvalidRequest for a kind or role that would do nothing."""
    of_features = {texts[i] for i in (*features, *(() if target is None else (target,)))}
    for name in roles.keys() - of_features:
        if roles[name].get("role") == "feature":
            message = f"`schema`: the column {name[:64]!r} has no name; give it one in the file"
            raise InvalidRequest("invalid-parameter", message)
        if "kind" in roles[name]:
            message = (
                f"`schema`: {name[:64]!r} has no kind, as it is neither a feature nor the label"
            )
            raise InvalidRequest("invalid-parameter", f"{message}; leave out its kind")


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


def _roles(spec: ParseSpec, texts: list[str]) -> dict[str, dict[str, str]]:
    unknown = [name for name in spec.asked.schema if name not in texts]
    if unknown:
        message = f"`schema` names {unknown[0][:64]!r}, which is not a column"
        hint = f"the columns are called {', '.join(texts[:5])}, …"
        raise InvalidRequest("invalid-parameter", f"{message}; {hint}")
    return dict(spec.asked.schema)


def _only(roles: dict[str, dict[str, str]], texts: list[str], role: str) -> int | None:
    names = {name for name, said in roles.items() if said.get("role") == role}
    positions = [i for i, name in enumerate(texts) if name in names] if names else []
    if len(positions) > 1:
        message = f"`schema` has two columns with the role {role}"
        raise InvalidRequest("invalid-parameter", message)
    return positions[0] if positions else None


def _roles_of_stored(spec: ParseSpec, texts: list[str]) -> dict[str, dict[str, str]]:
    """As in the dataset that the rows are appended to."""
    assert spec.onto is not None
    roles = {one["name"]: {"role": "ignored"} for one in spec.onto.ignored if one["name"] in texts}
    if spec.onto.weight in texts:
        roles[spec.onto.weight] = {"role": "weight"}
    return roles


def _kinds_of_stored(
    spec: ParseSpec, texts: list[str], features: list[int], said: dict[int, str]
) -> dict[int, str]:
    """Raises InvalidRequest if the caller says another kind."""
    assert spec.onto is not None
    columns = spec.onto.table
    if not columns:
        kinds = dict.fromkeys(features, "number")
    elif spec.onto.columns is None:
        kinds = {i: one["kind"] for i, one in zip(features, columns, strict=True)}
    else:
        by_name = {column["name"]: column["kind"] for column in columns}
        kinds = {i: by_name[texts[i]] for i in features if texts[i] in by_name}
    for i, kind in said.items():
        if kinds.get(i, kind) != kind:
            message = f"`schema`: the column {texts[i][:64]!r} is a {kinds[i]} in the dataset"
            raise InvalidRequest("invalid-parameter", f"{message}; leave out its kind")
    return kinds
