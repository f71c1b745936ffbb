"""Streams bodies that are too large for memory to files, whole or as parts of a form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from anyio.to_thread import run_sync
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from service.common.encodings import Inflater, media_type_of
from service.errors import InvalidRequest, UnsupportedFormat
from service.web.bodies.idempotency import add_to_fingerprint
from service.web.bodies.receiving import chunks_of, overloaded, share_of

BUFFER_BYTES = 1024 * 1024
"""Size of a write. Small writes cost more, because each one runs in another thread."""
FIELD_BYTES = 16 * 1024
MAX_PARTS = 32


def parameter(content_type: str, name: str) -> str | None:
    """A parameter of a media type, such as `present` of `text/csv; header=present`."""
    value = parse_options_header(content_type)[1].get(name.encode())
    return None if value is None else value.decode("latin-1").lower()


@dataclass(slots=True)
class FormPart:
    """One part of a form: a short field, or a file on disk."""

    name: str = ""
    filename: str = ""
    content_type: str = ""
    path: Path | None = None
    size: int = 0
    content: bytearray = field(default_factory=bytearray)
    """Of a field."""

    @property
    def text(self) -> str:
        """Of a field."""
        return self.content.decode("utf-8", "replace")


class IncomingBody:
    """The body of a request, not yet read."""

    def __init__(self, request: Request) -> None:
        """Raises UnsupportedFormat if the encoding is not gzip."""
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip"):
            message = f"Content-Encoding {encoding[:40]} is not supported; use gzip or none"
            raise UnsupportedFormat("unsupported-format", message)
        self._compressed = encoding != "identity"
        self._request = request
        self.content_type = request.headers.get("content-type", "")
        self.media_type = media_type_of(self.content_type)

    async def save(self, path: Path, limit_bytes: int, inflated_bytes: int) -> None:
        """Write it to `path`, decompressed.

        Raises TooLarge for more than `limit_bytes` as sent or `inflated_bytes` decompressed, and
        InvalidRequest if the client disconnects.
        """
        with path.open("wb") as file:
            async for piece in self._pieces(limit_bytes, inflated_bytes):
                add_to_fingerprint(self._request, piece)
                await run_sync(file.write, piece)

    async def save_form(
        self, folder: Path, file_names: tuple[str, ...], limit_bytes: int, inflated_bytes: int
    ) -> dict[str, FormPart]:
        """Its parts by name; those in `file_names` are written to files in `folder`.

        Raises TooLarge as `save`, and InvalidRequest.
        """
        _, options = parse_options_header(self.content_type)
        if not options.get(b"boundary"):
            raise _malformed("Content-Type of a form needs the parameter boundary")
        form = _Form(folder, file_names, partial(add_to_fingerprint, self._request))
        try:
            parser = form.parser(options[b"boundary"])
            async for piece in self._pieces(limit_bytes, inflated_bytes):
                await run_sync(parser.write, piece)
                if not share_of(self._request).reserve(form.field_bytes):
                    raise overloaded()
            parser.finalize()
        except FormParserError:
            raise _malformed("the parts of the form could not be separated") from None
        finally:
            form.close()
        if not form.finished:
            raise _malformed("the form ends too early")
        return form.parts

    async def _pieces(self, limit_bytes: int, inflated_bytes: int) -> AsyncIterator[bytes]:
        buffers = _buffers(self._request, limit_bytes)
        if not self._compressed:
            async for buffer in buffers:
                yield buffer
            return
        inflater = Inflater(inflated_bytes)
        async for buffer in buffers:
            pieces = inflater.feed(buffer)
            while piece := await run_sync(next, pieces, b""):
                yield piece
        inflater.finish()


class _Form:
    """Receives the parts of a form from its parser."""

    def __init__(
        self,
        folder: Path,
        file_names: tuple[str, ...],
        add_to_fingerprint: Callable[[bytes | memoryview], None],
    ) -> None:
        self.parts: dict[str, FormPart] = {}
        self.finished = False
        self.field_bytes = 0
        """In memory."""
        self._folder = folder
        self._file_names = file_names
        self._add_to_fingerprint = add_to_fingerprint
        self._part = FormPart()
        self._headers: dict[str, bytes] = {}
        self._header = bytearray(), bytearray()
        self._file: BinaryIO | None = None

    def parser(self, boundary: bytes) -> MultipartParser:
        """A parser that reports to this form."""
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self.begin,
                "on_header_field": self.header_name,
                "on_header_value": self.header_value,
                "on_header_end": self.header_end,
                "on_headers_finished": self.headers_end,
                "on_part_data": self.data,
                "on_part_end": self.close,
                "on_end": self.finish,
            },
        )

    def begin(self) -> None:
        self._part, self._headers = FormPart(), {}

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def header_end(self) -> None:
        name, value = self._header
        self._headers[name.decode("latin-1").lower()] = bytes(value)
        self._header = bytearray(), bytearray()

    def headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        part = self._part
        part.name = options.get(b"name", b"").decode("utf-8", "replace")
        part.filename = options.get(b"filename", b"").decode("utf-8", "replace")
        part.content_type = self._headers.get("content-type", b"").decode("latin-1")
        if not part.name:
            raise _malformed("a part of the form has no name")
        if part.name in self.parts:
            raise _malformed(f"the form has two parts {part.name[:64]!r}")
        if len(self.parts) == MAX_PARTS:
            raise _malformed(f"the form has more than {MAX_PARTS} parts")
        self.parts[part.name] = part
        self._add_to_fingerprint(repr((part.name, part.filename, part.content_type)).encode())
        if part.name in self._file_names:
            part.path = self._folder / f"part-{len(self.parts)}"
            self._file = part.path.open("wb")

    def data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        part.size += end - start
        self._add_to_fingerprint(memoryview(data)[start:end])
        if self._file is not None:
            self._file.write(memoryview(data)[start:end])
        elif part.size <= FIELD_BYTES:
            part.content += data[start:end]
            self.field_bytes += end - start
        else:
            raise _malformed(f"the field {part.name[:64]!r} has more than {FIELD_BYTES:,} bytes")

    def finish(self) -> None:
        self.finished = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def _buffers(request: Request, limit_bytes: int) -> AsyncIterator[bytes]:
    buffer = bytearray()
    with share_of(request).another() as share:
        async for chunk in chunks_of(request, limit_bytes, "SVM_LIMITS__UPLOAD_BYTES"):
            buffer += chunk
            # If the budget is used up, each chunk is written at once.
            if len(buffer) >= BUFFER_BYTES or not share.reserve(len(buffer)):
                yield bytes(buffer)
                buffer.clear()
        yield bytes(buffer)


def _malformed(detail: str) -> InvalidRequest:
    return InvalidRequest("malformed-request", detail)
