"""The rules by which each vendor refuses a conversation, as far as they are documented or known."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "reasoning_details")
FOREIGN_CALL = "skip_thought_signature_validator"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def broken_rules(family: str, body: Body) -> list[str]:
    """What the vendor would refuse of a request."""
    return list(_RULES[family](body))


# ---------------------------------------------------------------- anthropic


def _anthropic(body: Body) -> Iterator[str]:
    """Results follow their calls at once, in the next message and before its other blocks."""
    messages = body["messages"]
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where, blocks = f"messages.{place}", message["content"]
        if place == 0 and message["role"] != "user":
            yield f"{where}: the first message is not the user's"
        if not blocks:
            yield f"{where}: content is empty"
        yield from (f"{where}: {text}" for text in _anthropic_blocks(blocks))
        if message["role"] == "assistant" and "thinking" in blocks[-1]["type"]:
            yield f"{where}: the final block in an assistant message cannot be `thinking`"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            yield f"{where}: results {results} for calls {waiting}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"{where}: something stands before the results"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if waiting and message["role"] != "assistant":
            yield f"{where}: a call by the user"
        if len(set(waiting)) < len(waiting) or seen & set(waiting):
            yield f"{where}: tool_use ids must be unique: {waiting}"
        seen |= set(waiting)
    if waiting:
        yield f"calls without results: {waiting}"
    if messages[-1]["role"] != "user":
        yield "the last message is not the user's"


def _anthropic_blocks(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        match block:
            case {"type": "text", "text": text} if not text.strip():
                yield "text content blocks must be non-empty"
            case {"type": "tool_use", "id": call_id} if not _ID.fullmatch(call_id):
                yield f"odd id {call_id}"
            case {"type": "tool_use", "input": given} if not isinstance(given, dict):
                yield "input is no object"
            case {"type": "tool_result", "is_error": True, "content": content} if not content:
                yield "content cannot be empty if `is_error` is true"
            case {"type": "tool_result", "content": list(inner)}:
                yield from _anthropic_blocks(inner)
            case {"type": "thinking", "signature": ""}:
                yield "thinking without a signature"
            case {"type": "thinking"} | {"type": "redacted_thinking"} | {"type": "image"}:
                pass
            case {"type": "text"} | {"type": "tool_use"} | {"type": "tool_result"}:
                pass
            case _:
                yield f"unknown block {block}"


# ---------------------------------------------------------------- chat completions


def _chat(body: Body) -> Iterator[str]:
    """Each call of an assistant message is answered before anybody else speaks."""
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        where, role = f"messages.{place}", message["role"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"{where}: a result for no call, {message['tool_call_id']}"
            waiting = [each for each in waiting if each != message["tool_call_id"]]
            if not isinstance(message["content"], str) or not message["content"]:
                yield f"{where}: a result without text"
            continue
        if waiting:
            yield f"{where}: calls without results: {waiting}"
        if role in ("system", "developer") and place > 0:
            yield f"{where}: the system prompt is not the first"
        if role == "user" and not message["content"]:
            yield f"{where}: an empty message"
        calls = message.get("tool_calls", [])
        if role == "assistant" and not message["content"] and not calls:
            yield f"{where}: neither content nor calls"
        waiting = [call["id"] for call in calls]
        if len(set(waiting)) < len(waiting):
            yield f"{where}: two calls with one id"
        yield from (f"{where}: {text}" for call in calls for text in _chat_call(call))
    if waiting:
        yield f"calls without results: {waiting}"


def _chat_call(call: Mapping[str, Any]) -> Iterator[str]:
    if not 1 <= len(call["id"]) <= 40 or "|" in call["id"]:
        yield f"odd id {call['id']}"
    try:
        json.loads(call["function"]["arguments"])
    except ValueError:
        yield "arguments are no JSON"


# ---------------------------------------------------------------- responses


def _responses(body: Body) -> Iterator[str]:
    """Calls and outputs pair by call_id; reasoning leads to the item that came of it."""
    items = body["input"]
    calls: dict[str, int] = {}
    outputs: set[str] = set()
    ids = [item["id"] for item in items if "id" in item]
    if len(set(ids)) < len(ids):
        yield "two items with one id"
    for place, item in enumerate(items):
        where, kind = f"input[{place}]", item.get("type", item.get("role"))
        if kind == "function_call":
            yield from (f"{where}: {text}" for text in _responses_call(item))
            if item["call_id"] in calls:
                yield f"{where}: call_id {item['call_id']} twice"
            calls[item["call_id"]] = place
        elif kind == "function_call_output":
            if item["call_id"] not in calls or item["call_id"] in outputs:
                yield f"{where}: no tool call found for output {item['call_id']}"
            outputs.add(item["call_id"])
            if not item["output"]:
                yield f"{where}: an empty output"
        elif kind == "reasoning":
            following = items[place + 1].get("type") if place + 1 < len(items) else None
            if following not in ("message", "function_call", "reasoning"):
                yield f"{where}: reasoning without its required following item"
        elif kind == "message" and not item["id"].startswith("msg_"):
            yield f"{where}: odd id {item['id']}"
        elif not item.get("content"):
            yield f"{where}: an empty message"
    if missing := set(calls) - outputs:
        yield f"no tool output found for {missing}"


def _responses_call(item: Mapping[str, Any]) -> Iterator[str]:
    if not _ID.fullmatch(item["call_id"]):
        yield f"odd call_id {item['call_id']}"
    if "id" in item and not (item["id"].startswith("fc_") and _ID.fullmatch(item["id"])):
        yield f"odd id {item['id']}"
    try:
        json.loads(item["arguments"])
    except ValueError:
        yield "arguments are no JSON"


# ---------------------------------------------------------------- google


def _google(body: Body) -> Iterator[str]:
    """A turn of calls follows a user's turn, and a turn with as many responses follows it."""
    turns = body["contents"]
    waiting: list[Any] = []
    for place, turn in enumerate(turns):
        where, parts = f"contents[{place}]", turn["parts"]
        before = turns[place - 1]["role"] if place else None
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not place and turn["role"] != "user":
            yield f"{where}: the first turn is not the user's"
        if [_named(each) for each in responses] != [_named(each) for each in waiting]:
            yield f"{where}: responses {responses} for calls {waiting}"
        if responses and len(responses) < len(parts):
            yield f"{where}: responses beside other parts"
        if calls and before != "user":
            yield f"{where}: a call after {before}"
        if turn["role"] not in ("user", "model") or not parts:
            yield f"{where}: odd turn"
        yield from (f"{where}: {text}" for part in parts for text in _google_part(part))
        waiting = calls
    if waiting:
        yield f"calls without responses: {waiting}"


def _named(part: Mapping[str, Any]) -> tuple[str, str | None]:
    return part["name"], part.get("id")


def _google_part(part: Mapping[str, Any]) -> Iterator[str]:
    if "functionCall" in part and not isinstance(part["functionCall"]["args"], dict):
        yield "args are no object"
    if "functionCall" in part and "thoughtSignature" not in part:
        yield "function call is missing a thought_signature"
    if part.get("text") == "" and "thoughtSignature" not in part:
        yield "an empty part"
    for name in ("functionCall", "functionResponse"):
        if "id" in part.get(name, {}) and not _ID.fullmatch(part[name]["id"]):
            yield f"odd id {part[name]['id']}"


_RULES: Mapping[str, Callable[[Body], Iterator[str]]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "google": _google,
}
