"""Find secret values, and replace them by placeholders in requests and back in tool calls.

They come from credentials, the environment, and files of the folder.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_plus

import msgspec
from msgspec import structs

from ludolf.agent.tool import ToolFailure
from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.identity_cache import IdentityCache
from ludolf.ai.messages import Message, OpaqueMessage, Thinking
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, ProviderWrapper, Request
from ludolf.ai.record.scrubbing import parts_of, replace_spans
from ludolf.ai.secret_names import is_place_name, is_secret_name
from ludolf.ai.secret_values import SHORTEST, Finder, encodings, looks_like_key
from ludolf.ai.secrets import credentials_in
from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import FileRefused, read_bytes
from ludolf.config.auth.keys import HEADER_LISTS
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.env_files import decode, env_files, read_values
from ludolf.config.settings.files import Stamp, stamp
from ludolf.engine.bundles import Bundles

IsHiddenFrom = Callable[[Path, Path], bool]
_NOT_READ = "Values of {path} are not masked, since it cannot be read: {problem}"
_NOT_SEARCHED = (
    "Values of .env files far below {folder} are not masked: it has more than 1,000 folders."
)
_TOO_MANY = "Further values of {path} and later .env files are not masked: there are too many."
_MOST_SECRETS = 1_000
_MOST_CHARACTERS = 128 * 1024
# `user:password@` of an address, with and without signs that belong to the next address.
_PASSWORDS = (
    lazy_pattern(r"://[^\s/:@]*:([^\s/@]+)@"),
    lazy_pattern(r"://[^\s/:@]*:([^\s/]+)@"),
    lazy_pattern(r"://([^\s/:@]{20,})@"),
)
_PLACE = lazy_pattern(r"[.:\\]")
_FIELD = lazy_pattern(r"(?<![\w.-])([A-Za-z_][\w.-]*+)=([^&;\s\"'#]+)")


class Secret(msgspec.Struct, frozen=True):
    """`source` names the place of the value for the model; None if tools must not have it."""

    name: str
    value: str
    source: str | None


class _File(msgspec.Struct, frozen=True):
    """`is_open` says whether tools can read the file."""

    stamp: Stamp | None
    is_open: bool
    values: list[tuple[str, str]]


class Sources:
    """Looks for secrets. `is_hidden` is given the working folder and a file."""

    def __init__(self, bundles: Bundles, is_hidden: IsHiddenFrom) -> None:
        self._workspace = bundles.workspace
        self._registry = bundles.models.registry
        self._hub = bundles.conversation.hub
        self._is_hidden = is_hidden
        # Values that requests were sent with, wherever they come from.
        self._sent: dict[str, str] = {}
        self._files: dict[Path, _File] = {}
        self._reported: set[str] = set()

    def note(self, access: Access, model: Model) -> None:
        """Remember the credentials of a request."""
        url = access.base_url or model.base_url
        inner = [text for _, text in _inner_secrets(url)]
        for value in (*credentials_in(access), *inner, *map(unquote, inner)):
            self._sent.setdefault(value, f"{model.provider}_key")

    def secrets(self, variables: frozenset[str]) -> Iterator[Secret]:
        """Yield all secrets, credentials first. `variables` are names of further ones."""
        for name, value in credentials(self._workspace.options.api_key, self._registry):
            yield Secret(name, value, None)
        yield from (Secret(name, value, None) for value, name in self._sent.items())
        for name, variable, value in _secret_values(self._workspace.environ.items(), variables):
            yield Secret(name, value, f"the environment variable {variable}")
        yield from self._of_files(self._workspace.cwd, variables)

    def _of_files(self, cwd: Path, variables: frozenset[str]) -> Iterator[Secret]:
        found, whole = env_files(cwd)
        if not whole:
            self._report(_NOT_SEARCHED.format(folder=cwd))
        count = size = 0
        for path in found:
            for secret in self._of_file(path, cwd, variables):
                count, size = count + 1 + secret.value.count("\n"), size + len(secret.value)
                if count > _MOST_SECRETS or size > _MOST_CHARACTERS:
                    self._report(_TOO_MANY.format(path=path))
                    return
                yield secret

    def _of_file(self, path: Path, cwd: Path, variables: frozenset[str]) -> Iterator[Secret]:
        """A file that tools cannot read, or that lies elsewhere, is masked and not restored."""
        now = stamp(path)
        if now is None or path not in self._files or self._files[path].stamp != now:
            self._files[path] = self._read(path, cwd, now)
        file = self._files[path]
        for name, variable, value in _secret_values(file.values, variables):
            source = f"{variable} of {path.relative_to(cwd)}" if file.is_open else None
            yield Secret(name, value, source)

    def _read(self, path: Path, cwd: Path, now: Stamp | None) -> "_File":
        values: list[tuple[str, str]] = []
        is_open = True
        try:
            try:
                hides = partial(self._is_hidden, cwd)
                data = read_bytes(path, within=cwd, is_hidden=hides)
            except FileRefused:
                # Nothing of the file is shown to anybody, so it may lie anywhere.
                data, is_open = read_bytes(path, within=None), False
            values.extend(read_values(decode(data or b""), self._workspace.environ))
        except ConfigError as error:
            self._report(_NOT_READ.format(path=path, problem=error))
        return _File(now, is_open, values)

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._hub.report(f"Warning: {text}")


def credentials(api_key: str | None, registry: ModelRegistry) -> Iterator[tuple[str, str]]:
    """Yield names and values of the credentials that this session could send."""
    names = registry.secret_names()
    yield from ((name, value) for name, value in registry.keyring.environ.items() if name in names)
    for name in HEADER_LISTS:
        yield from ((name, text) for text in _headers_in(registry.keyring.environ.get(name, "")))
    yield "api_key", api_key or ""
    yield from registry.credentials()


def _headers_in(value: str) -> Iterator[str]:
    """Yield the secret parts of `name=value,name=value`."""
    for pair in value.split(","):
        name, _, text = pair.partition("=")
        yield from parts_of(name.strip(), unquote(text.strip()))


def secrets_of_environment(environ: Mapping[str, str]) -> Iterator[str]:
    """Values of the environment that look like secrets."""
    yield from (value for _, _, value in _secret_values(environ.items(), frozenset()))


def _secret_values(
    pairs: Iterable[tuple[str, str]], variables: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield a name for each secret value, the variable that holds it, and the value."""
    for name, value in pairs:
        if name in variables or _is_secret(name, value):
            yield name, name, value
        for ending, inner in _inner_secrets(value):
            for text in dict.fromkeys((inner, unquote(inner), unquote_plus(inner))):
                yield f"{name}_{ending}", name, text


def _is_secret(name: str, value: str) -> bool:
    """A name such as `KEY_PATH` counts only with a value that is not a place."""
    if is_secret_name(name):
        return True
    return is_place_name(name) and looks_like_key(value) and not _PLACE.search(value)


def _inner_secrets(value: str) -> Iterator[tuple[str, str]]:
    """Passwords of addresses, and fields with names of secrets, within a value."""
    if "://" in value:
        for pattern in _PASSWORDS:
            yield from (("PASSWORD", password) for password in pattern.findall(value))
    if "=" in value:
        for field, inner in _FIELD.findall(value):
            if is_secret_name(field):
                yield field, inner


CREDENTIAL = "{placeholder} stands for a credential that tools cannot use. Continue without it."
SPECIAL = (
    "{placeholder} cannot be put into a call: its value has characters that a shell would not take "
    "as they are. Let the program read {source} instead."
)
GONE = "{placeholder} stands for a value that is not in the environment or the folder any more."
# Characters that mean themselves in every shell, and in texts in quotes.
_PLAIN = lazy_pattern(r"[A-Za-z0-9_+/][A-Za-z0-9_./:@%+=,-]*")
_PLACEHOLDER = lazy_pattern(r"__LUDOLF_SECRET_[A-Z0-9]+(?:_[A-Z0-9]+)*__")
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
            messages=tuple(map(self._copy, request.messages)),
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

    def _copy(self, message: Message | OpaqueMessage) -> Any:
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


class MaskedProvider(ProviderWrapper):
    """The one way to a model while secrets are masked."""

    def __init__(self, inner: Provider, mask: Mask) -> None:
        super().__init__(inner)
        self._mask = mask

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
