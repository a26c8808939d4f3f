"""Replace secret values by placeholders in requests, and placeholders by values in tool calls."""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import structs

from ludolf.agent.tool import ToolFailure
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.encoded_cache import IdentityCache
from ludolf.ai.messages import Message, OpaqueMessage, Thinking
from ludolf.ai.provider import Provider, Request
from ludolf.ai.record.scrubbing import replace_spans
from ludolf.ai.secret_values import SHORTEST, Finder, encodings
from ludolf.engine.bundles import Bundles
from ludolf.engine.features.secret_sources import IsHiddenFrom, Secret, Sources

CREDENTIAL = "{placeholder} stands for a credential that tools cannot use. Continue without it."
SPECIAL = (
    "{placeholder} cannot be put into a call: its value has characters that a shell would not take "
    "as they are. Let the program read {source} instead."
)
GONE = "{placeholder} stands for a value that is not in the environment or the folder any more."
# Characters that mean themselves in every shell, and in texts in quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_+/][A-Za-z0-9_./:@%+=,-]*")
_PLACEHOLDER = re.compile(r"__LUDOLF_SECRET_[A-Z0-9]+(?:_[A-Z0-9]+)*__")
# Not sent to a model as text, or names of our own that must stay as they are.
_KEPT_FIELDS = frozenset(
    (
        *("data", "details", "usage", "diagnostics", "tool_name", "name"),
        *("api", "provider", "model", "mime_type", "response_id"),
        *("text_signature", "thinking_signature", "thought_signature"),
    )
)


class Mask:
    """The secrets of one session: looked up for every request, since keys and files change.

    A value that was found once stays masked, since the conversation may hold it.
    """

    def __init__(self, bundles: Bundles, variables: Iterable[str], is_hidden: IsHiddenFrom) -> None:
        """`is_hidden` says whether the sandbox keeps a file from tools in a working folder."""
        self._sources = Sources(bundles, is_hidden)
        self.variables = frozenset(variables)
        # By text, of all times; by placeholder, of now.
        self._placeholders: dict[str, str] = {}
        self._current: dict[str, Secret] = {}
        self._finder: Finder[str] = Finder(())
        self._numbers: dict[str, int] = {}
        self._copies: IdentityCache[Any] = IdentityCache()

    def provider(self, inner: Provider) -> Provider:
        return MaskedProvider(inner, self)

    def request(self, request: Request) -> Request:
        """The same request without secrets. A message always gives the same copy, so that what a
        provider made of it can be kept."""
        self._sources.note(request.access, request.model)
        self._look_up()
        if not self._placeholders:
            return request
        return structs.replace(
            request,
            system=self.hide(request.system),
            messages=tuple(map(self._message, request.messages)),
            # Keys of a schema are names of our own, as those of tools.
            tools=tuple(self._without(tool, keys=False) for tool in request.tools),
        )

    def hide(self, text: str) -> str:
        names = self._placeholders
        spans = self._finder.spans(text)
        return replace_spans(text, [(start, end, names.get(v, v)) for start, end, v in spans])

    def restore(self, value: Any) -> Any:
        """Return the same JSON with values in the place of their placeholders.

        Raises:
            ToolFailure: a placeholder stands for a credential, or for a value that has a meaning of
                its own where it would stand.
        """
        if isinstance(value, str):
            # In one pass: what a value itself holds is not replaced again.
            return _PLACEHOLDER.sub(self._value, value) if "__LUDOLF_SECRET_" in value else value
        if isinstance(value, Mapping):
            return {self.restore(key): self.restore(item) for key, item in value.items()}
        return [self.restore(item) for item in value] if isinstance(value, list) else value

    def _value(self, found: re.Match[str]) -> str:
        placeholder = found[0]
        secret = self._current.get(placeholder)
        if secret is None:
            if placeholder in self._placeholders.values():
                raise ToolFailure(GONE.format(placeholder=placeholder))
            return placeholder  # text like any other
        if secret.source is None:
            raise ToolFailure(CREDENTIAL.format(placeholder=placeholder))
        if not _PLAIN.fullmatch(secret.value):
            raise ToolFailure(SPECIAL.format(placeholder=placeholder, source=secret.source))
        return secret.value

    # ------------------------------------------------------------ hiding

    def _message(self, message: Message | OpaqueMessage) -> Any:
        return self._copies.get(message, lambda: self._without(message))

    def _without(self, value: Any, *, keys: bool = True) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {
                self._without(key) if keys else key: self._without(item, keys=keys)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            changed = [self._without(item, keys=keys) for item in value]
            same = all(new is old for new, old in zip(changed, value, strict=True))
            return value if same else type(value)(changed)
        if isinstance(value, msgspec.Struct):
            return self._struct_without(value, keys=keys)
        return value

    def _struct_without(self, value: msgspec.Struct, *, keys: bool) -> Any:
        changes = {}
        for name in value.__struct_fields__:
            if name not in _KEPT_FIELDS:
                old = getattr(value, name)
                new = self._without(old, keys=keys)
                if new is not old and new != old:
                    changes[name] = new
        if changes and isinstance(value, Thinking):
            changes["thinking_signature"] = None  # it vouches for the words that are gone
        return structs.replace(value, **changes) if changes else value

    # ------------------------------------------------------------ finding

    def _look_up(self) -> None:
        before = len(self._placeholders)
        current: dict[str, Secret] = {}
        for secret in self._sources.secrets(self.variables):
            for form in _forms(secret):
                # The first source of a text counts: credentials come before variables.
                current.setdefault(self._placeholder(form), form)
        self._current = current
        if len(self._placeholders) != before:
            self._copies.clear()
            # Placeholders that stand in a text already stay whole.
            texts = (*self._placeholders, *self._placeholders.values())
            self._finder = Finder((text, len(text)) for text in texts)

    def _placeholder(self, secret: Secret) -> str:
        """The placeholder of a value; one whose name is taken by another value gets a number."""
        known = self._placeholders.get(secret.value)
        if known is not None:
            return known
        base = re.sub(r"[^A-Z0-9]+", "_", secret.name.upper()).strip("_") or "VALUE"
        name = base
        while name in self._numbers:
            self._numbers[base] += 1
            name = f"{base}_{self._numbers[base]}"
        self._numbers[name] = 1
        placeholder = f"__LUDOLF_SECRET_{name}__"
        self._placeholders[secret.value] = placeholder
        return placeholder


class MaskedProvider(Provider):
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


@lru_cache(maxsize=4096)
def _forms(secret: Secret) -> tuple[Secret, ...]:
    """The value, its lines, and their encodings, each as a secret of its own."""
    value = secret.value
    texts = {value: ""}
    texts.setdefault(value.strip(), "_TRIMMED")
    if "\n" in value:
        texts.setdefault(value.replace("\r\n", "\n").replace("\n", "\r\n"), "_CRLF")
        for line in map(str.strip, value.splitlines()):
            if not line.startswith("-----"):
                texts.setdefault(line, "_LINE")
    return tuple(
        Secret(f"{secret.name}{ending}_{kind}", form, secret.source)
        for text, ending in texts.items()
        if len(text) >= SHORTEST
        for kind, form in encodings(text)
    )
