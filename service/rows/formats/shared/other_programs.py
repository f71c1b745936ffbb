"""Formats that are not read: how files of other programs begin, and what to do instead."""

from __future__ import annotations

import re

_CSV = "save its table as CSV"
_PARQUET = "save its table as Parquet"
_BEGINNINGS = {
    rb"\s*<(?i:!doctype html|html|head|table)\b": (
        "a page of HTML",
        "was the download an error message or a login page?",
    ),
    rb"(?:[%@\s][^\n]*\n){0,99}?(?i:@relation)\s": ("an ARFF file of Weka", _CSV),
    rb"ARROW1|FEA1": ("a Feather file of Arrow", _PARQUET),
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


def other_program(head: bytes) -> str | None:
    """What a file is that begins so, and the way out; None if it is none of these."""
    return next((what for pattern, what in _KNOWN if pattern.match(head)), None)
