"""Encoding of dataclasses and errors as lines of JSON, for messages between processes."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from service import errors
from service.errors import Fault, ServiceError


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
    """Messages between two processes: these dataclasses, and ServiceErrors.

    The member with the name of a dataclass is called differently in each message, so that no object
    from a caller, in which any name can occur, is read as a dataclass.
    """

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
        mark = secrets.token_hex(8)
        return f"{mark} {json.dumps(message, default=partial(_plain, mark), allow_nan=False)}"

    def decode(self, line: str) -> Any:
        """The decoded dataclass. Raises the error if it is a ServiceError."""
        mark, _, content = line.partition(" ")
        message = json.loads(content, object_hook=partial(self._made, mark))
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

    def _made(self, mark: str, values: dict[str, Any]) -> Any:
        kind = values.pop(mark, None)
        return values if kind is None else self._kinds[kind](**values)


def _plain(mark: str, message: Any) -> dict[str, Any]:
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {mark: type(message).__name__} | values
