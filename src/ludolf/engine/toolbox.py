"""The tools of a session: which exist, which are active, and how a call is checked."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ludolf.agent.tool import Tool, sampling_of
from ludolf.ai.provider import ToolSpec
from ludolf.config.settings.options import Options
from ludolf.engine.own_environment import wipe
from ludolf.engine.parts import Parts

if TYPE_CHECKING:
    from ludolf.ai.models import Model

DEFAULT_ACTIVE = ("read", "bash", "edit", "write")
# Ours too, but only where the settings or the dialect ask for them.
ON_DEMAND = ("task", "todo", "todo_write")


class Toolbox:
    """Tools load with the first question for them, not at start."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tools: dict[str, Tool] | None = None
        self._active: tuple[str, ...] = ()
        self._specs: tuple[ToolSpec, ...] | None = None
        # Tools that come from elsewhere, by who provides them; those of them that are active.
        self._provided: dict[str, dict[str, Tool]] = {}
        self._switched_on: set[str] = set()
        self._checked = False

    def forget(self) -> None:
        """Settings changed: make the tools anew when they are next asked for."""
        self._tools = None
        self._specs = None

    @property
    def tools(self) -> dict[str, Tool]:
        """All tools by name, active or not."""
        if self._tools is None:
            from ludolf.tools import ToolOptions, builtin_tools

            settings, options = self._parts.settings, self._parts.options
            builtin = builtin_tools(
                ToolOptions(
                    shell_path=settings.shell_path,
                    command_prefix=settings.shell_command_prefix,
                    auto_resize=settings.images.auto_resize,
                )
            )
            extra = self._parts.extending.tools()
            self._tools = {**builtin, **extra}
            active = choose_active(tuple(builtin), options, settings.default_tools)
            self._active = (*active, *choose_extra(tuple(extra), active, options))
        return self._tools

    def set_active(self, names: Sequence[str]) -> None:
        """Let the model call these and no others; unknown names are ignored."""
        self._active = tuple(name for name in self.tools if name in names)
        provided = {name for own in self._provided.values() for name in own}
        self._switched_on = provided & set(names)
        self._specs = None

    def provide(
        self, source: str, tools: Sequence[Tool], *, hidden: frozenset[str] = frozenset()
    ) -> None:
        """Let these be all tools of a source, from the next request on.

        New ones become active unless hidden; those that the source had before stay as they are.
        """
        before = self._provided.get(source, {})
        self._provided[source] = {tool.name: tool for tool in tools}
        names = set(self._provided[source])
        self._switched_on -= set(before) - names
        self._switched_on |= names - set(before) - hidden
        self._specs = None

    def source_of(self, name: str) -> str | None:
        """Who provides a tool of this name, active or not; None if there is none."""
        if name in self.tools:
            return "builtin"
        return next((source for source, own in self._provided.items() if name in own), None)

    def report_unknown(self) -> None:
        """Say once which names of the allowlist no tool has by now; a host may bring some."""
        listed = self._parts.options.tools or ()
        if self._checked or not listed or self._parts.depth:
            return
        self._checked = True
        provided = (name for own in self._provided.values() for name in own)
        known = dict.fromkeys((*self.tools, *provided))
        unknown = [name for name in listed if name not in known and name not in ON_DEMAND]
        if unknown:
            told = f"Unknown in the list of allowed tools: {', '.join(unknown)}."
            self._parts.warn(f"Warning: {told} Tools are: {', '.join(known)}.")

    def active(self) -> tuple[Tool, ...]:
        """The tools that the model may call, in order."""
        tools = self.tools
        return (*(tools[name] for name in self._active), *self._active_provided())

    def _active_provided(self) -> Iterator[Tool]:
        for own in self._provided.values():
            for name, tool in own.items():
                if name in self._switched_on and name not in self._active:
                    yield tool

    def find(self, name: str) -> Tool | None:
        tool = self.tools.get(name)
        if tool is not None and name in self._active:
            return tool
        return next((tool for tool in self._active_provided() if tool.name == name), None)

    def specs(self) -> tuple[ToolSpec, ...]:
        if self._specs is None:
            self._specs = tuple(
                ToolSpec(tool.name, tool.description, tool.parameters, sampling_of(tool))
                for tool in self.active()
            )
        return self._specs


def choose_active(
    names: tuple[str, ...], options: Options, default: tuple[str, ...] | None
) -> tuple[str, ...]:
    """An allowlist beats "none", "none" beats the setting, the setting beats the default."""
    if options.tools is not None:
        wanted = options.tools
    elif options.no_tools or options.no_builtin_tools:
        wanted = ()
    else:
        wanted = DEFAULT_ACTIVE if default is None else default
    return tuple(name for name in names if name in wanted and name not in options.exclude_tools)


def choose_extra(
    names: tuple[str, ...], active: tuple[str, ...], options: Options
) -> tuple[str, ...]:
    """Tools of extensions are active unless an allowlist leaves them out."""
    if options.no_tools and options.tools is None:
        return ()
    listed = names if options.tools is None else options.tools
    refused = (*active, *options.exclude_tools)
    return tuple(name for name in names if name in listed and name not in refused)


def offers_tasks(parts: Parts, *, default: bool) -> bool:
    """Whether the model may start agents: by an allowlist, else the settings, else `default`."""
    options, chosen = parts.options, parts.settings.task.enabled
    if "task" in options.exclude_tools:
        return False
    if options.tools is not None:
        return "task" in options.tools
    return not options.no_tools and (default if chosen is None else chosen)


def hide_keys(parts: Parts) -> frozenset[str]:
    """Take keys out of what the kernel shows of our own environment; returns their names."""
    hidden = parts.registry.secret_names() - set(parts.settings.pass_keys)
    if parts.extending.mode != "sdk":  # the memory of another program is not ours to change
        wipe(hidden)
    return hidden


def tool_environment(parts: Parts, model: "Model | None") -> Mapping[str, str]:
    """The environment of commands: keys of providers taken out, facts about the session put in."""
    hidden = hide_keys(parts)
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    own_bin = str(parts.home.agent / "bin")
    environment["PATH"] = own_bin + os.pathsep + environment.get("PATH", os.defpath)
    environment |= {"AI_AGENT": "pi", "PI_CODING_AGENT": "true"}
    for name in ("FILE", "ID"):
        environment.pop(f"PI_SESSION_{name}", None)
    environment["PI_SESSION_ID"] = parts.session.id
    if parts.session.path is not None:
        environment["PI_SESSION_FILE"] = str(parts.session.path)
    if model is not None:
        environment["PI_PROVIDER"] = model.provider
        environment["PI_MODEL"] = model.id
        environment["PI_REASONING_LEVEL"] = parts.models.level
    return environment
