"""A receiver of callbacks: a real HTTP server that behaves as its paths say."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.waiting import until

Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes
    sni: str | None


@dataclass
class Receiver:
    port: int
    requests: list[Received] = field(default_factory=list)

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def ids(self) -> list[str]:
        """Of the deliveries received, in order, again for each attempt."""
        return [request.headers["webhook-id"] for request in self.requests]

    def wait(self, count: int) -> list[Received]:
        """The requests, once there are that many."""
        until(lambda: len(self.requests) >= count)
        return list(self.requests)


def status(code: int, **headers: str) -> Reply:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return reply


def _endless_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:  # until the sender closes the connection
        handler.wfile.write(b"x" * 65536)


def _endless_header(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")


def _silent(handler: BaseHTTPRequestHandler) -> None:
    handler.rfile.read(1)  # until the sender closes the connection


PATHS: dict[str, Reply] = {
    "/ok": status(204),
    "/failing": status(500),
    "/gone": status(410),
    "/redirecting": status(307, Location="/ok"),
    "/silent": _silent,
    "/endless-body": _endless_body,
    "/endless-header": _endless_header,
    "/closing": lambda handler: None,
}


@contextmanager
def receiving(
    reply: Reply | None = None, context: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """A receiver on 127.0.0.1; `reply` replaces what the paths say."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = self.rfile.read(size)
            if len(body) < size:
                return  # the sender was killed
            sni = names.get(self.client_address)
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Received(self.path, headers, body, sni))
            self.close_connection = True
            with suppress(OSError):  # the sender has closed the connection
                (reply or PATHS[self.path.partition("?")[0]])(self)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 1024

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    names: dict[object, str] = {}
    if context is not None:

        def note(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: object) -> None:
            assert isinstance(connection, ssl.SSLSocket)
            names[connection.getpeername()] = name or ""

        context.sni_callback = note
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def certificate(folder: Path, host: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this host that signs itself, and a server's context with it."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(cert), "-days", "2"]
    command += ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context
