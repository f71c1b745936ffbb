"""`svm-service` in a process of its own, without the second or two that its imports take.

The first start makes a process that imports what `svm-service serve` imports. Each command is a
fork of it: the real `main` with its arguments, environment, folder and streams.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).parent / "svm-service")
"""The script, for tests of the start itself and of memory."""
MOST_BYTES = 1 << 17
PR_SET_CHILD_SUBREAPER = 36


class Started(subprocess.Popen[str]):
    """A process that runs `svm-service` with these arguments, as `subprocess.Popen` would."""

    def __init__(self, arguments: list[str], **options: Any) -> None:
        super().__init__([COMMAND, *arguments], text=True, **options)

    def _execute_child(self, command: list[str], *given: Any) -> None:
        folder, variables, pipes = given[4], given[5], given[9:15]
        request = [command, str(folder or Path.cwd()), dict(variables or os.environ)]
        streams = [
            usual if pipe == -1 else pipe for usual, pipe in enumerate((pipes[0], *pipes[3::2]))
        ]
        socket.send_fds(_template(), [json.dumps(request).encode()], streams)
        self.pid = int(_template().recv(MOST_BYTES))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(
    arguments: list[str], stdin: str | None = None, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """The output and the exit status of a command, as of `subprocess.run`."""
    pipe = subprocess.PIPE
    with Started(arguments, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            output, errors = process.communicate(stdin, timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


@cache
def _template() -> socket.socket:
    """The process that forks, which ends when this one does."""
    # The commands are children of the template's children, which end: they become ours.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def fork_for_each_request(requests: socket.socket) -> None:
    """Returns in each command's process, and when no request can come any more."""
    while True:
        request, streams, _, _ = socket.recv_fds(requests, MOST_BYTES, 3)
        if not request:
            sys.exit()
        reader, writer = os.pipe()
        if (between := os.fork()) == 0:
            if (pid := os.fork()) == 0:
                break
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        requests.send(os.read(reader, MOST_BYTES))
        for descriptor in (reader, writer, *streams):
            os.close(descriptor)
    sys.argv, folder, variables = json.loads(request)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(*streams, reader, writer, requests.fileno()) + 1)
    requests.detach()
    if variables.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()


if __name__ == "__main__":
    # What `serve` imports after it has read its settings.
    import service.app
    import service.cli.serving
    import service.jobs.engine.supervisor  # noqa: F401
    from service.__main__ import main

    gc.freeze()
    fork_for_each_request(socket.socket(fileno=int(sys.argv[1])))
    main()
