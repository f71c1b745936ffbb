"""A real nginx with the proxy's configuration of `docker-compose.yml`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.serving.proxy import PROGRAM, nginx_with
from benchmarks.serving.servers import free_port

COMPOSE = Path(__file__).parents[1] / "docker-compose.yml"


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
    if PROGRAM is None:
        pytest.skip("nginx is not installed")
    port = free_port()
    with nginx_with(folder, rendered(port, replicas), [port]):
        yield f"http://127.0.0.1:{port}"
