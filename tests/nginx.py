"""A real nginx with the proxy's configuration of `docker-compose.yml`."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

COMPOSE = Path(__file__).parents[1] / "docker-compose.yml"
START_S = 10.0

_AROUND = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{site}
}}
"""


def site() -> str:
    """What nginx gets in the container."""
    text = COMPOSE.read_text().split("  proxy:\n    content: |\n")[1].split("\nvolumes:")[0]
    return textwrap.dedent(text).replace("$$", "$")


def rendered(port: int, replicas: Sequence[int]) -> str:
    """For replicas at ports of this machine: their addresses need no resolver, which nginx knows
    for upstreams only from 1.27.3 on."""
    text = re.sub(r"^.*resolver .*\n", "", site(), flags=re.MULTILINE).replace(" resolve", "")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}")
    for number, replica in enumerate(replicas, 1):
        text = text.replace(f"replica-{number}:8000", f"127.0.0.1:{replica}")
    return text


@contextmanager
def nginx(folder: Path, replicas: Sequence[int]) -> Iterator[str]:
    """The proxy before these replicas; its address."""
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("nginx is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(_AROUND.format(folder=folder, site=rendered(port, replicas)))
    errors = folder / "error.log"
    process = subprocess.Popen([program, "-e", str(errors), "-p", str(folder), "-c", str(config)])
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        assert process.poll() is None, errors.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(START_S)
