"""Say in one sentence why a model did not answer, and what to do next."""

import re
from typing import Any

from ludolf.ai.errors import ErrorKind, kind_of
from ludolf.ai.messages import AssistantMessage
from ludolf.base import loads
from ludolf.base.patterns import lazy_pattern

_MOST = 300
_STATUS = lazy_pattern(
    r"^(?:[\w ]+ API error \((?P<named>\d{3})\): )?(?:(?P<first>[45]\d\d)\b:? ?)?"
)
_TITLE = lazy_pattern(r"<(?:title|h1)[^>]*>\s*([^<]*\S)\s*<", re.I)
_UNREACHED = lazy_pattern(r"^Connection error: .*\((?:proxy )?(\S+)\)$", re.S)
_REFUSED = lazy_pattern(r"refused|Connect call failed", re.I)
_LOOPBACK = lazy_pattern(r"^(https?://)?(127\.0\.0\.1|localhost|\[::1\])([:/]|$)")
# Failures that Ludolf reports about itself.
_OWN = ("Internal error: ", "Replay of ")
_SENTENCE_END = (".", "!", "?")
_BROKEN = "the connection broke before the answer was complete"


def failure_text(message: AssistantMessage, *, option: str = "") -> str:
    """Return the sentence for a failed answer; the message keeps the provider's own text.

    `option` is the name of the option that chooses another model.
    """
    text = (message.error_message or f"Request {message.stop_reason}").strip()
    if message.stop_reason != "error" or text.startswith(_OWN):
        return f"Error: {text}"
    name = f"{message.provider}/{message.model}"
    address = _UNREACHED.match(text)
    if address is not None and _REFUSED.search(text):
        return f"Error from {name}: {_refused(address[1])}"
    status, cause = _cause(text)
    number = f" ({status})" if status else ""
    step = _next_step(name, kind_of(text), status, f" with {option}" if option else "")
    if cause.endswith(_SENTENCE_END) and not number:
        return f"Error from {name}: {cause} {step}".rstrip()
    return f"Error from {name}: {cause.rstrip('.')}{number}. {step}".rstrip()


def short_cause(text: str) -> str:
    """Return the cause in a provider's error text, without JSON or HTML around it."""
    status, cause = _cause(text.strip())
    return f"{cause} ({status})" if status else cause


def _refused(address: str) -> str:
    text = f"the server at {address} refused the connection."
    if _LOOPBACK.match(address):
        return f'{text} Start the server, or correct "baseUrl" in models.json.'
    return f"{text} Check that it runs, and the network."


def _cause(text: str) -> tuple[int | None, str]:
    """Split a provider's text into the HTTP status and its message."""
    head = _STATUS.match(text)
    assert head is not None
    number = head["first"] or head["named"]
    status = int(number) if number else None
    rest = text[head.end() :].strip()
    start = rest.find("{")
    value = _json(rest[start:]) if start >= 0 else None
    if value is not None:
        code, found = _message(value)
        return status or code, _short(rest[:start] + (found or "no message"))
    if rest.lower().startswith(("<html", "<!doctype", "<head", "<body")):
        title = _TITLE.search(rest)
        return status, f"the server sent a web page{f' ({title[1]})' if title else ''}"
    return status, _BROKEN if rest == "terminated" else _short(rest or "no message")


def _json(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return None


def _message(value: Any) -> tuple[int | None, str | None]:
    """Return the status and the message of an error object in the form of any provider."""
    if not isinstance(value, dict):
        return None, None
    inner = value.get("error")
    if isinstance(inner, dict):
        return _message(inner)
    texts = (value.get("message"), inner, value.get("detail"))
    found = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    code = value.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else None, found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def _next_step(name: str, kind: ErrorKind, status: int | None, how: str) -> str:
    if kind == "auth" or status in (401, 403):
        return f'Check the key with "ludolf auth status {name.partition("/")[0]}".'
    if status == 404:
        return f'Check the model and its address with "ludolf models show {name}".'
    if kind == "rate_limit" or status == 429:
        return f"Wait, or choose another model{how}."
    if kind in ("overloaded", "network", "timeout"):
        return f"Try again later, or choose another model{how}."
    return ""
