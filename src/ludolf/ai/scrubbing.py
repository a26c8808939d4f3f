"""Takes secrets out of recorded traffic: what is harmless is kept, what is known is replaced."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from ludolf.base import escape

REMOVED = "[removed]"
# Shorter values ("none", "local") occur in innocent text and protect nothing.
SHORTEST = 8
_LONG = 20
_HARMLESS_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "anthropic-beta", "anthropic-version", "cache-control"),
        *("content-encoding", "content-type", "date", "openai-beta", "openai-processing-ms"),
        *("openai-version", "request-id", "retry-after", "retry-after-ms", "server", "user-agent"),
        *("x-amzn-errortype", "x-amzn-requestid", "x-request-id", "x-should-retry"),
    )
)
_HARMLESS_BEGINNINGS = ("anthropic-ratelimit-", "x-ratelimit-")
_HARMLESS_QUERY = frozenset(("alt", "api-version", "beta", "stream", "version"))
_TELLING_NAME = re.compile(r"auth|cookie|credential|key|passw|secret|signature|token", re.I)
_SCHEME = re.compile(r"^(?:bearer|basic|token|apikey|digest)\s+", re.I)
# User and password in an address.
USERINFO = re.compile(r"(?<=://)[^\s/?#@]+@")


def harmless_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """All names, but only the values that are known to tell nothing."""
    return {
        name.lower(): value if _is_harmless(name) else REMOVED for name, value in headers.items()
    }


def harmless_url(url: str) -> str:
    """The address without user, password, fragment, and values of unknown query fields."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REMOVED
    query = "&".join(
        f"{quote(name)}={quote(value) if name.lower() in _HARMLESS_QUERY else REMOVED}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    host = parts.netloc.rpartition("@")[2]
    # The path of a gateway may hold a whole address.
    path = USERINFO.sub("", parts.path)
    return urlunsplit((parts.scheme, host, path, query, ""))


def secrets_of(url: str, headers: Mapping[str, str]) -> Iterator[str]:
    """The secret values that a request carries, which may occur elsewhere too."""
    for name, value in headers.items():
        if _is_secret(name, value):
            yield from parts_of(name, value)
    yield from secrets_of_url(url)


def secrets_of_url(url: str) -> Iterator[str]:
    """User and password, also of an address within the address, and unknown query fields."""
    for found in USERINFO.findall(unquote(url)):
        userinfo = found[:-1]
        yield from (userinfo, userinfo.partition(":")[2])
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    userinfo = parts.netloc.rpartition("@")[0]
    yield from (userinfo, unquote(userinfo.partition(":")[2]))
    for name, value in parse_qsl(parts.query):
        if name.lower() not in _HARMLESS_QUERY:
            yield value


def _is_harmless(name: str) -> bool:
    lower = name.lower()
    return lower in _HARMLESS_HEADERS or lower.startswith(_HARMLESS_BEGINNINGS)


def _is_secret(name: str, value: str) -> bool:
    if _is_harmless(name):
        return False
    looks_random = len(value) >= _LONG and not re.search(r"[\s/]", value)
    return looks_random or is_telling(name)


def is_telling(name: str) -> bool:
    """Whether what goes by this name is likely a secret."""
    return _TELLING_NAME.search(name) is not None


def parts_of(name: str, value: str) -> Iterator[str]:
    """A header's value, and what of it is a secret by itself."""
    token = _SCHEME.sub("", value)
    yield from (value, token)
    if "cookie" in name.lower():
        yield from (one.partition("=")[2].strip() for one in value.split(";"))
    if value.lower().startswith("basic "):
        try:
            plain = base64.b64decode(token, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield from (plain, plain.partition(":")[2])


class Scrubber:
    """Replaces known values, in the forms that they take in JSON, addresses and base64."""

    def __init__(self, values: Iterable[str]) -> None:
        known = {value for value in values if len(value) >= SHORTEST}
        forms = sorted({form for value in known for form in _forms(value)}, key=len, reverse=True)
        pattern = "|".join(map(re.escape, forms))
        self._text = re.compile(pattern) if forms else None
        self._bytes = re.compile(pattern.encode("utf-8", "surrogatepass")) if forms else None

    def text(self, text: str) -> str:
        """For texts about addresses: user and password go even if they are not known."""
        return self.value(USERINFO.sub(f"{REMOVED}@", text))  # type: ignore[no-any-return]  # a text

    def value(self, value: Any) -> Any:
        """The same JSON with the values replaced in all its texts."""
        if self._text is None:
            return value
        if isinstance(value, str):
            return self._text.sub(REMOVED, value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(name): self.value(item) for name, item in value.items()}
        return value

    def chunks(self, chunks: Sequence[bytes]) -> list[bytes]:
        """The same pieces of a body; a value may lie across the end of a piece."""
        whole = b"".join(chunks)
        spans = [found.span() for found in self._bytes.finditer(whole)] if self._bytes else []
        if not spans:
            return list(chunks)
        cleaned, start = [], 0
        for chunk in chunks:
            cleaned.append(_between(whole, start, start + len(chunk), spans))
            start += len(chunk)
        return cleaned


def _between(whole: bytes, start: int, end: int, spans: Iterable[tuple[int, int]]) -> bytes:
    pieces, at = [], start
    for first, last in spans:
        if last <= at or first >= end:
            continue
        if first >= start:
            pieces += [whole[at:first], REMOVED.encode()]
        at = min(last, end)
    return b"".join((*pieces, whole[at:end]))


def _forms(value: str) -> Iterator[str]:
    escaped = escape(value).decode()
    yield from (value, escaped, escaped.replace("/", "\\/"), json.dumps(value)[1:-1])
    data = value.encode("utf-8", "surrogatepass")
    yield from (quote(data), quote(data, safe=""))
    yield from (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode())
