"""Where a comparison is: all that its next attempt needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

import numpy as np

from service.jobs.comparisons.results import Error, Found
from service.jobs.training.schemas import JobCreate
from service.storage.arrays import Arrays, pack, unpack
from svm.errors import CheckpointMismatch
from svm.model.serialization import from_arrays, to_arrays
from svm.training import Training
from svm.training.warm_start import WarmStart


@dataclass(frozen=True, slots=True)
class Model:
    """What an entry learnt, and what another training needs to begin there."""

    entry: int
    learnt: WarmStart
    said: dict[str, Any]
    """What a version says of its training: `spec` and `result`; empty where it is not kept."""


@dataclass(kw_only=True)
class Standing:
    """Changes as the comparison goes on; between two changes it can be written down."""

    found: list[Found]
    """One an entry."""
    position: int = 0
    """Trainings that are done, in their order."""
    spent_s: float = 0.0
    """By them."""
    cpu_s: float = 0.0
    """By the present one so far."""
    curve: list[list[float]] = field(default_factory=list)
    """Of the present one."""
    latest: Model | None = None
    """Where the next one can begin."""
    best: Model | None = None

    def fail(self, entry: int, error: Error) -> None:
        self.found[entry] = replace(self.found[entry], error=error)

    def passed(self, elapsed_s: float) -> None:
        """The present training is done."""
        self.position += 1
        self.spent_s += elapsed_s
        self.cpu_s, self.curve = 0.0, []

    def packed(self, training: Training | None) -> bytes:
        """With the present training, if it has begun."""
        plain = {
            "found": [asdict(each) for each in self.found],
            **{name: getattr(self, name) for name in ("position", "spent_s", "cpu_s", "curve")},
        }
        arrays: dict[str, Any] = {"standing": np.asarray(json.dumps(plain))}
        for name, model in (("latest", self.latest), ("best", self.best)):
            if model is not None:
                part = {"entry": model.entry, "said": model.said}
                arrays[name] = np.asarray(json.dumps(part))
                arrays |= _under(f"{name}.model", to_arrays(model.learnt.fitted))
                arrays |= _under(f"{name}.start", model.learnt.to_arrays())
        if training is not None:
            arrays |= _under("training", training.checkpoint())
        return pack(arrays)

    @classmethod
    def unpacked(cls, content: bytes, entries: Sequence[JobCreate]) -> tuple[Standing, Arrays]:
        """The standing, and the checkpoint of the present training, empty where it had not begun.

        Raises CheckpointMismatch where it was packed by another release.
        """
        arrays = unpack(content)
        try:
            return cls._read(arrays, entries), _below("training", arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointMismatch("the checkpoint is of another release") from error

    @classmethod
    def _read(cls, arrays: Arrays, entries: Sequence[JobCreate]) -> Standing:
        plain = json.loads(str(arrays["standing"]))
        standing = cls(**plain | {"found": [Found(**each) for each in plain["found"]]})
        for name in ("latest", "best"):
            if name in arrays:
                part = json.loads(str(arrays[name]))
                fitted = from_arrays(
                    {
                        key: array.item() if array.ndim == 0 else array
                        for key, array in _below(f"{name}.model", arrays).items()
                    }
                )
                pipeline = entries[part["entry"]].pipeline()
                learnt = WarmStart.from_arrays(pipeline, fitted, _below(f"{name}.start", arrays))
                setattr(standing, name, Model(part["entry"], learnt, part["said"]))
        return standing


def read_found(file: IO[bytes]) -> list[Found] | None:
    """What stands of the entries in `Standing.packed`, without reading the models in it; None where
    another release packed it."""
    with np.load(file, allow_pickle=False) as arrays:
        try:
            plain = json.loads(str(arrays["standing"]))
            return [Found(**each) for each in plain["found"]]
        except (KeyError, TypeError):
            return None


def _under(name: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": np.asarray(array) for key, array in arrays.items()}


def _below(name: str, arrays: Arrays) -> dict[str, Any]:
    start = f"{name}."
    return {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
