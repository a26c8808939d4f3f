"""Entries of `mcp.json`: their keys, and the check of one entry."""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ludolf.base import ConfigError, Value
from ludolf.config.mcp.addresses import check_address, is_loopback, is_private_address

McpSource = Literal["user", "project", "host", "extension", "flag"]
McpExposure = Literal["auto", "direct", "deferred", "hidden"]
# Exposures of pi that need its script tool; here a search declares those tools.
_OF_PI = ("codemode", "codemode-deferred")
# These keys give a server access that only the user may grant.
_NOT_FOR_PROJECTS = ("auth", "inheritEnv", "trustAnnotations")
_OVERRIDES = ("enabled", "exposure", "toolExposure")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# A second dollar sign before it makes the text literal.
VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Larger numbers are mistakes, and some do not fit a float.
_LONGEST_TIMEOUT = 10**9


class McpOAuth(Value):
    """The OAuth client of an HTTP server; `client_secret` may use the value syntax."""

    client_id: str | None = None
    client_secret: str | None = None
    callback_port: int | None = None
    callback_url: str | None = None
    scope: str | None = None
    client_name: str | None = None
    client_registration: Literal["auto", "dcr", "cimd"] = "auto"
    auth_server_metadata_url: str | None = None


class McpProviderAuth(Value):
    """Send the token of a model provider's login to the server."""

    provider: str


class McpEntry(Value):
    """One configured server; values are as written, `timeout` is in seconds.

    `path` is the file of the entry, `override_path` a project's file that changed its exposure or
    whether it is enabled.
    """

    name: str
    source: McpSource
    path: str | None = None
    override_path: str | None = None
    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    oauth: McpOAuth | None = None
    auth: McpProviderAuth | None = None
    timeout: float | None = None
    enabled: bool = True
    description: str | None = None
    exposure: McpExposure = "auto"
    tool_exposure: dict[str, McpExposure] = msgspec.field(default_factory=dict)
    start: Literal["lazy", "eager"] = "lazy"
    protocol: Literal["legacy", "modern"] | None = None
    inherit_env: bool | tuple[str, ...] = False
    sandbox: bool | None = None
    trust_annotations: bool | None = None

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "stdio" if self.url is None else "http"

    @property
    def trusts_annotations(self) -> bool:
        """Return whether a hint that a tool only reads counts: for the user and the host."""
        if self.trust_annotations is not None:
            return self.trust_annotations
        return self.source in ("user", "flag", "host")


class CheckedEntry(Value):
    """An entry and remarks about keys that are ignored or look wrong."""

    entry: McpEntry
    remarks: tuple[str, ...] = ()


# The keys of an entry in a file.
ENTRY_KEYS = frozenset(
    field.encode_name
    for field in msgspec.structs.fields(McpEntry)
    if field.name not in ("name", "source", "path", "override_path")
)


def same_server(name: str) -> str:
    """Return a key that is equal for names that mean one server: `a-b` and `a_b`."""
    return name.replace("-", "_")


def parse_entry(
    name: str, raw: Any, source: McpSource, path: str | None = None, *, milliseconds: bool = False
) -> McpEntry:
    """Return the entry of one server; unknown keys are ignored.

    Raises:
        ConfigError: the name or the entry is invalid; the text names the server and the key.
    """
    return check_entry(name, raw, source, path, milliseconds=milliseconds).entry


def check_entry(
    name: str, raw: Any, source: McpSource, path: str | None = None, *, milliseconds: bool = False
) -> CheckedEntry:
    """Like `parse_entry`, with remarks. `milliseconds` is the unit of `timeout` in the file.

    Raises:
        ConfigError: as `parse_entry`.
    """
    label = f"server {json.dumps(name)}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{label}: use only letters, digits, `_` and `-` in the name")
    if not isinstance(raw, dict):
        raise ConfigError(f"{label}: expected an object")
    remarks: list[str] = []
    known = {key: value for key, value in raw.items() if key in ENTRY_KEYS and value is not None}
    if source == "project":
        known = _for_project(known, remarks)
    _rename_exposures(known)
    try:
        _use_seconds(known, remarks, milliseconds=milliseconds)
        given = {**known, "name": name, "source": source, "path": path}
        entry = _converted(_with_transport(given))
        _check(entry)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from error
    texts = tuple(f"{label}: {remark}" for remark in remarks)
    return CheckedEntry(entry=entry, remarks=texts)


def overrides_only(raw: Any) -> bool:
    """Return whether a project's entry only changes an entry of the user."""
    return isinstance(raw, dict) and not any(raw.get(key) for key in ("command", "url", "type"))


def with_override(entry: McpEntry, raw: Mapping[str, Any], path: str) -> McpEntry:
    """Return the entry with another exposure, or enabled or disabled.

    Raises:
        ConfigError: the override has another key, or an invalid value.
    """
    label = f"server {json.dumps(entry.name)}"
    other = sorted(key for key in raw if key in ENTRY_KEYS and key not in _OVERRIDES)
    if other:
        allowed = ", ".join(_OVERRIDES)
        text = f"without `command` or `url` it can only set {allowed}, not {', '.join(other)}"
        raise ConfigError(f"{label}: {text}")
    changes = {key: raw[key] for key in _OVERRIDES if raw.get(key) is not None}
    _rename_exposures(changes)
    try:
        return _converted({**msgspec.to_builtins(entry), **changes, "overridePath": path})
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from error


def _converted(given: dict[str, Any]) -> McpEntry:
    try:
        return msgspec.convert(given, McpEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error).replace("`$.", "`")) from error
    except UnicodeEncodeError as error:
        raise ConfigError("a value has a lone surrogate") from error


def _only_stars(pattern: str) -> str:
    return pattern.replace("[", "[[]").replace("?", "[?]")


def _for_project(known: dict[str, Any], remarks: list[str]) -> dict[str, Any]:
    ignored = [key for key in _NOT_FOR_PROJECTS if key in known]
    if known.get("sandbox") is False:
        ignored.append("sandbox")
    remarks += [f"`{key}` is ignored: only the user's mcp.json may set it" for key in ignored]
    return {key: value for key, value in known.items() if key not in ignored}


def _use_seconds(known: dict[str, Any], remarks: list[str], *, milliseconds: bool) -> None:
    timeout = known.get("timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        return
    if timeout > _LONGEST_TIMEOUT:
        raise ConfigError(f"`timeout` must not be greater than {_LONGEST_TIMEOUT:,}")
    if not milliseconds:
        if timeout >= 1000:
            remarks.append(
                f"`timeout` is {timeout} seconds; divide it by 1000 if you meant milliseconds"
            )
        return
    known["timeout"] = timeout / 1000
    if timeout < 1000:
        del known["timeout"]
        remarks.append(
            f"`timeout` of {timeout} is ignored: this file uses milliseconds, and a value below "
            "1000 looks like seconds"
        )


def _rename_exposures(known: dict[str, Any]) -> None:
    if known.get("exposure") in _OF_PI:
        known["exposure"] = "deferred"
    tools = known.get("toolExposure")
    if isinstance(tools, dict):
        renamed = {tool: "deferred" if one in _OF_PI else one for tool, one in tools.items()}
        known["toolExposure"] = renamed


def _with_transport(given: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of one transport: `type` chooses it, else `url`, else `command`."""
    kind, is_http = given.get("type"), given.get("url") is not None
    if kind == "sse":
        raise ConfigError(
            "HTTP with SSE of 2024 is not supported. Servers offer streamable HTTP today, often at "
            'an address that ends in /mcp: set that `url` and `"type": "http"`'
        )
    if kind is not None:
        is_http = kind != "stdio"
    other = ("command", "args", "env", "cwd") if is_http else ("url", "headers", "oauth", "auth")
    needed = "url" if is_http else "command"
    if not given.get(needed):
        missing = f"`type` is {kind!r}, but `{needed}` is missing"
        raise ConfigError(missing if kind else "set `command` or `url`")
    return {key: value for key, value in given.items() if key not in other}


def _check(entry: McpEntry) -> None:
    if entry.timeout is not None and not 0 < entry.timeout < float("inf"):
        raise ConfigError("`timeout` must be a positive number of seconds")
    if entry.url is not None and not has_syntax(entry.url):
        check_address(entry.url)
    for header in entry.headers:
        if not _HEADER.fullmatch(header):
            raise ConfigError(f"{json.dumps(header)} is not a name of a header")
    for variable in entry.env:
        if not variable.isprintable() or not variable or "=" in variable:
            raise ConfigError(f"{json.dumps(variable)} is not a name of a variable")
    if entry.oauth is not None:
        _check_oauth(entry.oauth)


def _check_oauth(oauth: McpOAuth) -> None:
    if oauth.callback_port is not None and not 0 < oauth.callback_port < 65536:
        raise ConfigError("`oauth.callbackPort` must be a port number")
    if oauth.callback_url is not None and not is_loopback(oauth.callback_url):
        text = "must be an http address on localhost, 127.0.0.1 or [::1]"
        raise ConfigError(f"`oauth.callbackUrl` {text}")
    metadata = oauth.auth_server_metadata_url
    if metadata is not None and not is_private_address(metadata):
        raise ConfigError("`oauth.authServerMetadataUrl` must be an https address")


def has_syntax(text: str) -> bool:
    """Return whether a value must be expanded."""
    return text.startswith(("!", "$!")) or VARIABLE.search(text) is not None


def literal_value(text: str) -> str:
    """Return the value that is expanded to this text."""
    escaped = VARIABLE.sub(lambda match: f"${match[0]}", text)
    return f"${escaped}" if escaped.startswith("!") else escaped
