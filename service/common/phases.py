"""The phases of a job, and the words for them: the same on pages, in terminals and in notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

QUEUED = "queued"
READING = "reading"
COMPILING = "compiling"
FIRST_MODEL = "first-model"
COMPARING = "comparing"
TRAINING = "training"
FOLDS = "folds"
SCORING = "scoring"
MEASURING = "measuring"
SAVING = "saving"
WORDS = {
    QUEUED: "queued",
    READING: "reading",
    COMPILING: "compiling",
    FIRST_MODEL: "first model",
    COMPARING: "comparing settings",
    TRAINING: "training",
    FOLDS: "folds",
    SCORING: "scoring",
    MEASURING: "measuring",
    SAVING: "saving",
}
"""All phases, in the order that a job has them; it may return to an earlier one."""
MEANINGS = {
    COMPILING: "Loops are compiled for this machine, once.",
    FIRST_MODEL: "A linear model with the usual settings, before others are compared.",
    COMPARING: "`auto` measures settings on rows that they were not trained on.",
    FOLDS: "The settings of the model are measured on rows that a training did not see.",
}
"""What words cannot say."""
_OF_KIND = {
    "train": (READING, TRAINING, MEASURING, SAVING),
    "compare": (READING, TRAINING, MEASURING, SAVING),
    "evaluate": (READING, SCORING, MEASURING, SAVING),
    "predict": (READING, SCORING, SAVING),
}


def expected(kind: str, spec: Mapping[str, Any]) -> list[str]:
    """The phases that a job of this kind and request is known to have, in order."""
    phases = {QUEUED, *_OF_KIND[kind]}
    if kind == "train":
        if spec["solver"].get("effort", "quick") != "quick":
            phases |= {FIRST_MODEL, COMPARING}
        if "folds" in (spec.get("validation") or {}) or spec.get("left_out_groups"):
            phases.add(FOLDS)
    return [name for name in WORDS if name in phases]


def told(progress: Mapping[str, Any]) -> str:
    """The phases that a job had, with their seconds, from the progress that the API shows."""
    return ", ".join(
        f"{WORDS.get(each['name'], each['name'])} {each['elapsed_s']:.1f} s"
        for each in progress.get("phases") or ()
    )


def now(progress: Mapping[str, Any]) -> str:
    """The present phase and the forecast; empty if the job is paused or has ended."""
    if (phase := progress.get("phase")) is None:
        return ""
    return ", ".join(filter(None, (WORDS.get(phase, phase), left(progress.get("eta_s")))))


def left(seconds: float | None) -> str:
    """A forecast, such as `about 40 s left`; empty if there is none."""
    return "" if seconds is None else f"about {whole(seconds)} left"


def whole(seconds: float) -> str:
    """`40 s`, `59 min 50 s`, `2 h 5 min`."""
    rounded = math.ceil(seconds)
    minutes, rest = divmod(rounded, 60)
    if rounded < 90:
        return f"{rounded} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"
