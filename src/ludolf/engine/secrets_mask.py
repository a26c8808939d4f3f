"""Secret values become placeholders on their way to a model, and real again for tools."""

import os
import re
import stat
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.messages import Message, OpaqueMessage, Thinking
from ludolf.ai.provider import Provider, Request
from ludolf.engine.parts import Parts

# Shorter values occur in innocent text.
SHORTEST = 8
_MOST_BYTES = 64 * 1024
_TELLING = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|DSN|COOKIE"
    r"|PAT)(?:_|$)",
    re.IGNORECASE,
)
_WHERE_ONLY = re.compile(r"_(?:FILE|PATH|DIR|DIRECTORY|SOCK|HOST|USER|URL|NAME|ID)$", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", re.MULTILINE)
_EXAMPLE = (".example", ".sample", ".template", ".dist")
# Never shown to a model as text, or not ours to change.
_KEPT_FIELDS = frozenset(
    (
        *("data", "details", "usage", "diagnostics", "id", "tool_call_id", "tool_name", "name"),
        *("api", "provider", "model", "mime_type", "response_id"),
        *("text_signature", "thinking_signature", "thought_signature"),
    )
)


class Mask:
    """The secrets of one session: looked up for every request, since keys and files change."""

    def __init__(self, parts: Parts, variables: Iterable[str]) -> None:
        self._parts = parts
        self._variables = frozenset(variables)
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._copies: dict[int, tuple[Any, Any]] = {}
        # By provider: the keys that requests were sent with, wherever they come from.
        self._used: dict[str, str] = {}

    def provider(self, inner: Provider) -> Provider:
        return MaskedProvider(inner, self)

    def request(self, request: Request) -> Request:
        """The same request without secrets. A message always gives the same copy, so that what a
        provider made of it can be kept."""
        if request.access.key:
            self._used[request.model.provider] = request.access.key
        self._look_up()
        if self._pattern is None:
            return request
        return structs.replace(
            request,
            system=self.hide(request.system),
            messages=tuple(map(self._message, request.messages)),
            tools=tuple(self._without(tool) for tool in request.tools),
        )

    def hide(self, text: str) -> str:
        pattern = self._pattern
        return text if pattern is None else pattern.sub(lambda m: self._names[m[0]], text)

    def restore(self, value: Any) -> Any:
        """The same JSON with the values in the place of their placeholders."""
        self._look_up()
        values = {placeholder: secret for secret, placeholder in self._names.items()}
        return _restored(value, values) if values else value

    # ------------------------------------------------------------ hiding

    def _message(self, message: Message | OpaqueMessage) -> Any:
        known = self._copies.get(id(message))
        if known is None or known[0] is not message:
            known = self._copies[id(message)] = (message, self._without(message))
        return known[1]

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {key: self._without(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            changed = [self._without(item) for item in value]
            same = all(new is old for new, old in zip(changed, value, strict=True))
            return value if same else type(value)(changed)
        return self._struct_without(value) if isinstance(value, msgspec.Struct) else value

    def _struct_without(self, value: msgspec.Struct) -> Any:
        changes = {}
        for name in value.__struct_fields__:
            if name not in _KEPT_FIELDS:
                old = getattr(value, name)
                new = self._without(old)
                if new is not old and new != old:
                    changes[name] = new
        if changes and isinstance(value, Thinking):
            changes["thinking_signature"] = None  # it vouches for the words that are gone
        return structs.replace(value, **changes) if changes else value

    # ------------------------------------------------------------ finding

    def _look_up(self) -> None:
        found = _placeholders(self._secrets())
        if found != self._names:
            self._names, self._copies = found, {}
            ordered = sorted(found, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, ordered))) if found else None

    def _secrets(self) -> Iterator[tuple[str, str]]:
        registry = self._parts.registry
        own = registry.secret_names() | self._variables
        yield from _telling(os.environ.items(), own)
        for provider, credential in registry.keyring.stored().items():
            for field in ("key", "access", "refresh"):
                value = getattr(credential, field, None)
                if isinstance(value, str) and not value.startswith(("!", "$")):
                    yield f"{provider}_{field}", value
        yield from ((f"{provider}_key", key) for provider, key in self._used.items())
        for path in _env_files(self._parts.home.cwd):
            yield from _telling(_LINE.findall(_read(path)), own)


class MaskedProvider:
    """The one way to a model while secrets are masked."""

    def __init__(self, inner: Provider, mask: Mask) -> None:
        self._inner = inner
        self._mask = mask

    @property
    def api(self) -> str:
        return self._inner.api

    @property
    def abort_text(self) -> str:
        return self._inner.abort_text

    def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        return self._inner.stream(self._mask.request(request), draft)


def _placeholders(secrets: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By value; who has the name of another value gets a number."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name, value in secrets:
        if len(value) < SHORTEST or value in names:
            continue
        plain = base = re.sub(r"\W+", "_", name).upper()
        number = 1
        while plain in taken:
            number += 1
            plain = f"{base}_{number}"
        taken.add(plain)
        names[value] = f"__LUDOLF_SECRET_{plain}__"
    return names


def _telling(pairs: Iterable[tuple[str, str]], own: frozenset[str]) -> Iterator[tuple[str, str]]:
    for name, written in pairs:
        value = written.strip("'\"") if written[:1] in "'\"" else written
        if name in own or (_TELLING.search(name) and not _WHERE_ONLY.search(name)):
            yield name, value
        else:
            for password in _PASSWORD_IN_URL.findall(value):
                yield f"{name}_PASSWORD", password


def _env_files(cwd: Path) -> Iterator[Path]:
    for path in sorted(cwd.glob(".env*")):
        if not path.name.endswith(_EXAMPLE):
            yield path


def _read(path: Path) -> str:
    """A small regular file; anything else counts as empty."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return ""
        return os.read(file, _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)


def _restored(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        if "__LUDOLF_SECRET_" in value:
            for placeholder, secret in values.items():
                value = value.replace(placeholder, secret)
        return value
    if isinstance(value, Mapping):
        return {key: _restored(item, values) for key, item in value.items()}
    return [_restored(item, values) for item in value] if isinstance(value, list) else value


if TYPE_CHECKING:

    def _proof(provider: MaskedProvider) -> Provider:
        return provider
