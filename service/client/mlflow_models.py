"""Versions of the service as models of MLflow.

    import mlflow
    from service.client.mlflow_models import log_version

    with mlflow.start_run():
        logged = log_version(client.model_version("iris", 3), registered_model_name="iris")
    mlflow.pyfunc.load_model(logged.model_uri).predict(frame)

The logged model needs NumPy and pandas, and neither this project nor the service.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from service.client import pyfunc
from service.client.synchronous.client import ModelVersion

MODULE = "svm_service_pyfunc"
CODE = {
    MODULE: Path(pyfunc.__file__),
    pyfunc.PROGRAM: Path(pyfunc.__file__).parents[1] / "models" / "exports" / "plain.py",
}
"""Modules that are logged with a model, and their files."""
REQUIREMENTS = ("numpy>=2.0", "pandas>=2.2")


def log_version(version: ModelVersion, **options: Any) -> Any:
    """Log a version as a pyfunc model in the active run of MLflow, or in a new one.

    Its metrics and certificate are in the model's `metadata`. `options` are those of
    `mlflow.pyfunc.log_model`, such as `registered_model_name`; `name` is by default that of the
    model. Returns MLflow's `ModelInfo`. Raises ImportError without the extra `mlflow`, and
    ValueError if the service has another version of the program that predicts.
    """
    log_model: Any = import_module("mlflow.pyfunc").log_model
    with tempfile.TemporaryDirectory() as folder:
        data = version.export(Path(folder) / f"{version.name}-{version.version}.npz")
        _check_program(data)
        code = [shutil.copyfile(file, Path(folder) / f"{name}.py") for name, file in CODE.items()]
        return log_model(
            **{
                "name": version.name,
                "signature": _signature(version),
                "pip_requirements": list(REQUIREMENTS),
                "metadata": _origin(version),
                **options,
            },
            loader_module=MODULE,
            data_path=str(data),
            code_paths=[str(path) for path in code],
        )


def _check_program(data: Path) -> None:
    """Models are read by the program of their export; what is logged is that of this client."""
    with np.load(data, allow_pickle=False) as archive:
        exported = archive["readme"].item()
    if exported != CODE[pyfunc.PROGRAM].read_text(encoding="utf-8"):
        raise ValueError("the service and this client have different versions: install the same")


def _signature(version: ModelVersion) -> Any:
    """Names of the columns, of any type: whole numbers and texts are read as the service does.
    Arrays have none. The parameter `output` is one of `pyfunc.OUTPUTS`, or of `pyfunc.NUMBERS`."""
    types: Any = import_module("mlflow.types.schema")
    table = version.table
    names = version.columns if table is None else [one["name"] for one in table["columns"]]
    inputs = None
    if names is not None:
        inputs = types.Schema([types.ColSpec(types.AnyType(), name=name) for name in names])
    outputs = pyfunc.OUTPUTS if version.classes else pyfunc.NUMBERS
    params = [types.ParamSpec("output", types.DataType.string, outputs[0])]
    share = ("withheld", 0.05) if version.classes else ("coverage", 0.9)
    params.append(types.ParamSpec(share[0], types.DataType.double, share[1]))
    signature: Any = import_module("mlflow.models").ModelSignature
    return signature(inputs=inputs, params=types.ParamSchema(params))


def _origin(version: ModelVersion) -> dict[str, Any]:
    """Where the model comes from and what is proven about it."""
    names = ("name", "version", "digest", "dataset_id", "dataset_digest", "job_id", "seed")
    certificate = {name: version.certificate.get(name) for name in ("status", "summary")}
    return {"svm_service": {**{name: version.data[name] for name in names}, **certificate}}
