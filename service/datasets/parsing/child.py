"""The parsing process: a line of JSON in, a line of JSON out, until the input ends.

Bytes from outside meet parsers here, where a crash or a full memory ends nothing else.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import TextIO

from service.datasets.parsing.reader import read
from service.datasets.parsing.spec import (
    Divided,
    Parsed,
    ParseSpec,
    Rendered,
    RenderSpec,
    SplitSpec,
    decode,
    encode,
)
from service.datasets.rendering.render import render
from service.errors import InvalidContent, ServiceError
from service.storage.space import full_disk_reported

MEMORY_BYTES = 2 * 1024**3
"""No upload within the default limits needs a quarter of it."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    replies = _private_stdout()
    for line in sys.stdin:
        replies.write(encode(answer(decode(line))) + "\n")
        replies.flush()


def answer(
    spec: ParseSpec | SplitSpec | RenderSpec,
) -> Parsed | Divided | Rendered | ServiceError:
    """What was done, or why it was not."""
    try:
        with full_disk_reported():
            if isinstance(spec, ParseSpec):
                return read(spec)
            if isinstance(spec, RenderSpec):
                return render(spec)
            # Imported here: it brings all of svm, which reading does without.
            from service.datasets.parsing.splitting import divide

            return divide(spec)
    except ServiceError as error:
        return error
    except MemoryError:
        return InvalidContent("parsing-failed", "reading the data takes more memory than there is")


def _private_stdout() -> TextIO:
    """Standard output for replies only; whatever a library prints goes to standard error."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


if __name__ == "__main__":
    main()
