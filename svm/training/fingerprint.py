"""The fingerprint that shows whether a checkpoint belongs to a training."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from svm.checkpoints import Arrays
from svm.data.matrices import is_sparse
from svm.data.stored_rows import StoredRows
from svm.model.pipeline import Pipeline
from svm.training.preparation import Prepared
from svm.training.warm_start import WarmStart


def fingerprint(
    pipeline: Pipeline,
    prepared: Prepared,
    seed: int,
    warm_start: WarmStart | None,
    data_digest: str | None,
) -> str:
    """Of everything that the states of a training depend on: settings, seed, data, labels.

    `data_digest`, if given, is used instead of X and labels.
    """
    X = prepared.X
    content = repr((pipeline, seed, X.shape, prepared.classes.tolist()))
    digest = hashlib.sha256(content.encode())
    encoder = prepared.encoder
    if not encoder.is_plain:
        digest.update(repr((pipeline.encoding, encoder.columns)).encode())
    parts: tuple[Any, ...] = (prepared.codes,)
    if data_digest is not None:
        digest.update(data_digest.encode())
        parts = ()
    elif isinstance(X, StoredRows):
        digest.update(X.digest.encode())
    else:
        parts += (X.data, X.indices, X.indptr) if is_sparse(X) else (X,)
    if prepared.weights is not None:
        parts += (prepared.weights,)
    initial: Arrays = {} if warm_start is None else warm_start.to_arrays()
    if warm_start is not None:
        initial |= {
            "coefficients": warm_start.fitted.coefficients,
            "intercepts": warm_start.fitted.intercepts,
        }
    for array in (*parts, *initial.values()):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
