"""Models of the service: versions, aliases, predictions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, overload

from service.client import calls
from service.client.asynchronous.session import AsyncSession
from service.client.calls import Call
from service.client.errors import NotFound
from service.client.fields import ModelFields, ModelVersionFields, Resource
from service.client.rows import NPY, Array, OneOutput, Outputs, predict_body, read_array

EXPORTS = ("onnx", "npz", "json")


class AsyncPredictor(Resource):
    """A model, or one of its versions."""

    _session: AsyncSession

    @overload
    async def predict(self, rows: Any, outputs: OneOutput = "label") -> Array: ...

    @overload
    async def predict(self, rows: Any, outputs: Outputs) -> dict[str, Any]: ...

    @overload
    async def predict(self, rows: Any, outputs: str) -> Array | dict[str, Any]: ...

    async def predict(self, rows: Any, outputs: str | Outputs = "label") -> Array | dict[str, Any]:
        """Like `Client.predict`; of a model with the alias `default` if it is set, else the latest
        version."""
        return await predict(self._session, self._reference(), rows, outputs)


class AsyncModelVersion(ModelVersionFields, AsyncPredictor):
    """A version of a model; it never changes."""

    async def download(self, path: str | Path) -> Path:
        """Save the model's file, a joblib dump of plain arrays."""
        return await self._session.download(calls.get(self._path("artifact")), path)

    async def export(self, path: str | Path) -> Path:
        """Export it as `.onnx`, `.npz` or `.json`, or save its own file as `.joblib`."""
        suffix = Path(path).suffix.lower().removeprefix(".")
        if suffix == "joblib":
            return await self.download(path)
        if suffix not in EXPORTS:
            raise ValueError(f"{path}: not one of .onnx, .npz, .json, .joblib")
        return await self._session.download(calls.get(self._path("export"), format=suffix), path)

    async def card(self) -> str:
        """Its card, as Markdown."""
        call = calls.get(self._path("card"), headers={"Accept": "text/markdown"})
        reply = await self._session.send(call)
        return reply.text

    async def plot(self, kind: str, path: str | Path) -> Path:
        """Save a plot as SVG: `boundary`, `cost-by-update`, `confusion`, `roc`, …"""
        return await self._session.download(calls.get(self._path("plots", f"{kind}.svg")), path)

    async def delete(self) -> None:
        """Delete it; refused while an alias points to it."""
        await self._session.send(calls.delete(self._path()))

    def _path(self, *parts: str) -> str:
        return calls.path_of("v1", "models", self.name, "versions", self.version, *parts)


class AsyncModel(ModelFields, AsyncPredictor):
    """A name with its versions and aliases."""

    async def versions(self) -> AsyncIterator[AsyncModelVersion]:
        """All versions, newest first."""
        async for data in self._session.pages(calls.get(self._path("versions")), "versions"):
            yield AsyncModelVersion(self._session, data)

    async def version(self, number: int) -> AsyncModelVersion:
        data = await self._session.json(calls.get(self._path("versions", number)))
        return AsyncModelVersion(self._session, data)

    async def set_alias(self, alias: str, version: int) -> None:
        """Create the alias, or move it to the version.

        Raises Conflict if another caller moves it at the same time.
        """
        path, headers = self._path("aliases", alias), await self._precondition(alias)
        await self._session.send(calls.send_json("PUT", path, {"version": version}, headers))
        await self.refresh()

    async def remove_alias(self, alias: str) -> None:
        """Remove the alias; its version is kept."""
        headers = await self._precondition(alias)
        await self._session.send(calls.delete(self._path("aliases", alias), headers=headers))
        await self.refresh()

    async def refresh(self) -> AsyncModel:
        """Read its current state."""
        self.data = await self._session.json(calls.get(self._path()))
        return self

    async def delete(self, *, force: bool = False) -> None:
        """Delete all versions; refused if there are aliases, unless `force`."""
        await self._session.send(calls.delete(self._path(), force=force or None))

    async def _precondition(self, alias: str) -> dict[str, str]:
        try:
            reply = await self._session.send(calls.get(self._path("aliases", alias)))
        except NotFound:
            return {"If-None-Match": "*"}
        return {"If-Match": reply.headers["etag"]}

    def _path(self, *parts: object) -> str:
        return calls.path_of("v1", "models", self.name, *parts)


async def predict(
    session: AsyncSession, model: str, rows: Any, outputs: str | Outputs
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
    reply = await session.send(call)
    return read_array(reply.content) if single else dict(reply.json())
