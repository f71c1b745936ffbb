"""Search of the documentation: sections of the guide, and operations of the API."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import unescape
from typing import Any

from service.web.docs import SITE

SHOWN_SECTIONS = 8
EXCERPT = 160
USUAL = 150
"""Words of a section; the text of a longer one counts less."""
_ENDINGS = re.compile(r"(?<=\w{3})(ing|ed|es|s|e)$")


@dataclass(frozen=True, slots=True)
class Result:
    """A link, and a line about its target."""

    href: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page, with the stems of its words."""

    result: Result
    level: int
    """1: a page."""
    answers: frozenset[str]
    """What it answers, as in the index of a book."""
    title: Counter[str]
    text: Counter[str]


def find(words: str, sections: Sequence[Section]) -> list[Result]:
    """The sections with most of the words, the one that answers them first."""
    stems, ranked = stems_of(words), []
    for place, section in enumerate(sections):
        scores = [_score(stem, section) for stem in stems]
        matched = sum(score > 0 for score in scores)
        if matched:
            answered = " ".join(stems) in section.answers
            ranked.append((not answered, -matched, -sum(scores), section.level, place))
    most = max((-entry[1] for entry in ranked), default=0)
    best = sorted(entry for entry in ranked if not entry[0] or -entry[1] == most)
    return [sections[place].result for *_, place in best[:SHOWN_SECTIONS]]


def _score(stem: str, section: Section) -> float:
    in_answers = any(stem in answer.split() for answer in section.answers)
    in_title = _count(stem, section.title)
    in_text = min(_count(stem, section.text), 5) * USUAL / max(USUAL, section.text.total())
    return 8 * in_answers + 10 * min(in_title, 1) * (1 + 0.5 * (section.level == 1)) + in_text


def _count(stem: str, words: Counter[str]) -> float:
    """How often it is one of the words, or half as often the beginning of one."""
    if exact := words[stem]:
        return exact
    return 0.5 * sum(count for word, count in words.items() if word.startswith(stem))


def stems_of(text: str) -> list[str]:
    """The words of a text without their endings, so that `classes` finds `class`."""
    return [_ENDINGS.sub("", word) for word in re.findall(r"\w+", text.casefold())]


@cache
def guide() -> Sequence[Section]:
    """The sections of the guide; none if it was not built."""
    file = SITE / "search.json"
    items = json.loads(file.read_text())["items"] if file.exists() else []
    return [_section(item) for item in items]


def _section(item: Mapping[str, Any]) -> Section:
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", item["text"]))).strip()
    above = " › ".join(item["path"][-2:])
    about = text if len(text) <= EXCERPT else f"{text[:EXCERPT].rpartition(' ')[0]} …"
    about = f"{above}: {about}" if above and above != item["title"] else about
    title = unescape(item["title"])
    answers = frozenset(" ".join(stems_of(one)) for one in item.get("answers", ()))
    return Section(
        Result(f"/guide/{item['location']}", title, about),
        item["level"],
        answers,
        Counter(stems_of(title)),
        Counter(stems_of(text)),
    )


@lru_cache(maxsize=1)
def operations(document: bytes) -> Sequence[Section]:
    """The operations of the OpenAPI document, each as a place on `/docs`."""
    return [
        Section(
            Result(f"/docs#/{operation['tags'][0]}/{operation['operationId']}", title, called),
            1,
            frozenset(),
            Counter(stems_of(title)),
            Counter(stems_of(called)),
        )
        for path, methods in json.loads(document)["paths"].items()
        for method, operation in methods.items()
        for title, called in [(operation["summary"], f"{method.upper()} {path}")]
    ]
