"""The JSON of a job, from a file and the options of a command."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def spec_of(file: Path | None, settings: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """A job from a file, then options, then `name.part=value` settings; later ones win.

    Raises ValueError for a file without a JSON object, and a setting without `=`.
    """
    spec: dict[str, Any] = {}
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        try:
            spec = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{file}: not JSON: {error}") from None
        if not isinstance(spec, dict):
            raise ValueError(f"{file}: not a JSON object")
    for name, value in given.items():
        if value is not None:
            _put(spec, name.split("."), value)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting}: write name=value, such as solver.C=10")
        _put(spec, name.split("."), _value(text))
    return spec


def _put(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = spec.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{'.'.join(path)}: {name} is {inner!r} already")
        spec = inner
    spec[path[-1]] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
