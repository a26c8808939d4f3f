"""Credentials from auth.json, models.json and the environment, in order of precedence."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.ai.access import Access
from ludolf.base import ConfigError
from ludolf.config.auth.keys import (
    ALSO_NEEDED,
    BEARER_VARIABLES,
    IDENTITIES,
    KEY_VARIABLES,
    OTHER_SECRETS,
    ApiKey,
    Credential,
    OAuth,
)
from ludolf.config.settings.files import Stamp, read_object, stamp, write_object
from ludolf.config.settings.value_syntax import Resolver, names_in

KeyOrigin = Literal["runtime", "stored", "configured", "environment"]
# A login that expires sooner is renewed before it is used.
LEAST_LIFE_MS = 5 * 60 * 1000


class Keyring:
    """The keys of one session.

    Order: a key given for this run, a stored credential, the value in models.json, the environment.
    If a stored credential resolves to nothing, the sources after it are not tried.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self.environ = environ
        self.resolver = Resolver(environ)
        self.warnings: list[str] = []
        self._runtime: dict[str, str] = {}
        self._stored: dict[str, Credential] = {}
        self._stamp: Stamp | None = None
        self._looked_for_old = False

    def use(self, provider: str, key: str) -> None:
        """Use this key for the rest of the process without storing it."""
        self._runtime[provider] = key

    def stored(self) -> dict[str, Credential]:
        """Return the content of auth.json; if the file is invalid, the last valid content."""
        current = stamp(self.path)
        if current is None and not self._looked_for_old:
            current = self._import_old()
        if current != self._stamp:
            self._stamp = current
            try:
                self._stored = self._decode(read_object(self.path))
            except ConfigError as error:
                self.warnings.append(f"Invalid auth file {self.path}: {error}")
        return self._stored

    def origin(self, provider: str, configured: str | None = None) -> KeyOrigin | None:
        """Return the source of a key without running a command; None if there is none."""
        if provider in self._runtime:
            return "runtime"
        if provider in self.stored():
            return "stored"
        if configured is not None and self.resolver.can_resolve(configured):
            return "configured"
        return "environment" if self.variables(provider) else None

    def runs_command(self, provider: str, configured: str | None = None) -> bool:
        """Return whether `access` may run a command, which can take up to ten seconds."""
        match self.origin(provider, configured):
            case "stored":
                credential = self.stored()[provider]
                return isinstance(credential, ApiKey) and (credential.key or "").startswith("!")
            case "configured":
                return (configured or "").startswith("!")
            case _:
                return False

    def access(self, provider: str, configured: str | None = None) -> Access | None:
        """Resolve the key to send; None if the provider has no usable credential."""
        match self.origin(provider, configured):
            case "runtime":
                return Access(key=self._runtime[provider])
            case "stored":
                return self._from_credential(provider, self.stored()[provider])
            case "configured":
                key = self.resolver.resolve(configured or "")
                return None if key is None else Access(key=key)
            case "environment":
                return self._from_environment(provider, {})
            case None:
                return None

    def ends_soon(self, provider: str, least_ms: float = LEAST_LIFE_MS) -> bool:
        """Return whether a stored login must be renewed before the next request."""
        if provider in self._runtime:
            return False
        credential = self.stored().get(provider)
        return isinstance(credential, OAuth) and credential.ends_within(least_ms)

    def variables(self, provider: str, over: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Return the environment variables that authenticate a provider, if any do."""

        def is_set(name: str) -> bool:
            return bool(self.resolver.variable(name, over))

        key = next(filter(is_set, KEY_VARIABLES.get(provider, ())), None)
        if key is not None:
            complete = all(any(map(is_set, group)) for group in ALSO_NEEDED.get(provider, ()))
            return (key,) if complete else ()
        groups = IDENTITIES.get(provider, ())
        return next((group for group in groups if all(map(is_set, group))), ())

    def store(self, provider: str, key: str) -> None:
        """Write a key to auth.json; it may use the value syntax.

        Raises:
            ConfigError: the file is invalid, locked, or cannot be written.
        """
        # Other fields of the entry, such as the address for the key, stay.
        self._change(lambda raw: {**raw, provider: {**_key_entry(raw, provider), "key": key}})

    def store_login(self, provider: str, credential: dict[str, Any]) -> None:
        """Write the tokens of a login to auth.json.

        Raises:
            ConfigError: as above.
        """
        self._change(lambda raw: {**raw, provider: credential})

    def forget(self, *providers: str) -> tuple[str, ...]:
        """Remove credentials from auth.json; return the providers that had one.

        Raises:
            ConfigError: as above.
        """
        there = self.entries()
        removed = tuple(name for name in providers if name in there)
        if removed:
            self._change(lambda raw: {name: raw[name] for name in raw if name not in removed})
        return removed

    def entries(self) -> tuple[str, ...]:
        """Return the providers in auth.json, with those whose entry is invalid.

        Raises:
            ConfigError: the file is invalid.
        """
        self.stored()
        return tuple(self._read_for_change())

    def secret_names(self, configured: Iterable[str] = ()) -> frozenset[str]:
        """Return environment variables with keys that tools must not see.

        `configured` are the values of models.json, which may refer to further variables.
        """
        names = set(OTHER_SECRETS)
        for variables in KEY_VARIABLES.values():
            names.update(variables)
        for credential in self.stored().values():
            if isinstance(credential, ApiKey):
                names |= names_in(credential.key or "")
        for value in configured:
            names |= names_in(value)
        return frozenset(names)

    def credentials(self) -> Iterator[tuple[str, str]]:
        """Yield names and values of keys of this run and of auth.json without running commands."""
        from ludolf.ai.secret_names import is_secret_name

        for provider, key in self._runtime.items():
            yield f"{provider}_key", key
        for provider, credential in self.stored().items():
            if isinstance(credential, OAuth):
                yield f"{provider}_access", credential.access
                yield f"{provider}_refresh", credential.refresh
                continue
            key = self.resolver.plain_text(credential.key or "", over=credential.env)
            yield f"{provider}_key", key
            for name, value in credential.env.items():
                if is_secret_name(name):
                    yield f"{provider}_{name}", value

    def _from_credential(self, provider: str, credential: Credential) -> Access | None:
        if isinstance(credential, OAuth):
            from ludolf.config.auth.oauth import admission

            return None if credential.expired else admission(provider, credential)
        if credential.key is None:
            return self._from_environment(provider, credential.env)
        key = self.resolver.resolve(credential.key, over=credential.env, cached=True)
        return None if key is None else Access(key=key, environment=credential.env)

    def _from_environment(self, provider: str, over: dict[str, str]) -> Access | None:
        for name in KEY_VARIABLES.get(provider, ()):
            key = self.resolver.variable(name, over)
            if key and name in BEARER_VARIABLES:
                return Access(headers={"Authorization": f"Bearer {key}"}, environment=over)
            if key:
                return Access(key=key, environment=over)
        return Access(environment=over) if self.variables(provider, over) else None

    def _decode(self, raw: dict[str, Any]) -> dict[str, Credential]:
        credentials: dict[str, Credential] = {}
        for provider, value in raw.items():
            try:
                credentials[provider] = msgspec.convert(value, Credential)
            except msgspec.ValidationError as error:
                self.warnings.append(f"{self.path}: entry {provider} ignored: {error}")
        return credentials

    def _import_old(self) -> Stamp | None:
        """Import the keys of old versions once, if auth.json does not exist."""
        self._looked_for_old = True
        if has_old_credentials(self.path.parent):
            try:
                import_old_credentials(self.path.parent)
            except ConfigError as error:
                self.warnings.append(f"The keys of an old version were not imported: {error}")
        return stamp(self.path)

    def _change(self, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        from ludolf.config.settings.lock import auth_lock

        try:
            os.makedirs(self.path.parent, mode=0o700, exist_ok=True)
            with auth_lock(self.path) as lock:
                raw = edit(self._read_for_change())
                lock.check()
                write_object(self.path, raw)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror or error}") from error

    def _read_for_change(self) -> dict[str, Any]:
        try:
            return read_object(self.path)
        except ConfigError as error:
            text = f"Invalid auth file {self.path}: {error}. It was not changed."
            raise ConfigError(text) from error


def _key_entry(raw: dict[str, Any], provider: str) -> dict[str, Any]:
    old = raw.get(provider)
    fields = old if isinstance(old, dict) and old.get("type") == "api_key" else {}
    return {"type": "api_key", **fields}


def has_old_credentials(agent_dir: Path) -> bool:
    """Return whether an old version stored keys in this folder, without parsing JSON."""
    if (agent_dir / "oauth.json").exists():
        return True
    try:
        return b'"apiKeys"' in (agent_dir / "settings.json").read_bytes()
    except OSError:
        return False


def import_old_credentials(agent_dir: Path) -> None:
    """Import keys of old versions (oauth.json, `apiKeys` in settings.json) into auth.json.

    Does nothing if auth.json exists.

    Raises:
        ConfigError: a file is invalid, locked, or cannot be written.
    """
    path = agent_dir / "auth.json"
    if path.exists():
        return
    logins = read_object(agent_dir / "oauth.json")
    credentials = {
        name: {"type": "oauth", **v} for name, v in logins.items() if isinstance(v, dict)
    }
    keys = read_object(agent_dir / "settings.json").get("apiKeys")
    if isinstance(keys, dict):
        for name, key in keys.items():
            if isinstance(key, str):
                credentials.setdefault(name, {"type": "api_key", "key": key})
    if not credentials:
        return
    from ludolf.config.settings.lock import auth_lock

    try:
        with auth_lock(path) as lock:
            # Another process may have created the file before this one got the lock.
            if not path.exists():
                lock.check()
                write_object(path, credentials)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
