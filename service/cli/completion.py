"""What the shell completes in commands that call a service: names of models, ids of datasets and
jobs, newest first. A service that does not answer soon completes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import typer

if TYPE_CHECKING:
    from service.client import Client

LONGEST_S = 2.0
MOST = 100
Pair: TypeAlias = tuple[str, str]
"""A word, and what it is."""


def models(context: typer.Context, incomplete: str) -> list[Pair]:
    """Names of models; after a `/` also their aliases and latest versions."""

    def words(client: Client) -> Iterable[Pair]:
        for model in islice(client.models(), MOST):
            yield model.name, f"version {model.latest_version}"
            if "/" in incomplete:
                latest = model.latest_version
                versions = {**model.aliases, "latest": latest, str(latest): latest}
                yield from ((f"{model.name}/{one}", f"version {v}") for one, v in versions.items())

    return _completed(context, incomplete, words)


def datasets(context: typer.Context, incomplete: str) -> list[Pair]:
    """Ids of datasets, and `latest`."""

    def words(client: Client) -> Iterable[Pair]:
        yield "latest", "the last upload"
        for one in islice(client.datasets(), MOST):
            yield one.id, f"{one.name or ''} {one.n_samples:,} rows".strip()

    return _completed(context, incomplete, words)


def jobs(context: typer.Context, incomplete: str) -> list[Pair]:
    """Ids of jobs."""

    def words(client: Client) -> Iterable[Pair]:
        for one in islice(client.jobs(), MOST):
            yield one.id, f"{one.kind}, {one.state}"

    return _completed(context, incomplete, words)


def _completed(
    context: typer.Context, incomplete: str, words: Callable[[Client], Iterable[Pair]]
) -> list[Pair]:
    pairs: list[Pair] = []

    def read() -> None:
        from service.client import Client, ClientError, Retries

        try:
            with Client(context.params.get("url"), retries=Retries(times=0)) as client:
                pairs.extend(pair for pair in words(client) if pair[0].startswith(incomplete))
        except (ClientError, ValueError):
            pass  # the command reports it

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(LONGEST_S)
    return list(pairs)
