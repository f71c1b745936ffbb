"""The parsing process: a line of JSON in, a line of JSON out, until the input ends.

Parsers read bytes from outside here: a crash or a full memory ends nothing else.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from service.common.logs import configure_logging
from service.errors import InvalidContent, ServiceError
from service.rows.format_table import FORMATS
from service.rows.reader import read
from service.rows.spec import (
    Converted,
    ConvertSpec,
    Divided,
    Parsed,
    ParseSpec,
    Rendered,
    RenderSpec,
    SplitSpec,
    decode,
    encode,
)
from service.storage.disk import file_errors_reported
from service.subprocesses.working import work

MEMORY_BYTES = 2 * 1024**3
"""No upload within the default limits needs a quarter of it."""


def main() -> None:
    configure_logging("info")
    work(lambda line: encode(answer(decode(line))), MEMORY_BYTES)


def render(spec: RenderSpec) -> Rendered:
    """Write a dataset to a file. Its bytes are a function of the dataset and the format."""
    with Path(spec.out).open("wb") as file:
        write = FORMATS[spec.media_type].write
        assert write is not None
        write(spec.stored, file)
    with Path(spec.out).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return Rendered(sha256=sha256, size_bytes=file.tell())


def answer(
    spec: ParseSpec | SplitSpec | RenderSpec | ConvertSpec,
) -> Parsed | Divided | Rendered | Converted | ServiceError:
    """What was done, or why it was not."""
    try:
        with file_errors_reported():
            if isinstance(spec, ParseSpec):
                return read(spec)
            if isinstance(spec, RenderSpec):
                return render(spec)
            if isinstance(spec, ConvertSpec):
                return FORMATS[spec.file.media_type].as_csv(spec)
            # Imported here: it brings all of svm, which reading does without.
            from service.rows.table.splitting import divide

            return divide(spec)
    except ServiceError as error:
        return error
    except MemoryError:
        return InvalidContent("parsing-failed", "reading the data takes more memory than there is")


if __name__ == "__main__":
    main()
