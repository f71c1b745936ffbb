"""Whatever the bytes are: a dataset of finite numbers, or an error of the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import ServiceError
from service.rows.spec import CSV, JSON, LIBSVM, NPY, TSV
from service.web.problems import PROBLEMS
from tests.service.rows.arrays import npy
from tests.service.rows.reading import Result, upload

VALID = {
    CSV: b'a,"b",k\r\n1,-2.5e3,x\r\n"3",4,"y ""z"""\r\n',
    TSV: b"a\tb\tk\n1\t2\t5\n3\t4\t6\n",
    JSON: b'{"columns": ["a", "\\u00e9\\""], "rows": [[1, -2.5e3], [3, 4]], "labels": ["x", "y"]}',
    LIBSVM: b"+1 1:0.5 3:-2e3 # c\n-1 2:1\n",
    NPY: npy(np.array([[1.5, 2.0, 0.0], [3.0, 4.0, 1.0]])),
}
PIECES = [b"", b"\0", b'"', b",", b"\n", b"\r", b":", b"[", b"}", b"\\", b"9" * 400, b"1e999", b"-"]
PIECES += [b"nan", b"_", b" ", b"\xff", "é".encode(), b"\xed\xa0\x80", b"\xef\xbb\xbf", b"#", b"0x"]

edits = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 4), st.sampled_from(PIECES) | st.binary()),
    min_size=1,
    max_size=3,
)


def outcome(content: bytes, media_type: str) -> Result | ServiceError:
    try:
        return upload(content, media_type)
    except ServiceError as error:
        return error


@pytest.mark.parametrize("media_type", VALID)
@given(edits=edits)
def test_damaged_files(media_type: str, edits: list[tuple[int, int, bytes]]) -> None:
    """Bytes removed and put in anywhere never crash the reader, and never get in unseen."""
    content = VALID[media_type]
    for at, length, piece in edits:
        at %= len(content) + 1
        content = content[:at] + piece + content[at + length :]
    found = outcome(content, media_type)
    if isinstance(found, ServiceError):
        assert {found.code, *(fault.code for fault in found.faults)} <= set(PROBLEMS)
        return
    values = found.arrays.get("data" if found.parsed.sparse else "X", np.zeros(0))
    gaps = bool(found.parsed.table)  # NaN means missing; all may be categories
    assert (np.isfinite(values) | (gaps & np.isnan(values))).all()
    assert found.parsed.n_samples > 0
    assert found.parsed.n_features > 0
    assert len(found.arrays.get("y", found.arrays.get("values", ()))) in (
        0,
        found.parsed.n_samples,
    )
