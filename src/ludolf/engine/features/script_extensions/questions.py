"""Questions that scripts wait for synchronously: state of the session, and quick actions.

Each function answers from memory: the reader of the pipe calls it and never waits.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ludolf.agent.tool import Tool
from ludolf.base import CommandError
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.engine import Engine
from ludolf.engine.features.script_extensions.extension import ScriptExtension
from ludolf.engine.features.script_extensions.shapes import prompt_options, raw_messages
from ludolf.extensions.host import Host
from ludolf.functions.content import read, read_message
from ludolf.session.entries import (
    CustomBody,
    CustomMessageBody,
    LabelBody,
    MessageBody,
    ModelChangeBody,
    SessionInfoBody,
    ThinkingLevelChangeBody,
    entry_json,
)
from ludolf.session.stats import context_usage
from ludolf.session.tree import Session

Args = Mapping[str, Any]
SetupBody = (
    CustomBody
    | CustomMessageBody
    | LabelBody
    | ModelChangeBody
    | SessionInfoBody
    | ThinkingLevelChangeBody
)


class ScriptAsker:
    """The script that asks, and the state that it may read.

    `setup` is the session that `setup` of `newSession` fills now.
    """

    def __init__(self, script: ScriptExtension, engine: Engine, setup: Session | None) -> None:
        self.script = script
        self.engine = engine
        self.setup = setup

    @property
    def catalog(self) -> ModelRegistry:
        return self.engine.models.registry

    def builtin_tools(self) -> Mapping[str, Tool]:
        """Return Ludolf's own tools, also those that an extension replaces."""
        return self.engine.toolset.builtin()

    @property
    def host(self) -> Host:
        return self.script.registry.runtime.host


# ---------------------------------------------------------------- the session


def _entries(asker: ScriptAsker, args: Args) -> dict[str, Any]:
    """Return the entries that the process does not have, and the position in the tree."""
    session = asker.setup or asker.host.session
    entries = session.entries()
    have = args.get("have", 0)
    new = entries[have:] if have <= len(entries) else entries
    path = session.path
    return {
        "more": [msgspec.Raw(entry_json(entry)) for entry in new],
        "leaf": session.leaf,
        "name": session.name,
        "id": session.id,
        "file": str(path) if path is not None else None,
        "dir": str(path.parent) if path is not None else None,
        "cwd": session.header.cwd,
        "header": session.header,
    }


def _context_ids(asker: ScriptAsker, args: Args) -> list[str]:
    return [entry.id for entry in asker.host.session.context.entries]


def _session_context(asker: ScriptAsker, args: Args) -> dict[str, Any]:
    host = asker.host
    model = host.model
    chosen = None if model is None else {"provider": model.provider, "modelId": model.id}
    return {
        "messages": raw_messages(host.session.context.messages()),
        "thinkingLevel": host.thinking_level,
        "model": chosen,
    }


def _append_in_setup(asker: ScriptAsker, args: Args) -> str:
    if asker.setup is None:
        raise CommandError("This session is written by setup of newSession only.")
    if args.get("type") == "message":
        message = read_message(args.get("message"), "message")
        return asker.setup.append(MessageBody(message=message)).id
    body: Any = read(SetupBody, args, "entry")  # type: ignore[arg-type]  # a union is not a type
    return asker.setup.append(body).id


def _append_entry(asker: ScriptAsker, args: Args) -> str:
    data = args.get("data", msgspec.UNSET)
    return asker.script.api.append_entry(str(args.get("customType")), data)


def _set_label(asker: ScriptAsker, args: Args) -> None:
    asker.script.api.set_label(str(args.get("id")), args.get("label"))


# ---------------------------------------------------------------- models


def _model_of(asker: ScriptAsker, args: Args) -> Any:
    return asker.catalog.find(str(args.get("provider")), str(args.get("id")))


def _has_key(asker: ScriptAsker, args: Args) -> bool:
    model = _model_of(asker, args)
    return model is not None and asker.catalog.admits(model)


def _provider_status(asker: ScriptAsker, args: Args) -> dict[str, Any]:
    name = str(args.get("provider"))
    entry = asker.catalog.entry(name)
    origin = asker.catalog.origin(name)
    return {
        "configured": asker.catalog.admits_provider(name),
        "source": None if origin is None else str(origin),
        "name": name if entry is None or entry.name is None else entry.name,
        "oauth": asker.catalog.logins.stored(name) is not None,
    }


def _set_model(asker: ScriptAsker, args: Args) -> bool:
    model = _model_of(asker, args)
    if model is None:
        raise CommandError(f"Model not found: {args.get('provider')}/{args.get('id')}")
    return asker.host.set_model(model)


def _scoped_models(asker: ScriptAsker, args: Args) -> list[Any]:
    return [{"model": model} for model in asker.host.scoped_models]


def _context_usage(asker: ScriptAsker, args: Args) -> Any:
    host = asker.host
    window = host.model.context_window if host.model is not None else None
    return context_usage(host.session.context, window)


def _set_active_tools(asker: ScriptAsker, args: Args) -> None:
    asker.host.set_active_tools(tuple(map(str, args.get("names") or ())))


def _builtin_tool(asker: ScriptAsker, args: Args) -> dict[str, Any]:
    tool = asker.builtin_tools().get(str(args.get("name")))
    if tool is None:
        raise CommandError(f"Tool {args.get('name')} not found")
    return {
        "name": tool.name,
        "label": tool.label,
        "description": tool.description,
        "parameters": tool.parameters,
        "promptSnippet": tool.snippet,
        "promptGuidelines": list(tool.guidelines),
    }


def _yaml(asker: ScriptAsker, args: Args) -> Any:
    import yaml

    return yaml.safe_load(str(args.get("text") or ""))


QUESTIONS: dict[str, Callable[[ScriptAsker, Args], Any]] = {
    "entries": _entries,
    "context_ids": _context_ids,
    "session_context": _session_context,
    "setup_append": _append_in_setup,
    "append_entry": _append_entry,
    "set_label": _set_label,
    "name": lambda asker, _: asker.host.session.name,
    "set_name": lambda asker, args: asker.host.set_session_name(str(args.get("name"))),
    "flag": lambda asker, args: asker.script.api.get_flag(str(args.get("name"))),
    "model": lambda asker, _: asker.host.model,
    "models": lambda asker, _: asker.catalog.all(),
    "available_models": lambda asker, _: asker.catalog.available(),
    "find_model": _model_of,
    "has_key": _has_key,
    "provider_status": _provider_status,
    "scoped_models": _scoped_models,
    "set_model": _set_model,
    "thinking_level": lambda asker, _: asker.host.thinking_level,
    "set_thinking_level": lambda asker, args: asker.host.set_thinking_level(str(args.get("level"))),
    "active_tools": lambda asker, _: asker.host.active_tools,
    "all_tools": lambda asker, _: asker.script.api.all_tools,
    "set_active_tools": _set_active_tools,
    "commands": lambda asker, _: asker.host.commands,
    "is_idle": lambda asker, _: asker.host.is_idle,
    "has_pending": lambda asker, _: asker.host.has_pending_messages,
    "builtin_tool": _builtin_tool,
    "yaml": _yaml,
    "trusted": lambda asker, _: asker.host.trusted,
    "context_usage": _context_usage,
    "system_prompt": lambda asker, _: asker.host.system_prompt,
    "prompt_options": lambda asker, _: prompt_options(asker.host.prompt_options),
}
