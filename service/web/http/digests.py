"""Content-Digest (RFC 9530): the body of a request must match its hash."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from starlette.requests import Request

from service.errors import InvalidRequest

HEADER = "content-digest"
ALGORITHMS = {"sha-256": "sha256", "sha-512": "sha512"}

_MEMBER = re.compile(r"\s*([a-z][a-z0-9-]*)\s*=\s*:([A-Za-z0-9+/=]*):\s*(?:;[^,]*)?")


class ContentDigest:
    """The expected digests of a request's body, as it is sent (possibly compressed)."""

    def __init__(self, request: Request) -> None:
        """Unknown algorithms are ignored, and of a repeated one all but the last digest (RFC 9651,
        section 3.2). Raises InvalidRequest if the header is invalid."""
        digests: dict[str, bytes] = {}
        for line in request.headers.getlist(HEADER):
            for member in line.split(","):
                match = _MEMBER.fullmatch(member)
                if match is None:
                    raise _invalid_header()
                if match[1] in ALGORITHMS:
                    digests[ALGORITHMS[match[1]]] = _decoded(match[2])
        self._expected = [(hashlib.new(name), digest) for name, digest in digests.items()]

    def update(self, content: bytes | bytearray) -> None:
        """Add the next bytes of the body."""
        for hash, _ in self._expected:
            hash.update(content)

    def check(self) -> None:
        """Call this at the end of the body. Raises InvalidRequest if a digest differs."""
        for hash, expected in self._expected:
            if not hmac.compare_digest(hash.digest(), expected):
                raise InvalidRequest(
                    "digest-mismatch",
                    f"the {hash.name} of the body does not match Content-Digest; send it again",
                )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _invalid_header() from None


def _invalid_header() -> InvalidRequest:
    return InvalidRequest("invalid-header", "Content-Digest must be like sha-256=:…:, in base64")
