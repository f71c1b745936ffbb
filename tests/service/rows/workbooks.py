"""Workbooks as Excel writes them, with as few parts as they need."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DAY_ONE = datetime.date(1899, 12, 30)
_STYLES = (
    f'<styleSheet {MAIN}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="21"/>'
    "</cellXfs></styleSheet>"
)
"""A general one, dates, times."""

Rows = Sequence[Sequence[Any]]


def workbook(sheets: Mapping[str, Rows | str]) -> bytes:
    """A workbook with these sheets: rows, or XML."""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
        "_rels/.rels": _relations({"rId1": ("officeDocument", "xl/workbook.xml")}),
        "xl/styles.xml": _STYLES,
    }
    listed, relations = "", {"rId0": ("styles", "styles.xml")}
    for number, (name, rows) in enumerate(sheets.items(), 1):
        listed += f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number}"/>'
        relations[f"rId{number}"] = "worksheet", f"worksheets/sheet{number}.xml"
        xml = rows if isinstance(rows, str) else sheet(rows)
        parts[f"xl/worksheets/sheet{number}.xml"] = xml
    namespaces = f'{MAIN} xmlns:r="{_OFFICE}"'
    parts["xl/workbook.xml"] = f"<workbook {namespaces}><sheets>{listed}</sheets></workbook>"
    parts["xl/_rels/workbook.xml.rels"] = _relations(relations)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, xml in parts.items():
            archive.writestr(part, f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}')
    return out.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip file with these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def sheet(rows: Rows) -> str:
    """The XML of a sheet; None is an empty cell."""
    lines = (f'<row r="{n}">{"".join(_cells(row, n))}</row>' for n, row in enumerate(rows, 1))
    return f"<worksheet {MAIN}><sheetData>{''.join(lines)}</sheetData></worksheet>"


def _cells(row: Sequence[Any], number: int) -> list[str]:
    return [
        _cell(f"{chr(ord('A') + i)}{number}", value)
        for i, value in enumerate(row)
        if value is not None
    ]


def _cell(place: str, value: Any) -> str:
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{value:d}</v></c>'
    if isinstance(value, str):
        text = f'<t xml:space="preserve">{escape(value)}</t>'
        return f'<c r="{place}" t="inlineStr"><is>{text}</is></c>'
    if isinstance(value, datetime.time):
        seconds = value.hour * 3600 + value.minute * 60
        return f'<c r="{place}" s="2"><v>{seconds / 86400!r}</v></c>'
    if isinstance(value, datetime.date):
        return f'<c r="{place}" s="1"><v>{(value - _DAY_ONE).days}</v></c>'
    return f'<c r="{place}"><v>{value!r}</v></c>'


def _relations(relations: Mapping[str, tuple[str, str]]) -> str:
    lines = (
        f'<Relationship Id="{id}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for id, (kind, target) in relations.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{"".join(lines)}</Relationships>'
