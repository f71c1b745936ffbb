"""`svm-service serve`: the API and its training workers."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import ipaddress
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import uvicorn
from threadpoolctl import threadpool_limits
from uvicorn.lifespan.on import LifespanOn

from service import __version__
from service.addresses import proxy_addresses
from service.cli.environment import locked_data_dir
from service.common.logs import configure_logging
from service.common.malloc import keep_freed_memory
from service.settings import Settings
from service.subprocesses import ONE_THREAD

if TYPE_CHECKING:
    from service.app.application import Application
    from service.jobs.engine.child import Forked

GRACE_S = 5
"""Time for open requests after SIGTERM; the workers then have 25 s to checkpoint their jobs."""
TICK_S = 1.0
SWITCH_S = 5e-4
"""How long a page or another request in a thread can keep the event loop waiting."""
MOST_FILES = 65_536
RESERVED_FILES = 128
"""Files for the database, child processes, logs, and reads of requests."""
LEAST_CONNECTIONS = 16
BACKLOG = 2048
"""Connections that the kernel queues before they are accepted."""
SO_ATTACH_FILTER = 26
"""Linux: a program that decides which packets of a socket are dropped (man 7 socket)."""
NO_NEW_CONNECTIONS = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the flags of the TCP header
        (0x54, 0, 0, 0x12),  # keep SYN and ACK
        (0x15, 0, 1, 0x02),  # SYN alone: continue; anything else: skip one
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # accept
    )
)
"""Drops the first packet of a connection. Its sender repeats it, and is refused then."""


def serve(host: str | None, port: int | None) -> None:
    """At the address in the settings, if none is given."""
    # Uvicorn raises the signal again after a clean shutdown: exit with status 0.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    gc.disable()  # the objects made during the start stay
    os.environ.update(ONE_THREAD)
    with locked_data_dir() as settings:
        host = settings.host if host is None else host
        port = settings.port if port is None else port
        configure_logging(settings.log_level)
        file_limit = raise_file_limit()
        supervisor = _fork_supervisor(settings) if settings.workers > 0 else None
        # Imported here, so that wrong settings are reported at once.
        from service.app import create_app

        listener = listener_at(host, port)
        own_machine = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        if settings.auth == "auto" and not own_machine:
            settings = settings.model_copy(update={"auth": "on"})
        connections = most_connections(settings.connections, file_limit)
        settings = settings.model_copy(update={"connections": connections})
        # Predictions must not depend on the number of processors: workers have one thread, too.
        threadpool_limits(limits=1, user_api="blas")
        keep_freed_memory()
        sys.setswitchinterval(SWITCH_S)
        names = _own_names(host, own_machine)
        app = create_app(settings, names, warm=True, supervisor=supervisor)
        config = uvicorn.Config(
            app,
            http=app.http_protocol,  # type: ignore[arg-type]  # a function will do
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=proxy_addresses(settings.proxies),
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=settings.keep_alive_s,
            backlog=BACKLOG,
        )
        config.load()
        config.lifespan_class = _Lifespan
        _Server(config, app, host, listener.getsockname()[1]).run([listener])


def _fork_supervisor(settings: Settings) -> Forked:
    """Before there is anything that a fork would break."""
    from service.storage.machine_code import keep_machine_code

    keep_machine_code(settings.data_dir)
    from service.jobs.engine.supervisor import forked

    return forked(settings)


class _Lifespan(LifespanOn):
    """A start that failed for a reason that is in the log has no traceback there."""

    async def send(self, message: Any) -> None:
        from service.app.application import CANNOT_START

        if isinstance(sys.exception(), CANNOT_START):
            message = {**message, "message": ""}
        await super().send(message)


class _Server(uvicorn.Server):
    """Prints its address when it is ready, and marks the application as draining at shutdown."""

    def __init__(self, config: uvicorn.Config, app: Application, host: str, port: int) -> None:
        super().__init__(config)
        self._app = app
        self._at = host, port
        self._ending = asyncio.Event()
        self._wake: Callable[[], object] = lambda: None
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:  # another process has begun to listen there
            await self.lifespan.shutdown()
            cannot_listen(*self._at, error)
        gc.freeze()  # full collections skip all objects made so far: saves milliseconds
        gc.enable()
        at = self._address
        print(f"svm-service {__version__} at {at}, documentation at {at}/docs", flush=True)
        if self._app.first_key is not None:
            print(
                f"callers need an API key; the first one is in {self._app.first_key}",
                flush=True,
            )

    async def main_loop(self) -> None:
        """Until the signal to end. Uvicorn would look for it ten times a second."""
        loop = asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(self._ending.set)
        while not await self.on_tick(0):  # which also updates the header Date
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve the connections in the kernel's queue, and accept no more."""
        waiting = [each for listener in sockets or () for each in stop_listening(listener)]
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for connection in waiting:
            await loop.connect_accepted_socket(self._protocol, connection)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.BaseProtocol:
        return self._app.http_protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.health.drain()
        self._app.connection_limits.ending = True
        super().handle_exit(sig, frame)
        self._wake()


def _own_names(host: str, own_machine: bool) -> set[str]:
    """The host it listens on, and the machine's name if other machines can reach it."""
    return {host.lower()} | (set() if own_machine else {socket.gethostname().lower()})


def _exit(_: int, __: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def raise_file_limit() -> int:
    """Raise the limit of open files to the hard limit, at most `MOST_FILES`; returns it.

    Child processes inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return MOST_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def most_connections(wanted: int, file_limit: int) -> int:
    """Most connections open at once: each can be an upload, which also has a file."""
    return min(wanted, max(LEAST_CONNECTIONS, (file_limit - RESERVED_FILES) // 2))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def listener_at(host: str, port: int) -> socket.socket:
    """A bound socket, which listens when the service has started: until then connections are
    refused, so that callers do not wait, and a proxy uses another replica."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        return listener
    except OSError as error:
        cannot_listen(host, port, error)


def cannot_listen(host: str, port: int, error: OSError) -> NoReturn:
    message = f"cannot listen on {host} port {port}: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        message += "; give another port with `make run PORT=9000`, --port 9000 or SVM_PORT=9000"
    print(message, file=sys.stderr)
    raise SystemExit(1) from None


def stop_listening(listener: socket.socket) -> list[socket.socket]:
    """Stop listening; returns the connections that are not accepted yet, which would be reset.

    So would be a connection that is made between the last `accept` and the end: one in some hundred
    restarts under load. Therefore none is made any more from before the first one on.
    """
    _drop_new_connections(listener)
    listener.setblocking(False)
    waiting = []
    with suppress(OSError):
        for _ in range(BACKLOG):
            waiting.append(listener.accept()[0])
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    return waiting


def _drop_new_connections(listener: socket.socket) -> None:
    if sys.platform != "linux":
        return
    instructions = ctypes.create_string_buffer(NO_NEW_CONNECTIONS, len(NO_NEW_CONNECTIONS))
    program = _Program(len(NO_NEW_CONNECTIONS) // 8, ctypes.addressof(instructions))
    with suppress(OSError):  # a sandbox may forbid it
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
