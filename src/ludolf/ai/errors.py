"""Errors of model providers by kind; the only module that classifies HTTP failures.

ProviderError
├── kind overflow      the request exceeds the model's context: compact, then retry
├── kind rate_limit    too many requests: wait, then retry
├── kind overloaded    the provider is busy or failing: wait, then retry
├── kind network       the connection failed or broke: wait, then retry
├── kind unreachable   a server on this machine does not run; a retry would fail at once too
├── kind timeout       the provider stopped sending: wait, then retry
├── kind garbled       an event cannot be parsed: retry once
├── kind auth          the key is missing or refused
├── kind refused       the model declined to answer
└── kind bad_request   anything else; a retry would fail in the same way
"""

import re
import time
from collections.abc import Mapping
from typing import Any, Literal

from ludolf.base import LudolfError

ErrorKind = Literal[
    "overflow",
    "rate_limit",
    "overloaded",
    "network",
    "unreachable",
    "timeout",
    "garbled",
    "auth",
    "bad_request",
    "refused",
]
RETRYABLE: frozenset[ErrorKind] = frozenset(
    ("rate_limit", "overloaded", "network", "timeout", "garbled")
)


class ProviderError(LudolfError):
    """A model call failed. `retry_after` is the delay in seconds that the server requested.

    `diagnostic` names a record with further facts about the failure, if there are any. `status` is
    that of the HTTP response, if the server refused the request.
    """

    diagnostic: tuple[str, Mapping[str, Any]] | None = None
    status: int | None = None

    def __init__(
        self, text: str, *, kind: ErrorKind | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(text)
        self.kind: ErrorKind = kind or kind_of(text)
        self.retry_after = retry_after


# Texts of patterns: most programs never see an error, so they are compiled for the first one.
_NEVER = (
    r"GoUsageLimitError|FreeUsageLimitError|monthly usage limit reached|available balance|"
    r"insufficient_quota|out of budget|quota exceeded|exceeded your current quota|billing"
)
_RATE = r"rate.?limit|too many requests|\b429\b|ResourceExhausted|retry delay|^throttling error:"
_TIMEOUT = r"time(d)?[ -]?out"
_NETWORK = (
    r"network.?error|connection.?(error|refused|lost|reset|closed)|other side closed|fetch failed|"
    r"getaddrinfo|ENOTFOUND|EAI_AGAIN|upstream.?connect|reset before headers|socket hang up|"
    r"socket connection was closed|terminated|websocket.?(closed|error)|ended without|"
    r"stream ended before|http2 request did not get a response"
)
_OVERLOADED = (
    r"overloaded|experiencing high demand|\b(500|502|503|504|520|524|529)\b|service.?unavailable|"
    r"server.?error|internal.?error|provider returned error|exceeded request buffer limit|"
    r"you can retry your request|try your request again|please retry your request"
)
_AUTH = r"^\D{0,30}\b40[13]\b|authentication|invalid x-api-key|api key"
_NOT_OVERFLOW = r"^(Throttling error|Service unavailable):|rate limit|too many requests"
_OVERFLOW = (
    r"prompt (is )?too long|request_too_large|input is too long for requested model|"
    r"exceeds the context window|"
    r"exceeds (the )?(model'?s )?maximum context length( of)?|"
    r"input token count.*exceeds the maximum|maximum prompt length is \d+|"
    r"reduce the length of the messages|maximum context length is \d+ tokens|"
    r"exceeds (the )?maximum allowed input length of \d+ tokens|"
    r"input \(\d+ tokens\) is longer than the model'?s context length|exceeds the limit of \d+|"
    r"exceeds the available context size|greater than the context length|"
    r"context window exceeds limit|exceeded model token limit|"
    r"too large for model with \d+ maximum context length|"
    r"prompt has \d+ tokens, but the configured context size is \d+|"
    r"model_context_window_exceeded|exceeded (max )?context length|"
    r"range of input length should be|context[ _]length[ _]exceeded|too many tokens|"
    r"exceed context limit|input_too_large|context length (is|of) only \d+|"
    r"longer than the maximum model length|token limit exceeded|^4(00|13) status code \(no body\)"
)


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def is_overflow(text: str) -> bool:
    """Return whether an error text says that the request exceeds the model's context."""
    return not _found(_NOT_OVERFLOW, text) and _found(_OVERFLOW, text)


def is_out_of_quota(text: str) -> bool:
    """Return whether an error text says that the account has no budget left."""
    return _found(_NEVER, text)


def kind_of(text: str) -> ErrorKind:
    """Classify a provider's error text; the order of the checks matters."""
    if is_overflow(text):
        return "overflow"
    if is_out_of_quota(text):
        return "bad_request"
    ordered: tuple[tuple[str, ErrorKind], ...] = (
        (_RATE, "rate_limit"),
        (_TIMEOUT, "timeout"),
        (_OVERLOADED, "overloaded"),
        (_NETWORK, "network"),
        (_AUTH, "auth"),
    )
    return next((kind for pattern, kind in ordered if _found(pattern, text)), "bad_request")


def kind_of_status(status: int, text: str) -> ErrorKind:
    """Return the kind of an HTTP failure, from its text or else from its status."""
    kind = kind_of(text)
    if kind == "bad_request" and status in (401, 403):
        return "auth"
    return kind


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay in seconds that a server requests."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        # float() would also accept "inf" and "nan".
        if value.replace(".", "", 1).isdecimal():
            return float(value) / unit
    return _until(headers.get("retry-after", ""))


def _until(date: str) -> float | None:
    if not date:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except ValueError:
        return None
