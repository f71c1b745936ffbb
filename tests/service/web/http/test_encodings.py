"""Bodies that come compressed, in pieces."""

from __future__ import annotations

import gzip
import random

import pytest

from service.errors import TooLarge
from service.web.http.encodings import PIECE_BYTES, Inflater


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 5])
@pytest.mark.parametrize("step", [1000, 10**9])
def test_pieces_make_the_whole(size: int, step: int) -> None:
    """Whatever the size of what comes, no piece is larger than it may be."""
    body = random.Random(0).randbytes(size // 4 + 1) * 4
    compressed = gzip.compress(body[:size], 1)
    inflater = Inflater(10**9)
    pieces = [
        piece
        for start in range(0, len(compressed), step)
        for piece in inflater.feed(compressed[start : start + step])
    ]
    inflater.finish()
    assert b"".join(pieces) == body[:size]
    assert max(map(len, pieces), default=0) <= PIECE_BYTES


def test_bomb_is_refused_after_its_first_hundredfold() -> None:
    """50 MB of zeros in 50 kB are never inflated beyond a hundred times what came."""
    compressed = gzip.compress(bytes(50_000_000), 9)
    inflater = Inflater(10**9)
    sizes: list[int] = []
    with pytest.raises(TooLarge, match="100:1"):
        sizes.extend(map(len, inflater.feed(compressed)))
    assert sum(sizes) <= 100 * len(compressed)
