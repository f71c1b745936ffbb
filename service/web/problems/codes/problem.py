"""What is written about one kind of problem."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    title: str
    description: str
