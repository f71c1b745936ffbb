"""Encoding of dataclasses and errors as lines of JSON, for messages between processes."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from service import errors
from service.errors import Fault, ServiceError

_KIND = "a dataclass"
"""The member with the name of the dataclass."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A ServiceError as a message."""

    family: str
    code: str
    detail: str
    faults: list[Fault]
    faults_total: int
    extra: dict[str, Any]
    retry_after_s: float | None


class Messages:
    """Messages between two processes: these dataclasses, and ServiceErrors."""

    def __init__(self, *kinds: type) -> None:
        self._kinds: dict[str, Any] = {kind.__name__: kind for kind in (*kinds, Failure, Fault)}

    def encode(self, message: object) -> str:
        """One of the dataclasses, or a ServiceError, as a line of JSON."""
        if isinstance(message, ServiceError):
            message = Failure(
                type(message).__name__,
                message.code,
                message.detail,
                list(message.faults),
                message.faults_total,
                message.extra,
                message.retry_after_s,
            )
        return json.dumps(message, default=_plain, allow_nan=False)

    def decode(self, line: str) -> Any:
        """The decoded dataclass. Raises the error if it is a ServiceError."""
        message = json.loads(line, object_hook=self._made)
        if isinstance(message, Failure):
            family: type[ServiceError] = getattr(errors, message.family)
            raise family(
                message.code,
                message.detail,
                tuple(message.faults),
                message.faults_total,
                message.extra,
                message.retry_after_s,
            )
        return message

    def _made(self, values: dict[str, Any]) -> Any:
        kind = values.pop(_KIND, None)
        return values if kind is None else self._kinds[kind](**values)


def _plain(message: Any) -> dict[str, Any]:
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {_KIND: type(message).__name__} | values
