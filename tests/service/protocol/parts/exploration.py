"""All states of the protocol of parts that the rules can reach, breadth first."""

from __future__ import annotations

from dataclasses import dataclass

from tests.service.protocol.exploration import Broken
from tests.service.protocol.parts.invariants import Change, broken_by, broken_by_result
from tests.service.protocol.parts.rules import FAULTS, Rules, Step
from tests.service.protocol.parts.states import (
    FINAL,
    Helper,
    Job,
    JobState,
    Row,
    State,
    Worker,
)


@dataclass(frozen=True)
class Size:
    parts: int
    workers: int
    helpers: int
    units: int = 1
    damages: bool = True


@dataclass(frozen=True)
class Explored:
    states: int
    steps: int


def explore(size: Size, rules: Rules, limit: int | None = None) -> Explored:
    """Until there are no new states, or `limit` of them. Raises Broken, also if all states were
    found and from one of them the job cannot end without faults."""
    job = Job(saved=(0,) * size.parts)
    processes = (Worker(),) * size.workers, (Helper(),) * size.helpers
    start = State(job, (Row(),) * size.parts, *processes)
    numbers = {start: 0}
    ways: list[tuple[int, str]] = [(0, "")]
    leads: list[list[int]] = [[]]
    level, steps = [start], 0
    while level and (limit is None or len(numbers) < limit):
        following = []
        for state in level:
            source = numbers[state]
            for step in rules.steps(state):
                steps += 1
                broken = _broken(state, step, size.units)
                if broken:
                    raise Broken(broken, [*_path(ways, source), step.label])
                after = _canonical(step.after)
                target = numbers.get(after)
                if target is None:
                    target = numbers[after] = len(ways)
                    ways.append((source, step.label))
                    leads.append([])
                    following.append(after)
                if step.label not in FAULTS and target != source:
                    leads[target].append(source)
        level = following
    if not level:
        ends = [number for state, number in numbers.items() if state.job.state in FINAL]
        stuck = _stuck(leads, ends)
        if stuck is not None:
            raise Broken(["the_job_can_end"], _path(ways, stuck))
    return Explored(len(numbers), steps)


def _broken(state: State, step: Step, units: int) -> list[str]:
    after = step.after
    broken = broken_by_result(after.job)
    actor = step.actor
    by = "time"
    if isinstance(actor, Worker):
        by = "worker"
    elif isinstance(actor, Helper):
        by = "take" if step.label == "take" else "helper"
        moved = after.helpers != state.helpers and step.label == "work"
        if moved and actor.leave:
            broken.append("a_job_that_stops_gets_no_help")
        stops = state.job.state != JobState.RUNNING or state.job.pause or state.job.waits
        if step.label == "look" and actor.current and stops:
            stays = after.helpers == state.helpers and not actor.leave
            broken += ["a_job_that_stops_gets_no_help"] * stays
    if step.label == "damage":
        return broken
    owned = [helper.part for helper in after.helpers if helper.current == 1]
    if len(owned) != len(set(owned)):
        broken.append("one_helper_at_a_time")
    for part, (row, then) in enumerate(zip(state.rows, after.rows, strict=True)):
        acts = by if by != "take" or part == step.part else "time"
        current = actor is not None and actor.current == 1
        beats = step.label == "beat" and part == step.part
        change = Change(acts, current, state.job, row, then, after.job, units, beats)
        if row != then or beats:
            broken += broken_by(change)
        elif after.job.state in FINAL and then.state:
            broken.append("no_row_after_the_end")
    return broken


def _canonical(state: State) -> State:
    """Workers are interchangeable, and helpers."""
    workers, helpers = sorted(state.workers), sorted(state.helpers)
    return state._replace(workers=tuple(workers), helpers=tuple(helpers))


def _stuck(leads: list[list[int]], ends: list[int]) -> int | None:
    can = bytearray(len(leads))
    todo = list(ends)
    for number in todo:
        can[number] = 1
    while todo:
        for source in leads[todo.pop()]:
            if not can[source]:
                can[source] = 1
                todo.append(source)
    return next((number for number, ends in enumerate(can) if not ends), None)


def _path(ways: list[tuple[int, str]], number: int) -> list[str]:
    path = []
    while number:
        number, label = ways[number]
        path.append(label)
    return path[::-1]
