"""What both OpenAI APIs share: address, headers, error texts, reading of odd events, hashed ids."""

import hashlib
import re
from typing import Any, TypeVar

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import Image
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.openai_compat import Compat
from ludolf.base import as_text, dumps, loads

ABORT_TEXT = "Request was aborted"
NO_OUTPUT = "(no tool output)"
MAX_BODY_CHARS = 4000
ODD_EVENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_AUTH_HEADERS = {"authorization", "api-key", "x-api-key", "cf-aig-authorization"}
_CACHE_KEY_CHARS = 64

T = TypeVar("T")


# ---------------------------------------------------------------- the request


def endpoint(request: Request, path: str) -> str:
    return (request.access.base_url or request.model.base_url).rstrip("/") + path


def headers_for(request: Request, compat: Compat) -> dict[str, str]:
    """All headers of a request; configured ones replace ours of the same name.

    Raises:
        ProviderError: there is neither a key nor a configured header that could stand for it.
    """
    stated = request.access.headers
    names = {name.lower() for name in stated}
    if not request.access.key and not names & _AUTH_HEADERS:
        raise ProviderError(f"No API key for provider: {request.model.provider}", kind="auth")
    ours = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if request.access.key:
        ours["Authorization"] = f"Bearer {request.access.key}"
    ours |= _session_headers(request, compat)
    return {name: value for name, value in ours.items() if name.lower() not in names} | stated


def _session_headers(request: Request, compat: Compat) -> dict[str, str]:
    session = request.session_id
    if not session or request.cache == "none" or not compat.send_session_affinity_headers:
        return {}
    if compat.session_affinity_format == "openrouter":
        return {"x-session-id": session}
    found = {"x-client-request-id": session}
    if compat.session_affinity_format == "openai":
        found["session_id"] = session
    if request.model.api == "openai-completions":
        found["x-session-affinity"] = session
    return found


def cache_key(request: Request) -> str:
    return request.session_id[:_CACHE_KEY_CHARS]


def function_of(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def join_body(fields: dict[str, Any], list_name: str, pieces: list[bytes]) -> bytes:
    """A JSON object of `fields` and a list whose items are already JSON."""
    head = dumps(fields)[:-1]
    return b'%b,"%b":[%b]}' % (head, list_name.encode(), b",".join(pieces))


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# ---------------------------------------------------------------- errors


def error_text(status: int, body: str) -> str:
    """`<status> <message>`; the body itself where it holds no message."""
    try:
        value = loads(body) if body.strip() else None
    except ValueError:
        value = None
    error = value.get("error") if isinstance(value, dict) else None
    message = error_message(error) or error_message(value)
    if message is None:
        message = _cut(body.strip()) or "status code (no body)"
    return f"{status} {message}"


def error_message(error: Any) -> str | None:
    """The words of an error object, with what a router's own supplier said below."""
    if isinstance(error, str):
        return _cut(error) or None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return _cut(error["message"]) + (f"\n{_cut(raw)}" if isinstance(raw, str) and raw else "")


def _cut(text: str) -> str:
    over = len(text) - MAX_BODY_CHARS
    return text if over <= 0 else f"{text[:MAX_BODY_CHARS]}... [truncated {over} chars]"


# ---------------------------------------------------------------- odd events

_WHERE = re.compile(r"`\$(\S*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MAX_REPAIRS = 16


def read_odd(data: bytes, kind: type[T]) -> T:
    """Read an event that does not fit: odd text is repaired, a field of a wrong type left out.

    Raises:
        ProviderError: it is no JSON.
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
    return ProviderError(f"An event of the answer cannot be read: {start}", kind="network")
