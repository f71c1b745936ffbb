"""NPZ: an archive of the arrays `X` and, for the labels, `y`, as `numpy.savez` writes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from service.errors import InvalidContent, InvalidRequest
from service.rows.faults import Faults, refuse
from service.rows.formats import npy
from service.rows.formats.shared.archive import Archive, BadArchive
from service.rows.spec import ParseSpec
from service.rows.table.labels import Labels, wrong_count
from service.rows.table.layout import NO_TARGET
from service.rows.table.target import Target
from service.rows.table.writers import Table

MEMBERS = {"X.npy", "y.npy"}


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError for what is wrong with the archive or its arrays."""
    arrays = _extract(spec)
    if "X.npy" not in arrays:
        raise _unsafe("the archive has no member X.npy")
    labeled = "y.npy" in arrays
    if labeled and (spec.labels is not None or spec.target not in (None, NO_TARGET)):
        message = "the labels are in the archive, as y: leave out `labels` and `target`"
        raise InvalidRequest("invalid-parameter", message)
    target = NO_TARGET if spec.target is None else spec.target
    table = npy.read(replace(spec, data=str(arrays["X.npy"]), target=target))
    if not labeled:
        return table
    return replace(table, target=_labels(arrays["y.npy"], table.n_samples))


def _labels(path: Path, n_samples: int) -> Target:
    labels = Labels(Faults())
    for block in npy.read_labels(path, text_bytes=npy.MAX_TEXT_BYTES):
        if block.dtype.kind == "U":
            labels.add_json(npy.texts_of(block))
        else:
            labels.add_numbers(block)
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish()


def _extract(spec: ParseSpec) -> dict[str, Path]:
    """The members by name, inflated beside the archive. Raises InvalidContent and TooLarge."""
    try:
        archive = Archive(Path(spec.data), len(MEMBERS))
        for name in archive.names:
            if name not in MEMBERS:
                raise BadArchive(f"the archive has a member {name[:64]!r}", name[:64])
        return archive.unpack(archive.names, Path(spec.out), spec.limits.inflated_bytes)
    except BadArchive as error:
        raise _unsafe(error.message, error.member) from None


def _unsafe(message: str, value: str | None = None) -> InvalidContent:
    hint = "write it with savez(file, X=X, y=y) or savez_compressed"
    return refuse("npz-unsafe", message, value=value, hint=hint)
