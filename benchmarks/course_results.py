"""What the course documents report, and what we get: every algorithm, over the real API.

    python -m benchmarks.course_results [--seeds 20]

A row gives the document's figure, ours (median, mean and range over seeds, or over pairs of
classes), the median certified gap, and the optimum by the certificates: between the best
bound and the best model of all seeds, in the constants that the solver states. Data files come from
`shared/data` beside the repository, Fashion-MNIST from the Debian package `dataset-fashion-mnist`;
rows that need absent ones are left out.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from itertools import chain

from benchmarks import course_documents, fashion_mnist
from benchmarks.course_documents import Job, Reported
from benchmarks.service_process import Service, running

FORM = "{:16} {:26} {:13} {:>17} {:>9} {:>9} {:>21} {:>7} {:>22}"


@dataclass(frozen=True)
class Row:
    """What we get for a result: one value and one job for each seed or pair of classes."""

    reported: Reported
    values: list[float]
    jobs: list[Job]

    def __str__(self) -> str:
        reported, values = self.reported, self.values
        return FORM.format(
            *(reported.document, reported.algorithm, reported.data),
            f"{reported.figure} {reported.unit}",
            _short(statistics.median(values)),
            _short(statistics.mean(values)),
            f"{_short(min(values))} … {_short(max(values))}",
            f"{statistics.median(job['certificate']['relative_gap'] for job in self.jobs):.1e}",
            self._optimum(),
        )

    def _optimum(self) -> str:
        if len({job["dataset_digest"] for job in self.jobs}) > 1:
            return "of each pair"
        if any(job["spec"].get("validation") for job in self.jobs):
            return "of each split"
        bounds = [_stated(job, "dual") for job in self.jobs]
        values = [_stated(job, "primal") for job in self.jobs]
        return f"{max(bounds):.6g} … {min(values):.6g}"


def main(seeds: int = 20) -> None:
    """Print the table of a service of its own."""
    with running() as service:
        table(service, seeds)


def table(service: Service, seeds: int, classes: int = 10, rows_of_class: int = 6000) -> list[Row]:
    """Print the table; returns its rows. The last two make Fashion-MNIST smaller."""
    names = ("document", "algorithm", "data", "reported", "median", "mean", "range", "gap")
    print(FORM.format(*names, "optimum"))
    results = course_documents.trained(service, seeds)
    if fashion_mnist.installed():
        results = chain(results, fashion_mnist.trained(service, classes, rows_of_class))
    rows = []
    for reported, jobs in results:
        row = Row(reported, [reported.measure(service, job) for job in jobs], jobs)
        rows.append(row)
        print(row, flush=True)
    if not fashion_mnist.installed():
        print("Fashion-MNIST is left out: apt-get install dataset-fashion-mnist brings it")
    for reported in (row.reported for row in rows if row.reported.note):
        print(f"{reported.algorithm}, {reported.data}: {reported.note}")
    return rows


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _stated(job: Job, side: str) -> float:
    """The primal or dual value in the constants that the solver states."""
    certificate = job["certificate"]
    return float(certificate[side] * certificate["solver_objective"] / certificate["primal"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    main(parser.parse_args().seeds)
