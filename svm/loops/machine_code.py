"""Machine code of compiled loops on disk, safe to share between processes that end at any time.

Numba keeps an index for each function, which says in which file the code of each signature is. Two
processes that compile different signatures at once choose the same file, and one signature then
has the code of the other for ever. Here the signature itself names the file, and the file says what
it contains.
"""

# mypy: disable-error-code="no-untyped-call"
# Numba is not typed.

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba import __version__ as numba_version
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.serialize import dumps

DIGEST_BYTES = 32


class MachineCodeCache(FunctionCache):
    """Numba's cache of one function, with other files.

    Raises RuntimeError if no folder is writable.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _FilePerSignature(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def save_overload(self, sig: object, data: object) -> None:
        """Keep the code of a signature, unless the disk is full or fails."""
        with suppress(OSError):
            super().save_overload(sig, data)

    def signatures(self, codegen: Any) -> list[Any]:
        """Of the code on disk that this process can use."""
        assert isinstance(self._cache_file, _FilePerSignature)
        keys = self._cache_file.keys()
        return [key[0] for key in keys if self._index_key(key[0], codegen) == key]


class _FilePerSignature(IndexDataCacheFile):
    """The two methods by which Numba's cache reads and writes files.

    A file is the SHA-256 of its content, then the content: to what it belongs, and the code. A
    file that is damaged or of other sources is ignored and replaced.
    """

    def load(self, key: object) -> Any:
        """The code of a signature; None if it must be compiled."""
        owner, code = self._read(self._path(key))
        return code if owner == (self._source_stamp, key) else None

    def keys(self) -> list[Any]:
        """The keys of all files of these sources."""
        index = Path(self._index_path)
        owners = [self._read(path)[0] for path in index.parent.glob(f"{index.stem}.*.nbc")]
        return [owner[1] for owner in owners if owner and owner[0] == self._source_stamp]

    def _read(self, path: Path) -> tuple[Any, Any]:
        """To what the file belongs, and its code; None if it cannot be used."""
        try:
            content = path.read_bytes()
        except OSError:
            return None, None
        digest, content = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None, None
        try:
            owner, code = pickle.loads(content)
        except (ImportError, AttributeError):  # of a loop that it calls, which has moved since
            return None, None
        return owner, code

    def save(self, key: object, code: object) -> None:
        """Keep the code of a signature."""
        content = dumps(((self._source_stamp, key), code))
        path = self._path(key)
        temporary = path.with_suffix(f".{uuid4().hex}.tmp")
        try:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _path(self, key: object) -> Path:
        name = hashlib.sha256(repr((numba_version, key)).encode()).hexdigest()[:24]
        return Path(self._index_path).with_suffix(f".{name}.nbc")
