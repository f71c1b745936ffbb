# Generated from the module of this name in `asynchronous` by `make client`.
"""Datasets of the service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.client import calls
from service.client.calls import Call
from service.client.fields import DatasetFields
from service.client.rows import NPZ, media_type_of, read_arrays, upload_body
from service.client.synchronous.session import Session


class Dataset(DatasetFields):
    """A dataset; its rows never change."""

    _session: Session

    def refresh(self) -> Dataset:
        """Read its current state."""
        self.data = self._session.json(calls.get(self._path()))
        return self

    def append(
        self,
        data: Any,
        labels: Any = None,
        *,
        columns: Sequence[str] | None = None,
        media_type: str | None = None,
        weights: Any = None,
        **options: Any,
    ) -> Dataset:
        """Create a dataset of its rows, then these; arguments as in `Client.upload`."""
        path = self._path("append")
        call = upload_call(path, data, labels, columns, media_type, options, weights)
        return Dataset(self._session, self._session.json(call))

    def split(
        self, fraction: float, *, stratify: bool = True, seed: int = 0
    ) -> tuple[Dataset, Dataset]:
        """Create two datasets, for training and test; `fraction` of the rows are in the second."""
        body = {"fraction": fraction, "stratify": stratify, "seed": seed}
        both = self._session.json(calls.create(self._path("split"), body))
        train, test = (Dataset(self._session, both[name]) for name in ("train", "test"))
        return train, test

    def arrays(self) -> tuple[Any, Any]:
        """The data of a dense dataset: (n_samples, n_features), and labels or None."""
        call = calls.get(self._path("content"), headers={"Accept": NPZ})
        reply = self._session.send(call)
        return read_arrays(reply.content)

    def download(self, path: str | Path) -> Path:
        """Save the data as a file; its suffix is the format, such as `.csv` or `.npz`."""
        accept = {"Accept": media_type_of(Path(path))}
        return self._session.download(calls.get(self._path("content"), headers=accept), path)

    def update(self, **changes: str | Mapping[str, str | None] | None) -> Dataset:
        """Change `name` and `tags`; other members stay, None removes."""
        self.data = self._session.json(calls.send_json("PATCH", self._path(), changes))
        return self

    def delete(self) -> None:
        """Delete it; refused while a job needs it. Its models are kept."""
        self._session.send(calls.delete(self._path()))

    def _path(self, *parts: str) -> str:
        return calls.path_of("v1", "datasets", self.id, *parts)


def upload_call(
    path: str,
    data: Any,
    labels: Any,
    columns: Sequence[str] | None,
    media_type: str | None,
    options: Mapping[str, Any],
    weights: Any = None,
) -> Call:
    """The request of an upload. Raises ValueError for data that no format supports."""
    if isinstance(options.get("schema"), Mapping):
        options = {**options, "schema": json.dumps(options["schema"])}
    if isinstance(options.get("missing"), (list, tuple)):
        options = {**options, "missing": ",".join(options["missing"])}
    body = upload_body(data, labels, columns, media_type, weights, options)
    params = {**body.params, **options}
    if "schema" in body.params:  # with that of the options
        params["schema"] = body.params["schema"]
    call = calls.create(path, body.content, body.media_type, params)
    return replace(call, headers={**call.headers, **body.headers})
