"""Convert messages between Ludolf and Inspect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolCallError, ToolInfo, ToolParams

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.history import ModelMessage
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    Block,
    Image,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import ToolSpec
from ludolf.base import dumps, now_ms

_STOPS: Mapping[str, StopReason] = {"max_tokens": "length", "tool_calls": "toolUse"}
# Arguments that Inspect could not parse: a text that is not JSON either.
_BROKEN = "{"


# ---------------------------------------------------------------- to Inspect


def to_inspect(message: ModelMessage) -> ChatMessage:
    """Return a message that Inspect has not created itself."""
    match message:
        case UserMessage():
            return ChatMessageUser(content=to_content(message.parts))
        case ToolResultMessage():
            text = text_of(message.content)
            return ChatMessageTool(
                content="" if message.is_error else to_content(message.content),
                tool_call_id=message.tool_call_id,
                function=message.tool_name,
                error=ToolCallError("unknown", text) if message.is_error else None,
            )
        case AssistantMessage():
            return ChatMessageAssistant(
                content=[_content(block) for block in message.content if not _is_call(block)],
                tool_calls=[
                    InspectToolCall(id=call.id, function=call.name, arguments=call.arguments)
                    for call in message.tool_calls
                ]
                or None,
                model=message.model,
                source="generate",
            )


def to_content(parts: Sequence[Part]) -> str | list[Content]:
    """Return the content of a message or result: plain text if it is only that."""
    if all(isinstance(part, Text) for part in parts):
        return text_of(tuple(parts), "\n")
    return [_content(part) for part in parts]


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall)


def _content(part: Part | Block) -> Content:
    match part:
        case Image():
            return ContentImage(image=f"data:{part.mime_type};base64,{part.data}")
        case Thinking():
            return ContentReasoning(
                reasoning=part.thinking,
                signature=part.thinking_signature,
                redacted=part.redacted,
            )
        case Text():
            return ContentText(text=part.text)
        case _:
            raise TypeError(f"{type(part).__name__} is not content")


def to_tool_info(spec: ToolSpec) -> ToolInfo:
    """Return the declaration of a tool for a request."""
    return ToolInfo(
        name=spec.name, description=spec.description, parameters=to_parameters(spec.parameters)
    )


def to_parameters(schema: Mapping[str, Any]) -> ToolParams:
    """Return the parameters of a tool."""
    return ToolParams.model_validate(dict(schema))


def to_output(message: AssistantMessage, answer: ChatMessageAssistant) -> ModelOutput:
    """Return the output for an answer that did not come from a model of Inspect."""
    output = ModelOutput.from_message(answer)
    usage = message.usage
    output.model = message.model
    output.usage = ModelUsage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        total_tokens=usage.context,
        input_tokens_cache_read=usage.cache_read,
        input_tokens_cache_write=usage.cache_write,
        total_cost=usage.cost.total,
    )
    return output


# ---------------------------------------------------------------- from Inspect


def from_inspect(message: ChatMessage, model: Model) -> ModelMessage | None:
    """Return a message of a conversation that began before the agent; None for system messages."""
    match message.role:
        case "user":
            return UserMessage(content=from_content(message.content), timestamp=now_ms())
        case "assistant":
            calls = [
                ToolCall(id=call.id, name=call.function, arguments=call.arguments)
                for call in message.tool_calls or ()
            ]
            return AssistantMessage(
                content=(*_texts(from_content(message.content)), *calls),
                api=model.api,
                provider=model.provider,
                model=model.id,
                usage=NO_USAGE,
                stop_reason="toolUse" if calls else "stop",
                timestamp=now_ms(),
            )
        case "tool":
            failed = message.error is not None
            text = (Text(text=message.error.message),) if failed else ()
            return ToolResultMessage(
                tool_call_id=message.tool_call_id or "",
                tool_name=message.function or "",
                content=text or from_content(message.content),
                is_error=failed,
                timestamp=now_ms(),
            )
        case _:
            return None


def _texts(parts: Iterable[Part]) -> Iterator[Text]:
    return (part for part in parts if isinstance(part, Text))


def from_content(content: str | list[Content]) -> tuple[Part, ...]:
    """Return text and images; other kinds become a line that names them."""
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(_part(each) for each in content if each.type != "reasoning")


def _part(content: Content) -> Part:
    if content.type == "text":
        return Text(text=content.text)
    if content.type == "image" and content.image.startswith("data:"):
        head, _, data = content.image.partition(",")
        mime_type = head.removeprefix("data:").partition(";")[0]
        return Image(data=data, mime_type=mime_type)
    return Text(text=f"[{content.type} content is not supported]")


def draft_events(output: ModelOutput, draft: Draft) -> Iterator[StreamEvent]:
    """Write an answer to the draft and yield its events."""
    message = output.message
    draft.identify(message.id)
    for each in _contents(message):
        if each.type == "reasoning":
            start = draft.start_thinking("", each.signature, each.redacted)
            yield start
            yield draft.thinking(start.index, each.reasoning)
        else:
            start = draft.start_text()
            yield start
            yield draft.text(start.index, text_of((_part(each),)))
        yield draft.end(start.index)
    for call in message.tool_calls or ():
        start = draft.start_tool(call.id, call.function)
        yield start
        arguments = _BROKEN if call.parse_error else dumps(call.arguments).decode()
        yield draft.tool_args(start.index, arguments)
        yield draft.end(start.index)
    if output.usage is not None:
        draft.count(_usage(output.usage), charged=output.usage.total_cost)
    draft.stopped(_stop(output), str(output.stop_reason))


def _contents(message: ChatMessageAssistant) -> list[Any]:
    if isinstance(message.content, str):
        return [ContentText(text=message.content)] if message.content else []
    return list(message.content)


def _stop(output: ModelOutput) -> StopReason:
    if output.message.tool_calls and output.stop_reason != "max_tokens":
        return "toolUse"
    return _STOPS.get(output.stop_reason, "stop")


def _usage(usage: ModelUsage) -> Usage:
    return Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.input_tokens_cache_read or 0,
        cache_write=usage.input_tokens_cache_write or 0,
        total_tokens=usage.total_tokens,
        reasoning=usage.reasoning_tokens or 0,
    )
