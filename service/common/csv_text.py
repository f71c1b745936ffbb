"""Text of CSV files that any reader gives back."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any


def csv_text(rows: Sequence[Sequence[Any]]) -> bytes:
    """Lines that end with a line feed. Python's writer would leave a lone carriage return in a cell
    without quotes, and readers would end the row there: then all texts are quoted."""
    text = _written(rows, csv.QUOTE_MINIMAL)
    return (_written(rows, csv.QUOTE_NONNUMERIC) if "\r" in text else text).encode()


def _written(rows: Sequence[Sequence[Any]], quoting: Any) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(rows)
    return text.getvalue()
