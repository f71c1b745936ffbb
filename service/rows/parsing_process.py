"""The parsing process: a line of JSON in, a line of JSON out, until the input ends.

Parsers read bytes from outside here: a crash or a full memory ends nothing else.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from service.common.encodings import DECOMPRESSORS, Inflater
from service.common.logs import configure_logging
from service.errors import InvalidContent, InvalidRequest, ServiceError, UnsupportedFormat
from service.rows.cell_texts.encodings import as_utf8
from service.rows.cell_texts.text import records, slices, unterminated
from service.rows.faults import Faults, refuse
from service.rows.format_table import (
    ARCHIVES,
    FORMATS,
    HEAD_BYTES,
    LABEL_FORMATS,
    SUFFIXES,
    check_format,
    format_of,
)
from service.rows.formats import npy
from service.rows.formats.archive import Archive, BadArchive
from service.rows.spec import (
    CSV,
    DELIMITED,
    GZIP,
    LIBSVM,
    NPY,
    UNKNOWN,
    ZIP,
    Converted,
    ConvertSpec,
    Divided,
    Parsed,
    ParseSpec,
    Rendered,
    RenderSpec,
    SentFile,
    SplitSpec,
    Stored,
    decode,
    encode,
)
from service.rows.table.joining import append, expect_rows
from service.rows.table.labels import Labels, Target
from service.rows.table.layout import NO_TARGET
from service.rows.table.left_out import OF_LISTS, without_row_numbers, without_unlabeled
from service.rows.table.summary import describe
from service.rows.table.writers import Table
from service.storage.disk import file_errors_reported
from service.subprocesses.working import work

MEMORY_BYTES = 2 * 1024**3
"""No upload within the default limits needs a quarter of it."""
MAX_MEMBERS = 200
"""In the directory of a zip file, to be listed if there are too many."""
BLOCK_BYTES = 64 * 1024
"""Small: after each, the size of what it holds is checked."""
_OF_SYSTEMS = ("__MACOSX/", ".DS_Store")
_HINT = "send a zip file of one file"
_HAS_NAME, _HAS_EXTRA = 8, 4
_FIXED_BYTES = 10
"""How long the header of a gzip file is without its optional parts."""


def main() -> None:
    configure_logging("info")
    work(lambda line: encode(answer(decode(line))), MEMORY_BYTES)


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
                return convert(spec)
            # Imported here: it brings all of svm, which reading does without.
            from service.rows.table.splitting import divide

            return divide(spec)
    except ServiceError as error:
        return error
    except MemoryError:
        return InvalidContent("parsing-failed", "reading the data takes more memory than there is")


def read(spec: ParseSpec) -> Parsed:
    """Read one upload: the format's reader writes X, then come labels, digest and statistics. Rows
    that are appended to a dataset are joined with its rows in between.

    Raises ServiceError for whatever is wrong with them.
    """
    spec = _unwrap(spec)
    _check_options(spec)
    for sent in filter(None, (spec.file, spec.labels)):
        check_format(sent.media_type, _head(sent.path))
    folder, one = Path(spec.out), FORMATS[spec.file.media_type]
    if "dense" not in one.options:
        spec = expect_rows(spec, sparse=False)
    table = one.read(spec)
    if spec.labels is not None:
        target, warnings = _read_labels(spec, spec.labels, table.n_samples)
        table = replace(table, labels=target, warnings=[*table.warnings, *warnings])
    if spec.onto is None:
        table = without_row_numbers(spec, table, folder)
    table = without_unlabeled(spec, table, folder)
    if spec.onto is not None:
        table = append(spec, spec.onto, table, folder)
    _check_labels(table.labels, spec.limits.cell_bytes)
    table = replace(table, reading=_with_positions(table))
    parsed = describe(folder, table, spec.limits.columns)
    return replace(parsed, media_type=spec.file.media_type)


def convert(spec: ConvertSpec) -> Converted:
    """Write rows to predict as CSV, with all columns that they have. Raises ServiceError.

    Numbers in a format without cells of texts have the fewest digits that give them back.
    """
    out = Path(spec.out)
    asked = ParseSpec(file=spec.file, out=str(out.parent), limits=spec.limits)
    file = _unwrap(asked).file
    check_format(file.media_type, _head(file.path))
    one = FORMATS[file.media_type]
    if one.cells:
        return one.as_csv(replace(spec, file=file))
    options: dict[str, Any] = {"target": NO_TARGET}
    if "dense" in one.options:  # files whose labels have a place of their own
        options = {"dense": "always"} if one.media_type == LIBSVM else {}
    if one.media_type == LIBSVM:
        options["n_features"] = spec.n_features
    asked = replace(asked, file=file).asking(**options)
    parsed = read(asked)
    if parsed.ignored and "schema" in one.options:  # such as an identifier
        kept = {
            left["name"]: {"kind": "text"} for left in parsed.ignored if left["reason"] != OF_LISTS
        }
        parsed = read(asked.asking(schema=kept))
    stored = Stored(folder=asked.out, arrays=list(parsed.arrays), **parsed.described())
    render(RenderSpec(stored=stored, media_type=CSV, out=spec.out))
    labeled = "target" not in options and parsed.target_kind is not None
    return Converted(named=parsed.columns is not None, labeled=labeled)


def _with_positions(table: Table) -> dict[str, Any] | None:
    """The reading; in place of the `names` of a text file, the positions, from 1, of the columns
    that are not features, if there are some beside the label: rows to predict may have them
    without names."""
    reading = dict(table.reading or {})
    names = reading.pop("names", None)
    features = set(table.columns or ())
    roles = {one["name"]: one["role"] for one in table.beside}
    if table.target is not None:
        roles[table.target] = "label"
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names or (), 1):
        if name not in features:
            positions.setdefault(roles.get(name, "ignored"), []).append(position)
    if positions.keys() - {"label"}:
        reading["positions"] = positions
    return reading or None


def _check_labels(target: Target | None, limit_bytes: int) -> None:
    """Raises InvalidContent for a text that cannot name a class, in whatever format it came."""
    if target is None or target.classes is None:
        return
    for code, label in enumerate(target.classes):
        if not isinstance(label, str):
            return
        row = int(np.argmax(target.array == code)) + 1
        if len(label.encode()) > limit_bytes:
            message, hint = f"the label has more than {limit_bytes:,} bytes", "shorten it"
            place = f"row {row}: {message}"
            raise refuse("csv-cell-too-large", place, row=row, value=label[:64], hint=hint)


def _unwrap(spec: ParseSpec) -> ParseSpec:
    """The upload without archives, and with the format of a file whose name does not say it.

    Raises ServiceError for those that are not read.
    """
    file, labels, limit = spec.file, spec.labels, spec.limits.inflated_bytes
    if file.media_type == UNKNOWN:
        file = replace(file, media_type=format_of(_head(file.path)))
    file = _inner(file, limit, tuple(FORMATS))
    if labels is not None:
        labels = _inner(labels, limit, LABEL_FORMATS)
    return replace(spec, file=file, labels=labels)


def _head(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(HEAD_BYTES)


def _inner(sent: SentFile, limit_bytes: int, offered: tuple[str, ...]) -> SentFile:
    """The file in an archive, or the same one."""
    if sent.media_type not in ARCHIVES.values():
        return sent
    path = Path(sent.path)
    inner = path.with_name(f"{path.name}-inflated")
    if sent.media_type == ZIP:
        inner, name = _member(path, inner, limit_bytes)
        return _named(name, str(inner), offered)
    outer = PurePosixPath(sent.name)
    name = outer.stem if ARCHIVES.get(outer.suffix.lower()) == sent.media_type else ""
    if sent.media_type == GZIP and not name:
        name = _name_in_header(path)
    what = sent.media_type.rpartition("/")[2].removeprefix("x-")
    inflater = Inflater(limit_bytes, DECOMPRESSORS[what], what)
    with path.open("rb") as file, inner.open("wb") as out:
        while block := file.read(BLOCK_BYTES):
            out.writelines(inflater.feed(block))
        inflater.finish()
    return _named(name, str(inner), offered)


def _member(path: Path, folder: Path, limit_bytes: int) -> tuple[Path, str]:
    """The only file of a zip file, and its name."""
    try:
        archive = Archive(path, MAX_MEMBERS)
        names = [name for name in archive.names if not _is_of_system(name)]
        if len(names) != 1:
            listed = ", ".join(repr(name[:64]) for name in names[:20])
            message = f"the archive has {len(names)} files, one is expected"
            raise _no_archive(f"{message}: {listed}" if names else message)
        folder.mkdir(exist_ok=True)
        return archive.unpack(names, folder, limit_bytes)[names[0]], names[0]
    except BadArchive as error:
        raise _no_archive(error.message, error.member) from None


def _is_of_system(name: str) -> bool:
    """Folders, and what macOS adds."""
    return name.endswith("/") or name.startswith(_OF_SYSTEMS) or name.endswith("/.DS_Store")


def _named(name: str, path: str, offered: tuple[str, ...]) -> SentFile:
    """The format is that of the suffix, or else of the contents."""
    media_type = SUFFIXES.get(PurePosixPath(name).suffix.lower(), CSV)
    if media_type == CSV and not name.lower().endswith(".csv"):
        media_type = format_of(_head(path))
    if media_type in offered:
        return SentFile(path, media_type)
    known = ", ".join(suffix for suffix, one in SUFFIXES.items() if one in offered)
    message = f"the file {name[:64]!r} in the archive is {media_type}, not one of {known}"
    raise UnsupportedFormat("unsupported-format", message)


def _name_in_header(path: Path) -> str:
    """The name that gzip keeps, or nothing."""
    with path.open("rb") as file:
        head = file.read(512)
    if len(head) < _FIXED_BYTES or head[3] & (_HAS_NAME | _HAS_EXTRA) != _HAS_NAME:
        return ""
    return head[_FIXED_BYTES:].partition(b"\0")[0].decode("latin-1")


def _no_archive(message: str, value: str | None = None) -> InvalidContent:
    return refuse("archive-unsupported", message, value=value, hint=_HINT)


def _check_options(spec: ParseSpec) -> None:
    """Raises InvalidRequest for an option that would do nothing."""
    used = {spec.file.media_type, (spec.labels or spec.file).media_type}
    for name in spec.asked.given():
        readers = {one.media_type for one in FORMATS.values() if name in one.options}
        if readers and not used & readers:
            message = f"`{name}` is for {' and '.join(sorted(readers))} only"
            raise InvalidRequest("invalid-parameter", message)


def _read_labels(
    spec: ParseSpec, sent: SentFile, n_samples: int
) -> tuple[Target, list[dict[str, Any]]]:
    """The labels of `n_samples` rows in a file of their own, one a line or as NPY; and warnings.

    The first line is a header if there is one line more than there are rows, unless
    `header=absent`. Raises InvalidContent, `label-count` if the number of labels does not fit.
    """
    labels = Labels(Faults(), kind=spec.label_kind, decimal=spec.asked.decimal)
    warnings: list[dict[str, Any]] = []
    if sent.media_type == NPY:
        for block in npy.read_labels(Path(sent.path)):
            labels.add_numbers(block)
    else:
        new = Path(spec.out) / "labels-as-utf-8"
        path, _, warnings = as_utf8(Path(sent.path), spec.asked.encoding, new)
        n_lines = sum(len(texts) for texts in _texts(spec, sent, path))
        header = spec.asked.header != "absent" and n_lines == n_samples + 1
        for i, texts in enumerate(_texts(spec, sent, path)):
            labels.add_texts(texts[1:] if header and i == 0 else texts)
    return labels.finish(n_samples), warnings


def _texts(spec: ParseSpec, sent: SentFile, path: Path) -> Iterator[list[str]]:
    """The labels of one slice of the file after the other."""
    delimiter = spec.asked.delimiter or DELIMITED.get(sent.media_type, ",")
    faults = Faults()
    row = 0
    for part in slices(path):
        texts = []
        try:
            for cells in records(part.text, delimiter):
                row += 1
                if len(cells) > 1:
                    message = f"{len(cells)} cells, one label is expected"
                    faults.add("ragged-row", message, row=row, hint="write one label a line")
                texts.append(cells[0])
        except csv.Error:
            raise unterminated(row + 1) from None
        faults.check()
        yield texts


def render(spec: RenderSpec) -> Rendered:
    """Write a dataset to a file. Its bytes are a function of the dataset and the format."""
    with Path(spec.out).open("wb") as file:
        write = FORMATS[spec.media_type].write
        assert write is not None
        write(spec.stored, file)
    with Path(spec.out).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return Rendered(sha256=sha256, size_bytes=file.tell())


if __name__ == "__main__":
    main()
