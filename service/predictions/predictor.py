"""A prediction from the bytes of a request to the bytes of its reply, whatever brings them."""

from __future__ import annotations

from anyio import to_thread

from service.predictions.batcher import Batcher
from service.predictions.codecs import decode, encode
from service.predictions.loaded_models import LoadedModels, Reference

INLINE_BYTES = 256 * 1024
"""Bodies larger than this, which take milliseconds to read, are read in a thread."""


class Predictor:
    """Answers requests for any model. Belongs to one event loop."""

    def __init__(self, models: LoadedModels, row_limit: int) -> None:
        self._models = models
        self._row_limit = row_limit
        self._batcher = Batcher()

    async def answer(self, name: str, reference: Reference, body: bytes) -> bytes:
        """The JSON reply to a JSON body; for errors see `LoadedModels.get` and `codecs`."""
        model = await self._models.get(name, reference)
        if len(body) <= INLINE_BYTES:
            instances = decode(body, model, self._row_limit)
            decision = await self._batcher.score(model, instances.X)
            return encode(model, instances.outputs, decision)
        instances = await to_thread.run_sync(decode, body, model, self._row_limit)
        decision = await self._batcher.score(model, instances.X)
        return await to_thread.run_sync(encode, model, instances.outputs, decision)
