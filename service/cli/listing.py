"""Commands that list datasets, jobs and models."""

from __future__ import annotations

from itertools import islice

from service.cli.output import caller, errors_reported, print_json, print_table
from service.cli.showing import (
    DATASET_COLUMNS,
    JOB_COLUMNS,
    MODEL_COLUMNS,
    VERSION_COLUMNS,
    dataset_cells,
    job_cells,
    model_cells,
    version_cells,
)


def datasets(url: str | None, limit: int, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        listed = list(islice(client.datasets(), limit))
    if as_json:
        print_json({"datasets": [dataset.data for dataset in listed]})
    else:
        print_table(DATASET_COLUMNS, map(dataset_cells, listed))


def jobs(url: str | None, state: str | None, limit: int, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        listed = list(islice(client.jobs(state=state), limit))
    if as_json:
        print_json({"jobs": [job.data for job in listed]})
    else:
        print_table(JOB_COLUMNS, map(job_cells, listed))


def models(url: str | None, name: str | None, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        if name is not None:
            versions = list(client.model(name).versions())
            if as_json:
                print_json({"versions": [version.data for version in versions]})
            else:
                print_table(VERSION_COLUMNS, map(version_cells, versions))
            return
        listed = list(client.models())
        if as_json:
            print_json({"models": [model.data for model in listed]})
        else:
            print_table(MODEL_COLUMNS, map(model_cells, listed))


def set_alias(url: str | None, name: str | None, alias: str) -> None:
    with errors_reported(False), caller(url) as client:
        if name is None:
            raise ValueError("name the model that the alias belongs to")
        which, _, version = alias.partition("=")
        if not version.isdecimal():
            raise ValueError(f"{alias}: write ALIAS=VERSION, such as champion=3")
        client.model(name).set_alias(which, int(version))
