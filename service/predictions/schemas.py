"""Schemas of predictions; `wire_format` reads the bodies and `replies` writes the answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.common.schemas import ReadModel
from service.models.outputs import NAMES, USUAL, OutputName, Share
from service.storage.database.tables import Label
from svm.encoding.tokens import PartName


class PredictionCreate(BaseModel):
    """Rows to predict."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    instances: list[list[float | bool]] | list[dict[str, Any]] | list[str] = Field(min_length=1)
    """Rows: lists of numbers in feature order, or objects with the model's feature names; true and
    false are 1 and 0. Other members of an object are ignored, and listed in the reply. Of one
    column of texts, rows may be the texts."""
    outputs: list[OutputName] | None = None
    """What to answer: `label`, `decision`, `probability`, `label_or_none` of a classifier, by
    default `label`; `value`, `interval` of a model of numbers, by default `value`; `explanation` of
    both."""
    coverage: Share = USUAL.coverage
    """Of intervals: the share of new rows whose target is inside, on average."""
    withheld: Share = USUAL.withheld
    """Of `label_or_none`: the share of rows of known classes without a label, on average."""


class PredictionQuery(BaseModel):
    """What the query of a prediction says; it counts before what a JSON body says."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    outputs: str | None = Field(
        default=None,
        description=f"What to answer: some of {', '.join(NAMES)}, separated by commas; it counts "
        "before what a JSON body says.",
        examples=["label,decision"],
    )
    coverage: Share | None = Field(default=None, examples=[0.9])
    """Of `interval`."""
    withheld: Share | None = Field(default=None, examples=[0.05])
    """Of `label_or_none`."""

    @property
    def shares(self) -> dict[str, float]:
        """Those that are given."""
        return self.model_dump(exclude={"outputs"}, exclude_none=True)


NO_QUERY = PredictionQuery()


class ModelAnswering(BaseModel):
    """The version that answered."""

    name: str
    version: int
    digest: str


class SupportVectorTerm(BaseModel):
    """What one support vector adds to a score."""

    index: int
    term: float


class TokenTerm(BaseModel):
    """What a token of a text adds to a score."""

    token: str
    part: PartName
    """`words`: a word, or two that follow each other; `characters`: two to four of a word."""
    count: int
    term: float


class TextTerms(BaseModel):
    """What the tokens of a text add: their terms and `others` sum to the term of the column."""

    column: str
    tokens: list[TokenTerm]
    """The 20 that add or take most."""
    others: float
    marks: list[tuple[int, int, float]]
    """The 100 words that add or take most, of the first 5,000: begin and end in the text as sent,
    in code points from 0, and what the word adds with its characters."""


class ExplanationRead(ReadModel):
    """What a score is made of: exactly, if rounded once, as by Python's `math.fsum`, the sum of
    `intercept`, `terms` and `rounding`. With a `baseline`, it is that of `intercept`, `baseline`,
    `terms` and `error`, and that of `intercept`, `support_vectors`, `others` and `rounding`."""

    classes: list[Label]
    """The pair of classes that the score decides between, or the class against all others. Empty
    for a model of numbers."""
    positive: Label | None = None
    """The class of a positive score."""
    of: Literal["value", "logarithm"] | None = None
    """What the score of a model of numbers is."""
    score: float
    intercept: float
    rounding: float
    """What rounding took or added."""
    terms: dict[str, float]
    """What each column adds, or each product of columns, `a*b`."""
    texts: list[TextTerms] | None = None
    """Of columns of texts in a linear model, for the problems of the label."""
    baseline: float | None = None
    """The score, less the intercept, from which the terms are counted: at the mean support vector,
    or of random features at 0."""
    error: float | None = None
    """What the terms miss."""
    others: float | None = None
    """What the vectors add that are not listed."""
    support_vectors: list[SupportVectorTerm] | None = None
    """Of a kernel model: the ten that add or take most."""


class PredictionWarning(ReadModel):
    """About the predictions of some rows."""

    code: str
    """`unlikely-label`: another class has the largest probability."""
    message: str
    rows: list[int]
    """The first hundred, from 1."""
    rows_total: int


class UnknownCell(ReadModel):
    """A level that no training row had, or a missing cell."""

    row: int
    """From 1."""
    column: str | int
    value: str | None
    """The text of the cell, at most 64 characters."""


class UnknownRead(ReadModel):
    """Cells that the model does not know: their effect is that of no or an average value."""

    count: int
    cells: list[UnknownCell]
    """The first 20."""


class UnknownWordsRead(ReadModel):
    """Words that no training text had: they add nothing to a score."""

    count: int
    rows: list[tuple[int, int]]
    """The first 20 rows with such words, from 1, each with their number."""


class PredictionRead(ReadModel):
    """One entry a row, in the order of the request."""

    model: ModelAnswering
    classes: list[Label]
    """Sorted classes; of two, the second is the positive one. Empty for a model of numbers."""
    ignored_columns: list[str] | None = None
    """Columns that came with the rows and that the model does not use, such as the label; at most
    100 of them. Replies in other formats have the first ones in the header `X-Ignored-Columns`."""
    unknown: UnknownRead | None = None
    """If there are such cells. Replies in other formats have their number and the first places in
    the header `X-Unknown-Cells`, such as `2;1:city,4:age`."""
    unknown_words: UnknownWordsRead | None = None
    """If there are any. Replies in other formats have the header `X-Unknown-Words`, such as
    `5;1:2,4:3`."""
    label: list[Label] | None = None
    decision: list[float] | list[list[float]] | None = None
    """Two classes: one value a row, positive for `classes[1]`. More: a value for each class, the
    label's is the largest."""
    probability: list[list[float]] | None = None
    """A probability for each class; of calibrated models. The label follows the decision value:
    near the boundary another class can be likelier, which `warnings` reports."""
    warnings: list[PredictionWarning] | None = None
    """With `probability`. Replies in other formats have the first rows in the header
    `X-Unlikely-Labels`."""
    label_or_none: list[Label | None] | None = None
    """The label, or null for a row that may be of no known class."""
    withheld: float | None = None
    """With `label_or_none`."""
    values: list[float] | None = None
    """The predicted numbers, in the unit of the target."""
    intervals: list[tuple[float, float]] | None = None
    """From and to, both included. On average over models, the target of a new row is inside with
    the probability `coverage`, or more."""
    coverage: float | None = None
    """With `intervals`."""
    explanation: list[list[ExplanationRead]] | None = None
    """For each row, for each binary problem, the terms of its score."""
