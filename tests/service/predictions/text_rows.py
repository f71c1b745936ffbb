"""Models with columns of texts, and rows for them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from svm.data.columns import Column, Columns
from svm.data.matrices import Vector
from svm.data.texts import TextList, with_texts
from svm.encoding.encoder import Encoding
from svm.encoding.fitting import fit_encoder
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity

MESSAGE: Columns = (Column("message", "text"),)
TICKET: Columns = (
    Column("hours", "number"),
    Column("subject", "text"),
    Column("body", "text"),
    Column("urgent", "boolean"),
    Column("product", "category", ("card", "loan")),
)
TEXTS = [
    "Free entry, win £100!",
    "a",
    "NA",
    "None",
    "?",
    "0.5",
    "true",
    "# not a comment",
    '="kept"',
    'he said: "yes", twice',
    "],[ },{ \\ \\u003a",
    "نص من اليمين",
    "Ｆｕｌｌ ﬁ e\u0301 👩‍👩‍👧",
    "two\nlines",
]
_WORDS = " ".join([*TEXTS, "my card was lost and a loan"]).split()


def messages(n: int, seed: int = 0, n_words: int = 12) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(_WORDS, k=draw.randint(1, n_words))) for _ in range(n)]


def tickets(n: int, seed: int = 0) -> list[list[Any]]:
    """Cells in the order of TICKET, as JSON has them; some are missing."""
    draw = random.Random(seed)
    rows: list[list[Any]] = [
        [draw.randint(0, 99) / 8, subject, body, draw.random() < 0.5, draw.choice(["card", "loan"])]
        for subject, body in zip(messages(n, seed, 4), messages(n, seed + 1), strict=True)
    ]
    for row in rows[1::5]:
        row[draw.randrange(4)] = None
    return rows


def raw(rows: list[list[Any]], columns: Columns) -> Vector:
    """Raw rows of cells that are right."""
    texts: list[str] = []
    X = np.full((len(rows), len(columns)), np.nan)
    for j, column in enumerate(columns):
        for i, row in enumerate(rows):
            if row[j] is None:
                continue
            if column.kind == "text":
                texts.append(row[j])
                X[i, j] = len(texts) - 1
            else:
                X[i, j] = column.levels.index(row[j]) if column.levels else row[j]
    return with_texts(X, TextList(texts))


def fitted_texts(columns: Columns = MESSAGE, n_classes: int = 2, **encoding: Any) -> FittedPipeline:
    """An encoder of such rows, with random coefficients."""
    rows = [[text] for text in messages(200)] if columns is MESSAGE else tickets(200)
    encoder, scaling = fit_encoder(Encoding(**encoding), "standardize", raw(rows, columns), columns)
    draw = np.random.default_rng(0)
    n_problems = len(splits_of("one-vs-rest" if n_classes > 2 else "one-vs-one", n_classes))
    return FittedPipeline(
        classes=np.array(["ham", "spam", *map(str, range(n_classes - 2))][:n_classes]),
        scaling=scaling,
        features=FeatureMap(Identity(), encoder.n_outputs),
        coefficients=draw.normal(size=(n_problems, encoder.n_outputs)),
        intercepts=draw.normal(size=n_problems),
        multiclass="one-vs-rest" if n_classes > 2 else "one-vs-one",
        encoder=encoder,
    )
