"""Files as replies: whole or a range (RFC 9110, section 14), with their digest (RFC 9530)."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.errors import RangeNotSatisfiable
from service.web.http.headers import etag, header_parameter, is_head, not_modified

CHUNK_BYTES = 1024 * 1024

_RANGE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.IGNORECASE)


def download(
    request: Request,
    file: BinaryIO,
    *,
    size_bytes: int,
    sha256: str,
    media_type: str,
    filename: str,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    """The reply according to Range, If-Range, If-Match and If-None-Match; it closes `file`.

    `file` is a file on disk. `sha256` is that of its content in hex, and its ETag. A request for
    several ranges gets the whole file. `headers` take precedence over those set here. Raises
    PreconditionFailed and RangeNotSatisfiable.
    """
    current = etag(sha256)
    try:
        if (unchanged := not_modified(request, current, headers)) is not None:
            file.close()
            return unchanged
        part = _range(request, current, size_bytes)
    except Exception:
        file.close()
        raise
    start, end = (0, size_bytes) if part is None else part
    all_headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{filename}"',
        "Content-Length": str(end - start),
        "Content-Type": media_type,
        "ETag": current,
        "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:",
        **headers,
    }
    if part is not None:
        all_headers["Content-Range"] = f"bytes {start}-{end - 1}/{size_bytes}"
    return _FileReply(
        file, start, start if is_head(request) else end, 206 if part else 200, all_headers
    )


JSON = "application/json"


def downloads(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that replies with `download`, without its problems."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    whole = dict.fromkeys(media_types, binary)
    if JSON in whole:
        whole[JSON] = {"schema": {"type": "object"}}
    part = whole | ({JSON: {}} if JSON in whole else {})  # a part of JSON is not JSON
    return {
        200: {"description": "The whole file. `Repr-Digest` has its SHA-256.", "content": whole},
        206: {"description": "The requested range.", "content": part},
        304: {"description": "Not modified: `If-None-Match` names the current version."},
    }


RANGE_PARAMETERS: dict[str, Any] = {
    "parameters": [
        header_parameter(
            "Range", "One range of bytes, such as `bytes=1000-`; the reply is then 206."
        ),
        header_parameter(
            "If-Range", "An `ETag`: if it has changed since, the reply is the whole file."
        ),
    ]
}
"""The `openapi_extra=` of a route that replies with `download`."""


class _FileReply(StreamingResponse):
    def __init__(
        self, file: BinaryIO, start: int, end: int, status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(_chunks(file, start, end), status, headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:  # also if the client disconnects
            await super().__call__(scope, receive, send)


def _chunks(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    # pread, because other replies may read from the same open file.
    while start < end and (chunk := os.pread(file.fileno(), min(CHUNK_BYTES, end - start), start)):
        yield chunk
        start += len(chunk)


def _range(request: Request, current: str, size: int) -> tuple[int, int] | None:
    """Start and end (exclusive) of the range; None for the whole file.

    Anything but a single range of bytes is ignored, as RFC 9110 allows.
    """
    match = _RANGE.fullmatch(", ".join(request.headers.getlist("range")))
    if match is None or is_head(request) or request.headers.get("if-range", current) != current:
        return None
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last or size), size - 1) + 1
        if last and int(last) < start:
            return None
    elif last:
        start, end = max(0, size - int(last)), size
    else:
        return None
    if start >= size:
        raise RangeNotSatisfiable(
            "range-not-satisfiable",
            f"there are {size} bytes, so the first is 0 and the last is {size - 1}",
            extra={"size_bytes": size},
        )
    return start, end
