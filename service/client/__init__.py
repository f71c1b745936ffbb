"""A client of the service: `Client`, and `AsyncClient` for asynchronous programs.

    from service.client import Client

    with Client("http://127.0.0.1:8000") as client:
        dataset = client.upload(X, y, name="flowers")
        client.train(dataset, "flowers", {"name": "newton", "C": 10}).wait()
        client.predict("flowers", X)

The synchronous half is made of the asynchronous one by `make client`.
"""

from service.client.asynchronous.client import AsyncClient
from service.client.asynchronous.dataset import AsyncDataset
from service.client.asynchronous.job import AsyncJob
from service.client.asynchronous.model import AsyncModel, AsyncModelVersion
from service.client.errors import (
    ClientError,
    Conflict,
    ConnectionFailed,
    InvalidContent,
    InvalidRequest,
    JobCanceled,
    JobFailed,
    NotAllowed,
    NotFound,
    Overloaded,
    Place,
    Problem,
    ServerFault,
    TooLarge,
)
from service.client.events import Event
from service.client.retries import Retries
from service.client.synchronous.client import Client
from service.client.synchronous.dataset import Dataset
from service.client.synchronous.job import Job
from service.client.synchronous.model import Model, ModelVersion

__all__ = [
    "AsyncClient",
    "AsyncDataset",
    "AsyncJob",
    "AsyncModel",
    "AsyncModelVersion",
    "Client",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "Dataset",
    "Event",
    "InvalidContent",
    "InvalidRequest",
    "Job",
    "JobCanceled",
    "JobFailed",
    "Model",
    "ModelVersion",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "Place",
    "Problem",
    "Retries",
    "ServerFault",
    "TooLarge",
]
