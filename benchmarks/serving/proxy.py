"""One nginx in front of servers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.serving.servers import Server, free_port

PROGRAM = shutil.which("nginx")
START_S = 10.0

_AROUND = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
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
_SITE = """
    client_body_buffer_size 4m;
    client_max_body_size 16m;
    keepalive_requests 100000000;
"""
SITES = {
    "through nginx": """
    upstream at_{port} {{ server {address}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        location / {{ proxy_pass http://at_{port}; }}
    }}
""",
    "through nginx by its defaults": """
    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{address}; }} }}
""",
}
"""With connections to the server that it keeps open; and with one for each request, in HTTP/1.0."""


@contextmanager
def proxied(folder: Path, servers: Mapping[str, Server]) -> Iterator[dict[str, dict[str, str]]]:
    """Their addresses behind nginx, which runs on core 1, as the load does: by the key of
    `SITES`."""
    ports = {site: {name: free_port() for name in servers} for site in SITES}
    blocks = [
        SITES[site].format(port=port, address=servers[name].url.removeprefix("http://"))
        for site, own in ports.items()
        for name, port in own.items()
    ]
    every = [port for own in ports.values() for port in own.values()]
    with nginx_with(folder, "".join([_SITE, *blocks]), every, ["taskset", "-c", "1"]):
        yield {
            site: {name: f"http://127.0.0.1:{port}" for name, port in own.items()}
            for site, own in ports.items()
        }


@contextmanager
def nginx_with(
    folder: Path, site: str, ports: Sequence[int], before: Sequence[str] = ()
) -> Iterator[None]:
    """A running nginx with this in its `http` block, once it listens to the ports; `before`: words
    before its command. RuntimeError if it ends."""
    assert PROGRAM is not None
    folder.mkdir()
    configuration = folder / "nginx.conf"
    configuration.write_text(_AROUND.format(folder=folder, site=site))
    errors = folder / "error.log"
    options = ["-e", str(errors), "-p", str(folder), "-c", str(configuration)]
    process = subprocess.Popen([*before, PROGRAM, *options])
    try:
        deadline = time.monotonic() + START_S
        for port in ports:
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    time.sleep(0.02)
        if process.poll() is not None:
            raise RuntimeError(f"nginx: {errors.read_text()}")
        yield
    finally:
        process.terminate()
        process.wait(START_S)
