"""How a training is stopped between blocks of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interruption:
    """Asks the caller whether to stop; `ask` raises `Interrupted` if so.

    Problems refer to this rather than to the training, which refers to them: in a cycle, the data
    of a finished training would stay in memory until the garbage collector runs.
    """

    def __init__(self, ask: Callable[[], None] | None) -> None:
        self._ask = ask

    def __call__(self) -> None:
        if self._ask is not None:
            self._ask()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not ask in this block."""
        ask, self._ask = self._ask, None
        try:
            yield
        finally:
            self._ask = ask
