"""The tools of an engine: which exist, which are active, and what their commands inherit."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ludolf.agent.tool import Documents, Files, Terminals, Tool
from ludolf.ai.provider import ToolSpec
from ludolf.config.settings.options import Options
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Features
from ludolf.engine.models import Models
from ludolf.engine.workspace import Workspace

if TYPE_CHECKING:
    from ludolf.agent.workplace import Workplace
    from ludolf.tools.process import CommandProcess

DEFAULT_ACTIVE = ("read", "bash", "edit", "write")
# Built in too, but offered only if the settings or the dialect ask for them.
ON_DEMAND = ("task", "todo", "todo_write")
MCP_PREFIX = "mcp__"


class _Source(msgspec.Struct, frozen=True):
    """Tools of one source; the model does not see undeclared ones, but may call them."""

    tools: dict[str, Tool] = {}
    undeclared: frozenset[str] = frozenset()
    deferred: tuple[str, ...] = ()
    inherited: bool = True

    @property
    def declared(self) -> frozenset[str]:
        return frozenset(self.tools) - self.undeclared


class Toolset:
    """Tools load when they are first used, not at start.

    `documents` are those of the host, once it provides some; `files` are those of its editor,
    `terminals` those in which it shows commands. In a `workplace`, the built-in tools work there.
    """

    def __init__(
        self,
        workspace: Workspace,
        conversation: Conversation,
        models: Models,
        features: Features,
    ) -> None:
        self._workspace = workspace
        self._conversation = conversation
        self._models = models
        self._features = features
        self.documents: Documents | None = None
        self.files: Files | None = None
        self.terminals: Terminals | None = None
        self.workplace: Workplace | None = None
        # False in a Python program that embeds the engine: its memory is not ours to change.
        self.owns_process = True
        self._tools: Mapping[str, Tool] | None = None
        self._active: tuple[str, ...] = ()
        self._specs: tuple[ToolSpec, ...] | None = None
        # Tools of other sources, by source; the names of those that are active.
        self._provided: dict[str, _Source] = {}
        self._switched_on: set[str] = set()
        self._checked = False

    def invalidate(self) -> None:
        """Build the tools again when they are next used."""
        self._tools = None
        self._specs = None

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name, active or not."""
        if self._tools is None:
            settings, options = self._workspace.settings, self._workspace.options
            from ludolf.tools import BUILTIN_NAMES

            extra = self._features.tools()
            self._tools = self.builtin(extra)
            active = choose_active(BUILTIN_NAMES, options, settings.default_tools)
            self._active = (*active, *choose_extra(tuple(extra), active, options))
        return self._tools

    def builtin(self, others: Mapping[str, Tool] | None = None) -> Mapping[str, Tool]:
        """Return new built-in tools by name, then others, which replace those of the same name."""
        from ludolf.tools import BuiltinToolOptions, BuiltinTools

        settings = self._workspace.settings
        options = BuiltinToolOptions(
            shell_path=settings.shell_path,
            command_prefix=settings.shell_command_prefix,
            auto_resize=settings.images.auto_resize,
            path=self._workspace.environ.get("PATH", ""),
        )
        if self.workplace is None:
            return BuiltinTools(options, others)
        from ludolf.tools.remote import remote_tools

        return {**remote_tools(options, self.workplace), **(others or {})}

    @property
    def cwd(self) -> Path:
        """The folder in which the built-in tools work."""
        return self._workspace.cwd if self.workplace is None else Path(self.workplace.cwd)

    def command(self, text: str) -> "CommandProcess":
        """Return a shell command that runs where the bash tool runs its commands.

        Raises:
            StartError: the working directory or the configured shell does not exist.
        """
        settings = self._workspace.settings
        if self.workplace is not None:
            from ludolf.tools.remote.commands import RemoteCommand

            return RemoteCommand(self.workplace, text, prefix=settings.shell_command_prefix)
        from ludolf.tools.process import Running, inside, shell_command

        prepared = shell_command(
            text,
            cwd=self._workspace.cwd,
            env=self.environment(),
            shell_path=settings.shell_path,
            prefix=settings.shell_command_prefix,
        )
        return Running(inside(prepared, self._features.walls(self._workspace.cwd)))

    def set_active(self, names: Sequence[str]) -> None:
        """Let the model call these and no others; unknown names are ignored.

        Undeclared tools can be called while a declared tool of their source is active.
        """
        self._active = tuple(name for name in self.tools if name in names)
        self._switched_on = set()
        for source in self._provided.values():
            named = set(source.tools).intersection(names)
            self._switched_on |= named
            if named & source.declared:
                self._switched_on |= source.undeclared
        self._specs = None

    def provide(
        self,
        source: str,
        tools: Sequence[Tool],
        *,
        hidden: frozenset[str] = frozenset(),
        undeclared: frozenset[str] = frozenset(),
        deferred: tuple[str, ...] = (),
        inherited: bool = True,
    ) -> None:
        """Replace the tools of a source, from the next request on.

        New tools become active unless hidden; tools that the source had before keep their state.
        The model can call `undeclared` tools, but they are not in its requests. The `deferred` ones
        were declared during the conversation: they follow all others, in this order. Tools of MCP
        servers that the options exclude are ignored. Subagents get tools that are not `inherited`
        from a feature of their own, if at all.
        """
        before = set(self._provided[source].tools) if source in self._provided else set()
        options = self._workspace.options
        own = {tool.name: tool for tool in tools if permits(options, tool.name)}
        late = tuple(name for name in dict.fromkeys(deferred) if name in own)
        without = undeclared.intersection(own).difference(late)
        made = _Source(own, without, late, inherited)
        new = set(own) - before - hidden
        if before and not before & self._switched_on:
            new -= made.undeclared  # the source is switched off
        self._provided[source] = made
        self._switched_on -= before - set(own)
        self._switched_on |= new
        self._specs = None

    def remove_source(self, source: str) -> None:
        """Remove a source with its tools, from the next request on."""
        gone = self._provided.pop(source, None)
        if gone is not None:
            self._switched_on -= set(gone.tools)
            self._specs = None

    def source_of(self, name: str) -> str | None:
        """Return the source of a tool, active or not; None if the tool is unknown."""
        if name in self.tools:
            return "builtin"
        return next((source for source, own in self._provided.items() if name in own.tools), None)

    def report_unknown(self) -> None:
        """Warn once about names in the allowlist that no tool has."""
        listed = self._workspace.options.tools or ()
        if self._checked or not listed or self._workspace.depth:
            return
        self._checked = True
        provided = (name for own in self._provided.values() for name in own.tools)
        known = dict.fromkeys((*self.tools, *provided))
        # The tools of a server are known only once it has started.
        served = mcp_patterns(listed)
        names = (*known, *ON_DEMAND)
        unknown = [
            pattern
            for pattern in listed
            if pattern not in served and not any(is_listed(name, (pattern,)) for name in names)
        ]
        if unknown:
            text = f"Unknown in the list of allowed tools: {', '.join(unknown)}."
            hidden = {name for own in self._provided.values() for name in own.undeclared}
            known_names = ", ".join(name for name in known if name not in hidden)
            self._workspace.warn(f"Warning: {text} Tools are: {known_names}.")

    def active(self) -> tuple[Tool, ...]:
        """The tools that the model may call and knows of, in order; deferred ones are last."""
        return tuple(tool for tool, _ in self._declared())

    def inherited(self) -> tuple[Tool, ...]:
        """The active tools of the host and of the embedding program, which subagents get too."""
        kept = {name for own in self._provided.values() if own.inherited for name in own.tools}
        return tuple(tool for tool in self.active() if tool.name in kept)

    def find(self, name: str) -> Tool | None:
        """Return a tool that the model may call; None if there is none of this name."""
        tool = self.tools.get(name)
        if tool is not None and name in self._active:
            return tool
        if name not in self._switched_on:
            return None
        sources = self._provided.values()
        return next((own.tools[name] for own in sources if name in own.tools), None)

    def specs(self) -> tuple[ToolSpec, ...]:
        if self._specs is None:
            self._specs = tuple(
                ToolSpec(tool.name, tool.description, tool.parameters, tool.sampling, deferred)
                for tool, deferred in self._declared()
            )
        return self._specs

    def _declared(self) -> Iterator[tuple[Tool, bool]]:
        """Yield each declared tool once, and whether it is deferred."""
        tools, on = self.tools, self._switched_on
        chosen = {name: tools[name] for name in self._active}
        late: dict[str, Tool] = {}
        for own in self._provided.values():
            shown = (own.declared & on).difference(own.deferred)
            chosen |= {n: tool for n, tool in own.tools.items() if n in shown and n not in chosen}
            late |= {name: own.tools[name] for name in own.deferred if name in on}
        yield from ((tool, False) for tool in chosen.values())
        yield from ((tool, True) for name, tool in late.items() if name not in chosen)

    def hide_keys(self) -> frozenset[str]:
        """Remove keys from the environment that the kernel shows; return their names."""
        hidden = self._models.registry.secret_names() - set(self._workspace.settings.pass_keys)
        if self.owns_process:
            from ludolf.engine.process_environment import wipe

            wipe(hidden, self._workspace.environ)
        return hidden

    def environment(self, trace: Callable[[], Mapping[str, str]] = dict) -> dict[str, str]:
        """Return the environment of commands: without provider keys, with session variables.

        `trace` returns the trace context of the call that runs the command.
        """
        hidden = self.hide_keys()
        environment = {
            name: value for name, value in self._workspace.environ.items() if name not in hidden
        }
        own_bin = str(self._workspace.home.agent / "bin")
        environment["PATH"] = own_bin + os.pathsep + environment.get("PATH", os.defpath)
        environment |= {"AI_AGENT": "pi", "PI_CODING_AGENT": "true"}
        for name in ("FILE", "ID"):
            environment.pop(f"PI_SESSION_{name}", None)
        session, model = self._conversation.session, self._models.current
        environment["PI_SESSION_ID"] = session.id
        if session.path is not None:
            environment["PI_SESSION_FILE"] = str(session.path)
        if model is not None:
            environment["PI_PROVIDER"] = model.provider
            environment["PI_MODEL"] = model.id
            environment["PI_REASONING_LEVEL"] = self._models.level
        if fields := trace():
            environment.pop("TRACESTATE", None)
            environment |= {name.upper(): value for name, value in fields.items()}
        return environment


def is_listed(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a list of tools has this name; `*` stands for any characters."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def permits(options: Options, name: str) -> bool:
    """Return whether the options let a source provide a tool: they restrict those of MCP servers.

    An allowlist applies to these tools only if it names some of them.
    """
    if not name.startswith(MCP_PREFIX):
        return True
    if is_listed(name, options.exclude_tools):
        return False
    if options.tools is None:
        return not options.no_tools
    named = mcp_patterns(options.tools)
    return not named or is_listed(name, named)


def mcp_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns in a list of tools that name tools of MCP servers."""
    return tuple(pattern for pattern in patterns if pattern.startswith(MCP_PREFIX))


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
    excluded = options.exclude_tools
    return tuple(n for n in names if is_listed(n, wanted) and not is_listed(n, excluded))


def choose_extra(
    names: tuple[str, ...], active: tuple[str, ...], options: Options
) -> tuple[str, ...]:
    """Tools of extensions are active unless an allowlist leaves them out."""
    if options.no_tools and options.tools is None:
        return ()
    allowed = names
    if options.tools is not None:
        allowed = tuple(name for name in names if is_listed(name, options.tools))
    refused = options.exclude_tools
    return tuple(n for n in allowed if n not in active and not is_listed(n, refused))


def offers_tasks(workspace: Workspace, *, default: bool) -> bool:
    """Return whether the model may start subagents: allowlist, then settings, then `default`."""
    options, chosen = workspace.options, workspace.settings.task.enabled
    if is_listed("task", options.exclude_tools):
        return False
    if options.tools is not None:
        return is_listed("task", options.tools)
    return not options.no_tools and (default if chosen is None else chosen)
