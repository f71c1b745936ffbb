"""The database, for the commands of operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from service.cli.environment import make_data_dir
from service.cli.output import fail
from service.common.keys import KeyExists
from service.errors import ServiceError
from service.settings import Settings
from service.storage.backups.backup import BackupFailed
from service.storage.database import Database, UnusableDatabase
from service.storage.ownership import ForeignFiles


@contextmanager
def opened_database(settings: Settings) -> Iterator[Database]:
    """The database, without a lock: a service can run meanwhile. An error ends the command with
    status 1."""
    make_data_dir(settings)
    database = Database(settings.database_url)
    try:
        yield database
    except ServiceError as error:
        raise fail(f"{error.detail}: {error.__cause__ or ''}".rstrip(": ")) from None
    except (BackupFailed, ForeignFiles, KeyExists, UnusableDatabase, OSError) as error:
        raise fail(str(error)) from None
    finally:
        database.close()
