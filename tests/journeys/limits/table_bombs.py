"""Small tables with kinds, workbooks and archives that would need very much memory or time."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable

from service.rows.spec import CSV, NDJSON, XLSX, ZIP
from tests.journeys.limits.bombs import UPLOAD, Bomb
from tests.journeys.limits.memory import MIB
from tests.service.rows.workbooks import MAIN, workbook, zipped

AS_TABLE = f"{UPLOAD}?decimal=."
"""With an option that plain numbers do not need: the file is read as a table with kinds."""
ONE = '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>1</v></c></row>'


def text_bombs() -> dict[str, Bomb]:
    """Text files."""
    cells = ",".join(["ab"] * 1_300_000)
    many = rows(20_000, 12, lambda i, j: f"c{i % 10_000}_{j}")
    different = rows(10_500, 40, lambda i, j: f"{i}_{j}")
    wide = rows(260, 60, lambda i, j: f"{i}_{j}".ljust(1000, "\U0001f600"))
    odd = rows(9_000, 30, lambda i, j: str(j) if i < 3000 else f"{i}_{j}")
    objects = b"".join(b'{"a":"c%d","b":"d%d","k":%d}\n' % (i, i, i % 2) for i in range(50_000))
    return {
        "levels": Bomb(UPLOAD, CSV, many, 422, "too-many-levels", within_s=10),
        "different texts": Bomb(UPLOAD, CSV, different, 422, "empty-data", within_s=10),
        "different texts in ndjson": Bomb(UPLOAD, NDJSON, objects, 422, "empty-data", within_s=10),
        "long texts": Bomb(UPLOAD, f"{CSV}+gzip", packed(wide), 422, "empty-data", within_s=10),
        "texts among numbers": Bomb(UPLOAD, CSV, odd, 422, "too-many-levels", within_s=10),
        "cell of a table": Bomb(
            UPLOAD, CSV, b"a,b,k\nx,y,1\nz," + b"x" * 30 * MIB, 422, "csv-cell-too-large"
        ),
        "line of a table": Bomb(AS_TABLE, CSV, cells.encode(), 422, "csv-cell-too-large"),
        "quoted line of a table": Bomb(
            AS_TABLE, CSV, f'"a",{cells}'.encode(), 422, "csv-unterminated-quote"
        ),
        "line with blanks": Bomb(
            AS_TABLE, CSV, cells.replace(",", " ").encode(), 422, "csv-cell-too-large"
        ),
        "line below others": Bomb(
            AS_TABLE, CSV, b"a,b\n" + b"x,y\n" * 80_000 + cells.encode(), 422, "csv-cell-too-large"
        ),
        "quote that does not end": Bomb(
            UPLOAD, CSV, b'a,b,k\nx,y,1\nz,"' + b"x,y\n" * MIB, 422, "csv-unterminated-quote"
        ),
        "quotes in lines": Bomb(
            UPLOAD, CSV, b"a,b,k\nx,y,1\n" + b'z,"y,1\n' * 4 * MIB, 422, "csv-unterminated-quote"
        ),
    }


def workbook_bombs() -> dict[str, Bomb]:
    """Small workbooks of large sheets, and with cells that have no value."""
    announced = xml(ONE.replace("<v>1", "<v>2")).replace(
        "<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>'
    )
    strings = f'<sst {MAIN} count="4000000000" uniqueCount="4000000000"><si><t>a</t></si></sst>'
    entities = "".join(
        f'<!ENTITY {name} "{f"&{before};" * 10}">'
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    laughs = f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{entities}]>'
    laughter = '<row r="1"><c r="A1" t="inlineStr"><is><t>&i;</t></is></c></row>'
    formulas = "".join(
        f'<row r="{i}"><c r="A{i}"><f>REPT("x",1000000000)</f></c>'
        f'<c r="B{i}" t="str"><f>B{i + 1}</f></c><c r="C{i}" t="e"><v>#REF!</v></c></row>'
        for i in range(1, 50)
    )
    days = ["1e9", "-1e9", "2958466", "1e300", "nan", "-0.5"]
    dates = "".join(
        f'<row r="{i}"><c r="A{i}" s="1"><v>{day}</v></c><c r="B{i}" s="2"><v>{day}</v></c></row>'
        for i, day in enumerate(days, 1)
    )
    beyond = '<row r="1"><c r="A1" t="s"><v>4000000000</v></c></row>'
    failed = 422, "parsing-failed"
    return {
        "farthest cell": Bomb(UPLOAD, XLSX, far("XFD1048576"), *failed, within_s=3),
        "far cell": Bomb(UPLOAD, XLSX, far("Z100000"), *failed, within_s=3),
        "far row": Bomb(UPLOAD, XLSX, far("A1048576"), within_s=3),
        "far column": Bomb(UPLOAD, XLSX, far("XFD40"), within_s=3),
        "row beyond": Bomb(UPLOAD, XLSX, far("A4000000000"), *failed, within_s=3),
        "column beyond": Bomb(UPLOAD, XLSX, far("ZZZZZZZZZ1"), *failed, within_s=3),
        "announced cells": Bomb(UPLOAD, XLSX, sheet(announced), 201, within_s=3),
        "announced texts": Bomb(UPLOAD, XLSX, sheet(xml(ONE), strings), *failed, within_s=3),
        "entities": Bomb(UPLOAD, XLSX, sheet(laughs + xml(laughter)), within_s=3),
        "formulas": Bomb(UPLOAD, XLSX, sheet(xml(formulas)), 422, "empty-data", within_s=3),
        "text beyond": Bomb(UPLOAD, XLSX, sheet(xml(beyond)), within_s=3),
        "dates beyond": Bomb(UPLOAD, XLSX, sheet(xml(dates)), within_s=3),
        "zeros": Bomb(UPLOAD, XLSX, sheet(" " * 16 * MIB), 413, "decompression-limit"),
    }


def archive_bombs() -> dict[str, Bomb]:
    """Zip files of zeros, of zip files and of many members."""
    nested = zipped({"data.csv.gz": gzip.compress(bytes(16 * MIB))})
    members = zipped({f"{i}.csv": b"" for i in range(5_000)})
    return {
        "zip": Bomb(UPLOAD, ZIP, zipped({"data.csv": bytes(16 * MIB)}), 413, "decompression-limit"),
        "nested zip": Bomb(UPLOAD, ZIP, zipped({"data.zip": nested}), 415, "unsupported-format"),
        "gzip in a zip": Bomb(UPLOAD, ZIP, nested, 415, "unsupported-format"),
        "many members": Bomb(UPLOAD, ZIP, members, 422, "archive-unsupported"),
        "many members of a workbook": Bomb(UPLOAD, XLSX, members, 422, "archive-unsupported"),
    }


def rows(n_rows: int, n_columns: int, text: Callable[[int, int], str]) -> bytes:
    """A CSV file of these texts, with a label."""
    lines = [",".join([*(f"a{j}" for j in range(n_columns)), "k"])]
    lines += [
        ",".join([*(text(i, j) for j in range(n_columns)), str(i % 2)]) for i in range(n_rows)
    ]
    return "\n".join([*lines, ""]).encode()


def packed(table: bytes) -> bytes:
    """As gzip, with random bytes in comments, so that it is not 100 times smaller."""
    noise = random.Random(0).randbytes(len(table) // 150).hex()
    comments = "".join(f"#{noise[i : i + 1000]}\n" for i in range(0, len(noise), 1000))
    return gzip.compress(table + comments.encode(), 1)


def xml(cells: str) -> str:
    return f"<worksheet {MAIN}><sheetData>{cells}</sheetData></worksheet>"


def far(place: str) -> bytes:
    """A workbook with one cell far from the others."""
    row = place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return sheet(xml(f'{ONE}<row r="{row}"><c r="{place}"><v>1</v></c></row>'))


def sheet(content: str, strings: str = "") -> bytes:
    """A workbook of one sheet."""
    out = io.BytesIO(workbook({"s": content}))
    if strings:
        with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/sharedStrings.xml", strings)
    return out.getvalue()
