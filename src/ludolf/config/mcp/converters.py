"""Convert an entry of another program to the form of `mcp.json`."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ludolf.config.mcp.entries import literal_value
from ludolf.config.settings.home import Home

# Up to this number of chosen tools are declared in every request, more are searched for.
_MOST_DIRECT = 10
_COMMON = ("command", "args", "env", "cwd", "url", "headers", "type", "description", "enabled")
_ENV = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_PLAIN_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_BRACES = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_FILE = re.compile(r"\{file:([^}]+)\}")
_OTHER = re.compile(r"\$\{(?:workspaceFolderBasename|cwd|[A-Za-z]+:(?!-)[^}]*)\}")

_Text = Callable[[str], str]


class Converted(NamedTuple):
    """An entry in the form of `mcp.json`, and remarks about what differs."""

    entry: dict[str, Any]
    remarks: list[str]


def from_claude(raw: dict[str, Any], home: Home) -> Converted:
    done = _common(raw, _bang)
    _take_milliseconds(raw, done)
    _take_oauth(raw.get("oauth"), done)
    _name_the_rest(raw, done, ("timeout", "oauth"))
    return done


def from_cursor(raw: dict[str, Any], home: Home) -> Converted:
    remarks: list[str] = []
    done = _common(raw, _editor_text(home, remarks))
    done.remarks.extend(dict.fromkeys(remarks))
    auth = raw.get("auth")
    if isinstance(auth, dict):
        names = {"clientId": "CLIENT_ID", "clientSecret": "CLIENT_SECRET", "scopes": "scopes"}
        _take_oauth({ours: auth.get(theirs) for ours, theirs in names.items()}, done)
    if raw.get("disabled") is True:
        done.entry["enabled"] = False
    _take_milliseconds(raw, done)
    _name_the_rest(raw, done, ("timeout", "auth", "disabled"))
    return done


def from_vscode(raw: dict[str, Any], home: Home) -> Converted:
    remarks: list[str] = []
    done = _common(raw, _editor_text(home, remarks))
    done.remarks.extend(dict.fromkeys(remarks))
    _take_oauth(raw.get("oauth"), done)
    _name_the_rest(raw, done, ("oauth", "gallery", "version"))
    return done


def from_codex(raw: dict[str, Any], home: Home) -> Converted:
    done = _common(raw, literal_value)
    headers = {**_texts(raw.get("http_headers"), literal_value)}
    headers |= {name: f"${{{var}}}" for name, var in _texts(raw.get("env_http_headers")).items()}
    token = raw.get("bearer_token_env_var")
    if isinstance(token, str):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    _put(done, "headers", headers)
    names = raw.get("env_vars")
    variables = [_variable_name(one) for one in names] if isinstance(names, list) else []
    _put(done, "inheritEnv", [name for name in variables if name])
    if _is_number(raw.get("tool_timeout_sec")):
        done.entry["timeout"] = raw["tool_timeout_sec"]
    _choose_tools(done, raw.get("enabled_tools"), raw.get("disabled_tools"))
    scopes = raw.get("scopes")
    if isinstance(scopes, list):
        _take_oauth({"scopes": scopes}, done)
    known = ("http_headers", "env_http_headers", "bearer_token_env_var", "env_vars", "scopes")
    tools = ("enabled_tools", "disabled_tools", "tool_timeout_sec")
    _name_the_rest(raw, done, (*known, *tools))
    return done


def from_opencode(raw: dict[str, Any], home: Home) -> Converted:
    remarks: list[str] = []

    def text(value: str) -> str:
        whole = _FILE.fullmatch(value)
        if whole:
            return f"!cat {_quoted(whole[1])}"
        if _FILE.search(value):
            remarks.append("`{file:…}` inside a value is not supported. Replace it by hand")
        return _BRACES.sub(lambda match: f"${{{match[1]}}}", literal_value(value))

    words = raw.get("command")
    plain = {**raw, "env": raw.get("environment"), "type": None}
    if isinstance(words, list):
        plain |= {"command": words[0] if words else None, "args": words[1:]}
    done = _common(plain, text)
    done.remarks.extend(dict.fromkeys(remarks))
    if raw.get("disabled") is True:
        done.entry["enabled"] = False
    _take_oauth(raw.get("oauth"), done)
    _take_milliseconds(raw, done)
    _name_the_rest(raw, done, ("environment", "oauth", "timeout", "disabled"))
    return done


def from_gemini(raw: dict[str, Any], home: Home) -> Converted:
    def text(value: str) -> str:
        return _bang(_PLAIN_VARIABLE.sub(lambda match: f"${{{match[1]}}}", value))

    address = raw.get("httpUrl")
    plain = {**raw, "type": None}
    if isinstance(address, str):
        plain["url"] = address
    done = _common(plain, text)
    if address is None and raw.get("url") and raw.get("type") != "http":
        done.remarks.append(
            "Gemini uses this address with SSE, which Ludolf does not support. Check that the "
            "server speaks streamable HTTP there, often at an address that ends in /mcp"
        )
    _choose_tools(done, raw.get("includeTools"), raw.get("excludeTools"))
    _take_milliseconds(raw, done)
    if raw.get("trust") is True:
        done.remarks.append("`trust` is not taken over. Allow its tools with `approval.rules`")
    _take_oauth(raw.get("oauth"), done)
    known = ("httpUrl", "includeTools", "excludeTools", "timeout", "trust", "oauth")
    _name_the_rest(raw, done, known)
    return done


# ---------------------------------------------------------------- keys


def _common(raw: Mapping[str, Any], text: _Text) -> Converted:
    """Take over the keys that all programs share; `text` converts the syntax of values."""
    entry: dict[str, Any] = {}
    for key in ("command", "cwd", "url"):
        if isinstance(raw.get(key), str):
            entry[key] = text(raw[key])
    args = raw.get("args")
    if isinstance(args, list):
        entry["args"] = [text(_shown(one)) for one in args]
    for key in ("env", "headers"):
        values = _texts(raw.get(key), text)
        if values:
            entry[key] = values
    for key in ("type", "description"):
        if isinstance(raw.get(key), str):
            entry[key] = raw[key]
    if raw.get("enabled") is False:
        entry["enabled"] = False
    return Converted(entry, [])


def _texts(value: Any, text: _Text = str) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(name): text(_shown(one)) for name, one in value.items() if one is not None}


def _shown(value: Any) -> str:
    """Return a number or a truth value as programs pass it on."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _put(done: Converted, key: str, value: Any) -> None:
    if value:
        done.entry[key] = value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _take_milliseconds(raw: Mapping[str, Any], done: Converted) -> None:
    timeout = raw.get("timeout")
    if timeout is None:
        return
    if _is_number(timeout) and 1000 <= timeout <= 10**9:
        seconds = timeout / 1000
        done.entry["timeout"] = int(seconds) if seconds == int(seconds) else seconds
    else:
        done.remarks.append("`timeout` is not taken over: expected 1000 milliseconds or more")


def _take_oauth(raw: Any, done: Converted) -> None:
    if not isinstance(raw, dict):
        return
    names = ("clientId", "clientSecret", "callbackPort", "scope", "authServerMetadataUrl")
    oauth = {name: raw[name] for name in names if isinstance(raw.get(name), str | int)}
    oauth = {name: value for name, value in oauth.items() if not isinstance(value, bool)}
    if isinstance(raw.get("redirectUri"), str):
        oauth["callbackUrl"] = raw["redirectUri"]
    scopes = raw.get("scopes")
    if isinstance(scopes, list):
        scopes = " ".join(map(str, scopes))
    if isinstance(scopes, str) and scopes:
        oauth["scope"] = scopes
    _put(done, "oauth", oauth)


def _choose_tools(done: Converted, chosen: Any, refused: Any) -> None:
    exposures: dict[str, str] = {}
    if isinstance(refused, list):
        exposures |= {_tool(one): "hidden" for one in refused}
    if isinstance(chosen, list):
        how = "direct" if len(chosen) <= _MOST_DIRECT else "deferred"
        exposures = {**{_tool(one): how for one in chosen}, **exposures, "*": "hidden"}
    _put(done, "toolExposure", exposures)


def _tool(name: Any) -> str:
    """Return the name of a tool; Gemini writes `name(args)` too."""
    return str(name).partition("(")[0]


def _variable_name(value: Any) -> str:
    """Return a name of a variable; codex also writes `{name, source}`."""
    name = value.get("name") if isinstance(value, dict) else value
    return name if isinstance(name, str) else ""


def _name_the_rest(raw: Mapping[str, Any], done: Converted, known: Iterable[str]) -> None:
    taken = {*_COMMON, *known}
    for key in sorted(str(key) for key in raw if key not in taken and raw[key] is not None):
        if key == "envFile":
            text = "`envFile` is not supported. Set its variables in `env`"
        else:
            text = f"`{key}` is not taken over"
        done.remarks.append(text)


# ---------------------------------------------------------------- values


def _bang(value: str) -> str:
    """Keep a text that begins with `!`, which would be a command here."""
    return f"${value}" if value.startswith("!") else value


def _quoted(path: str) -> str:
    import shlex

    if path.startswith("~/"):
        return "~/" + shlex.quote(path[2:])
    return shlex.quote(path)


def _editor_text(home: Home, remarks: list[str]) -> _Text:
    """Return the conversion of variables of VS Code and Cursor."""

    def asked(match: re.Match[str]) -> str:
        name = re.sub(r"\W", "_", match[1], flags=re.ASCII).upper()
        name = f"_{name}" if name[:1].isdigit() else name
        remarks.append(f"`{match[0]}` became `${{{name}}}`. Set that environment variable")
        return f"${{{name}}}"

    def convert(value: str) -> str:
        text = _INPUT.sub(asked, _ENV.sub(lambda match: f"${{{match[1]}}}", _bang(value)))
        if "${workspaceFolder}" in text:
            text = text.replace("${workspaceFolder}", ".")
            remarks.append("`${workspaceFolder}` became `.`, the folder of a session")
        text = text.replace("${userHome}", str(home.user))
        text = text.replace("${pathSeparator}", "/").replace("${/}", "/")
        if _OTHER.search(text):
            remarks.append(f"{_OTHER.findall(text)[0]} is not supported. Replace it by hand")
        return text

    return convert
