# Generated from the module of this name in `asynchronous` by `make client`.
"""Sends calls with retries, and raises exceptions for errors."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from service import __version__
from service.client import notebook
from service.client.calls import Call, Retries, never_sent
from service.client.errors import ConnectionFailed, problem_of

DEFAULT_URL = "http://127.0.0.1:8000"
CHUNK_BYTES = 1024 * 1024
CONNECT_S = 10.0
FIRST_S = 0.8
"""How long a service that has never answered is looked for: its address may be wrong."""
WAIT_S = 120.0
"""Timeout for a reply; parsing a large upload takes a while."""


class Session:
    """The connections to one service."""

    _reached = False
    """Whether the service has answered before."""
    _reads_all = True
    """Whether it has refused no format for which there is another one."""

    def __init__(self, url: str | None, api_key: str | None, retries: Retries | None) -> None:
        self.url = (url or os.environ.get("SVM_URL") or DEFAULT_URL).rstrip("/")
        self.retries = retries or Retries()
        headers = {"User-Agent": f"svm-service-client/{__version__}"}
        if key := api_key or os.environ.get("SVM_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        self._http = httpx2.Client(base_url=self.url, headers=headers)

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call) -> httpx2.Response:
        """The whole reply. Raises Problem and ConnectionFailed."""
        if call.instead is not None and not self._reads_all:
            call = call.instead()
        reply = self._reply(call, stream=False)
        if reply.status_code == 415 and call.instead is not None:
            self._reads_all = False
            return self.send(call)
        if reply.status_code >= 400:
            raise problem_of(reply.status_code, _members(reply))
        return reply

    def json(self, call: Call) -> Any:
        """The JSON of the reply."""
        reply = self.send(call)
        return reply.json()

    def pages(self, call: Call, items: str) -> Iterator[dict[str, Any]]:
        """All `items` of a list, page by page."""
        params = dict(call.params)
        while True:
            page = self.json(replace(call, params=params))
            for item in page[items]:
                yield item
            if page["next_page_token"] is None:
                return
            params["page_token"] = page["next_page_token"]

    @contextmanager
    def open(self, call: Call) -> Iterator[httpx2.Response]:
        """The reply, whose body is not read yet. Raises Problem and ConnectionFailed."""
        reply = self._reply(call, stream=True)
        try:
            if reply.status_code >= 400:
                reply.read()
                raise problem_of(reply.status_code, _members(reply))
            yield reply
        except httpx2.TransportError as error:
            raise ConnectionFailed(f"{self.url} closed the connection during a reply") from error
        finally:
            reply.close()

    def download(self, call: Call, path: str | Path) -> Path:
        """Save the body of the reply as a file, if it is complete and matches its digest."""
        path = Path(path)
        if not path.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "no such folder", str(path.parent))
        digest = hashlib.sha256()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                with self.open(call) as reply:
                    for chunk in reply.iter_bytes(CHUNK_BYTES):
                        digest.update(chunk)
                        file.write(chunk)
            expected = reply.headers.get("repr-digest")
            if expected not in (None, f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"):
                raise ConnectionFailed(f"{path.name} was damaged during the download; try again")
            os.replace(name, path)  # noqa: PTH105  (mkstemp gives a name)
        finally:
            Path(name).unlink(missing_ok=True)
        return path

    def _reply(self, call: Call, *, stream: bool) -> httpx2.Response:
        done = 0
        began = time.monotonic()
        while True:
            done += 1
            try:
                reply = self._http.send(self._request(call), stream=stream)
            except httpx2.TransportError as error:
                pause = self.retries.after_failure(call, error, done)
                late = time.monotonic() - began + (pause or 0) > FIRST_S
                if pause is None or (late and not self._reached and never_sent(error)):
                    raise ConnectionFailed(f"no answer from {self.url}: {_reason(error)}") from None
            else:
                self._reached = True
                pause = self.retries.after_reply(call, reply.status_code, reply.headers, done)
                if pause is None:
                    return reply
                reply.close()
            time.sleep(pause)

    def _request(self, call: Call) -> httpx2.Request:
        headers = dict(call.headers)
        content: Any = call.content
        if isinstance(content, (Path, tuple)):
            pieces = content if isinstance(content, tuple) else (content,)
            # The service refuses what is too large before it is sent.
            headers["Content-Length"] = str(sum(map(_size, pieces)))
            content = _chunks(pieces, call.progress_bar)
        return self._http.build_request(
            call.method,
            call.path,
            params=call.query(),
            headers=headers,
            content=content,
            timeout=httpx2.Timeout(WAIT_S + call.wait_s, connect=CONNECT_S),
        )


def _reason(error: httpx2.TransportError) -> str:
    if isinstance(error, httpx2.UnsupportedProtocol):
        return f"an address is written as {DEFAULT_URL}"
    reason = str(error) or type(error).__name__
    return f"{reason}; is the service running there?" if never_sent(error) else reason


def _size(piece: bytes | Path) -> int:
    return piece.stat().st_size if isinstance(piece, Path) else len(piece)


def _chunks(pieces: tuple[bytes | Path, ...], progress_bar: bool) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        done, size, began = 0, piece.stat().st_size, time.monotonic()
        with notebook.show_bar(progress_bar, piece.name) as show:
            with Path(piece).open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
                    done += len(chunk)
                    seconds = time.monotonic() - began
                    show(*notebook.upload_progress(piece.name, done, size, seconds))


def _members(reply: httpx2.Response) -> dict[str, Any]:
    try:
        members = reply.json()
    except ValueError:
        members = None
    return members if isinstance(members, dict) else {"detail": reply.text[:500] or "no body"}
