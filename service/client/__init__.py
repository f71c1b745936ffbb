"""A client of the service: `Client`, and `AsyncClient` for asynchronous programs.

    from service.client import Client

    with Client("http://127.0.0.1:8000") as client:
        dataset = client.upload(X, y, name="flowers")
        client.train(dataset, "flowers", {"name": "newton", "C": 10}).wait()
        client.predict("flowers", X)

`make client` generates the synchronous modules from the asynchronous ones, and `members` from the
OpenAPI document.
"""

from service.client.asynchronous.client import (
    AsyncClient,
    AsyncDataset,
    AsyncJob,
    AsyncModel,
    AsyncModelVersion,
)
from service.client.calls import Retries
from service.client.errors import (
    ClientError,
    Conflict,
    ConnectionFailed,
    Fault,
    InvalidContent,
    InvalidRequest,
    JobCanceled,
    JobFailed,
    NotAllowed,
    NotFound,
    Overloaded,
    Problem,
    ServerFault,
    TooLarge,
)
from service.client.fields import Event
from service.client.synchronous.client import Client, Dataset, Job, Model, ModelVersion

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
    "Fault",
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
    "Problem",
    "Retries",
    "ServerFault",
    "TooLarge",
]
