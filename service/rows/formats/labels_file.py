"""Labels in a file of their own: one a line, or an NPY array with one for each row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.rows.cell_texts.encodings import as_utf8
from service.rows.cell_texts.text import records, slices, unterminated
from service.rows.faults import Faults
from service.rows.formats import npy
from service.rows.spec import NPY, TSV, ParseSpec
from service.rows.table.labels import Labels, Target, wrong_count


def read(spec: ParseSpec, n_samples: int) -> tuple[Target, list[dict[str, Any]]]:
    """The labels of `n_samples` rows, and warnings.

    The first line is a header if there is one line more than there are rows, unless
    `header=absent`. Raises InvalidContent, `label-count` if the number of labels does not fit.
    """
    assert spec.labels is not None
    labels = Labels(Faults(), kind=spec.label_kind, decimal=spec.decimal)
    warnings: list[dict[str, Any]] = []
    if spec.labels_media_type == NPY:
        for block in npy.read_labels(Path(spec.labels)):
            labels.add_numbers(block)
    else:
        new = Path(spec.out) / "labels-as-utf-8"
        path, _, warnings = as_utf8(Path(spec.labels), spec.encoding, new)
        n_lines = sum(len(texts) for texts in _texts(spec, path))
        header = spec.header != "absent" and n_lines == n_samples + 1
        for i, texts in enumerate(_texts(spec, path)):
            labels.add_texts(texts[1:] if header and i == 0 else texts)
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish(), warnings


def _texts(spec: ParseSpec, path: Path) -> Iterator[list[str]]:
    """The labels of one slice of the file after the other."""
    delimiter = spec.delimiter or ("\t" if spec.labels_media_type == TSV else ",")
    faults = Faults()
    row = 0
    for part in slices(path):
        texts = []
        try:
            for cells in records(part.text, delimiter):
                row += 1
                if len(cells) > 1:
                    message = f"{len(cells)} cells, one label is expected"
                    faults.add("ragged-row", message, row=row, hint="write one label a line")
                texts.append(cells[0])
        except csv.Error:
            raise unterminated(row + 1) from None
        faults.check()
        yield texts
