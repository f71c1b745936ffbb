"""The kinds of jobs: workers, filters and the application read them here. Each is a name, and a
package with `routes`, `schemas`, `submission` and `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

from service.common.keys import Scope

KindName: TypeAlias = Literal["train", "predict", "evaluate", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of job. Workers import `run`, the application imports `routes`; neither imports the
    other's libraries."""

    name: KindName
    """In the table and in filters."""
    noun: str
    """What one job is called, such as `batch prediction`. Its collection is
    `/v1/batch-predictions`, so the plural must end in s; its schemas are called
    `BatchPredictionCreate`, `…Read` and `…Page`."""
    scope: Scope = "train"
    """Keys with it may queue, steer and delete such jobs."""
    package: str
    about: str
    """Its section of the OpenAPI document."""
    guide: str
    """The place below `/guide/` that explains it."""
    title: Callable[[Mapping[str, Any]], str]
    """Gives the title of a job with this spec, on the dashboard."""

    @property
    def section(self) -> str:
        """The name of its section."""
        return f"{self.noun}s"

    @property
    def path(self) -> str:
        """The path of the collection."""
        return f"/v1/{self.noun.replace(' ', '-')}s"

    @property
    def routes(self) -> Any:
        """A module with `router(stores, access)`."""
        return import_module(f"{self.package}.routes")

    def load(self) -> None:
        """Import what `run` needs."""
        import_module(f"{self.package}.run")

    def run(self, context: object, attempt: object) -> None:
        """Carry out a job, and end it, with a `RunContext` and an `Attempt`.

        Raises what the work raises, Interrupted after the checkpoint was saved, and LeaseLost.
        """
        import_module(f"{self.package}.run").run(context, attempt)

    def help(self, context: object, part: object) -> None:
        """Do a part of a job, a `PartWork`, and deliver it, if jobs of this kind lend parts.

        Raises as `run`.
        """
        import_module(f"{self.package}.run").help(context, part)


TRAINING = Kind(
    name="train",
    noun="job",
    package="service.jobs.training",
    about="Training in the background: queue, watch, pause, cancel. A crash loses no job.",
    guide="guide/#train",
    title=lambda spec: str(spec["model_name"]),
)
BATCH_PREDICTION = Kind(
    name="predict",
    noun="batch prediction",
    scope="predict",
    package="service.jobs.batch_predictions",
    about="Predictions for a whole dataset, as a job.",
    guide="guide/#predict",
    title=lambda spec: "Predictions of {name}, version {version}".format(**spec["model"]),
)
EVALUATION = Kind(
    name="evaluate",
    noun="evaluation",
    package="service.jobs.evaluations",
    about="A model compared with labeled data, as a job.",
    guide="evaluations-and-comparisons/#evaluations",
    title=lambda spec: "Evaluation of {name}, version {version}".format(**spec["model"]),
)
COMPARISON = Kind(
    name="compare",
    noun="comparison",
    package="service.jobs.comparisons",
    about="Several models trained on the same rows and ranked, as a job.",
    guide="evaluations-and-comparisons/#comparisons",
    title=lambda spec: "Comparison" + (f" for {name}" if (name := spec.get("model_name")) else ""),
)
KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (TRAINING, BATCH_PREDICTION, EVALUATION, COMPARISON)
}
