"""A backup that was changed, cut or made up is refused by a sentence, and leaves nothing behind."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from service.storage.backups import BackupFailed, back_up, restore
from service.storage.blobs import Blobs, LocalBlobs
from service.storage.database import Database
from tests.seeds import seed_from
from tests.service.storage.backups.test_backup import elsewhere, fill

__all__ = ["elsewhere"]

Elsewhere = tuple[Database, Blobs]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good backup."""
    folder = tmp_path_factory.mktemp("good")
    database, blobs = Database(f"sqlite:///{folder / 'service.db'}"), LocalBlobs(folder / "blobs")
    database.migrate()
    fill(database, blobs)
    back_up(database, blobs, folder / "good.tar")
    database.close()
    return folder / "good.tar"


@pytest.fixture
def members(good: Path) -> dict[str, bytes]:
    """The members of the good backup."""
    with tarfile.open(good) as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]


def _archive(path: Path, members: Mapping[str, bytes | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, member in members.items():
            if isinstance(member, bytes):
                info = tarfile.TarInfo(name)
                info.size = len(member)
                archive.addfile(info, io.BytesIO(member))
            else:
                archive.addfile(member)
    return path


def _put(value: Any, *path: str) -> Change:
    """A change of the manifest: the value at a path."""

    def put(manifest: dict[str, Any]) -> None:
        for name in path[:-1]:
            manifest = manifest[name]
        manifest[path[-1]] = value

    return put


def _drop(*path: str) -> Change:
    def drop(manifest: dict[str, Any]) -> None:
        for name in path[:-1]:
            manifest = manifest[name]
        del manifest[path[-1]]

    return drop


MANIFESTS: dict[str, tuple[Change, str]] = {
    "no format": (_drop("format"), "format"),
    "a format that is a text": (_put("1", "format"), "format"),
    "a newer format": (_put(2, "format"), "newer version"),
    "no revision": (_drop("revision"), "revision"),
    "a revision that is a number": (_put(16, "revision"), "revision"),
    "tables that are a list": (_put([], "tables"), "tables"),
    "no table": (_put({}, "tables"), "api_keys"),
    "a table less": (_drop("tables", "jobs"), "jobs"),
    "an unknown table": (_put({"columns": [], "rows": 0, "sha256": ""}, "tables", "x"), "x"),
    "no columns": (_drop("tables", "jobs", "columns"), "tables.jobs.columns"),
    "an unknown column": (_put(["x"], "tables", "jobs", "columns"), "jobs"),
    "columns that are a number": (_put(5, "tables", "jobs", "columns"), "tables.jobs.columns"),
    "fewer rows": (_put(0, "tables", "jobs", "rows"), "jobs"),
    "files that are null": (_put(None, "files"), "files"),
    "a file less": (_drop("files", "models/m1"), "models/m1"),
    "another size": (_put(9, "files", "models/m1", "size_bytes"), "models/m1"),
    "a negative size": (_put(-1, "files", "models/m1", "size_bytes"), "size_bytes"),
    "another digest": (_put("0" * 64, "files", "models/m1", "sha256"), "models/m1"),
    "a file that is not there": (_put({"sha256": "", "size_bytes": 0}, "files", "a/b"), "a/b"),
    "a file outside": (_put({"sha256": "", "size_bytes": 0}, "files", "a/../../b"), "a/../../b"),
    "a file at the root": (_put({"sha256": "", "size_bytes": 0}, "files", "/etc/x"), "/etc/x"),
    "another owner": (_put({"sha256": "", "size_bytes": 0}, "files", "owner/db"), "owner/db"),
    "damage that is a text": (_put("x", "damaged"), "damaged"),
    "more than there is": (_put(1, "more"), "more"),
}


def _refused(elsewhere: Elsewhere, path: Path, match: str) -> None:
    with pytest.raises(BackupFailed, match=match):
        restore(*elsewhere, path)
    assert list(elsewhere[1].keys("")) == []


@pytest.mark.parametrize("name", MANIFESTS)
def test_error_in_the_manifest_is_located(
    members: dict[str, bytes], elsewhere: Elsewhere, tmp_path: Path, name: str
) -> None:
    """The message names the member."""
    change, match = MANIFESTS[name]
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    changed = members | {"manifest.json": json.dumps(manifest).encode()}
    _refused(elsewhere, _archive(tmp_path / "bad.tar", changed), match)


def test_good_backup_can_be_restored_after_a_bad_one(
    good: Path, members: dict[str, bytes], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """Into the same database and file store, which are still empty."""
    _refused(elsewhere, _with_rows(tmp_path, members, "jobs", b"[]\n"), "the rows of jobs")
    assert restore(*elsewhere, good).files == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"format": 1e999}'],
    ids=["empty", "cut", "list", "null", "deep", "bytes", "infinite"],
)
def test_invalid_manifest_is_reported(
    members: dict[str, bytes], elsewhere: Elsewhere, tmp_path: Path, content: bytes
) -> None:
    """It is not a JSON object."""
    path = _archive(tmp_path / "bad.tar", members | {"manifest.json": content})
    _refused(elsewhere, path, "manifest.json")


@pytest.mark.parametrize(
    "rows",
    [b"{}\n", b"5\n", b"[\n", b"[1]\n", b'["ds_1"]\n', b"[" * 10_000 + b"\n", b"\xff\n"],
)
def test_invalid_rows_are_reported(
    members: dict[str, bytes], elsewhere: Elsewhere, tmp_path: Path, rows: bytes
) -> None:
    """Even if the manifest matches them."""
    _refused(elsewhere, _with_rows(tmp_path, members, "jobs", rows), "the rows of jobs")


@pytest.mark.parametrize("value", [None, "x", [1], {"a": 1}, 1e300, True])
def test_invalid_cells_are_reported(
    members: dict[str, bytes], elsewhere: Elsewhere, tmp_path: Path, value: Any
) -> None:
    """A value that a column cannot have."""
    (row,) = map(json.loads, members["tables/idempotency_keys.jsonl"].splitlines())
    columns = json.loads(members["manifest.json"])["tables"]["idempotency_keys"]["columns"]
    row[columns.index("body")] = "not base64"
    row[columns.index("caller")] = value
    rows = json.dumps(row).encode() + b"\n"
    _refused(elsewhere, _with_rows(tmp_path, members, "idempotency_keys", rows), "idempotency_keys")


def _with_rows(tmp_path: Path, members: dict[str, bytes], table: str, rows: bytes) -> Path:
    manifest = json.loads(members["manifest.json"])
    entry = manifest["tables"][table]
    entry["sha256"] = hashlib.sha256(rows).hexdigest()
    entry["rows"] = len(rows.splitlines())
    changed = {f"tables/{table}.jsonl": rows, "manifest.json": json.dumps(manifest).encode()}
    return _archive(tmp_path / "bad.tar", members | changed)


@pytest.mark.parametrize(
    "kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]
)
@pytest.mark.parametrize("name", ["manifest.json", "files/models/m1", "tables/jobs.jsonl"])
def test_member_that_is_not_a_file_is_reported(
    members: dict[str, bytes], elsewhere: Elsewhere, tmp_path: Path, kind: bytes, name: str
) -> None:
    """A directory, a FIFO, or a link to itself."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, name
    _refused(elsewhere, _archive(tmp_path / "bad.tar", {**members, name: info}), name)


def test_other_archives_and_files_are_refused(elsewhere: Elsewhere, tmp_path: Path) -> None:
    """A tar of something else, a compressed one, a text and a directory."""
    other = _archive(tmp_path / "other.tar", {"a": b"b"})
    with tarfile.open(tmp_path / "packed.tar", "w:gz") as archive:
        archive.add(other, "a")
    (tmp_path / "text.tar").write_text("text" * 500)
    for name in ("other.tar", "packed.tar", "text.tar", "."):
        _refused(elsewhere, tmp_path / name, "not a backup")


def test_any_damage_is_reported(good: Path, tmp_path: Path) -> None:
    """With changed bytes anywhere, or truncated: refused, or restored; no other exception."""
    content, draw = good.read_bytes(), random.Random(seed_from("FUZZ_SEED"))
    for number in range(30):
        bad = bytearray(content)
        for _ in range(draw.choice([1, 1, 4, 64])):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        path, target = tmp_path / "bad.tar", tmp_path / f"target{number}"
        path.write_bytes(bad[: draw.choice([len(bad), len(bad), draw.randrange(len(bad))])])
        database = Database(f"sqlite:///{target}.db")
        try:
            restore(database, LocalBlobs(target), path)
        except BackupFailed:
            assert list(LocalBlobs(target).keys("")) == []
        database.close()
