"""Raw values of one table in the columns and levels of another."""

from __future__ import annotations

import numpy as np

from svm.data.columns import UNKNOWN, Columns
from svm.data.matrices import Vector
from svm.errors import InvalidData


def recode(X: Vector, columns: Columns, onto: Columns) -> Vector:
    """The raw rows of a table with `columns` as rows of `onto`: in its order, with the positions of
    its levels. A level that it does not have becomes `UNKNOWN`.

    X itself if the columns are the same. Columns that `onto` does not have are left out. Raises
    InvalidData (`feature-mismatch`) if one is missing or of another kind.
    """
    if columns == onto:
        return X
    places = {column.name: j for j, column in enumerate(columns)}
    if missing := [column.name for column in onto if column.name not in places]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidData("feature-mismatch", f"the data has no column {missing[0]!r}{more}")
    out = np.empty((len(X), len(onto)))
    for j, column in enumerate(onto):
        source = columns[places[column.name]]
        if source.kind != column.kind:
            raise InvalidData(
                "feature-mismatch",
                f"column {column.name!r} is a {source.kind} in the data and a {column.kind} in the "
                "model; upload the data with the kinds of the model",
            )
        out[:, j] = X[:, places[column.name]]
        if source.levels != column.levels:
            positions = {level: float(k) for k, level in enumerate(column.levels)}
            codes = [positions.get(level, UNKNOWN) for level in source.levels]
            known = out[:, j] >= 0.0
            out[known, j] = np.array(codes)[out[known, j].astype(np.int64)]
    return out
