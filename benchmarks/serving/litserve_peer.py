"""scikit-learn's linear model in LitServe. Usage: litserve_peer.py PORT"""

import os
import sys
from typing import Any

import joblib
import litserve  # type: ignore[import-not-found]


class Peer(litserve.LitAPI):  # type: ignore[misc]
    """One row or many, as lists."""

    def setup(self, device: str) -> None:
        """Load the model."""
        self.model = joblib.load(f"{os.environ['PEER_MODELS']}/linear64.joblib")

    def predict(self, request: dict[str, Any]) -> dict[str, Any]:
        """The labels."""
        return {"label": self.model.predict(request["instances"]).tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(Peer(), accelerator="cpu")
    server.run(
        port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False, log_level="error"
    )
