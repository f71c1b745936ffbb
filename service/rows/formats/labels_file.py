"""Labels in a file of their own: one a line, or an NPY array with one for each row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from service.rows.cell_texts.text import records, slices, unterminated
from service.rows.faults import Faults
from service.rows.formats import npy
from service.rows.formats.delimited import delimiter_of
from service.rows.spec import NPY, ParseSpec
from service.rows.table.labels import Labels, wrong_count
from service.rows.table.target import Target


def read(spec: ParseSpec, n_samples: int) -> Target:
    """The labels of `n_samples` rows.

    The first line is a header if there is one line more than there are rows, unless
    `header=absent`. Raises InvalidContent, `label-count` if the number of labels does not fit.
    """
    assert spec.labels is not None
    labels = Labels(Faults(), kind=spec.label_kind)
    if spec.labels_media_type == NPY:
        for block in npy.read_labels(Path(spec.labels)):
            labels.add_numbers(block)
    else:
        n_lines = sum(len(texts) for texts in _texts(spec))
        header = spec.header != "absent" and n_lines == n_samples + 1
        for i, texts in enumerate(_texts(spec)):
            labels.add_texts(texts[1:] if header and i == 0 else texts)
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish()


def _texts(spec: ParseSpec) -> Iterator[list[str]]:
    """The labels of one slice of the file after the other."""
    assert spec.labels is not None
    delimiter = delimiter_of(spec, spec.labels_media_type)
    faults = Faults()
    row = 0
    for part in slices(Path(spec.labels)):
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
