"""Prompts such as `/model`: commands of the program, answered without a model.

Hosts of oh-my-pi send the text of their user as a prompt and expect these commands to work. A
command or template of the user with the same name takes precedence.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ludolf.base import CommandError
from ludolf.engine.engine import Engine
from ludolf.protocol.dialects.dialect import Traits
from ludolf.protocol.host_events import CommandOutput, ConfigUpdate, ModelChanged, SessionInfoUpdate
from ludolf.rpc.state import context_fill

SlashFunction = Callable[[Engine, str], Awaitable[None]]


def available_commands(engine: Engine, traits: Traits) -> tuple[Any, ...]:
    """Return the commands that a prompt may call: extensions, templates, skills, the program."""
    found = engine.commands()
    if not traits.answers_slash:
        return found
    taken = _names(found)
    own = (
        {"name": name, "description": description, "source": "builtin"}
        for name, (description, _) in _COMMANDS.items()
        if name not in taken
    )
    return (*found, *own)


def find(engine: Engine, message: str) -> tuple[str, str] | None:
    """Return the name and the arguments of the command that a prompt calls, if any."""
    text = message.lstrip()
    name, _, words = text[1:].partition(" ")
    name = _ALIASES.get(name, name)
    if not text.startswith("/") or name not in _COMMANDS or name in _names(engine.commands()):
        return None
    return name, words.strip()


async def perform(engine: Engine, name: str, words: str) -> None:
    """Run the command and emit its output; an error is emitted as output too."""
    _, run = _COMMANDS[name]
    await run(engine, words)


def _names(commands: tuple[Any, ...]) -> set[str]:
    return {str(item["name"]) for item in msgspec.to_builtins(commands)}


def _say(engine: Engine, text: str) -> None:
    engine.conversation.hub.post(CommandOutput(text=text))


# ---------------------------------------------------------------- the commands


async def _session(engine: Engine, words: str) -> None:
    session = engine.session
    if words not in ("", "info"):
        _say(engine, "Usage: /session [info]")
        return
    lines = (f"Session: {session.id}", f"Title: {session.name or '(none)'}")
    _say(engine, "\n".join((*lines, f"CWD: {engine.workspace.cwd}")))


async def _model(engine: Engine, words: str) -> None:
    current = engine.models.current
    if not words:
        chosen = f"Current model: {current.key}" if current else "No model is currently selected."
        _say(engine, chosen)
        return
    models = engine.models.registry.available()
    found = next((item for item in models if words in (item.key, item.id)), None)
    if found is None:
        _say(engine, f"Unknown model: {words}")
        return
    engine.models.set_model(found.provider, found.id)
    hub, session = engine.conversation.hub, engine.session
    hub.post(ModelChanged())
    _say(engine, f"Model set to {found.key}.")
    hub.post(SessionInfoUpdate(title=session.name, session_id=session.id))
    hub.post(ConfigUpdate(model=found, thinking_level=engine.models.level))


async def _rename(engine: Engine, words: str) -> None:
    if not words:
        _say(engine, "Usage: /rename <title>")
        return
    engine.set_session_name(words)
    session = engine.session
    engine.conversation.hub.post(SessionInfoUpdate(title=session.name, session_id=session.id))
    _say(engine, f"Session renamed to {words}.")


async def _compact(engine: Engine, words: str) -> None:
    before = context_fill(engine)
    try:
        await engine.compact(words or None)
    except CommandError as error:
        _say(engine, f"Compaction failed: {error}")
        return
    after = context_fill(engine)
    sizes = f" Tokens: {before['tokens']} -> {after['tokens']}." if before and after else ""
    _say(engine, f"Compaction complete.{sizes}")


async def _export(engine: Engine, words: str) -> None:
    try:
        path = await engine.export_html(words or None)
    except CommandError as error:
        _say(engine, f"Failed to export session: {error}")
        return
    _say(engine, f"Session exported to: {path}")


async def _tools(engine: Engine, words: str) -> None:
    names = [spec.name for spec in engine.toolset.specs()]
    _say(engine, "\n".join(f"* {name}" for name in names) or "No tools are available.")


async def _context(engine: Engine, words: str) -> None:
    fill = context_fill(engine)
    if fill is None:
        _say(engine, "The size of the context window is unknown.")
        return
    share = f"{fill['tokens']} of {fill['contextWindow']} tokens ({fill['percent']:.1f} %)"
    _say(engine, f"Context: {share}")


async def _usage(engine: Engine, words: str) -> None:
    stats = engine.stats()
    spent = stats.tokens
    _say(
        engine,
        f"Tokens: {spent.input} in, {spent.output} out, {spent.cache_read} read from cache, "
        f"{spent.cache_write} written to cache\nCost: ${stats.cost:.4f}",
    )


async def _todo(engine: Engine, words: str) -> None:
    from ludolf.engine.features.todos import summary

    _say(engine, summary(engine.todos.phases))


_ALIASES = {"models": "model"}
_COMMANDS: dict[str, tuple[str, SlashFunction]] = {
    "session": ("Show the session: id, title, folder", _session),
    "model": ("Show the model, or choose another: /model [provider/id]", _model),
    "rename": ("Name the session: /rename <title>", _rename),
    "compact": ("Compact the conversation: /compact [what to keep]", _compact),
    "export": ("Write the session as a page: /export [path]", _export),
    "tools": ("Show the tools of the agent", _tools),
    "context": ("Show how full the context is", _context),
    "usage": ("Show tokens and cost of the session", _usage),
    "todo": ("Show the todo list", _todo),
}
