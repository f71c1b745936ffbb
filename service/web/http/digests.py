"""Content-Digest (RFC 9530): a body that says its own hash is held to it."""

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
    """What a request says of its content, as it comes over the wire."""

    def __init__(self, request: Request) -> None:
        """Raises InvalidRequest for a header that cannot be read; algorithms that we do not know
        say nothing."""
        self._expected: list[tuple[hashlib._Hash, bytes]] = []
        for line in request.headers.getlist(HEADER):
            for member in line.split(","):
                found = _MEMBER.fullmatch(member)
                if found is None:
                    raise _invalid_header()
                if found[1] in ALGORITHMS:
                    hash = hashlib.new(ALGORITHMS[found[1]])
                    self._expected.append((hash, _decoded(found[2])))

    def update(self, content: bytes | bytearray) -> None:
        """The next bytes of the content."""
        for hash, _ in self._expected:
            hash.update(content)

    def check(self) -> None:
        """All of it has come. Raises InvalidRequest where it is not what was said."""
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
