"""What first predictions would wait for: the imports and first uses of readers and replies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from service.predictions.batcher import scored
from service.predictions.inference.wire_format import InferenceExchange
from service.predictions.loaded_models import LoadedModel
from service.predictions.wire_format import PlainExchange
from service.settings import Limits
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

_PLAIN = {
    b"application/json": b'{"instances": [[0.5]], "outputs": ["label", "decision"]}',
    b"text/csv": b"0.5\n",
}
_TENSOR = b'{"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [0.5]}]}'


@cache
def warm_up() -> None:
    """Predict by small linear models in the usual forms. What a kernel needs, Numba above all, is
    imported when the first model with a kernel is loaded."""
    limits = Limits()
    for model in _models():
        for media_type, body in _PLAIN.items():
            exchange = PlainExchange([(b"content-type", media_type)], None, limits)
            asked = exchange.read(body, model)
            exchange.reply(asked, scored(model, asked.X))
        inference = InferenceExchange([], limits, {})
        tensor = inference.read(_TENSOR, model)
        inference.reply(tensor, scored(model, tensor.X))


def _models() -> Iterator[LoadedModel]:
    """Of two and of three classes."""
    for classes in (["no", "yes"], ["a", "b", "c"]):
        n_problems = len(classes) * (len(classes) - 1) // 2
        fitted = FittedPipeline(
            classes=np.array(classes),
            scaling=Scaling(),
            features=FeatureMap(Identity(), 1),
            coefficients=np.ones((n_problems, 1)),
            intercepts=np.zeros(n_problems),
        )
        fitted.prepare()
        yield LoadedModel(
            key="",
            name="warm-up",
            version=1,
            digest="",
            classes=list(classes),
            columns=None,
            n_features=1,
            fitted=fitted,
            nbytes=0,
        )
