"""Shared parts of OpenAI's APIs: address, headers, error texts, invalid events, hashed ids."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from ludolf.ai.errors import ErrorKind, ProviderError, kind_of
from ludolf.ai.json_text import json_value
from ludolf.ai.messages import Image, ToolCall
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.gateways import (
    admission_headers,
    server_headers,
    user_agent,
)
from ludolf.ai.providers.openai.compat import Compat
from ludolf.ai.strict_schema import Grammar, grammar_for, sampled_schema
from ludolf.ai.tool_schema import openai_schema
from ludolf.base import as_text, dumps, loads, without_surrogates
from ludolf.base.patterns import lazy_pattern

NO_OUTPUT = "(no tool output)"
_MAX_BODY_CHARS = 4000
ODD_EVENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_CACHE_KEY_CHARS = 64

T = TypeVar("T")


# ---------------------------------------------------------------- the request


def headers_for(
    request: Request, compat: Compat, admission: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return all headers of a request; configured ones replace ours of the same name.

    `admission` replaces the key for variants of the API with other credentials.

    Raises:
        ProviderError: there is neither a key nor a configured header that replaces it.
    """
    ours = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "User-Agent": user_agent(),
        **admission_headers(request, "Authorization", admission),
        **server_headers(request),
        **_session_headers(request, compat),
    }
    return request.access.over(ours)


def _session_headers(request: Request, compat: Compat) -> dict[str, str]:
    session = request.session_id
    if not session or request.cache == "none" or not compat.send_session_affinity_headers:
        return {}
    if compat.session_affinity_format == "openrouter":
        return {"x-session-id": session}
    headers = {"x-client-request-id": session}
    if compat.session_affinity_format == "openai":
        headers["session_id"] = session
    if request.model.api == "openai-completions":
        headers["x-session-affinity"] = session
    return headers


def cache_key(request: Request) -> str:
    return request.session_id[:_CACHE_KEY_CHARS]


def function_of(tool: ToolSpec, *, knows_strict: bool) -> dict[str, Any]:
    """Return the function declaration of a tool.

    Raises:
        ProviderError: the tool requires its schema to be enforced, and that is not possible.
    """
    schema, strict = sampled_schema(
        tool.name, tool.parameters, tool.sampling, supported=knows_strict
    )
    function: dict[str, Any] = {
        "name": tool.name,
        "description": without_surrogates(tool.description),
        "parameters": openai_schema(schema),
    }
    # Servers that know the field may default to strict if it is missing.
    return {**function, "strict": strict} if knows_strict else function


def grammar_of(tool: ToolSpec, compat: Compat) -> Grammar | None:
    """Return the grammar of a tool that is sent as a custom tool.

    Raises:
        ProviderError: the tool's parameters have no single text property.
    """
    supported = compat.supports_openai_grammar_tools
    return grammar_for(tool.name, tool.parameters, tool.sampling, supported=supported)


def grammar_arguments(request: Request, compat: Compat) -> dict[str, str]:
    """Return the argument that receives the text, by the name of each custom tool."""
    grammars = ((tool.name, grammar_of(tool, compat)) for tool in request.tools)
    return {name: grammar.argument for name, grammar in grammars if grammar is not None}


def call_form(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


def data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def join_body(fields: dict[str, Any], list_name: str, pieces: list[bytes]) -> bytes:
    """Join `fields` and a list of encoded items to a JSON object."""
    head = dumps(fields)[:-1]
    return b'%b,"%b":[%b]}' % (head, list_name.encode(), b",".join(pieces))


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# ---------------------------------------------------------------- errors


def error_text(status: int, body: str) -> str:
    """Return `<status> <message>`; the body if it contains no message."""
    value = json_value(body)
    error = value.get("error") if isinstance(value, dict) else None
    message = error_message(error) or error_message(value)
    if message is None:
        message = cut(body.strip()) or "status code (no body)"
    return f"{status} {message}"


def error_message(error: Any) -> str | None:
    """Return the message of an error object, with the upstream message of a router below it."""
    if isinstance(error, str):
        return cut(error) or None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return cut(error["message"]) + (f"\n{cut(raw)}" if isinstance(raw, str) and raw else "")


def error_kind(error: Any, text: str) -> ErrorKind:
    """Return the kind of an error inside a stream from its code and type, as it has no status."""
    marks = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    return kind_of(" ".join([text, *(str(mark) for mark in marks if mark)]))


def cut(text: str) -> str:
    """Truncate an error text."""
    over = len(text) - _MAX_BODY_CHARS
    return text if over <= 0 else f"{text[:_MAX_BODY_CHARS]}... [truncated {over} chars]"


# ---------------------------------------------------------------- odd events

_WHERE = lazy_pattern(r"`\$(\S*)`$")
_STEP = lazy_pattern(r"\.([^.\[]+)|\[(\d+)\]")
_MAX_REPAIRS = 16


def read_chunk(data: bytes, decode: Callable[[bytes], T], kind: type[T]) -> T | None:
    """Parse one chunk of an answer; None for the end marker.

    Raises:
        ProviderError: it is not JSON.
    """
    try:
        return decode(data)
    except ODD_EVENT:
        return None if data.strip() == b"[DONE]" else read_odd(data, kind)


def read_odd(data: bytes, kind: type[T]) -> T:
    """Parse an event of the wrong shape: repair its text, drop fields of a wrong type.

    Raises:
        ProviderError: it is not JSON.
    """
    try:
        value = loads(data)
    except (ValueError, RecursionError) as error:
        raise _unreadable(data) from error
    if not isinstance(value, dict):
        return kind()
    for _ in range(_MAX_REPAIRS):
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            if not _leave_out(value, str(error)):
                break
    raise _unreadable(data)


def _leave_out(value: Any, complaint: str) -> bool:
    where = _WHERE.search(complaint)
    steps = [name or int(place) for name, place in _STEP.findall(where.group(1) if where else "")]
    try:
        for step in steps[:-1]:
            value = value[step]
        del value[steps[-1]]
    except (IndexError, KeyError, TypeError):
        return False
    return True


def _unreadable(data: bytes) -> ProviderError:
    start = as_text(data)[:200]
    return ProviderError(f"An event of the answer cannot be read: {start}", kind="garbled")
