"""The child's side: lines are answered until the input ends."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from typing import TextIO


def work(answer: Callable[[str], str], memory_bytes: int) -> None:
    """Answer every line of standard input with a line, in at most so much memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    replies = private_stdout()
    for line in sys.stdin:
        replies.write(answer(line) + "\n")
        replies.flush()


def private_stdout() -> TextIO:
    """Standard output for replies only; whatever a library prints goes to standard error."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private
