# Generated from the module of this name in `asynchronous` by `make client`.
"""Models of the service: versions, aliases, predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, overload

from service.client import calls
from service.client.calls import Call
from service.client.errors import NotFound
from service.client.fields import ModelFields, ModelVersionFields, Resource
from service.client.rows import NPY, Array, OneOutput, Outputs, predict_body, read_array
from service.client.synchronous.session import Session

EXPORTS = ("onnx", "npz", "json")


class Predictor(Resource):
    """A model, or one of its versions."""

    _session: Session

    @overload
    def predict(self, rows: Any, outputs: OneOutput = "label") -> Array: ...

    @overload
    def predict(self, rows: Any, outputs: Outputs) -> dict[str, Any]: ...

    @overload
    def predict(self, rows: Any, outputs: str) -> Array | dict[str, Any]: ...

    def predict(self, rows: Any, outputs: str | Outputs = "label") -> Array | dict[str, Any]:
        """Like `Client.predict`; of a model with the alias `default` if it is set, else the latest
        version."""
        return predict(self._session, self._reference(), rows, outputs)


class ModelVersion(ModelVersionFields, Predictor):
    """A version of a model; it never changes."""

    def download(self, path: str | Path) -> Path:
        """Save the model's file, a joblib dump of plain arrays."""
        return self._session.download(calls.get(self._path("artifact")), path)

    def export(self, path: str | Path) -> Path:
        """Export it as `.onnx`, `.npz` or `.json`, or save its own file as `.joblib`."""
        suffix = Path(path).suffix.lower().removeprefix(".")
        if suffix == "joblib":
            return self.download(path)
        if suffix not in EXPORTS:
            raise ValueError(f"{path}: not one of .onnx, .npz, .json, .joblib")
        return self._session.download(calls.get(self._path("export"), format=suffix), path)

    def card(self) -> str:
        """Its card, as Markdown."""
        call = calls.get(self._path("card"), headers={"Accept": "text/markdown"})
        reply = self._session.send(call)
        return reply.text

    def plot(self, kind: str, path: str | Path) -> Path:
        """Save a plot as SVG: `boundary`, `cost-by-update`, `confusion`, `roc`, …"""
        return self._session.download(calls.get(self._path("plots", f"{kind}.svg")), path)

    def delete(self) -> None:
        """Delete it; refused while an alias points to it."""
        self._session.send(calls.delete(self._path()))

    def _path(self, *parts: str) -> str:
        return calls.path_of("v1", "models", self.name, "versions", self.version, *parts)


class Model(ModelFields, Predictor):
    """A name with its versions and aliases."""

    def versions(self) -> Iterator[ModelVersion]:
        """All versions, newest first."""
        for data in self._session.pages(calls.get(self._path("versions")), "versions"):
            yield ModelVersion(self._session, data)

    def version(self, number: int) -> ModelVersion:
        data = self._session.json(calls.get(self._path("versions", number)))
        return ModelVersion(self._session, data)

    def set_alias(self, alias: str, version: int) -> None:
        """Create the alias, or move it to the version.

        Raises Conflict if another caller moves it at the same time.
        """
        path, headers = self._path("aliases", alias), self._precondition(alias)
        self._session.send(calls.send_json("PUT", path, {"version": version}, headers))
        self.refresh()

    def remove_alias(self, alias: str) -> None:
        """Remove the alias; its version is kept."""
        headers = self._precondition(alias)
        self._session.send(calls.delete(self._path("aliases", alias), headers=headers))
        self.refresh()

    def refresh(self) -> Model:
        """Read its current state."""
        self.data = self._session.json(calls.get(self._path()))
        return self

    def delete(self, *, force: bool = False) -> None:
        """Delete all versions; refused if there are aliases, unless `force`."""
        self._session.send(calls.delete(self._path(), force=force or None))

    def _precondition(self, alias: str) -> dict[str, str]:
        try:
            reply = self._session.send(calls.get(self._path("aliases", alias)))
        except NotFound:
            return {"If-None-Match": "*"}
        return {"If-Match": reply.headers["etag"]}

    def _path(self, *parts: object) -> str:
        return calls.path_of("v1", "models", self.name, *parts)


def predict(
    session: Session, model: str, rows: Any, outputs: str | Outputs
) -> Array | dict[str, Any]:
    """One output as an array, sent in binary; several as a dict from JSON."""
    body = predict_body(rows)
    single = isinstance(outputs, str) and outputs != "explanation"
    names = outputs if isinstance(outputs, str) else ",".join(outputs)
    call = Call(
        method="POST",
        path=f"{calls.model_path(model)}/predict",
        params={"outputs": None if names == "label" else names},
        headers={
            "Content-Type": body.media_type,
            "Accept": NPY if single else calls.JSON,
            **body.headers,
        },
        content=body.content,
    )
    reply = session.send(call)
    return read_array(reply.content) if single else dict(reply.json())
