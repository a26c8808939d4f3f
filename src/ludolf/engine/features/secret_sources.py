"""Secret values and where they come from: credentials, the environment, files of the folder."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import unquote, unquote_plus

import msgspec

from ludolf.ai.access import Access
from ludolf.ai.models import Model
from ludolf.ai.secret_names import is_place_name, is_secret_name
from ludolf.ai.secret_values import looks_like_key
from ludolf.ai.secrets import credentials_in
from ludolf.base import ConfigError
from ludolf.base.project_files import FileRefused, read_bytes
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
    re.compile(r"://[^\s/:@]*:([^\s/@]+)@"),
    re.compile(r"://[^\s/:@]*:([^\s/]+)@"),
    re.compile(r"://([^\s/:@]{20,})@"),
)
_PLACE = re.compile(r"[.:\\]")
_FIELD = re.compile(r"(?<![\w.-])([A-Za-z_][\w.-]*+)=([^&;\s\"'#]+)")


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
        for name, variable, value in _secret_values(os.environ.items(), variables):
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
            values.extend(read_values(decode(data or b""), os.environ))
        except ConfigError as error:
            self._report(_NOT_READ.format(path=path, problem=error))
        return _File(now, is_open, values)

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._hub.report(f"Warning: {text}")


def credentials(api_key: str | None, registry: ModelRegistry) -> Iterator[tuple[str, str]]:
    """Yield names and values of the credentials that this process could send."""
    names = registry.secret_names()
    yield from ((name, value) for name, value in os.environ.items() if name in names)
    yield "api_key", api_key or ""
    yield from registry.credentials()


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
