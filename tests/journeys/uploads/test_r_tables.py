"""Tables of R packages, as two programs write them: uploaded and trained with only a target."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import pytest

from benchmarks.r_tables import Dialect, Table, known_tables, tables
from tests.journeys.server import Server, ok

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

AUTO = {"name": "auto"}


@dataclass(frozen=True)
class Outcome:
    """What became of a table in a dialect."""

    name: str
    """`package/item, dialect`"""
    said: str
    """How the training ended, or the error."""
    trained: bool
    digest: str | None = None
    """`matrix_digest` of the dataset."""


def outcomes(server: Server, chosen: list[Table]) -> list[Outcome]:
    """Upload each table in both dialects with `target` alone, train each with `auto`.

    A refusal must be one error that says what to do, about a column of the table.
    """
    results, jobs, digests = [], {}, {}
    for number, (table, dialect) in enumerate(product(chosen, DIALECTS)):
        name = f"{table.name}, {dialect}"
        reply = server.http.post(
            "/v1/datasets",
            params={"target": table.target},
            content=table.written(dialect),
            headers={"Content-Type": "text/csv"},
        )
        if reply.status_code in (200, 201):
            digests[name] = reply.json()["matrix_digest"]
            jobs[name] = server.train(reply.json()["id"], f"r-table-{number}", solver=AUTO)
        else:
            results.append(Outcome(name, refusal(table, ok(reply, 422)), trained=False))
    for name, job in jobs.items():
        ended = server.finished(job)
        if ended["state"] == "succeeded":
            said = f"{ended['stop_reason']}, gap {ended['certificate']['relative_gap']:.2%}"
            results.append(Outcome(name, said, True, digests[name]))
        else:
            results.append(Outcome(name, str(ended["error"]["detail"]), trained=False))
    return results


def read_differently(results: list[Outcome]) -> list[str]:
    """The tables whose two dialects are not the same dataset."""
    digests: dict[str, set[str | None]] = {}
    for result in results:
        digests.setdefault(result.name.rsplit(",", 1)[0], set()).add(result.digest)
    return [name for name, some in digests.items() if len(some) > 1]


def refusal(table: Table, problem: dict[str, Any]) -> str:
    """The error, which names columns of the table and gives hints."""
    columns = problem["columns"]
    assert columns, problem
    for column in columns:
        assert column["column"] in table.frame.columns
        assert column["hint"]
    return str(problem["detail"])


def test_tables_of_r_are_trained(server: Server) -> None:
    """The first two, written with commas and as a German Excel does."""
    results = outcomes(server, tables(2))
    assert len(results) == 4
    assert [result for result in results if not result.trained] == []
    assert read_differently(results) == []


@pytest.mark.soundness
@pytest.mark.timeout(900)
def test_95_of_100_tables_of_r_are_trained(server: Server) -> None:
    """Sixty, and penguins, cars and weather; prints both lists."""
    results = outcomes(server, [*tables(60), *known_tables()])
    assert len(results) == 2 * 64
    trained = [result for result in results if result.trained]
    refused = [result for result in results if not result.trained]
    for heading, some in (("trained", trained), ("refused", refused)):
        print(f"\n{len(some)} {heading}")
        for result in some:
            print(f"  {result.name}: {result.said}")
    assert read_differently(results) == []
    assert len(trained) >= 0.95 * len(results)
