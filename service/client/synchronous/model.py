# Made of the module of this name in `asynchronous` by `make client`: change that one.
"""Models that the service keeps: versions, aliases, predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from service.client import calls
from service.client.calls import Call
from service.client.errors import NotFound
from service.client.fields import ModelFields, ModelVersionFields
from service.client.rows import NPY, predict_body, read_array
from service.client.synchronous.session import Session

EXPORTS = ("onnx", "npz", "json")


class ModelVersion(ModelVersionFields):
    """A trained model; it never changes."""

    def __init__(self, session: Session, data: dict[str, Any]) -> None:
        self._session = session
        self.data = data

    @overload
    def predict(self, rows: Any, outputs: str = "label") -> Any: ...

    @overload
    def predict(self, rows: Any, outputs: Sequence[str]) -> dict[str, Any]: ...

    def predict(self, rows: Any, outputs: str | Sequence[str] = "label") -> Any:
        """As `Client.predict`."""
        return predict(self._session, f"{self.name}/{self.version}", rows, outputs)

    def download(self, path: str | Path) -> Path:
        """Save the model's own file, a joblib dump of plain arrays."""
        return self._session.download(calls.get(self._path("artifact")), path)

    def export(self, path: str | Path) -> Path:
        """Save it for other programs, as `.onnx`, `.npz` or `.json`; or its own file, `.joblib`."""
        ending = Path(path).suffix.lower().removeprefix(".")
        if ending == "joblib":
            return self.download(path)
        if ending not in EXPORTS:
            raise ValueError(f"{path}: not one of .onnx, .npz, .json, .joblib")
        return self._session.download(calls.get(self._path("export"), format=ending), path)

    def card(self) -> str:
        """Its records in plain sentences, as Markdown."""
        call = calls.get(self._path("card"), headers={"Accept": "text/markdown"})
        reply = self._session.send(call)
        return reply.text

    def plot(self, kind: str, path: str | Path) -> Path:
        """Save a picture as SVG: `boundary`, `learning-curve`, `confusion`, `roc`, …"""
        return self._session.download(calls.get(self._path("plots", f"{kind}.svg")), path)

    def delete(self) -> None:
        """Refused while an alias points to it."""
        self._session.send(calls.delete(self._path()))

    def _path(self, *parts: str) -> str:
        return calls.below("v1", "models", self.name, "versions", self.version, *parts)


class Model(ModelFields):
    """A name with its versions and aliases."""

    def __init__(self, session: Session, data: dict[str, Any]) -> None:
        self._session = session
        self.data = data

    @overload
    def predict(self, rows: Any, outputs: str = "label") -> Any: ...

    @overload
    def predict(self, rows: Any, outputs: Sequence[str]) -> dict[str, Any]: ...

    def predict(self, rows: Any, outputs: str | Sequence[str] = "label") -> Any:
        """As `Client.predict`: the alias `default` answers where it is set, else the latest."""
        return predict(self._session, self.name, rows, outputs)

    def versions(self) -> Iterator[ModelVersion]:
        """All of them, newest first."""
        for data in self._session.pages(calls.get(self._path("versions")), "versions"):
            yield ModelVersion(self._session, data)

    def version(self, number: int) -> ModelVersion:
        data = self._session.json(calls.get(self._path("versions", number)))
        return ModelVersion(self._session, data)

    def set_alias(self, alias: str, version: int) -> None:
        """Point the alias to a version, whether it is there already or not.

        Raises Conflict where somebody else moves it at the same time.
        """
        self._session.send(
            calls.send_json(
                "PUT", self._path("aliases", alias), {"version": version}, self._tag(alias)
            )
        )
        self.refresh()

    def remove_alias(self, alias: str) -> None:
        """The version it points to stays."""
        tag = self._tag(alias)
        self._session.send(calls.delete(self._path("aliases", alias), headers=tag))
        self.refresh()

    def refresh(self) -> Model:
        """What the service says of it now."""
        self.data = self._session.json(calls.get(self._path()))
        return self

    def delete(self, *, force: bool = False) -> None:
        """Delete all versions; refused while aliases exist, unless forced."""
        self._session.send(calls.delete(self._path(), force=force or None))

    def _tag(self, alias: str) -> dict[str, str]:
        try:
            reply = self._session.send(calls.get(self._path("aliases", alias)))
        except NotFound:
            return {"If-None-Match": "*"}
        return {"If-Match": reply.headers["etag"]}

    def _path(self, *parts: object) -> str:
        return calls.below("v1", "models", self.name, *parts)


def predict(session: Session, model: str, rows: Any, outputs: str | Sequence[str]) -> Any:
    """One output as an array, in binary; several as the service's JSON has them."""
    body = predict_body(rows)
    single = isinstance(outputs, str) and outputs != "explanation"
    names = outputs if isinstance(outputs, str) else ",".join(outputs)
    call = Call(
        method="POST",
        path=f"{calls.model_path(model)}/predict",
        params={"outputs": None if names == "label" else names},
        headers={"Content-Type": body.media_type, "Accept": NPY if single else calls.JSON},
        content=body.content,
    )
    reply = session.send(call)
    return read_array(reply.content) if single else reply.json()
