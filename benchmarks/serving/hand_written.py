"""A service as one would write it: FastAPI, Pydantic and scikit-learn."""

import os
from typing import Any

import joblib
from fastapi import FastAPI
from pydantic import BaseModel


class Rows(BaseModel):
    """What is sent."""

    instances: list[list[float]]


class Labels(BaseModel):
    """What is answered."""

    label: list[str]


app = FastAPI()
_models: dict[str, Any] = {}


@app.post("/predict/{name}")
def predict(name: str, rows: Rows) -> Labels:
    """Labels by the model of that name, a joblib file in the folder PEER_MODELS."""
    if name not in _models:
        _models[name] = joblib.load(f"{os.environ['PEER_MODELS']}/{name}.joblib")
    return Labels(label=_models[name].predict(rows.instances).tolist())
