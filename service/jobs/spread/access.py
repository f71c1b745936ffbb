"""What a worker of Dask needs to work for a service: its versions, and the shared stores."""

from __future__ import annotations

from service import __version__
from service.settings import Settings
from svm.training.checkpoints import platform


class NoAccess(Exception):
    """A worker cannot do the work: what it has, and what it needs."""


def versions() -> str:
    """On which the bits of results depend."""
    return f"svm-service {__version__} {platform()}"


def check_versions(expected: str) -> None:
    """Raises NoAccess if this process has other versions than the one that asks it."""
    if versions() != expected:
        raise NoAccess(f"it has {versions()}, but the job {expected}; install the same on both")


def check_store(settings: Settings) -> None:
    """Raises NoAccess if the files of this process are not those of all machines."""
    if not settings.blob_url.startswith("s3://"):
        raise NoAccess(
            f"SVM_BLOB_URL is the local folder {settings.blob_url}; give it the S3 store of "
            "the service, and the variables AWS_… that lead there"
        )


def check_database(settings: Settings) -> None:
    """Raises NoAccess if the database of this process is not that of all machines."""
    if settings.sqlite_file is not None:
        raise NoAccess(
            "SVM_DATABASE_URL is a local file; give it the PostgreSQL database of the service"
        )
