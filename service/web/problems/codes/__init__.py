"""Every problem that a reply can report: its code, status and meaning."""

from __future__ import annotations

from service.web.problems.codes.data import DATA
from service.web.problems.codes.problem import Problem
from service.web.problems.codes.request import REQUEST
from service.web.problems.codes.service import SERVICE

__all__ = ["PROBLEMS", "Problem"]

PROBLEMS: dict[str, Problem] = REQUEST | DATA | SERVICE
