"""Numbers that the processes of one service share: `serve --processes` makes them before it forks.

A process writes only the numbers of its own place, and reads the sum of all places, so there is no
lock. A process that replaces another one continues what that one has counted.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import threading
from typing import Literal, TypeAlias, get_args

Numbers: TypeAlias = "ctypes.Array[ctypes.c_double]"
"""Changed in half the time that a `memoryview` takes: every prediction changes some."""
Integers: TypeAlias = "ctypes.Array[ctypes.c_longlong]"
COUNTED: TypeAlias = Literal["connections", "streams", "body bytes", "process id", "beats"]
"""What is counted while it lasts, so that it ends with its process."""
MOST = 2048
"""Records of one place; what has none is not counted."""
KEY_BYTES = 256
N_NUMBERS = 16
TIMES = 8192
"""Callers whose times are kept."""
NEAR = 8
"""Places that a caller can have among them."""


class Count:
    """A number of each process, and their sum."""

    __slots__ = ("_numbers", "place")

    def __init__(self, numbers: Integers | None = None) -> None:
        """Without `numbers` there is no other process."""
        self._numbers = _integers(1) if numbers is None else numbers
        self.place = 0

    @property
    def own(self) -> int:
        return self._numbers[self.place]

    @own.setter
    def own(self, number: int) -> None:
        self._numbers[self.place] = number

    def clear(self, place: int) -> None:
        """The process at this place has nothing."""
        self._numbers[place] = 0

    @property
    def each(self) -> list[int]:
        return list(self._numbers)

    @property
    def total(self) -> int:
        return sum(self._numbers)


class Times:
    """A time of `time.monotonic` for each caller, 0 at first, written by all processes. Of two
    that write at once, one may be lost: of requests that are counted so, hardly one in a thousand.

    A time in the past means as much as none; so the earliest one makes room for another caller.
    """

    def __init__(self) -> None:
        self._callers = _integers(TIMES + NEAR)
        self.at = _numbers(mmap.mmap(-1, 8 * (TIMES + NEAR)), 0, TIMES + NEAR)

    def place(self, caller: int) -> int:
        """Where `at` has the caller's time: ask before each use."""
        callers, at = self._callers, self.at
        earliest = start = caller % TIMES
        for place in range(start, start + NEAR):
            if callers[place] == caller:
                return place
            if at[place] < at[earliest]:
                earliest = place
        callers[earliest], at[earliest] = caller, 0.0
        return earliest


class Shared:
    """All shared numbers, as the process at one of the places sees them."""

    def __init__(self, n_places: int = 1) -> None:
        self.n_places = n_places
        self.times = Times()
        self._counts: dict[str, Count] = {
            what: Count(_integers(n_places)) for what in get_args(COUNTED)
        }
        self._lock = threading.Lock()
        self._used = _integers(n_places)
        """Records of each place that were ever used."""
        self._keys = mmap.mmap(-1, n_places * MOST * KEY_BYTES)
        self._numbers = mmap.mmap(-1, 8 * n_places * MOST * N_NUMBERS)
        self.take(0)

    def take(self, place: int) -> None:
        """Be the process at this place."""
        self._place = place
        for count in self._counts.values():
            count.place = place
        self._records = {
            key: record for record in self._present(place) if (key := self._key(record)) is not None
        }

    def count(self, what: COUNTED) -> Count:
        """How much there is of it in this process, and in all."""
        return self._counts[what]

    def leave(self, place: int) -> None:
        """The process at this place has ended, and all that it counted while it lasted."""
        for count in self._counts.values():
            count.clear(place)

    def numbers(self, *key: str) -> Numbers:
        """Of this place: `N_NUMBERS`, 0 at first."""
        with self._lock:
            record = self._records.get(key)
            if record is None:
                text, place = json.dumps(key).encode(), self._place
                free = (record for record in self._range(place) if self._key(record) is None)
                record = next(free, None)
                if record is None or len(text) > KEY_BYTES:
                    return (ctypes.c_double * N_NUMBERS)()
                self._records[key] = record
                self._write(record, text)
                self._used[place] = max(self._used[place], record + 1 - place * MOST)
        return self._numbers_of(record)

    def forget(self, *key: str) -> None:
        """Count it from 0 again, and keep nothing of it."""
        record = self._records.pop(key, None)
        if record is not None:
            self._write(record, b"")
            self._numbers_of(record)[:] = [0.0] * N_NUMBERS

    def own(self, kind: str) -> list[tuple[str, ...]]:
        """The rest of the keys of this place that begin with the kind."""
        return [key[1:] for key in self._records if key[0] == kind]

    def totals(self, kind: str) -> dict[tuple[str, ...], list[float]]:
        """The sums of all places, by the rest of their keys, which begin with the kind."""
        totals: dict[tuple[str, ...], list[float]] = {}
        for record in (each for place in range(self.n_places) for each in self._present(place)):
            key = self._key(record)
            if key is not None and key[0] == kind:
                sums = totals.setdefault(key[1:], [0.0] * N_NUMBERS)
                sums[:] = map(float.__add__, sums, self._numbers_of(record))
        return totals

    def _range(self, place: int) -> range:
        return range(place * MOST, (place + 1) * MOST)

    def _present(self, place: int) -> range:
        return self._range(place)[: self._used[place]]

    def _numbers_of(self, record: int) -> Numbers:
        return _numbers(self._numbers, 8 * record * N_NUMBERS, N_NUMBERS)

    def _key(self, record: int) -> tuple[str, ...] | None:
        text = self._keys[record * KEY_BYTES : (record + 1) * KEY_BYTES].rstrip(b"\0")
        try:
            return tuple(json.loads(text)) if text else None
        except ValueError:  # it is being written
            return None

    def _write(self, record: int, text: bytes) -> None:
        self._keys[record * KEY_BYTES : (record + 1) * KEY_BYTES] = text.ljust(KEY_BYTES, b"\0")


def _numbers(memory: mmap.mmap, start: int, n: int) -> Numbers:
    return (ctypes.c_double * n).from_buffer(memory, start)


def _integers(n: int) -> Integers:
    return (ctypes.c_longlong * n).from_buffer(mmap.mmap(-1, 8 * n))
