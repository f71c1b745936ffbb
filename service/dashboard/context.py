"""The stores and services that the pages use, the same as the routes of the API."""

from __future__ import annotations

from dataclasses import dataclass

from service.dashboard.distributions import Distributions
from service.datasets.store import DatasetStore
from service.jobs.comparisons.submission import Comparisons
from service.jobs.core.store import JobStore
from service.jobs.evaluations.submission import Evaluations
from service.jobs.training.submission import Trainings
from service.models.derived.renderer import Renderer
from service.models.registry import ModelRegistry
from service.predictions.loaded_models import LoadedModels
from service.predictions.predictor import Predictor
from service.rows.parser import Parser
from service.settings import Limits
from service.storage.blobs import Blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """Made by `app.create_app`."""

    datasets: DatasetStore
    parser: Parser
    blobs: Blobs
    limits: Limits
    jobs: JobStore
    trainings: Trainings
    evaluations: Evaluations
    comparisons: Comparisons
    models: ModelRegistry
    renderer: Renderer
    loaded_models: LoadedModels
    predictor: Predictor
    distributions: Distributions
