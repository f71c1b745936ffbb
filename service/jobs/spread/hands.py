"""Workers of Dask take parts of jobs: a task means "take the next part", and says nothing of it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from service.jobs.spread.connection import Connection, versions

logger = logging.getLogger(__name__)


class Hands:
    """Asks each worker of Dask to take parts, once until it has answered."""

    def __init__(self, connection: Connection, take_parts: Callable[[str], int]) -> None:
        """`take_parts` is called in a worker of Dask, with the versions of this process."""
        self._connection = connection
        self._take_parts = take_parts
        self._asked: dict[str, Any] = {}

    def ask(self) -> None:
        """There may be parts to take. What is lost here is no loss: the job does them itself."""
        self._asked = {
            worker: future for worker, future in self._asked.items() if not future.done()
        }
        for worker in self._connection.workers():
            client = self._connection.client
            if client is None or worker in self._asked:
                continue
            key = f"svm-parts-{secrets.token_hex(8)}"
            try:
                self._asked[worker] = client.submit(
                    self._take_parts, versions(), key=key, workers=[worker], pure=False
                )
            except (OSError, RuntimeError, CancelledError) as error:
                logger.warning("a worker of Dask could not be asked for help: %s", error)
