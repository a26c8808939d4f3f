"""`ludolf mcp`: add, remove, list and import MCP servers, and log in to them."""

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ludolf.ai.secret_names import is_secret_name
from ludolf.base import CommandError, ConfigError
from ludolf.base.near import did_you_mean
from ludolf.cli.subcommands import with_default
from ludolf.cli.subcommands.mcp_list import entry_problem, list_servers, show_server
from ludolf.cli.terminal import one_line, say
from ludolf.config.mcp.edit import remove_entry, set_entry
from ludolf.config.mcp.entries import McpEntry, check_entry, has_syntax, same_server
from ludolf.config.mcp.files import read_entry_objects
from ludolf.config.mcp.imports import FOREIGN_PROGRAMS, foreign_files, read_foreign_entries
from ludolf.config.settings.home import Home, current_folder, find_home, reader_of
from ludolf.config.settings.trust import trusted_settings

_Act = Callable[[Home, Namespace], int]
_ADDRESS = ("http://", "https://")
_LOGINS = ("login", "logout")
# What remains of a header if the shell expands a variable that is not set.
_EMPTY_VALUES = ("", "bearer", "basic", "token")
_ABOUT = """Add, remove, list and import MCP servers, and log in to them. Servers of the user are in
mcp.json in the agent folder, those of a project in .pi/mcp.json."""
_ADD_USAGE = """ludolf mcp add NAME [options] -- COMMAND [ARGS...]
       ludolf mcp add NAME [options] URL"""
_EPILOG = """Values may be ${NAME} or ${NAME:-default} for environment variables, or !COMMAND for
the output of a command."""


def run(words: Sequence[str]) -> int:
    """Run `ludolf mcp WORDS`; returns the exit code.

    Raises:
        LudolfError: the arguments, the entry or a file is invalid, or a file cannot be written.
    """
    if words and words[0] in _LOGINS:
        module = import_module("ludolf.cli.subcommands.mcp_login")
        code: int = getattr(module, words[0])(words[1:])
        return code
    parser, add = _parser()
    head, command = _split(words, add) if words and words[0] == "add" else (words, ())
    arguments = parser.parse_args(with_default(parser, head or ("list",), "list"))
    arguments.words = tuple(command)
    act: _Act = arguments.act
    return act(find_home(current_folder(), os.environ), arguments)


def _parser() -> tuple[ArgumentParser, ArgumentParser]:
    """Return the parser, and that of `add`."""
    parser = ArgumentParser(prog="ludolf mcp", allow_abbrev=False, description=_ABOUT)
    commands = parser.add_subparsers(metavar="COMMAND", help="default: list")

    def add(name: str, act: _Act | None, about: str, **more: Any) -> ArgumentParser:
        options = {"help": about, "description": about, "allow_abbrev": False, **more}
        command: ArgumentParser = commands.add_parser(name, **options)
        command.set_defaults(act=act)
        return command

    adding = add("add", _add, "add or replace a server", usage=_ADD_USAGE, epilog=_EPILOG)
    _add_options(adding)
    removing = add("remove", _remove, "remove a server; a stored login stays")
    about = "list all servers; starts none (exit code 1 if an entry is invalid)"
    listing = add("list", list_servers, about)
    listing.add_argument("--json", action="store_true", help="print JSON, for scripts")
    showing = add("get", show_server, "print the entry of a server as JSON")
    checking = add("check", _check, "start a server and list its tools")
    # These two have parsers of their own, with the code that they need.
    add("login", None, "log in to a server in the browser")
    add("logout", None, "delete the stored login of a server")
    importing = add("import", _import, "take over the servers of another program")
    importing.add_argument("program", choices=FOREIGN_PROGRAMS, help="program to take over from")
    importing.add_argument("--force", action="store_true", help="replace servers of the same name")
    for each in (removing, showing, checking):
        each.add_argument("name", metavar="NAME", help="name of the server")
    for each in (adding, removing, importing):
        _add_scope(each)
    return parser, adding


def _add_scope(parser: ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--scope", choices=("user", "project"), default="user", help="file to use (default: user)"
    )
    scope.add_argument(
        *("-l", "--local"),
        dest="scope",
        action="store_const",
        const="project",
        help="the same as --scope project",
    )


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="letters, digits, _ and -")
    parser.add_argument("--url", help="address of the server; --url may be left out")
    parser.add_argument(
        "--transport", choices=("stdio", "http", "streamable-http", "sse"), help="type of server"
    )
    for flag, metavar, about in (
        ("--env", "KEY=VALUE", "environment variable of the command; repeatable"),
        ("--header", "KEY=VALUE", "HTTP header, also as KEY: VALUE; repeatable"),
    ):
        parser.add_argument(flag, metavar=metavar, action="append", default=[], help=about)
    for flag, metavar, about in (
        ("--cwd", "DIR", "folder of the command (default: that of the session)"),
        ("--bearer-token-env-var", "VARIABLE", "send the token in this environment variable"),
        ("--oauth-client-id", "ID", "id of a registered OAuth client"),
        ("--oauth-client-secret", "SECRET", "its secret"),
        ("--oauth-client-name", "TEXT", "name to register a client with"),
        ("--oauth-scope", "SCOPES", "scopes to request, separated by spaces"),
        ("--description", "TEXT", "what the server offers"),
    ):
        parser.add_argument(flag, metavar=metavar, help=about)
    parser.add_argument(
        "--oauth-client-registration", choices=("auto", "cimd", "dcr"), help="default: auto"
    )
    parser.add_argument("--oauth-callback-port", metavar="PORT", type=int, help="fixed port")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="limit of one call")
    modes = ("auto", "direct", "deferred", "hidden", "codemode")
    parser.add_argument("--exposure", choices=modes, help="how the model reaches its tools")


def _split(words: Sequence[str], parser: ArgumentParser) -> tuple[Sequence[str], Sequence[str]]:
    """Separate the options from the command, which begins after `--` or with the second word."""
    options, named, at = parser._option_string_actions, 0, 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1 :]
        if word.startswith("-") and len(word) > 1:
            flag, equals, _ = word.partition("=")
            takes_value = flag in options and options[flag].nargs is None
            at += 2 if takes_value and not equals else 1
            continue
        named += 1
        if named == 2 and word.startswith(_ADDRESS):
            words = (*words[:at], "--url", *words[at:])
            at += 1
        elif named == 2:
            return words[:at], words[at:]
        at += 1
    return words, ()


# ---------------------------------------------------------------- add and remove


def _add(home: Home, arguments: Namespace) -> int:
    entry = _entry(arguments)
    source: Any = arguments.scope
    checked = check_entry(arguments.name, entry, source)
    path = _file(home, arguments.scope)
    replaced = set_entry(home, path, arguments.name, entry)
    for remark in checked.remarks:
        sys.stderr.write(f"Warning: {remark}\n")
    say(f"{'Replaced' if replaced else 'Added'} {arguments.name} in {path}")
    _warn_of_literal_secrets(checked.entry, path)
    problem = entry_problem(checked.entry, home) if checked.entry.command else None
    if problem is not None:
        sys.stderr.write(f"Warning: {problem}\n")
    say(f"Try it with: ludolf mcp check {arguments.name}")
    _warn_without_trust(home, arguments.scope)
    return 0


def _entry(arguments: Namespace) -> dict[str, Any]:
    """Return the entry that the options describe.

    Raises:
        CommandError: options contradict each other, or a pair has no key.
    """
    url = arguments.url
    if url and arguments.words:
        raise CommandError("Give either a command or an address, not both")
    if not url and not arguments.words:
        raise CommandError("Name the command after `--`, or the address of the server")
    kind = arguments.transport
    entry: dict[str, Any] = {"type": kind} if kind else {}
    if url:
        entry |= {"url": url, "headers": _headers(arguments), "oauth": _oauth(arguments)}
        _refuse(arguments, "an address", env="--env", cwd="--cwd")
    else:
        program, *rest = arguments.words
        if "://" in program:
            raise CommandError(f"{program} is not an address that begins with https:// or http://")
        entry |= {"command": program, "args": rest, "env": _pairs("--env", arguments.env, "=")}
        entry["cwd"] = arguments.cwd
        _refuse(
            arguments, "a command", header="--header", bearer_token_env_var="--bearer-token-env-var"
        )
    exposure = None if arguments.exposure == "auto" else arguments.exposure
    entry |= {"timeout": arguments.timeout, "exposure": exposure}
    entry["description"] = arguments.description
    return {key: value for key, value in entry.items() if value not in (None, [], {})}


def _refuse(arguments: Namespace, server: str, **flags: str) -> None:
    for name, flag in flags.items():
        if getattr(arguments, name):
            raise CommandError(f"{flag} has no effect for a server with {server}")


def _headers(arguments: Namespace) -> dict[str, str]:
    headers = _pairs("--header", arguments.header, ":=")
    for name, text in headers.items():
        if text.lower() in _EMPTY_VALUES:
            raise CommandError(
                f"The header {name} has no value. Write '${{NAME}}' in single quotes, so that the "
                "shell does not expand it"
            )
    if arguments.bearer_token_env_var:
        headers["Authorization"] = f"Bearer ${{{arguments.bearer_token_env_var}}}"
    return headers


def _oauth(arguments: Namespace) -> dict[str, Any]:
    oauth = {
        "clientId": arguments.oauth_client_id,
        "clientSecret": arguments.oauth_client_secret,
        "callbackPort": arguments.oauth_callback_port,
        "clientName": arguments.oauth_client_name,
        "scope": arguments.oauth_scope,
        "clientRegistration": arguments.oauth_client_registration,
    }
    return {key: value for key, value in oauth.items() if value is not None}


def _pairs(flag: str, given: Sequence[str], signs: str) -> dict[str, str]:
    pairs = {}
    for pair in given:
        places = [place for sign in signs if (place := pair.find(sign)) > 0]
        if not places:
            raise CommandError(f"{flag} needs KEY=VALUE, not {pair!r}")
        at = min(places)
        pairs[pair[:at].strip()] = pair[at + 1 :].strip() if ":" in signs else pair[at + 1 :]
    return pairs


def _warn_of_literal_secrets(entry: McpEntry, path: Path) -> None:
    """Say that a secret is in the file, often because the shell expanded a variable."""
    for key, text in (*entry.env.items(), *entry.headers.items()):
        if is_secret_name(key) and not has_syntax(text):
            variable = key if key in entry.env else "NAME"
            sys.stderr.write(
                f"Warning: the value of {key} is now in {path} as plain text. To store a reference "
                f"to a variable, write '${{{variable}}}' in single quotes.\n"
            )


def _remove(home: Home, arguments: Namespace) -> int:
    name, path = arguments.name, _file(home, arguments.scope)
    if remove_entry(home, path, name):
        say(f"Removed {name} from {path}")
        return 0
    there = tuple(_objects(home, arguments.scope))
    other = "project" if arguments.scope == "user" else "user"
    hint = did_you_mean(name, there)
    if any(same_server(one) == same_server(name) for one in _objects(home, other)):
        hint = f" It is in {_file(home, other)}: add --scope {other}."
    raise CommandError(f'{path} has no server "{name}".{hint}')


def _objects(home: Home, scope: str) -> dict[str, Any]:
    reader = reader_of(home, home.cwd) if scope == "project" else None
    try:
        return read_entry_objects(_file(home, scope), reader)
    except ConfigError:
        return {}


def _file(home: Home, scope: str) -> Path:
    return home.mcp_file if scope == "user" else home.project_mcp_file


def _warn_without_trust(home: Home, scope: str) -> None:
    if scope == "project" and not trusted_settings(home).trusted:
        sys.stdout.flush()
        sys.stderr.write(
            f"Warning: {home.cwd} is not trusted, so its servers do not start. Trust it with "
            "`ludolf trust`.\n"
        )


def _check(home: Home, arguments: Namespace) -> int:
    # Loaded here: the other commands do not need the client.
    from ludolf.cli.subcommands.mcp_check import check_server

    return check_server(home, arguments)


# ---------------------------------------------------------------- import


def _import(home: Home, arguments: Namespace) -> int:
    project = arguments.scope == "project"
    program, path = arguments.program, _file(home, arguments.scope)
    found = read_foreign_entries(program, home, os.environ, project_only=project)
    for remark in found.remarks:
        sys.stderr.write(f"Warning: {one_line(remark, 1000)}\n")
    if not found.entries:
        places = ", ".join(map(str, foreign_files(program, home, os.environ)))
        raise CommandError(f"No server of {program} was found. Searched: {places}")
    there = {same_server(name) for name in _objects(home, arguments.scope)}
    for name, entry in found.entries.items():
        if same_server(name) in there and not arguments.force:
            sys.stderr.write(f"{name} is already in {path}. Replace it with --force.\n")
            continue
        set_entry(home, path, name, entry)
        address = entry.get("url") or shlex.join((entry["command"], *entry.get("args", ())))
        origin = found.origins[name]
        say(f"Added {name} from {origin}: {one_line(address, 200)}")
    _warn_without_trust(home, arguments.scope)
    return 0
