"""Models kept ready to predict, the least recently used one dropped when memory is short."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import orjson
from anyio import CapacityLimiter, to_thread

from service.common.malloc import return_free_memory
from service.errors import Unavailable
from service.models.outputs import Offer, offer_of
from service.models.registry import ModelRegistry
from service.predictions.datatypes import datatype_of, to_bytes
from service.predictions.unknown_cells import Unknown, UnknownCells
from service.rows.cell_texts.reading import USUAL, Reading
from service.rows.columns import Columns
from service.rows.spec import CellsAgain
from service.storage.database import Database
from service.storage.database.signals import ANY
from service.storage.database.tables import Label, ModelVersion
from svm.data.matrices import Matrix, is_sparse
from svm.data.texts import texts_of
from svm.encoding.encoder import Encoder
from svm.model.paths import path_work
from svm.model.pipeline import FittedPipeline

MAX_KNOWN = 10_000
"""References whose meaning is remembered."""
MAX_AT_ONCE = 100
"""References of one look-up."""
WORK_PER_TEXT = 10_000
WORK_PER_CHARACTER = 300
"""Finding the tokens of a text."""
COUNTED_ROWS = 1000
"""This many texts are long work, however short they are."""
WORK_OF_PATH = 300_000
"""Of the calls for one row, however few vectors a model has."""
WORK_OF_EXPLAINED_TEXT = 10_000_000
"""Enough to be done in a thread always: a text may be long."""

LOADED_AT_ONCE = 2
"""A model that is being loaded takes memory beside the capacity."""
FREED_SHARE = 0.05
"""Once models of this share of the capacity have been loaded, the memory that loading them and
dropping others has left free is returned to the system: it can be as much as the models take."""
MODEL_BYTES, COLUMN_BYTES, CLASS_BYTES = 8000, 80, 400
"""Memory of the objects of a model, beside its arrays and texts, for it and each named column and
class."""

Reference = int | str | None
"""A version's number, an alias, or None for the version that answers for the model."""


@dataclass(frozen=True)
class LoadedModel:
    """A version in memory. It never changes, so requests share it."""

    key: str
    name: str
    version: int
    digest: str
    classes: list[Label]
    columns: list[str] | None
    n_features: int
    fitted: FittedPipeline
    nbytes: int
    """Memory that it takes."""
    reading: Reading = USUAL
    """How its training file was written."""
    _works: dict[tuple[str, ...], int] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def work_per_row(self) -> int:
        """About the multiplications that the decision on one row takes, but for the length of its
        texts."""
        fitted, n_problems = self.fitted, len(self.fitted.intercepts)
        n_texts = len(self.features.text_columns)
        if n_texts and fitted.kernel is None:
            return n_texts * WORK_PER_TEXT + n_problems * (10 + self.n_features)
        return fitted.nbytes // 8 + 10 * n_problems

    def work(self, X: Matrix) -> int:
        """The same of rows, with the length of their texts if they are not many."""
        work: int = X.shape[0] * self.work_per_row
        if self.features.text_columns and X.shape[0] <= COUNTED_ROWS and not is_sparse(X):
            texts = texts_of(X)
            per_character = WORK_PER_CHARACTER + len(self.fitted.intercepts)
            work += per_character * sum(map(len, texts.take(range(len(texts)))))
        return work

    @cached_property
    def offer(self) -> Offer:
        """The outputs that it offers."""
        fitted = self.fitted
        return offer_of(self.classes, fitted.calibration or fitted.conformal, fitted.rejection)

    @cached_property
    def default_outputs(self) -> tuple[str, ...]:
        """What is answered if nothing else is asked for."""
        return (next(iter(self.offer)),)

    def reply_work(self, outputs: tuple[str, ...]) -> int:
        """In the same unit, what some of the outputs take in a reply for one row."""
        work = self._works.get(outputs)
        if work is None:
            work = self._works[outputs] = sum(map(self._work_of, outputs))
        return work

    def _work_of(self, output: str) -> int:
        if output in ("label", "label_or_none"):
            return 200
        n_classes, n_problems = len(self.classes), len(self.fitted.intercepts)
        if output == "explanation" and self.features.text_columns:
            return n_problems * WORK_OF_EXPLAINED_TEXT
        if output == "explanation":
            along = path_work(self.fitted)
            along += WORK_OF_PATH if along else 0
            return n_problems * (10_000 + 200 * self.n_features) + along
        coupling = n_classes**3 if output == "probability" and n_problems > n_classes else 0
        return 1000 * max(n_classes, len(self.offer[output].columns)) + coupling

    @cached_property
    def features(self) -> Columns:
        """What the readers of rows need to know of the model."""
        encoder, refused = self.fitted.encoder, None
        if isinstance(encoder, Encoder) and encoder.encoding.unseen == "refuse":
            refused = dict(_untrained(encoder))
        return Columns(
            self.n_features,
            self.columns,
            encoder.columns,
            refuses_missing=encoder.refuses_missing,
            refused=refused,
            reading=self.reading,
        )

    @cached_property
    def unknown(self) -> Unknown | None:
        """What finds unknown cells; None for rows of plain numbers."""
        encoder = self.fitted.encoder
        return Unknown(encoder, self.features) if isinstance(encoder, Encoder) else None

    def mark(
        self, given: Matrix, again: CellsAgain | None = None
    ) -> tuple[Matrix, UnknownCells | None]:
        """Rows as they are scored, and the unknown cells among them; `again` reads their texts."""
        X = self.features.marked(given)
        if self.unknown is None:
            return X, None
        return X, self.unknown.find(X, again or partial(iter, given))

    @cached_property
    def json_head(self) -> bytes:
        """How every JSON reply begins."""
        answering = {"name": self.name, "version": self.version, "digest": self.digest}
        return orjson.dumps({"model": answering, "classes": self.classes})[:-1]

    @cached_property
    def tensors_head(self) -> bytes:
        """How every JSON reply of the Open Inference Protocol begins."""
        return orjson.dumps({"model_name": self.name, "model_version": str(self.version)})[:-1]

    @cached_property
    def json_labels(self) -> list[bytes]:
        """The classes as JSON."""
        # Copied: what `dumps` returns takes 4 kB, however short it is.
        return [bytes(memoryview(orjson.dumps(label))) for label in self.classes]

    @cached_property
    def label_datatype(self) -> str:
        """The type of the classes as the Open Inference Protocol calls it."""
        return datatype_of(self.fitted.classes)

    @cached_property
    def tensor_labels(self) -> list[bytes]:
        """The classes as elements of a tensor of the Open Inference Protocol."""
        return [to_bytes(label) for label in self.fitted.classes[:, None]]


class _Meaning(NamedTuple):
    version: ModelVersion
    epoch: int


class LoadedModels:
    """Finds the version a request means and loads it once. Belongs to one event loop.

    What a reference means is remembered until its model changes, whichever process changes it: the
    first request after an alias has moved is answered by its new version (with several replicas:
    moved here; the others follow within `signals.STALE_S`). While the database is
    unavailable, nothing can move, and the remembered versions answer.
    """

    def __init__(self, database: Database, registry: ModelRegistry, capacity_bytes: int) -> None:
        self._database = database
        self._registry = registry
        self._capacity_bytes = capacity_bytes
        self._known: dict[str, dict[Reference, _Meaning]] = {}
        self._n_known = 0
        self._epoch = 0
        """Grows when any model may have changed."""
        self._away = False
        """The database did not answer the last look-up."""
        self._asked: dict[tuple[str, Reference], asyncio.Future[ModelVersion | Exception]] = {}
        """Waiting for the next look-up."""
        self._looking: asyncio.Task[None] | None = None
        self._changed_meanwhile: set[str] = set()
        """Models that changed during the present look-up."""
        self._thread, self._readers = CapacityLimiter(1), CapacityLimiter(LOADED_AT_ONCE)
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()
        self._loaded_bytes = 0
        self._read_bytes = 0
        """Of models that were loaded since free memory was returned to the system."""
        self._loading: dict[str, asyncio.Task[LoadedModel]] = {}

    def at_hand(self, name: str, reference: Reference) -> LoadedModel | None:
        """The model, if it is loaded and no look-up is needed to know that it is the one meant."""
        version = self._recall(name, reference)
        return None if version is None else self._loaded_as(version)

    async def get(self, name: str, reference: Reference) -> LoadedModel:
        """Raises NotFound, and Corrupt for a version whose file is damaged."""
        version = self._recall(name, reference) or await self._look_up(name, reference)
        loaded = self._loaded_as(version)
        if loaded is not None:
            return loaded
        loading = self._loading.get(version.artifact_key)
        if loading is None:
            loading = asyncio.create_task(self._load(version))
            self._loading[version.artifact_key] = loading
            # Looked at even if every caller has left, or asyncio complains of a lost exception.
            loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Shielded: others wait for it too, so it continues when this caller leaves.
        return await asyncio.shield(loading)

    def _loaded_as(self, version: ModelVersion) -> LoadedModel | None:
        if version.quarantined_at is not None:
            return None
        loaded = self._loaded.get(version.artifact_key)
        if loaded is not None:
            self._loaded.move_to_end(version.artifact_key)
        return loaded

    def _recall(self, name: str, reference: Reference) -> ModelVersion | None:
        """What the reference means, if that is known."""
        changed = self._database.changed_models()
        if changed is None:
            if not self._away:
                return None
        else:
            self._away = False
            for model in changed:
                self._forget(model)
        meaning = self._known.get(name, {}).get(reference)
        if meaning is None or not (meaning.epoch == self._epoch or self._away):
            return None
        return meaning.version

    def _forget(self, model: str) -> None:
        if model == ANY:
            self._epoch += 1  # it still answers while the database is unavailable
        else:
            self._n_known -= len(self._known.pop(model, ()))
            self._changed_meanwhile.add(model)

    async def _look_up(self, name: str, reference: Reference) -> ModelVersion:
        """What the reference means now, by the database. One query after the other answers all
        requests that wait when it begins. Raises NotFound, Unavailable."""
        asked = self._asked.get((name, reference))
        if asked is None:
            asked = asyncio.get_running_loop().create_future()
            self._asked[name, reference] = asked
            if self._looking is None:
                self._looking = asyncio.create_task(self._look())
        version = await asyncio.shield(asked)
        if isinstance(version, Exception):
            raise version
        return version

    async def _look(self) -> None:
        try:
            while self._asked:
                references = list(self._asked)[:MAX_AT_ONCE]
                waiting = [self._asked.pop(reference) for reference in references]
                self._changed_meanwhile.clear()
                epoch = self._epoch
                results: Sequence[ModelVersion | Exception]
                try:
                    find = self._registry.find_all
                    results = await to_thread.run_sync(find, references, limiter=self._thread)
                except Exception as error:
                    results = [error] * len(references)
                for reference, looked_up, future in zip(references, results, waiting, strict=True):
                    future.set_result(self._remember(*reference, looked_up, epoch))
        finally:
            self._looking = None

    def _remember(
        self, name: str, reference: Reference, looked_up: ModelVersion | Exception, epoch: int
    ) -> ModelVersion | Exception:
        """The result of a look-up; the remembered one while the database is unavailable."""
        known = self._known.get(name, {})
        if isinstance(looked_up, Unavailable):
            self._away = True
            return known[reference].version if reference in known else looked_up
        if known.pop(reference, None) is not None:
            self._n_known -= 1
        if isinstance(looked_up, ModelVersion) and name not in self._changed_meanwhile:
            if self._n_known >= MAX_KNOWN:
                self._known.clear()
                self._n_known = 0
            # Without what takes memory and decides no prediction.
            kept = {"reading": looked_up.result.get("reading")}
            brief = replace(looked_up, spec={}, result=kept, imported=None)
            self._known.setdefault(name, {})[reference] = _Meaning(brief, epoch)
            self._n_known += 1
        return looked_up

    async def _load(self, version: ModelVersion) -> LoadedModel:
        try:
            fitted, nbytes = await to_thread.run_sync(self._read, version, limiter=self._readers)
            loaded = LoadedModel(
                key=version.artifact_key,
                name=version.model_name,
                version=version.version,
                digest=version.digest,
                classes=version.classes,
                columns=version.columns,
                n_features=version.n_features,
                fitted=fitted,
                nbytes=nbytes,
                reading=Reading.of(version.result.get("reading")),
            )
            self._keep(loaded)
            return loaded
        finally:
            del self._loading[version.artifact_key]

    def _read(self, version: ModelVersion) -> tuple[FittedPipeline, int]:
        fitted = self._registry.files.load(version)
        objects = COLUMN_BYTES * len(version.columns or ()) + CLASS_BYTES * len(version.classes)
        return fitted, fitted.nbytes + fitted.prepare() + MODEL_BYTES + objects

    def _keep(self, loaded: LoadedModel) -> None:
        self._loaded[loaded.key] = loaded
        self._loaded_bytes += loaded.nbytes
        # The newest stays even if it is larger than the capacity: it is about to be used.
        while self._loaded_bytes > self._capacity_bytes and len(self._loaded) > 1:
            _, dropped = self._loaded.popitem(last=False)
            self._loaded_bytes -= dropped.nbytes
        self._read_bytes += loaded.nbytes
        if self._read_bytes > self._capacity_bytes * FREED_SHARE:
            self._read_bytes = 0
            asyncio.get_running_loop().run_in_executor(None, return_free_memory)


def _untrained(encoder: Encoder) -> Iterator[tuple[str, frozenset[str]]]:
    """For each category the levels that no training row had."""
    for j, counts in encoder.level_counts.items():
        column = encoder.columns[j]
        pairs = zip(column.levels, counts.tolist(), strict=True)
        untrained = (level for level, n in pairs if not n)
        yield column.name, frozenset(untrained)
