"""Compressed bodies that arrive in pieces."""

from __future__ import annotations

import gzip
import random

import pytest

from service.common.encodings import PIECE_BYTES, Inflater, inflate
from service.errors import TooLarge, UnsupportedFormat


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 5])
@pytest.mark.parametrize("step", [1000, 10**9])
def test_joined_pieces_are_the_whole_body(size: int, step: int) -> None:
    """No piece is larger than allowed, for every size of input."""
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


def test_decompression_bomb_is_refused() -> None:
    """50 MB of zeros in 50 kB are decompressed to at most 100 times the received bytes."""
    compressed = gzip.compress(bytes(50_000_000), 9)
    inflater = Inflater(10**9)
    sizes: list[int] = []
    with pytest.raises(TooLarge, match="100:1"):
        sizes.extend(map(len, inflater.feed(compressed)))
    assert sum(sizes) <= 100 * len(compressed)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
def test_empty_body_is_not_compressed_data(encoding: str) -> None:
    """It is refused as an incomplete one."""
    with pytest.raises(UnsupportedFormat, match="not complete"):
        inflate(b"", encoding, 1000)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_body_of_several_members_is_read(encoding: str) -> None:
    """As `cat a.gz b.gz` and parallel compressors write it; only whole members are."""
    body = gzip.compress(b"a,b\n", mtime=0) + gzip.compress(b"1,2\n", mtime=0)
    assert inflate(body, encoding, 1000) == b"a,b\n1,2\n"
    for wrong in (body[:-1], body + b"x"):
        with pytest.raises(UnsupportedFormat, match="not complete"):
            inflate(wrong, encoding, 1000)
    with pytest.raises(TooLarge, match="more than 7 bytes"):
        inflate(body, encoding, 7)
