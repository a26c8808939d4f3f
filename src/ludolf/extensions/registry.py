"""Registrations of all extensions of one session, and the rules for name conflicts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.agent.tool import Tool
from ludolf.base import LudolfError, Value
from ludolf.config.resources.sources import SourceDetails
from ludolf.config.settings.arguments import unknown_option
from ludolf.extensions.loader import ExtensionFile, LoadError
from ludolf.extensions.providers import Registration, backend_registration, registration
from ludolf.extensions.runner import HookRunner
from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import call_now

Listener = Callable[[Any], Any]
# By channel: the extensions' paths and their listeners, in order of registration.
Listeners = dict[str, tuple[tuple[str, Listener], ...]]
_FALSE = ("", "0", "false", "no", "off")


class ExtensionCommand(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    name: str
    function: Callable[..., Any]
    description: str | None = None
    # Returns completions of the arguments, given what was typed of them.
    completions: Callable[[str], Any] | None = None


class ExtensionShortcut(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A key, written as in `ctrl+shift+x`, and what it does."""

    key: str
    function: Callable[..., Any]
    description: str | None = None


class ExtensionCommandItem(Value, kw_only=True):
    """Command of an extension as an item of `get_commands`."""

    name: str
    description: str | None = None
    source: Literal["extension"]
    source_info: SourceDetails
    path: str


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: type[bool] | type[str]
    default: bool | str | None = None
    description: str | None = None


class Extension:
    """Registrations of one extension. `place` is its position in the load order."""

    def __init__(self, origin: ExtensionFile, place: int, module: str) -> None:
        self.origin = origin
        self.place = place
        self.module = module
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, ExtensionCommand] = {}
        self.shortcuts: dict[str, ExtensionShortcut] = {}
        self.flags: dict[str, Flag] = {}
        self.mcp_servers: dict[str, Mapping[str, Any]] = {}

    @property
    def path(self) -> Path:
        return self.origin.path


class Registry:
    """Registrations of one session.

    `given` are the command-line flags that the program does not define.
    """

    def __init__(self, runner: HookRunner, given: Mapping[str, str | bool]) -> None:
        self.runner = runner
        self.runtime = Runtime(runner)
        self.extensions: list[Extension] = []
        self.listeners: Listeners = {}
        self.conflicts: list[LoadError] = []
        self._given = {name.removeprefix("--"): value for name, value in given.items()}
        self._queued: list[tuple[Extension, Registration]] = []
        self._providers: dict[str, Registration] = {}

    def discard(self, extension: Extension) -> None:
        """Remove the registrations of a factory that failed."""
        path = str(extension.path)
        self.runner.remove_all(extension.place)
        for channel, listeners in self.listeners.items():
            self.listeners[channel] = tuple(one for one in listeners if one[0] != path)
        self._queued = [item for item in self._queued if item[0] is not extension]
        self.conflicts = [one for one in self.conflicts if one.path != path]

    # ------------------------------------------------------------ tools and flags

    def add_tool(self, extension: Extension, tool: Tool) -> None:
        """Register a tool. The first extension keeps a name; built-in tools are replaced."""
        if self._is_taken(extension, "tools", tool.name, f'Tool "{tool.name}"'):
            return
        extension.tools[tool.name] = tool
        if self.runtime.bound:
            self.runtime.do(lambda host: host.tools_changed(tool.name))

    def tools(self) -> dict[str, Tool]:
        return {name: tool for each in self.extensions for name, tool in each.tools.items()}

    def add_flag(self, extension: Extension, flag: Flag) -> None:
        if not self._is_taken(extension, "flags", flag.name, f'Flag "--{flag.name}"'):
            extension.flags[flag.name] = flag

    def flags(self) -> dict[str, Flag]:
        return {name: flag for each in self.extensions for name, flag in each.flags.items()}

    def flag_value(self, extension: Extension, name: str) -> bool | str | None:
        flag = extension.flags.get(name)
        if flag is None:
            return None
        value = self._given.get(name)
        if value is None:
            return flag.default
        if flag.type is bool:
            return value if isinstance(value, bool) else value.lower() not in _FALSE
        return value if isinstance(value, str) else flag.default

    def flag_errors(self) -> tuple[str, ...]:
        """Return error texts for unknown flags and missing values."""
        flags = self.flags()
        errors = []
        for name, value in self._given.items():
            if name not in flags:
                errors.append(unknown_option(f"--{name}"))
            elif flags[name].type is str and not isinstance(value, str):
                errors.append(f'Extension flag "--{name}" requires a value')
        return tuple(errors)

    # ------------------------------------------------------------ commands

    def named_commands(self) -> dict[str, tuple[Extension, ExtensionCommand]]:
        """Return the commands by invocation name; several of one name are numbered."""
        pairs = [(each, one) for each in self.extensions for one in each.commands.values()]
        names = [command.name for _, command in pairs]
        commands: dict[str, tuple[Extension, ExtensionCommand]] = {}
        for place, (extension, command) in enumerate(pairs):
            number = names[: place + 1].count(command.name)
            several = names.count(command.name) > 1
            key = f"{command.name}:{number}" if several else command.name
            commands[key] = (extension, command)
        return commands

    # ------------------------------------------------------------ MCP servers

    def add_mcp_server(self, extension: Extension, name: str, entry: Mapping[str, Any]) -> None:
        """Add a server, or replace the one of this name that an extension added before."""
        extension.mcp_servers[name] = entry
        if self.runtime.bound:
            self.runtime.do(lambda host: host.provide_mcp_servers(self._mcp_servers()))

    def flush_mcp_servers(self) -> None:
        """Provide the servers that extensions added while loading; an error is reported."""
        servers: dict[str, Mapping[str, Any]] = {}
        self.runtime.host.provide_mcp_servers(servers)
        for extension in self.extensions:
            if not extension.mcp_servers:
                continue
            try:
                self.runtime.host.provide_mcp_servers({**servers, **extension.mcp_servers})
            except LudolfError as error:
                extension.mcp_servers = {}
                self.runner.report(str(extension.path), "mcp_server", str(error))
            servers |= extension.mcp_servers

    def _mcp_servers(self) -> dict[str, Mapping[str, Any]]:
        return {name: one for each in self.extensions for name, one in each.mcp_servers.items()}

    # ------------------------------------------------------------ providers

    def add_provider(self, extension: Extension, name: Any, config: Mapping[str, Any]) -> None:
        if isinstance(name, str):
            provider = registration(name, config, self._providers.get(name))
        else:
            author = call_now(name) if isinstance(name, type) else name
            provider = backend_registration(author)
        self.add_registration(extension, provider)

    def add_registration(self, extension: Extension, provider: Registration) -> None:
        """Register a provider now, or when the extensions are bound."""
        self._providers[provider.name] = provider
        if self.runtime.bound:
            self.runtime.do(lambda host: host.providers.add(provider))
        else:
            self._queued.append((extension, provider))

    def drop_provider(self, name: str) -> None:
        self._providers.pop(name, None)
        self._queued = [item for item in self._queued if item[1].name != name]
        if self.runtime.bound:
            self.runtime.do(lambda host: host.providers.remove(name))

    def flush_providers(self) -> None:
        """Register the providers that extensions added while loading."""
        queued, self._queued = self._queued, []
        for extension, provider in queued:
            try:
                self.runtime.host.providers.add(provider)
            except LudolfError as error:
                self.runner.report(str(extension.path), "register_provider", str(error))

    def _is_taken(
        self, extension: Extension, kind: Literal["tools", "flags"], name: str, shown: str
    ) -> bool:
        """Return whether another extension has registered the name, which is reported."""
        others = (each for each in self.extensions if each is not extension)
        owner = next((each for each in others if name in getattr(each, kind)), None)
        if owner is None:
            return False
        path, text = str(extension.path), f"{shown} conflicts with {owner.path}"
        if self.runtime.bound:
            self.runner.report(path, "register", text)
        else:
            explicit = extension.origin.explicit
            self.conflicts.append(LoadError(path=path, error=text, explicit=explicit))
        return True
