"""Prompts such as `/compact`: commands of the program, answered without a model.

A command or template of the user with the same name takes precedence.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ludolf.base import CommandError
from ludolf.engine.engine import Engine
from ludolf.protocol.acp.structs import AvailableCommand, CommandHint

OwnCommand = Callable[[Engine, str], Awaitable[str]]


def available_commands(engine: Engine) -> tuple[AvailableCommand, ...]:
    """Return the commands that a prompt may call: extensions, MCP, templates, skills, our own."""
    found = {str(item["name"]): item for item in msgspec.to_builtins(engine.commands())}
    theirs = (
        AvailableCommand(name=name, description=_text(item, "description") or name, input=_INPUT)
        for name, item in found.items()
    )
    ours = (
        AvailableCommand(
            name=name, description=text, input=CommandHint(hint=hint) if hint else None
        )
        for name, (text, hint, _) in _COMMANDS.items()
        if name not in found
    )
    return (*theirs, *ours)


def find_command(engine: Engine, prompt: str) -> tuple[str, str] | None:
    """Return the name and the arguments of our command that a prompt calls, if any."""
    text = prompt.strip()
    name, _, words = text[1:].partition(" ")
    if not text.startswith("/") or name not in _COMMANDS:
        return None
    taken = {str(item["name"]) for item in msgspec.to_builtins(engine.commands())}
    return None if name in taken else (name, words.strip())


async def perform_command(engine: Engine, name: str, words: str) -> str:
    """Run a command; returns the text for the user.

    Raises:
        CommandError: it failed or was aborted.
    """
    return await _COMMANDS[name][2](engine, words)


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


# ---------------------------------------------------------------- the commands


async def _compact(engine: Engine, words: str) -> str:
    result = await engine.compact(words or None)
    after = result.estimated_tokens_after
    sizes = f"{result.tokens_before:,} tokens" + (f" to about {after:,}" if after else "")
    return f"The conversation was compacted: from {sizes}."


async def _name(engine: Engine, words: str) -> str:
    if not words:
        name = engine.session.name
        return f"The session is named: {name}" if name else "The session has no name."
    engine.set_session_name(words)
    return f"The session is named: {engine.session.name}"


async def _export(engine: Engine, words: str) -> str:
    return f"The session was written to {await engine.export_html(words or None)}"


async def _session(engine: Engine, words: str) -> str:
    session, stats = engine.session, engine.stats()
    model = engine.models.current
    lines = (
        f"- Session: {session.id}",
        f"- Name: {session.name or '(none)'}",
        f"- File: {session.path or '(not stored)'}",
        f"- Folder: {engine.workspace.cwd}",
        f"- Model: {model.key if model else '(none)'}",
        f"- Tokens: {stats.tokens.input:,} in, {stats.tokens.output:,} out",
        f"- Cost: ${stats.cost:.4f}",
    )
    return "\n".join(lines)


async def _reload(engine: Engine, words: str) -> str:
    await engine.reload()
    return "Settings, models, skills, templates, context files and extensions were read again."


async def _mcp(engine: Engine, words: str) -> str:
    servers = engine.mcp.administration.statuses()
    if not servers:
        return "No MCP servers are configured."
    raw = msgspec.to_builtins(servers)
    return "\n".join(f"- {item['name']}: {_state_of(item)}" for item in raw)


def _state_of(server: dict[str, Any]) -> str:
    state, error = _text(server, "state"), _text(server, "error")
    return f"{state}: {error}" if error else state


async def _login(engine: Engine, words: str) -> str:
    if not words:
        rows = (
            f"- {one.id}{' (logged in)' if one.authenticated else ''}"
            for one in engine.logins.providers()
        )
        return "Name a provider: /login PROVIDER\n" + "\n".join(rows)
    provider, _, method = words.partition(" ")
    if engine.send is None:
        raise CommandError("No client is connected that could show the login.")
    await engine.logins.login(provider, method.strip() or None, None)
    return f"Logged in to {provider}."


_INPUT = CommandHint(hint="arguments")
_COMMANDS: dict[str, tuple[str, str, OwnCommand]] = {
    "compact": ("Compact the conversation", "what the summary must keep", _compact),
    "name": ("Name the session", "name", _name),
    "export": ("Write the session as an HTML page", "path", _export),
    "session": ("Show the session: file, model, tokens, cost", "", _session),
    "reload": ("Read settings, skills, templates and extensions again", "", _reload),
    "mcp": ("Show the MCP servers", "", _mcp),
    "login": ("Log in to a model provider", "provider", _login),
}
