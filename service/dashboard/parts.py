"""What the pages ask: the same stores and doers as the routes of the API."""

from __future__ import annotations

from dataclasses import dataclass

from service.dashboard.distributions import Distributions
from service.datasets.parsing.parser import Parser
from service.datasets.store import DatasetStore
from service.jobs.comparisons.queueing import Comparisons
from service.jobs.evaluations.queueing import Evaluations
from service.jobs.store import JobStore
from service.jobs.trainings import Trainings
from service.models.derived.workshop import Workshop
from service.models.registry import ModelRegistry
from service.predictions.loaded_models import LoadedModels
from service.predictions.predictor import Predictor
from service.settings import Limits
from service.storage.blobs import Blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Handed over by `app.create_app`."""

    datasets: DatasetStore
    parser: Parser
    blobs: Blobs
    limits: Limits
    jobs: JobStore
    trainings: Trainings
    evaluations: Evaluations
    comparisons: Comparisons
    models: ModelRegistry
    workshop: Workshop
    loaded_models: LoadedModels
    predictor: Predictor
    distributions: Distributions
