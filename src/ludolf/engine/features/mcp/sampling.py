"""Let MCP servers ask the session's model, with limits, and count what that costs."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Message,
    Part,
    Text,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model, clamp_thinking
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.ai.stream import respond
from ludolf.base import CommandError, now_ms, uuid7
from ludolf.engine.features.mcp.forms import INVALID_PARAMS
from ludolf.engine.run.requests import ImageBlock, Requests
from ludolf.mcp.wire import Json, Refusal
from ludolf.protocol.events import EntryStored
from ludolf.session.entries import UsageBody, entry_json

MOST_TOKENS = 4096
MOST_PER_CALL = 5
MOST_MESSAGES = 200
USAGE_KIND = "mcp"
INTERNAL_ERROR = -32603
# The code that the specification gives for a user who refuses.
REJECTED = -1
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens"}


class SampledTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a request for a completion."""

    by_model: bool
    parts: tuple[Part, ...]


class SamplingOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a completion, validated."""

    turns: tuple[SampledTurn, ...]
    system: str
    max_tokens: int

    @property
    def text(self) -> str:
        """Return what the user wants to know before the model is asked."""
        said = (text_of(turn.parts, "\n") for turn in self.turns)
        return "\n".join(filter(None, (self.system, *said)))


def read_sampling(params: Json) -> SamplingOrder:
    """Return the request in `params` of `sampling/createMessage`.

    Raises:
        Refusal: it is invalid, or asks for tools or audio.
    """
    messages, limit = params.get("messages"), params.get("maxTokens", MOST_TOKENS)
    if not isinstance(messages, list | tuple) or not 0 < len(messages) <= MOST_MESSAGES:
        raise _invalid(f"1 to {MOST_MESSAGES} messages are required")
    if params.get("tools"):
        raise _invalid("tools are not offered")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1:
        raise _invalid("maxTokens must be a positive number")
    system = params.get("systemPrompt")
    return SamplingOrder(
        turns=tuple(map(_turn, messages)),
        system=system if isinstance(system, str) else "",
        max_tokens=int(min(limit, MOST_TOKENS)),
    )


def _turn(message: Any) -> SampledTurn:
    role = message.get("role") if isinstance(message, Mapping) else None
    if role not in ("user", "assistant"):
        raise _invalid("each message needs the role user or assistant")
    content = message.get("content")
    items = content if isinstance(content, list | tuple) else (content,)
    return SampledTurn(
        by_model=role == "assistant",
        parts=tuple(_part(item, images=role == "user") for item in items),
    )


def _part(item: Any, *, images: bool) -> Part:
    match item:
        case {"type": "text", "text": str(text)}:
            return Text(text=text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)} if images:
            return Image(data=data, mime_type=mime_type)
    raise _invalid("only text, and images of the user, are supported as content")


def _invalid(reason: str) -> Refusal:
    return Refusal(INVALID_PARAMS, f"Invalid sampling request: {reason}")


class ServerSampling:
    """Completions for servers, by the session's model, without tools."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._used: dict[str, int] = {}

    def renew(self, server: str) -> None:
        """Give a server a new allowance: a call of one of its tools begins."""
        self._used.pop(server, None)

    def take(self, server: str) -> None:
        """Count a completion.

        Raises:
            Refusal: the server has used its allowance for this call.
        """
        used = self._used.get(server, 0)
        if used >= MOST_PER_CALL:
            text = f"The limit of {MOST_PER_CALL} sampling requests for one tool call is reached"
            raise Refusal(REJECTED, text)
        self._used[server] = used + 1

    async def complete(self, server: str, order: SamplingOrder) -> Json:
        """Ask the model and return the result of `sampling/createMessage`.

        Raises:
            Refusal: no model can be used, or it did not answer.
        """
        try:
            request = await self._request(order)
        except (CommandError, ProviderError):
            raise Refusal(INTERNAL_ERROR, "No model is available in this session") from None
        answer = await respond(request, Draft(request.model), _ignore)
        self._store_usage(server, answer.message)
        return _result(answer)

    # ------------------------------------------------------------ private

    async def _request(self, order: SamplingOrder) -> Request:
        empty = await self._requests.empty()
        messages = [await self._message(turn, empty.model) for turn in order.turns]
        blocked = self._requests.workspace.settings.images.block_images
        return structs.replace(
            empty,
            system=order.system,
            messages=ImageBlock().apply(messages) if blocked else tuple(messages),
            # The limit has no room for long thoughts.
            thinking=clamp_thinking(empty.model, "off"),
            max_tokens=min(order.max_tokens, empty.model.max_tokens),
            session_id=uuid7(),
            cache="none",
        )

    async def _message(self, turn: SampledTurn, model: Model) -> Message:
        if not turn.by_model:
            parts = [await self._fitted(part, model) for part in turn.parts]
            return UserMessage(content=tuple(parts), timestamp=now_ms())
        return AssistantMessage(
            content=tuple(part for part in turn.parts if isinstance(part, Text)),
            api=model.api,
            provider=model.provider,
            model=model.id,
            usage=Usage(),
            stop_reason="stop",
            timestamp=now_ms(),
        )

    async def _fitted(self, part: Part, model: Model) -> Part:
        from ludolf.tools.images import fit_block
        from ludolf.tools.options import image_limits

        if isinstance(part, Text):
            return part
        fitted = await fit_block(part, image_limits(model.input_limits))
        return fitted.image or Text(text="\n".join(fitted.hints))

    def _store_usage(self, server: str, message: AssistantMessage) -> None:
        conversation = self._requests.conversation
        if conversation.session.refusal() is not None:
            return
        body = UsageBody(
            kind=USAGE_KIND,
            provider=message.provider,
            model=message.response_model or message.model,
            usage=message.usage,
            note=server,
        )
        entry = conversation.session.append(body)
        conversation.hub.post(EntryStored(entry=msgspec.Raw(entry_json(entry))))


def _result(answer: ModelAnswer) -> Json:
    message = answer.message
    if message.failed:
        # The text of the failure may name accounts or servers; the kind is enough.
        raise Refusal(INTERNAL_ERROR, f"The model did not answer ({answer.kind or 'error'})")
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text_of(message.content)},
        "model": message.response_model or message.model,
        "stopReason": _STOP_REASONS.get(message.stop_reason, message.stop_reason),
    }


async def _ignore(events: Iterable[StreamEvent]) -> None:
    """Consume the pieces of an answer, which is not streamed to the host."""
    for _ in events:
        pass
