"""How a training is stopped between blocks of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interruption:
    """Asks the caller whether to stop; `ask` raises `Interrupted` if so.

    Problems hold this and not the training, which holds them: in a circle, the data of a training
    that has ended would stay in memory until the garbage collector comes by.
    """

    def __init__(self, ask: Callable[[], None] | None) -> None:
        self._ask = ask

    def __call__(self) -> None:
        if self._ask is not None:
            self._ask()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Nobody is asked meanwhile."""
        ask, self._ask = self._ask, None
        try:
            yield
        finally:
            self._ask = ask
