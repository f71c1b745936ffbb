"""One nginx in front of servers, with connections that it keeps open."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from benchmarks.serving.servers import Server, free_port

PROGRAM = shutil.which("nginx")
START_S = 10.0

_CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_body_buffer_size 4m;
    client_max_body_size 16m;
    keepalive_requests 100000000;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
{servers}
}}
"""
_SERVER = """
    upstream at_{port} {{ server {address}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://at_{port}; }}
    }}
"""


@contextmanager
def proxied(folder: Path, servers: Mapping[str, Server]) -> Iterator[dict[str, str]]:
    """Their addresses behind nginx, which runs on core 1, as the load does."""
    assert PROGRAM is not None
    ports = {name: free_port() for name in servers}
    blocks = [
        _SERVER.format(port=ports[name], address=server.url.removeprefix("http://"))
        for name, server in servers.items()
    ]
    folder.mkdir()
    configuration = folder / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(folder=folder, servers="".join(blocks)))
    errors = folder / "error.log"
    options = ["-e", str(errors), "-p", str(folder), "-c", str(configuration)]
    process = subprocess.Popen(["taskset", "-c", "1", PROGRAM, *options])
    try:
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        deadline = time.monotonic() + START_S
        for url in urls.values():
            while time.monotonic() < deadline and process.poll() is None:
                with suppress(httpx2.TransportError):
                    httpx2.get(f"{url}/1", timeout=10)
                    break
                time.sleep(0.02)
        if process.poll() is not None:
            raise RuntimeError(f"nginx: {errors.read_text()}")
        yield urls
    finally:
        process.terminate()
        process.wait(START_S)
