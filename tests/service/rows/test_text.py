"""Slices of text files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidContent
from service.rows.cell_texts.text import records, slices

cells = st.text(st.sampled_from('ab,"\n é€'), max_size=4)


@given(rows=st.lists(st.lists(cells, min_size=2, max_size=3)), slice_bytes=st.integers(1, 120))
def test_slices_end_between_records(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], slice_bytes: int
) -> None:
    """However small the slices, the records are those of the whole file; blanks before a cell do
    not count."""
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    path: Path = tmp_path_factory.mktemp("text") / "body"
    path.write_bytes(file.getvalue().encode())
    found = [
        record
        for part in slices(path, slice_bytes=slice_bytes)
        for record in records(part.text, ",")
    ]
    assert [[cell.lstrip(" ") for cell in record] for record in found] == [
        [cell.lstrip(" ") for cell in record] for record in rows
    ]


def test_endless_record(tmp_path: Path) -> None:
    """It is refused rather than cut; an open quote is named as the likely reason."""
    path = tmp_path / "body"
    path.write_text('1,"2\n' + "a,b\n" * 100)
    with pytest.raises(InvalidContent) as caught:
        list(slices(path, slice_bytes=16, record_bytes=64))
    assert caught.value.code == "csv-unterminated-quote"
    path.write_text("1,2\n" + "1" * 1000)
    with pytest.raises(InvalidContent) as caught:
        list(slices(path, slice_bytes=16, record_bytes=64))
    assert caught.value.code == "csv-cell-too-large"
