"""The model registry: numbered versions, their files, and aliases that point to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from service.errors import Conflict, InvalidContent, NotFound
from service.models import versions as rows
from service.models.files import ModelFiles, PreparedVersion, same
from service.models.versions import Model
from service.storage.blobs import Blobs
from service.storage.database import Database, note_change, now
from service.storage.database.audit import record
from service.storage.database.pages import Page, PageRequest, in_order, named_like
from service.storage.database.tables import (
    Alias,
    ModelOrigin,
    ModelVersion,
    model_files,
    model_versions,
    models,
)

JobWithModel = Callable[[sa.Connection, str, int | None], str | None]
"""Gives the id of a job that still needs the version, or (None) any version, of this model."""

_COUNT = sa.select(sa.func.count()).select_from(model_versions)
_SOME = sa.select(model_versions.c.version).limit(1)
_INSERT = model_versions.insert().values(created_at=now())
BATCHES = {"yield_per": 1000}
"""Rows that are read at once, to read all of them."""


def _anything(_: object) -> None:
    """A precondition that always holds."""


class ModelRegistry:
    """Models, versions and aliases in the database, with their files in the blob store."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        job_with_model: JobWithModel = lambda connection, name, version: None,
    ) -> None:
        """`job_with_model` gives a job that needs a model or version, which is then not deleted."""
        self._database = database
        self._job_with_model = job_with_model
        self.files = ModelFiles(database, blobs)

    def register(
        self,
        connection: sa.Connection,
        name: str,
        prepared: PreparedVersion,
        origin: ModelOrigin,
        set_alias: str | None = None,
    ) -> int:
        """Insert the next version inside the caller's transaction and return its number."""
        version = rows.next_version(connection, name)
        named = {"model_name": name, "version": version}
        row = {**vars(prepared.model), **vars(origin), **named}
        row["result"] = {**origin.result, **prepared.facts}
        connection.execute(_INSERT, row)
        if prepared.contents:
            contents = [{**named, "name": n, "content": c} for n, c in prepared.contents.items()]
            connection.execute(model_files.insert(), contents)
        made_by = {"job": origin.job_id}
        if origin.imported is not None:
            made_by = {"imported": origin.imported.get("format")}
        record(connection, "version.create", f"models/{name}/versions/{version}", **made_by)
        if set_alias is not None:
            rows.point_alias(connection, name, set_alias, version)
        note_change(connection, name)
        return version

    def add_imported(
        self,
        prepared: PreparedVersion,
        name: str,
        imported: dict[str, Any],
        also: Callable[[sa.Connection, ModelVersion], None] | None = None,
    ) -> ModelVersion:
        """Store an imported model as the next version; `also` runs in the same transaction."""
        reading = imported.get("origin", {}).get("reading")
        result = {} if reading is None else {"reading": reading}
        origin = ModelOrigin(spec={}, result=result, imported=imported)
        with self._database.write() as connection:
            number = self.register(connection, name, prepared, origin)
            version = rows.find_version(connection, name, number)
            if also is not None:
                also(connection, version)
        return version

    def get(self, name: str) -> Model:
        """Raises NotFound."""
        with self._database.read() as connection:
            return rows.find_model(connection, name)

    def page(self, page: PageRequest, name: str | None = None) -> Page[Model]:
        """Models newest first, or as the page says, also by `name`; with `name` only the newest of
        which it is a part of the name."""
        key: tuple[sa.Column[Any], ...] = models.c.number, models.c.name
        if page.by == "name":
            key = (models.c.name,)
        with self._database.read() as connection:
            statement = rows.MODELS.where(models.c.deleted_at.is_(None))
            if name is not None:
                statement = statement.where(named_like(models.c.name, models.c.number, name))
            some = in_order(connection, statement, key, page, lambda row: row._mapping)
            return Page(tuple(rows.with_aliases(connection, some.items)), some.next)

    def count_versions(self) -> int:
        with self._database.read() as connection:
            return connection.execute(_COUNT).scalar_one()

    def has_version(self, *, compiled: bool = False) -> bool:
        """Whether there is one; `compiled`: one whose rows compiled loops score."""
        some = _SOME.where(model_versions.c.result["compiled"].as_boolean()) if compiled else _SOME
        with self._database.read() as connection:
            return connection.execute(some).first() is not None

    def get_version(self, name: str, reference: int | str | None = None) -> ModelVersion:
        """By number, by alias, or (None) the alias `default` if it is set, else the latest version.

        Raises NotFound.
        """
        with self._database.read() as connection:
            return rows.find_version(connection, name, reference)

    def find_all(
        self, references: Iterable[tuple[str, int | str | None]]
    ) -> list[ModelVersion | NotFound]:
        """For each name and reference what `get_version` returns or raises."""
        results: list[ModelVersion | NotFound] = []
        with self._database.read() as connection:
            for name, reference in references:
                try:
                    results.append(rows.find_version(connection, name, reference))
                except NotFound as error:
                    results.append(error)
        return results

    def find(self, reference: str) -> ModelVersion:
        """The version of `name`, `name/number` or `name/alias`. Raises NotFound."""
        name, _, version = reference.partition("/")
        return self.get_version(name, int(version) if version.isdigit() else version or None)

    def versions(self, name: str, page: PageRequest) -> Page[ModelVersion]:
        """Raises NotFound."""
        with self._database.read() as connection:
            rows.find_model(connection, name)
            statement = sa.select(model_versions).where(model_versions.c.model_name == name)
            key = (model_versions.c.version,)
            return in_order(
                connection, statement, key, page, lambda row: ModelVersion(**row._mapping)
            )

    def version_numbers(self, name: str) -> list[int]:
        """The numbers of all versions of a model, ascending."""
        statement = sa.select(model_versions.c.version).where(model_versions.c.model_name == name)
        with self._database.read() as connection:
            return sorted(connection.scalars(statement))

    def index(self) -> Iterator[Sequence[sa.Row[Any]]]:
        """`model_name`, `version` and `sound` (not quarantined) of all versions, in that order, in
        batches."""
        name, version = model_versions.c.model_name, model_versions.c.version
        sound = model_versions.c.quarantined_at.is_(None).label("sound")
        statement = sa.select(name, version, sound)
        with self._database.read() as connection:
            # The order of code points, which is SQLite's own.
            by_name = name.collate("C") if connection.dialect.name == "postgresql" else name
            statement = statement.order_by(by_name, version)
            yield from connection.execute(statement, execution_options=BATCHES).partitions()

    def delete(
        self, name: str, force: bool = False, check: Callable[[Model], None] = _anything
    ) -> None:
        """Delete the model with all its versions; a new model of this name continues its numbers.

        `check` gets the current model and raises to refuse.
        Raises NotFound, and Conflict `resource-in-use` if a job needs a version or, without
        `force`, if there are aliases.
        """
        with self._write(name) as connection:
            model = rows.find_model(connection, name)
            check(model)
            if model.aliases and not force:
                raise _in_use(model.aliases, f"{name}; remove them first, or force the deletion")
            self._require_unneeded(connection, name, None)
            rows.remove_aliases(connection, name)
            files = connection.execute(
                model_versions.delete()
                .where(model_versions.c.model_name == name)
                .returning(model_versions.c.artifact_key, model_versions.c.warm_start_key)
            ).all()
            connection.execute(
                models.update().where(models.c.name == name).values(deleted_at=now())
            )
            record(connection, "model.delete", f"models/{name}", versions=len(files))
        self.files.delete(*(key for keys in files for key in keys))

    def delete_version(
        self, name: str, version: int, check: Callable[[ModelVersion], None] = _anything
    ) -> None:
        """Delete one version; `check` gets the current version and raises to refuse.

        Raises NotFound, and Conflict `resource-in-use` if an alias points to it or a job needs it.
        """
        with self._write(name) as connection:
            deleted = rows.find_version(connection, name, version)
            check(deleted)
            aliases = rows.aliases_of(connection, [name])
            pointing = [one.alias for one in aliases if one.version == version]
            if pointing:
                raise _in_use(pointing, f"{name} version {version}; move or remove them first")
            self._require_unneeded(connection, name, version)
            connection.execute(model_versions.delete().where(same(deleted)))
            record(connection, "version.delete", f"models/{name}/versions/{version}")
        self.files.delete(deleted.artifact_key, deleted.warm_start_key)

    def aliases(self, name: str) -> list[Alias]:
        """All aliases but `latest`, by name. Raises NotFound."""
        with self._database.read() as connection:
            rows.find_model(connection, name)
            return rows.aliases_of(connection, [name])

    def alias(self, name: str, alias: str) -> Alias:
        """An alias, or `latest`. Raises NotFound."""
        with self._database.read() as connection:
            if alias == rows.LATEST:
                latest = rows.find_version(connection, name, rows.LATEST)
                return Alias(name, alias, latest.version, latest.version, latest.created_at)
            row = rows.find_alias(connection, name, alias)
        if row is None:
            raise rows.no_alias(name, alias)
        return row

    def set_alias(
        self,
        name: str,
        alias: str,
        version: int,
        check: Callable[[Alias | None], None] = _anything,
    ) -> Alias:
        """Create or move an alias; `check` gets the current alias and raises to refuse.

        Raises NotFound, InvalidContent if there is no such version, and Conflict if its file is
        damaged.
        """
        with self._write(name) as connection:
            rows.find_model(connection, name)
            check(rows.find_alias(connection, name, alias))
            try:
                target = rows.find_version(connection, name, version)
            except NotFound as error:
                raise InvalidContent.at("/version", "invalid-field", error.detail) from None
            if target.quarantined_at is not None:
                detail = f"the file of {name} version {version} is damaged; choose another version"
                raise Conflict("invalid-state", detail)
            return rows.point_alias(connection, name, alias, version)

    def remove_alias(
        self, name: str, alias: str, check: Callable[[Alias], None] = _anything
    ) -> None:
        """Remove an alias; `check` gets the current alias and raises to refuse. Raises NotFound."""
        with self._write(name) as connection:
            current = rows.find_alias(connection, name, alias)
            if current is None:
                raise rows.no_alias(name, alias)
            check(current)
            rows.remove_aliases(connection, name, alias)

    def _require_unneeded(self, connection: sa.Connection, name: str, version: int | None) -> None:
        """Raises Conflict."""
        job_id = self._job_with_model(connection, name, version)
        if job_id is not None:
            detail = f"{job_id} needs this model; wait for its end or cancel it"
            raise Conflict("resource-in-use", detail)

    @contextmanager
    def _write(self, name: str) -> Iterator[sa.Connection]:
        """A transaction that changes this model; others wait."""
        with self._database.write(makes_room=True) as connection:
            rows.lock_model(connection, name)
            yield connection
            note_change(connection, name)


def _in_use(aliases: Mapping[str, int] | list[str], what: str) -> Conflict:
    verb = "points" if len(aliases) == 1 else "point"
    return Conflict("resource-in-use", f"{', '.join(sorted(aliases))} {verb} to {what}")
