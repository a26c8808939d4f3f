"""Remove secrets from recorded traffic: keep harmless values, replace known secrets."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from ludolf.ai.secret_names import is_secret_name
from ludolf.ai.secret_values import (
    SHORTEST,
    Finder,
    disguises,
    encodings,
    least_part,
    looks_like_key,
)

REMOVED = "[removed]"
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
_SCHEME = re.compile(r"^(?:bearer|basic|token|apikey|digest)\s+", re.I)
# User and password in a URL.
USERINFO = re.compile(r"(?<=://)[^\s/?#@]+@")


def harmless_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return all header names, with only the values that are known to be harmless."""
    return {
        name.lower(): value if _is_harmless(name) else REMOVED for name, value in headers.items()
    }


def harmless_url(url: str) -> str:
    """Return a URL without user, password, fragment, and values of unknown query fields."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REMOVED
    query = "&".join(
        f"{quote(name)}={quote(value) if name.lower() in _HARMLESS_QUERY else REMOVED}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    host = parts.netloc.rpartition("@")[2]
    # The path of a gateway may contain a complete URL.
    path = USERINFO.sub("", parts.path)
    return urlunsplit((parts.scheme, host, path, query, ""))


def secrets_of(url: str, headers: Mapping[str, str]) -> Iterator[str]:
    """Return the secret values of a request, which may also occur elsewhere."""
    for name, value in headers.items():
        if _is_secret(name, value):
            yield from parts_of(name, value)
    yield from secrets_of_url(url)


def secrets_of_url(url: str) -> Iterator[str]:
    """Return user and password, also of a URL inside the URL, and unknown query fields."""
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
    return looks_random or is_secret_name(name)


def parts_of(name: str, value: str) -> Iterator[str]:
    """Yield a header's value and the parts of it that are secrets."""
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
    """Replaces known values, complete or partial, in all encodings in which they are sent."""

    def __init__(self, values: Iterable[str], mark: str = REMOVED) -> None:
        self._mark = mark
        needles = dict(_needles(values))
        self._text = Finder(needles.items())
        coded = {text.encode("utf-8", "surrogatepass"): least for text, least in needles.items()}
        self._bytes = Finder(coded.items())

    def text(self, text: str) -> str:
        """Scrub a text about URLs: also removes unknown users and passwords."""
        return self.value(USERINFO.sub(f"{self._mark}@", text))  # type: ignore[no-any-return]  # a text

    def value(self, value: Any) -> Any:
        """Return the JSON value with secrets replaced in all its strings."""
        if isinstance(value, str):
            spans = self._text.spans(value)
            return replace_spans(value, [(start, end, self._mark) for start, end, _ in spans])
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, Mapping):
            return {self.value(name): self.value(item) for name, item in value.items()}
        return value

    def chunks(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Scrub the chunks of a body; a value may span two chunks."""
        body = b"".join(chunks)
        spans = [(start, end) for start, end, _ in self._bytes.spans(body)]
        if not spans:
            return list(chunks)
        cleaned, start = [], 0
        for chunk in chunks:
            cleaned.append(self._between(body, start, start + len(chunk), spans))
            start += len(chunk)
        return cleaned

    def _between(
        self, whole: bytes, start: int, end: int, spans: Iterable[tuple[int, int]]
    ) -> bytes:
        pieces, at = [], start
        for first, last in spans:
            if last <= at or first >= end:
                continue
            if first >= start:
                pieces += [whole[at:first], self._mark.encode()]
            at = min(last, end)
        return b"".join((*pieces, whole[at:end]))


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with each span replaced."""
    pieces, at = [], 0
    for start, end, other in spans:
        pieces += [text[at:start], other]
        at = end
    return "".join((*pieces, text[at:])) if at else text


def _needles(values: Iterable[str]) -> Iterator[tuple[str, int]]:
    for value in values:
        if len(value) >= SHORTEST:
            forms = [text for _, text in encodings(value)]
            if looks_like_key(value):
                yield from ((form, least_part(form)) for form in (*forms, *disguises(value)))
            else:
                yield from ((form, len(form)) for form in forms)
