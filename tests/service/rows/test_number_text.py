"""Text that looks like a number and is not read as one: what to write instead."""

from __future__ import annotations

import json

import pytest

from service.rows.spec import JSON
from tests.service.rows.reading import refusal

DECIMAL = "write a decimal point instead of the comma"


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("20,043", "the comma is ambiguous: write 20043 or 20.043"),
        ("-1,500", "the comma is ambiguous: write -1500 or -1.500"),
        ("1,234,567", "separators of thousands are not read: write 1234567"),
        ("1,234.5", "separators of thousands are not read: write 1234.5"),
        ("1.234,5", "separators of thousands are not read: write 1234.5"),
        ("1.234.567", "separators of thousands are not read: write 1234567"),
        ("1 234", "separators of thousands are not read: write 1234"),
        ("1'234,5", "separators of thousands are not read: write 1234.5"),
        ("1\u202f234", "separators of thousands are not read: write 1234"),
        ("1,5", DECIMAL),
        ("0,043", DECIMAL),
        ("-0,5", DECIMAL),
        ("1234,567", DECIMAL),
        ("20,0430", DECIMAL),
        ("1,5e3", DECIMAL),
        (",5", DECIMAL),
        ("1_000", "write the digits without _"),
    ],
)
def test_hint_for_a_number(cell: str, hint: str) -> None:
    """No hint changes a number by three digits: where the comma may mean either, both are named."""
    error = refusal(json.dumps({"rows": [[1], [cell]]}), JSON)
    assert (error.code, error.faults[0].value, error.faults[0].hint) == ("not-a-number", cell, hint)


@pytest.mark.parametrize("cell", ["12,34,567", "1,23", "a,b", "1,234,56", "1,," + "2" * 5000])
def test_other_texts_get_no_such_hint(cell: str) -> None:
    """There is no hint for other texts."""
    hint = refusal(json.dumps({"rows": [[1], [cell]]}), JSON).faults[0].hint or ""
    assert "thousands" not in hint
    assert "ambiguous" not in hint
