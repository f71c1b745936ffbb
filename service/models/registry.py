"""What is kept of trained models: numbered versions, their files, and aliases that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import sqlalchemy as sa

from service.datasets.store import ACTIVE
from service.errors import Conflict, Fault, InvalidContent, NotFound
from service.models import aliases as alias_rows
from service.models.aliases import LATEST, Alias
from service.models.files import ModelFiles, PreparedVersion, same
from service.models.versions import (
    MODELS,
    Model,
    ModelVersion,
    alone_with,
    find_model,
    find_version,
    find_versions,
    next_version,
    no_alias,
    with_aliases,
)
from service.storage.blobs import Blobs
from service.storage.database import Database, note_change, now
from service.storage.database.pages import Page, PageRequest, newest_first
from service.storage.database.tables import jobs, model_versions, models

BEGINS_AT = "warm_start_from"
"""In the spec of a training, the version that it begins at: `name/number`."""
APPLIES = "model"
"""In the spec of another job, the version that it puts rows through: `name` and `version`."""

BATCHES = {"yield_per": 1000}
"""Rows that are read at once where all are read."""


class TrainingData(Protocol):
    """What a version says of the dataset that it was trained on."""

    @property
    def id(self) -> str: ...
    @property
    def matrix_digest(self) -> str: ...


def _anything(_: object) -> None:
    """A precondition that always holds."""


class ModelRegistry:
    """Models, versions and aliases in the database, their files among the blobs."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self.files = ModelFiles(database, blobs)

    def register(
        self,
        connection: sa.Connection,
        prepared: PreparedVersion,
        *,
        model_name: str,
        job_id: str | None = None,
        dataset: TrainingData | None = None,
        spec: dict[str, Any],
        seed: int | None = None,
        result: dict[str, Any],
        n_support_vectors: int | None = None,
        set_alias: str | None = None,
        imported: dict[str, Any] | None = None,
    ) -> int:
        """Insert the next version inside the caller's transaction and return its number."""
        version = next_version(connection, model_name)
        row = model_versions.insert().values(
            model_name=model_name,
            version=version,
            created_at=now(),
            digest=prepared.digest,
            artifact_key=prepared.blob.key,
            artifact_sha256=prepared.blob.sha256,
            size_bytes=prepared.blob.size_bytes,
            warm_start_key=prepared.warm_start and prepared.warm_start.key,
            warm_start_sha256=prepared.warm_start and prepared.warm_start.sha256,
            classes=prepared.classes,
            columns=prepared.columns,
            n_features=prepared.n_features,
            n_support_vectors=n_support_vectors,
            calibration=prepared.calibration,
            job_id=job_id,
            dataset_id=None if dataset is None else dataset.id,
            dataset_digest=None if dataset is None else dataset.matrix_digest,
            spec=spec,
            seed=seed,
            result=result,
            imported=sa.null() if imported is None else imported,
        )
        connection.execute(row)
        if set_alias is not None:
            alias_rows.point(connection, model_name, set_alias, version)
        note_change(connection, model_name)
        return version

    def add_imported(
        self,
        prepared: PreparedVersion,
        name: str,
        imported: dict[str, Any],
        also: Callable[[sa.Connection, ModelVersion], None] | None = None,
    ) -> ModelVersion:
        """Keep a model that was trained elsewhere as the next version; `also` is done in the same
        transaction."""
        with self._database.write() as connection:
            number = self.register(
                connection, prepared, model_name=name, spec={}, result={}, imported=imported
            )
            version = find_version(connection, name, number)
            if also is not None:
                also(connection, version)
        return version

    def get(self, name: str) -> Model:
        """Raises NotFound."""
        with self._database.read() as connection:
            return find_model(connection, name)

    def page(self, page: PageRequest) -> Page[Model]:
        with self._database.read() as connection:
            statement = MODELS.where(models.c.deleted_at.is_(None))
            found = newest_first(
                connection,
                statement,
                models.c.created_at,
                models.c.name,
                page,
                lambda row: row._mapping,
            )
            return Page(tuple(with_aliases(connection, found.items)), found.next)

    def get_version(self, name: str, reference: int | str | None = None) -> ModelVersion:
        """The version with this number, or that this alias names, or that answers for the model:
        the alias `default` where it is set, else the latest. Raises NotFound."""
        with self._database.read() as connection:
            return find_version(connection, name, reference)

    def find_all(
        self, references: Iterable[tuple[str, int | str | None]]
    ) -> list[ModelVersion | NotFound]:
        """For each name and reference what `get_version` returns or raises."""
        with self._database.read() as connection:
            return find_versions(connection, references)

    def find(self, reference: str) -> ModelVersion:
        """The version that `name`, `name/number` or `name/alias` means now. Raises NotFound."""
        name, _, which = reference.partition("/")
        return self.get_version(name, int(which) if which.isdigit() else which or None)

    def versions(self, name: str, page: PageRequest) -> Page[ModelVersion]:
        """Raises NotFound."""
        with self._database.read() as connection:
            find_model(connection, name)
            return newest_first(
                connection,
                sa.select(model_versions).where(model_versions.c.model_name == name),
                model_versions.c.created_at,
                model_versions.c.version,
                page,
                lambda row: ModelVersion(**row._mapping),
            )

    def version_numbers(self, name: str) -> list[int]:
        """Of all versions of a model, ascending."""
        statement = sa.select(model_versions.c.version).where(model_versions.c.model_name == name)
        with self._database.read() as connection:
            return sorted(connection.scalars(statement))

    def index(self) -> Iterator[Sequence[sa.Row[Any]]]:
        """`model_name`, `version` and whether the file is `sound`, of all there are, by name and
        number, in batches."""
        name, version = model_versions.c.model_name, model_versions.c.version
        sound = model_versions.c.quarantined_at.is_(None).label("sound")
        statement = sa.select(name, version, sound)
        with self._database.read() as connection:
            # SQLite's own order is that of the code points.
            by_name = name.collate("C") if connection.dialect.name == "postgresql" else name
            statement = statement.order_by(by_name, version)
            yield from connection.execute(statement, execution_options=BATCHES).partitions()

    def delete(
        self, name: str, force: bool = False, check: Callable[[Model], None] = _anything
    ) -> None:
        """Delete the model with all its versions. Should it come back, its numbers go on.

        `check` sees its present state and raises to refuse.
        Raises NotFound, and Conflict `resource-in-use` while a job needs a version, or while it has
        aliases, unless `force`.
        """
        with self._write(name) as connection:
            model = find_model(connection, name)
            check(model)
            if model.aliases and not force:
                raise _in_use(model.aliases, f"{name}; remove them, or delete with force=true")
            _require_unneeded(connection, name)
            alias_rows.remove(connection, name)
            files = connection.execute(
                model_versions.delete()
                .where(model_versions.c.model_name == name)
                .returning(model_versions.c.artifact_key, model_versions.c.warm_start_key)
            ).all()
            connection.execute(
                models.update().where(models.c.name == name).values(deleted_at=now())
            )
        self.files.delete(*(key for keys in files for key in keys))

    def delete_version(
        self, name: str, version: int, check: Callable[[ModelVersion], None] = _anything
    ) -> None:
        """Delete one version; `check` sees its present state and raises to refuse.

        Raises NotFound, and Conflict `resource-in-use` while an alias points to it, or a job needs
        it.
        """
        with self._write(name) as connection:
            found = find_version(connection, name, version)
            check(found)
            pointing = alias_rows.to_version(connection, name, version)
            if pointing:
                raise _in_use(pointing, f"{name} version {version}; move or remove them first")
            _require_unneeded(connection, name, version)
            connection.execute(model_versions.delete().where(same(found)))
        self.files.delete(found.artifact_key, found.warm_start_key)

    def aliases(self, name: str) -> list[Alias]:
        """By name, `latest` not among them. Raises NotFound."""
        with self._database.read() as connection:
            find_model(connection, name)
            return alias_rows.of_models(connection, [name])

    def alias(self, name: str, alias: str) -> Alias:
        """What an alias points to, `latest` too. Raises NotFound."""
        with self._database.read() as connection:
            if alias == LATEST:
                latest = find_version(connection, name, LATEST)
                return Alias(name, alias, latest.version, latest.version, latest.created_at)
            found = alias_rows.find(connection, name, alias)
        if found is None:
            raise no_alias(name, alias)
        return found

    def set_alias(
        self, name: str, alias: str, version: int, check: Callable[[Alias | None], None]
    ) -> Alias:
        """Let an alias point to a version; `check` sees its present state and raises to refuse.

        Raises NotFound, InvalidContent where there is no such version, and Conflict where its
        file is damaged.
        """
        with self._write(name) as connection:
            find_model(connection, name)
            check(alias_rows.find(connection, name, alias))
            try:
                target = find_version(connection, name, version)
            except NotFound as error:
                fault = Fault(code="invalid-field", pointer="/version", message=error.detail)
                raise InvalidContent("invalid-field", error.detail, (fault,)) from None
            if target.quarantined_at is not None:
                detail = f"the file of {name} version {version} is damaged; choose another version"
                raise Conflict("invalid-state", detail)
            return alias_rows.point(connection, name, alias, version)

    def remove_alias(self, name: str, alias: str, check: Callable[[Alias], None]) -> None:
        """Remove an alias; `check` sees its present state and raises to refuse. Raises NotFound."""
        with self._write(name) as connection:
            found = alias_rows.find(connection, name, alias)
            if found is None:
                raise no_alias(name, alias)
            check(found)
            alias_rows.remove(connection, name, alias)

    @contextmanager
    def _write(self, name: str) -> Iterator[sa.Connection]:
        """A transaction that changes this model, which no other one changes meanwhile."""
        with self._database.write(makes_room=True) as connection:
            alone_with(connection, name)
            yield connection
            note_change(connection, name)


def _require_unneeded(connection: sa.Connection, name: str, version: int | None = None) -> None:
    """That no job needs the version, or (None) any version of the model. Raises Conflict."""
    begins, applied = jobs.c.spec[BEGINS_AT].as_string(), jobs.c.spec[APPLIES]
    needs = applied["name"].as_string() == name
    if version is None:
        needs |= begins.like(f"{name}/%")
    else:
        needs = (needs & (applied["version"].as_integer() == version)) | (
            begins == f"{name}/{version}"
        )
    job_id = connection.scalar(sa.select(jobs.c.id).where(needs, jobs.c.state.in_(ACTIVE)).limit(1))
    if job_id is not None:
        detail = f"{job_id} needs this model; wait for its end or cancel it"
        raise Conflict("resource-in-use", detail)


def _in_use(aliases: Mapping[str, int] | list[str], what: str) -> Conflict:
    return Conflict("resource-in-use", f"{', '.join(sorted(aliases))} point to {what}")
