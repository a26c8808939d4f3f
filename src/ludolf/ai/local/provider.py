"""Provider for GGUF files: llama.cpp runs each in a child process, reached over loopback."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.local import FILE_API, MISSING
from ludolf.ai.local.child import Child, ChildError
from ludolf.ai.local.gguf import GgufError, read_gguf
from ludolf.ai.local.runtime import Launch
from ludolf.ai.local.templates import template_for
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.openai.completions import OpenAICompletions
from ludolf.ai.providers.openai.shared import ABORT_TEXT

KEY_BYTES = 24
# Address for recorded answers, which need no child process.
NOWHERE = "http://127.0.0.1"


def make(transport: Transport) -> Provider:
    return GgufFiles(transport)


class GgufFiles:
    """One child process per model, shared by all requests; idle ones end for another model."""

    api = FILE_API
    abort_text = ABORT_TEXT

    def __init__(self, transport: Transport) -> None:
        self._chat = OpenAICompletions(transport)
        self._plays_back = transport.plays_back
        self._children: dict[str, Child] = {}
        self._starting = asyncio.Lock()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        if self._plays_back:
            async with aclosing(self._chat.stream(_at(request, NOWHERE, "none"), draft)) as stream:
                async for events in stream:
                    yield events
            return
        child = await self._child(request.model)
        local_request = _at(request, child.url, child.order.key)
        child.users += 1
        try:
            async with aclosing(self._chat.stream(local_request, draft)) as stream:
                async for events in stream:
                    yield events
        except ProviderError as error:
            if child.alive:
                raise
            # A retry would start the process again, and it would fail again.
            text = f"llama.cpp stopped during an answer: {await child.reason()}"
            raise ProviderError(text, kind="bad_request") from error
        finally:
            child.users -= 1

    async def close(self) -> None:
        """Stop all child processes."""
        while self._children:
            _, child = self._children.popitem()
            await child.stop()

    async def _child(self, model: Model) -> Child:
        async with self._starting:
            child = self._children.get(model.base_url)
            if child is not None and child.alive and _same(child.order, model):
                return child
            await self._make_room(model.base_url)
            try:
                child = await Child.start(_order(model))
            except (ChildError, GgufError) as error:
                raise ProviderError(str(error), kind="bad_request") from error
            self._children[model.base_url] = child
            return child

    async def _make_room(self, path: str) -> None:
        for place, child in tuple(self._children.items()):
            if place == path or not child.users:
                del self._children[place]
                await child.stop()


def _at(request: Request, url: str, key: str) -> Request:
    return structs.replace(request, access=Access(key=key, base_url=f"{url}/v1"))


def _same(order: Launch, model: Model) -> bool:
    return order.context == model.context_window


def _order(model: Model) -> Launch:
    """Return the order that starts the model's child process.

    Raises:
        ProviderError: the library that runs files is not installed.
        GgufError: the file or its template cannot be read.
    """
    from importlib.util import find_spec

    if find_spec("xllamacpp") is None:
        raise ProviderError(MISSING, kind="bad_request")
    path = Path(unquote(urlsplit(model.base_url).path))
    options: dict[str, Any] = model.compat or {}
    return Launch(
        model=str(path),
        key=os.urandom(KEY_BYTES).hex(),
        context=model.context_window,
        parent=os.getpid(),
        template=template_for(read_gguf(path), _text(options.get("chatTemplate"))),
        threads=_number(options.get("threads")),
        gpu_layers=_number(options.get("gpuLayers")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


if TYPE_CHECKING:
    _: Provider = GgufFiles(Transport())
