"""A version logged in MLflow predicts what the service predicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from starlette.testclient import TestClient

from service.client import Client
from tests.service.client.test_tables import LABELS, frame_of, records

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow warns of its own modules


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its store is a file of SQLite. The import takes seconds, for which other tests need not
    wait."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", "false")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    yield mlflow
    mlflow.set_tracking_uri(None)


def test_table_with_categories_and_gaps(client: Client, mlflow: Any) -> None:
    """Label, decision value and probability, from a frame with another order of columns."""
    from service.client.mlflow_models import log_version

    frame = frame_of()
    dataset = client.upload(frame, LABELS)
    options: dict[str, Any] = {"validation": {"fraction": 0.3}, "calibration": "sigmoid", "seed": 1}
    version = client.train(dataset, "tracked", **options).wait(60).model_version()
    with mlflow.start_run():
        logged = log_version(version, registered_model_name="tracked")
    loaded = mlflow.pyfunc.load_model("models:/tracked/1")
    assert logged.metadata["svm_service"]["digest"] == version.digest
    rows = frame[frame.columns[::-1]]
    assert loaded.predict(rows).tolist() == version.predict(frame).tolist()
    for output in ("decision", "probability"):
        values = loaded.predict(rows, params={"output": output})
        assert values == pytest.approx(version.predict(frame, output), rel=1e-9)
    asked = {"output": "label_or_none", "withheld": 0.3}
    withheld = version.predict(frame, "label_or_none", withheld=0.3).tolist()
    others = loaded.predict(rows, params=asked)
    # The score of one row is the threshold, from which rounding may move it.
    assert sum(one != other for one, other in zip(others, withheld, strict=True)) <= 1
    assert None in withheld
    served = _served(loaded, {"dataframe_records": records()}).json()
    assert served["predictions"] == version.predict(frame).tolist()
    wanted = {"dataframe_records": records(), "params": {"output": "decision"}}
    values = _served(loaded, wanted).json()["predictions"]
    assert values == pytest.approx(version.predict(frame, "decision"), rel=1e-9)
    assert "one" in _served(loaded, {"dataframe_records": [{"one": 1}]}).text


def test_text_in_the_data_file_is_not_executed(client: Client, mlflow: Any, tmp_path: Path) -> None:
    """A program beside the arrays of a logged model does nothing; what predicts is its code."""
    from service.client.mlflow_models import log_version

    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    dataset = client.upload(X, [0, 0, 1, 1])
    version = client.train(dataset, "changed").wait(60).model_version()
    logged = log_version(version, name="changed")
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
    (data,) = folder.rglob("*.npz")
    with np.load(data) as archive:
        parts = dict(archive)
    mark = tmp_path / "executed"
    parts["readme"] = np.array(f"{parts['readme'].item()}\nopen({str(mark)!r}, 'w')")
    np.savez(data, **parts)
    loaded = mlflow.pyfunc.load_model(str(folder))
    assert loaded.predict(X).tolist() == version.predict(X).tolist()
    assert not mark.exists()


def _served(model: Any, body: dict[str, Any]) -> Any:
    """The reply of the server that `mlflow models serve` starts."""
    from mlflow.pyfunc import scoring_server

    content = json.dumps(body, default=str)
    with TestClient(scoring_server.init(model)) as http:
        headers = {"Content-Type": "application/json"}
        return http.post("/invocations", content=content, headers=headers)


@pytest.mark.long
def test_array_without_names(client: Client, mlflow: Any) -> None:
    """Rows are an array, too."""
    from service.client.mlflow_models import log_version

    X = np.random.default_rng(3).normal(size=(60, 4))
    dataset = client.upload(X, (X[:, 0] > 0).astype(int))
    version = client.train(dataset, "unnamed").wait(60).model_version()
    loaded = mlflow.pyfunc.load_model(log_version(version, name="unnamed").model_uri)
    assert loaded.predict(X).tolist() == version.predict(X).tolist()
    assert loaded.predict(pandas.DataFrame(X)).tolist() == version.predict(X).tolist()
    with pytest.raises(ValueError, match="not calibrated"):
        loaded.predict(X, params={"output": "probability"})
