"""The one table of formats: of uploads, of rows to predict, and of stored datasets as files.

A new format is its module in `formats` and an entry here, and its suffix in `client.rows`.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, BinaryIO

from service.errors import UnsupportedFormat
from service.rows import rendering
from service.rows.columns import Columns
from service.rows.formats import arrow, delimited_rows, json_to_predict, libsvm, npy
from service.rows.spec import (
    ARROW,
    BZIP2,
    CSV,
    DELIMITED,
    GZIP,
    JSON,
    LIBSVM,
    NDJSON,
    NPY,
    NPZ,
    ODS,
    PARQUET,
    TSV,
    XLS,
    XLSX,
    XZ,
    ZIP,
    ZSTD,
    Converted,
    ConvertSpec,
    ParseSpec,
    RowLimits,
    Rows,
    Stored,
)
from service.rows.table.writers import Table

HEAD_BYTES = 64 * 1024
"""Of a body, as much as `Format.begins` needs."""
_COMPRESSED = {
    b"\x1f\x8b": GZIP,
    b"BZh": BZIP2,
    b"\xfd7zXZ\0": XZ,
    b"\x28\xb5\x2f\xfd": ZSTD,
}
_OBJECTS = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
"""One a line."""
_ARCHIVE = b"PK\x03\x04"
_MEMBER_OF_NPZ = re.compile(rb"[A-Za-z_0-9]+\.npy")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FIRST_MEMBER = 30
"""Where its name begins in an archive."""
_LIBSVM_LINE = re.compile(rb"[^\s:,;]+(?:[ \t]+[0-9]+:[0-9.eE+-]+)+[ \t]*(?:\r?\n|$)")
_JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*\{)')
_JSON_OBJECT = re.compile(rb'\s*\{\s*"')
_CSV = "save its table as CSV"
_PARQUET = "save its table as Parquet"
_BEGINNINGS = {
    rb"\s*<(?i:!doctype html|html|head|table)\b": (
        "a page of HTML",
        "was the download an error message or a login page?",
    ),
    rb"(?:[%@\s][^\n]*\n){0,99}?(?i:@relation)\s": ("an ARFF file of Weka", _CSV),
    rb"FEA1": ("a Feather file of version 1", _PARQUET),
    rb"MATLAB [57]": ("a file of MATLAB", f"{_CSV}, with writetable"),
    rb"<stata_dta>|[\x66-\x73][\x01\x02]\x01\x00": ("a file of Stata", f"{_CSV}, with export"),
    rb"\$FL[23]": ("a file of SPSS", _CSV),
    rb"\x00{12}\xc2\xea\x81\x60|HEADER RECORD\*": ("a file of SAS", f"{_CSV}, with proc export"),
    rb"RD[AX][23]\n|[XA]\n\x00\x00\x00[23]": ("data of R", f"{_CSV}, with write.csv"),
    rb"\x89HDF\r\n": ("an HDF5 file", _PARQUET),
    rb"\x80[\x02-\x05]": ("a pickle of Python, which can run any code", _PARQUET),
    rb"SQLite format 3": ("a database of SQLite", _CSV),
    rb"Obj\x01|ORC[\x00-\x1f]": ("an Avro or ORC file", _PARQUET),
    rb"%PDF-": ("a PDF document", _CSV),
    rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|II\*\x00|MM\x00\*|RIFF.{4}WAVE": (
        "an image or a sound",
        "send a table",
    ),
    rb"7z\xbc\xaf|Rar!|.{257}ustar": ("an archive of another kind", "send a zip file of one file"),
}
_KNOWN = [
    (re.compile(pattern, re.DOTALL), f"{what}: {way}")
    for pattern, (what, way) in _BEGINNINGS.items()
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format, and what can be done with it."""

    media_type: str
    suffixes: tuple[str, ...]
    """Of file names; files that the service writes get the first one."""
    magic: tuple[bytes, ...] = ()
    """How all files begin, of a format that is not text."""
    pattern: re.Pattern[bytes] | None = None
    """How a text begins that plainly is of this format."""
    options: frozenset[str] = frozenset()
    """Those of `ReadOptions` that only some formats have."""
    upload: str
    """Module in `formats` and its function of a `ParseSpec`, for the parsing process alone."""
    labels: bool = False
    """Labels may come in a file of their own of this format."""
    read_rows: Callable[[bytes, Columns, RowLimits], Rows] | None = None
    """Rows to predict. Raises ServiceError, InvalidContent with every bad row."""
    packed: bool = False
    """`as_csv` makes a text of them, in the parsing process, for `read_rows`."""
    cells: bool = False
    """`as_csv` of its module writes the cells as they are; other files are read as an upload."""
    lines: bool = False
    """A row is a line."""
    write: Callable[[Stored, BinaryIO], None] | None = None
    """A stored dataset to a file; None if only uploads are of this format."""

    def begins(self, head: bytes) -> bool:
        """Whether a body that begins so is plainly of this format."""
        if self.pattern is not None:
            return self.pattern.match(head) is not None
        return head.startswith(self.magic)

    def read(self, spec: ParseSpec) -> Table:
        """An upload to arrays on disk. Raises ServiceError with every fault."""
        collecting = gc.isenabled()
        gc.disable()  # cells are lists of values, which form no cycles to search for
        try:
            table: Table = getattr(self._module, self.upload.partition(".")[2])(spec)
            return table
        finally:
            if collecting:
                gc.enable()

    def as_csv(self, spec: ConvertSpec) -> Converted:
        """Rows to predict as CSV, of a format with `cells`. Raises ServiceError."""
        return Converted(self._module.as_csv(spec))

    @property
    def _module(self) -> Any:
        return import_module(f"service.rows.formats.{self.upload.partition('.')[0]}")


_OF_TEXTS = ("header", "decimal", "thousands", "missing", "odd_cells", "dayfirst", "schema")
_OF_VALUES = frozenset({"schema", "odd_cells"})
_TABLE = partial(
    Format,
    upload="text_table.read",
    options=frozenset({"delimiter", "encoding", *_OF_TEXTS}),
    labels=True,
    lines=True,
    cells=True,
)
_SHEETS = partial(
    Format,
    magic=(_OLE, _ARCHIVE),
    upload="xlsx.read",
    options=frozenset({"sheet", *_OF_TEXTS}),
    read_rows=delimited_rows.read_converted_rows,
    packed=True,
    cells=True,
)
"""Each may have the name of another one: the library looks at the contents."""
FORMATS = {
    one.media_type: one
    for one in (
        _TABLE(
            media_type=CSV,
            suffixes=(".csv", ".txt"),
            read_rows=partial(delimited_rows.read_rows, delimiter=DELIMITED[CSV]),
            write=partial(rendering.write_delimited, delimiter=DELIMITED[CSV]),
        ),
        Format(
            media_type=JSON,
            suffixes=(".json",),
            pattern=_JSON,
            upload="json_uploads.read",
            options=_OF_VALUES,
            read_rows=json_to_predict.read_document,
            write=rendering.write_json,
        ),
        Format(
            media_type=NDJSON,
            suffixes=(".ndjson", ".jsonl"),
            pattern=_JSON_OBJECT,
            upload="json_uploads.read_lines",
            options=_OF_VALUES,
            read_rows=json_to_predict.read_lines,
            lines=True,
            write=rendering.write_ndjson,
        ),
        _TABLE(
            media_type=TSV,
            suffixes=(".tsv",),
            read_rows=partial(delimited_rows.read_rows, delimiter=DELIMITED[TSV]),
            write=partial(rendering.write_delimited, delimiter=DELIMITED[TSV]),
        ),
        Format(
            media_type=NPZ,
            suffixes=(".npz",),
            magic=(_ARCHIVE,),
            options=frozenset({"dense"}),
            upload="npy.read_npz",
            write=rendering.write_npz,
        ),
        Format(
            media_type=PARQUET,
            suffixes=(".parquet",),
            magic=(b"PAR1", b"PARE"),
            upload="parquet.read",
            options=_OF_VALUES,
            read_rows=delimited_rows.read_converted_rows,
            packed=True,
            cells=True,
            write=rendering.write_parquet,
        ),
        Format(
            media_type=ARROW,
            suffixes=(".arrows", ".arrow", ".feather", ".ipc"),
            magic=(arrow.STREAM, arrow.FILE),
            upload="arrow.read",
            options=_OF_VALUES,
            read_rows=arrow.read_rows,
        ),
        Format(
            media_type=NPY,
            suffixes=(".npy",),
            magic=(npy.MAGIC,),
            upload="npy.read",
            labels=True,
            read_rows=npy.read_rows,
            write=rendering.write_npy,
        ),
        Format(
            media_type=LIBSVM,
            suffixes=(".libsvm", ".svm"),
            pattern=_LIBSVM_LINE,
            options=frozenset({"index_base", "dense"}),
            upload="libsvm.read",
            read_rows=libsvm.read_rows,
            lines=True,
            write=rendering.write_libsvm,
        ),
        _SHEETS(media_type=XLS, suffixes=(".xls",)),
        _SHEETS(media_type=XLSX, suffixes=(".xlsx",)),
        _SHEETS(media_type=ODS, suffixes=(".ods",)),
    )
}
"""By media type; those that are preferred for a stored dataset come first."""
SUFFIXES = {suffix: one.media_type for one in FORMATS.values() for suffix in one.suffixes}
ARCHIVES = {".zip": ZIP, ".gz": GZIP, ".bz2": BZIP2, ".xz": XZ, ".zst": ZSTD}
"""By the suffix of a name."""
_OTHER_NAMES = {
    "application/csv": CSV,
    "text/x-csv": CSV,
    "text/comma-separated-values": CSV,
    "application/x-zip-compressed": ZIP,
    "application/x-gzip": GZIP,
    "application/x-bzip": BZIP2,
    "application/bzip2": BZIP2,
    "application/x-zstd": ZSTD,
    "application/vnd.apache.arrow.file": ARROW,
}
"""As browsers of some systems and other programs call them."""
DOWNLOADS = tuple(one.media_type for one in FORMATS.values() if one.write)
ROW_FORMATS = tuple(one.media_type for one in FORMATS.values() if one.read_rows)
LABEL_FORMATS = tuple(one.media_type for one in FORMATS.values() if one.labels)


def known_type(media_type: str) -> str:
    """The media type under which a format is in the table."""
    return _OTHER_NAMES.get(media_type, media_type)


def check_format(media_type: str, head: bytes) -> None:
    """Raises UnsupportedFormat `format-mismatch` for what plainly is another format."""
    expected = FORMATS[media_type]
    if expected.begins(head):
        return
    seen = _seen(head)
    if expected.magic and head:
        seen = seen or "something else"
    if seen not in (None, media_type):
        message = f"Content-Type says {media_type}, but the body looks like {seen}"
        if seen == GZIP:
            message += "; say Content-Encoding: gzip"
        raise UnsupportedFormat("format-mismatch", message)


def format_of(head: bytes) -> str:
    """The media type of a file, maybe of an archive, whose name does not say it: CSV if nothing
    else does. Raises UnsupportedFormat for formats of other programs."""
    foreign = other_program(head)
    if foreign is not None:
        raise UnsupportedFormat("unsupported-format", f"the file is {foreign}")
    return _seen(head) or CSV


def _seen(head: bytes) -> str | None:
    """What the contents plainly are: a media type, or a format that is not read."""
    if head.startswith(_ARCHIVE):
        return _kind_of_archive(head)
    compressed = next((one for magic, one in _COMPRESSED.items() if head.startswith(magic)), None)
    known = (one.media_type for one in FORMATS.values() if one.begins(head))
    return (
        compressed or other_program(head) or (NDJSON if _OBJECTS.match(head) else next(known, None))
    )


def _kind_of_archive(head: bytes) -> str:
    """What an archive holds, by the name of its first member."""
    name = head[_FIRST_MEMBER:]
    if name.startswith((b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/")):
        return XLSX
    if name.startswith(b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"):
        return ODS
    return NPZ if _MEMBER_OF_NPZ.match(name) else ZIP


def other_program(head: bytes) -> str | None:
    """What a file is that begins so, and the way out; None if it is none of these."""
    return next((what for pattern, what in _KNOWN if pattern.match(head)), None)
