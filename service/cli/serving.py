"""`svm-service serve`: the API and its training workers."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import uvicorn
from threadpoolctl import threadpool_limits
from uvicorn.lifespan.on import LifespanOn

from service import __version__
from service.addresses import proxy_addresses
from service.cli.environment import locked_data_dir
from service.cli.listening import BACKLOG, accept_all, cannot_listen, listener_at, stop_listening
from service.cli.output import USAGE, fail
from service.common.logs import configure_logging
from service.common.malloc import keep_freed_memory
from service.common.shared import Shared
from service.jobs.engine.member import READY, READY_WITH_KEY, Member
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


def serve(host: str | None, port: int | None, processes: int | None) -> None:
    """As the settings say, but for what is given."""
    # Uvicorn raises the signal again after a clean shutdown: exit with status 0.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    gc.disable()  # the objects made during the start stay
    os.environ.update(ONE_THREAD)
    with locked_data_dir() as settings:
        given = {"host": host, "port": port, "processes": processes}
        given = {name: value for name, value in given.items() if value is not None}
        settings = settings.model_copy(update=given)
        if settings.processes > 1 and sys.platform != "linux":
            raise fail("several processes need Linux, which distributes connections", USAGE)
        configure_logging(settings.log_level)
        file_limit = raise_file_limit()
        supervisor = _fork_supervisor(settings) if settings.workers > 0 else None
        # Imported here, so that wrong settings are reported at once.
        from service.app import create_app

        listener = listener_at(settings.host, settings.port)
        own_machine = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        if settings.auth == "auto" and not own_machine:
            settings = settings.model_copy(update={"auth": "on"})
        connections = most_connections(settings.connections, file_limit)
        settings = settings.model_copy(update={"connections": connections})
        # Predictions must not depend on the number of processors: workers have one thread, too.
        threadpool_limits(limits=1, user_api="blas")
        keep_freed_memory()
        sys.setswitchinterval(SWITCH_S)
        names = _own_names(settings.host, own_machine)
        if settings.processes == 1:
            app = create_app(settings, names, warm=True, supervisor=supervisor)
            _serve_at(listener, settings, app)
            return
        from service.cli.processes import PLACES, Parent

        member = Member(Shared(settings.processes + PLACES), os.getpid())
        app = create_app(settings, names, warm=True, member=member)
        app.warm_up()
        serve_one = partial(_serve_at, settings=settings, app=app, member=member)
        announce = partial(_announce, settings, listener.getsockname()[1])
        raise SystemExit(Parent(settings, member, supervisor, listener, serve_one, announce).run())


def _serve_at(
    listener: socket.socket, settings: Settings, app: Application, member: Member | None = None
) -> None:
    """Until a signal, or as one of several processes until the parent ends it."""
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
    _Server(config, app, settings, listener.getsockname()[1], member).run([listener])


def _announce(settings: Settings, port: int, first_key: Path | None) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    at = f"http://{host}:{port}"
    print(f"svm-service {__version__} at {at}, documentation at {at}/docs", flush=True)
    if first_key is not None:
        print(f"callers need an API key; the first one is in {first_key}", flush=True)


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
    """Prints its address when it is ready, and marks the application as draining at shutdown. The
    parent of several does the first, and decides about the second."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: Application,
        settings: Settings,
        port: int,
        member: Member | None,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._settings, self._port = settings, port
        self._member = member
        if member is not None:
            member.on_end = self._end
        self._ending = asyncio.Event()
        self._wake: Callable[[], object] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:  # another process has begun to listen there
            await self.lifespan.shutdown()
            cannot_listen(self._settings.host, self._port, error)
        gc.freeze()  # full collections skip all objects made so far: saves milliseconds
        gc.enable()
        if self._member is None:
            _announce(self._settings, self._port, self._app.first_key)
        else:
            self._member.tell(READY if self._app.first_key is None else READY_WITH_KEY)

    async def main_loop(self) -> None:
        """Until the signal to end. Uvicorn would look for it ten times a second."""
        loop = asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(self._ending.set)
        while not await self.on_tick(0):  # which also updates the header Date
            if self._member is not None:
                self._member.beat()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve the connections in the kernel's queue, and accept no more."""
        # The parent keeps the listener, for the next process, or has ended it.
        stop = stop_listening if self._member is None else accept_all
        waiting = [each for listener in sockets or () for each in stop(listener)]
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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The parent ends its processes itself, one after the other: a signal may reach all."""
        if self._member is None:
            with super().capture_signals():
                yield
        else:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: None)
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._end()

    def _end(self) -> None:
        self._app.health.drain()
        self._app.connection_limits.ending = True
        self.should_exit = True
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
