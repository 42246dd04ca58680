"""Pictures that code has as files too: shown to a model that sees them, and named to one that does not."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec import structs

from belljar.errors import ProviderError
from belljar.vendors.deltas import AnsweringModel, Delta
from belljar.vendors.request import ModelRequest
from belljar.wire.items import FunctionCallOutput, InputImage, InputItem, InputText, Message, Part

_log = logging.getLogger("belljar.engine")
_REFUSAL = re.compile(r"image|picture|vision|visual|multi-?modal|mmproj|content must be a string", re.IGNORECASE)
"""What providers write of when they take no pictures, or not these."""


class WithImages:
    """A model that may turn out not to see. An `AnsweringModel` itself, so that nobody else need know.

    `words` says instead of a picture, by its data URL, what is to be told of it. Other pictures are the caller's own
    concern: there is nothing else by which the model could know them, so that their refusal is the answer.
    """

    def __init__(self, model: AnsweringModel, words: Mapping[str, str], *, blind: bool) -> None:
        self._model = model
        self._words = words
        self._blind = blind

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn; once more, and from then on without the pictures, where the provider refuses them."""
        if not self._blind:
            begun = False
            try:
                async with aclosing(self._model.ask(request)) as answer:
                    async for batch in answer:
                        begun = True
                        yield batch
                return
            except ProviderError as error:
                if begun or not _REFUSAL.search(str(error)):
                    raise
                _log.warning("%s is asked again without pictures: %s", request.model, error)
            self._blind = True
        async with aclosing(self._model.ask(self._replace_images(request))) as answer:
            async for batch in answer:
                yield batch

    def _replace_images(self, request: ModelRequest) -> ModelRequest:
        return structs.replace(request, items=tuple(map(self._replace_in_item, request.plain_items)))

    def _replace_in_item(self, item: InputItem) -> InputItem:
        if isinstance(item, Message) and not isinstance(item.content, str):
            return structs.replace(item, content=tuple(map(self._replace_part, item.content)))
        if isinstance(item, FunctionCallOutput) and not isinstance(item.output, str):
            return structs.replace(item, output=tuple(map(self._replace_part, item.output)))
        return item

    def _replace_part(self, part: Part) -> Part:
        words = self._words.get(part.image_url or "") if isinstance(part, InputImage) else None
        return part if words is None else InputText(text=words)
