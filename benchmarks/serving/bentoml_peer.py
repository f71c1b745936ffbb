"""scikit-learn's linear model in BentoML."""

import os

import bentoml  # type: ignore[import-not-found]
import joblib


@bentoml.service(workers=1)
class Peer:
    """One row or many, as lists."""

    def __init__(self) -> None:
        self.model = joblib.load(f"{os.environ['PEER_MODELS']}/linear64.joblib")

    @bentoml.api  # type: ignore[untyped-decorator]
    def predict(self, instances: list[list[float]]) -> list[str]:
        """The labels."""
        labels: list[str] = self.model.predict(instances).tolist()
        return labels
