from typing import TypeAlias

from svm.encoding.encoder import Encoder, PlainEncoder, notes
from svm.encoding.fitting import fit_encoder
from svm.encoding.hyperparameters import Encoding
from svm.encoding.recoding import recode, recoding

AnyEncoder: TypeAlias = Encoder | PlainEncoder
"""Of a table, or of rows of finite numbers."""

__all__ = [
    "AnyEncoder",
    "Encoder",
    "Encoding",
    "PlainEncoder",
    "fit_encoder",
    "notes",
    "recode",
    "recoding",
]
