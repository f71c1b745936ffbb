"""The service's side of the parsing processes."""

from __future__ import annotations

from typing import Any

from service.errors import InvalidContent
from service.rows.spec import (
    Converted,
    ConvertSpec,
    Divided,
    Parsed,
    ParseSpec,
    Rendered,
    RenderSpec,
    SplitSpec,
    decode,
    encode,
)
from service.subprocesses.pool import IDLE_S, ChildPool, TookTooLong

TIME_LIMIT_S = 900.0
"""A billion values, the default limit, take less than half of it."""


class Parser:
    """Works on data in other processes, at most two at once; more wait for their turn."""

    def __init__(self, idle_s: float = IDLE_S, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._time_limit_s = time_limit_s
        self._children = ChildPool(
            "service.rows.parsing_process", time_limit_s=time_limit_s, idle_s=idle_s
        )

    async def parse(self, spec: ParseSpec) -> Parsed:
        """Raises ServiceError for whatever is wrong with the upload, and as `ChildPool.ask`."""
        parsed: Parsed = await self._answer(spec)
        return parsed

    async def split(self, spec: SplitSpec) -> Divided:
        """Raises InvalidContent if the rows cannot be parted so."""
        divided: Divided = await self._answer(spec)
        return divided

    async def render(self, spec: RenderSpec) -> Rendered:
        """Write a dataset to a file."""
        rendered: Rendered = await self._answer(spec)
        return rendered

    async def convert(self, spec: ConvertSpec) -> Converted:
        """Write rows to predict as CSV. Raises as `parse`."""
        converted: Converted = await self._answer(spec)
        return converted

    def close(self) -> None:
        """End all processes; uploads that are being read fail."""
        self._children.close()

    async def _answer(self, spec: ParseSpec | SplitSpec | RenderSpec | ConvertSpec) -> Any:
        try:
            return decode(await self._children.ask(encode(spec)))
        except TookTooLong:
            detail = f"reading the data takes more than {self._time_limit_s:g} s; send fewer rows"
            raise InvalidContent("parsing-failed", detail) from None
