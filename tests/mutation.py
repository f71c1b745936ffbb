"""Damaged files: bytes flipped, cut, doubled and swapped for what parsers stumble over."""

from __future__ import annotations

import struct

import numpy as np

TEXTS = [
    *(
        b"",
        b'"',
        b"'",
        b",",
        b"\n",
        b"\r",
        b"\r\n",
        b":",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\\",
        b"-",
    ),
    *(b"nan", b"Infinity", b"1e999", b"-0", b"_", b" ", b"#", b"0x1F", b"1_0", b"9" * 400, b"null"),
    *(b"true", "é𝛌".encode(), b"\\ud800", b"[" * 40, b'{"a":' * 40, b"x" * 5000, b"1," * 3000),
]
PIECES = [
    *TEXTS,
    *(b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"PK\x05\x06", b"PAR1", b"\x1f\x8b"),
    *(struct.pack("<Q", n) for n in (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)),
    *(struct.pack("<I", n) for n in (0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1)),
]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """One to four edits, each at a place of its own; one file in twenty is cut off.

    A text mostly stays one.
    """
    textual = rng.random() < 0.9 and content.isascii()
    pieces = TEXTS if textual else PIECES
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(data) + 1))
        # Headers, footers and directories are short, and at the ends.
        if rng.random() < 0.3:
            near = min(len(data), 64)
            at = int(rng.integers(near + 1))
            at = len(data) - at if rng.random() < 0.5 else at
        length = int(rng.integers(0, 9))
        match rng.integers(6):
            case 0:
                data[at : at + length] = pieces[int(rng.integers(len(pieces)))]
            case 1:
                new = rng.integers(32, 127 if textual else 256, int(rng.integers(0, 9)))
                data[at : at + length] = new.astype(np.uint8).tobytes()
            case 2 if at < len(data):
                data[at] ^= 1 << int(rng.integers(5 if textual else 8))
            case 3 if at < len(data):
                data[at] = int(rng.integers(32, 127 if textual else 256))
            case 4:
                other = int(rng.integers(len(data) + 1))
                data[at:at] = data[other : other + int(rng.integers(1, 200))]
            case 5:
                del data[at : at + int(rng.integers(1, 40))]
    if rng.random() < 0.05:
        del data[int(rng.integers(len(data) + 1)) :]
    return bytes(data)
