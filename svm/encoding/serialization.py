"""Encoders as plain arrays and texts, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from svm.data.columns import Column, Kind
from svm.encoding.encoder import Encoder, PlainEncoder
from svm.encoding.hyperparameters import Encoding
from svm.errors import InvalidHyperparameter


def encoder_arrays(encoder: Encoder | PlainEncoder) -> dict[str, Any]:
    """Arrays and texts, from which `encoder_from` builds an equal encoder; none of plain rows."""
    if isinstance(encoder, PlainEncoder):
        return {}
    columns = [
        {"name": column.name, "kind": column.kind, "levels": column.levels}
        for column in encoder.columns
    ]
    return {
        "encoding": json.dumps(asdict(encoder.encoding), sort_keys=True),
        "columns": json.dumps(columns, sort_keys=True, ensure_ascii=False),
        "encoder_missing": encoder.missing,
        "encoder_counts": encoder.counts,
        "encoder_fills": encoder.fills,
    }


def encoder_from(content: Mapping[str, Any]) -> Encoder:
    """The encoder of `encoder_arrays`. Raises KeyError, TypeError or ValueError."""
    columns = tuple(
        Column(column["name"], column["kind"], tuple(column["levels"]))
        for column in json.loads(content["columns"])
    )
    try:
        encoding = Encoding(**json.loads(content["encoding"]))
    except InvalidHyperparameter as error:
        raise ValueError(str(error)) from error
    encoder = Encoder(
        encoding=encoding,
        columns=columns,
        missing=content["encoder_missing"],
        counts=content["encoder_counts"],
        fills=content["encoder_fills"],
    )
    counted = encoder.missing, encoder.counts
    texts = [text for column in columns for text in (column.name, *column.levels)]
    fits = (
        all(isinstance(text, str) for text in texts)
        and all(column.kind in get_args(Kind) for column in columns)
        and all(counts.dtype.kind == "i" and not (counts < 0).any() for counts in counted)
        and encoder.missing.shape == (len(columns),)
        and encoder.counts.shape == (sum(len(column.levels) for column in columns),)
        and encoder.fills.shape == encoder.sources.shape
        and bool(np.isfinite(encoder.fills).all())
    )
    if not fits:
        raise ValueError("the parts of the encoder do not fit together")
    return encoder
