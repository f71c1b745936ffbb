"""Sockets that listen, and how they stop so that no connection is lost."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, NoReturn

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


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def listener_at(host: str, port: int) -> socket.socket:
    """A bound socket, which listens when the service has started: until then connections are
    refused, so that callers do not wait, and a proxy uses another replica."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bound(socket.socket(family, kind, protocol), address)
    except OSError as error:
        cannot_listen(host, port, error)


def listener_beside(first: socket.socket) -> socket.socket:
    """Another one at the address of one that listens: the kernel distributes the connections.

    The first one could not have begun to listen beside that of another program.
    """
    first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener = socket.socket(first.family, first.type, first.proto)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return _bound(listener, first.getsockname())


def _bound(listener: socket.socket, address: Any) -> socket.socket:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listener.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(address)
    return listener


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
    drop_new_connections(listener)
    waiting = accept_all(listener)
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    return waiting


def accept_all(listener: socket.socket) -> list[socket.socket]:
    """The connections that are not accepted yet."""
    listener.setblocking(False)
    waiting = []
    with suppress(OSError):
        for _ in range(BACKLOG):
            waiting.append(listener.accept()[0])
    return waiting


def drop_new_connections(listener: socket.socket) -> None:
    if sys.platform != "linux":
        return
    instructions = ctypes.create_string_buffer(NO_NEW_CONNECTIONS, len(NO_NEW_CONNECTIONS))
    program = _Program(len(NO_NEW_CONNECTIONS) // 8, ctypes.addressof(instructions))
    with suppress(OSError):  # a sandbox may forbid it
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
