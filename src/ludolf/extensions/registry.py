"""Registrations of all extensions of one session, and the rules for name conflicts."""

from collections.abc import Mapping
from typing import Any

from ludolf.base import LudolfError
from ludolf.config.models.models_file import ProviderEntry
from ludolf.extensions.bus import Bus
from ludolf.extensions.context import CommandContext, Context
from ludolf.extensions.extension import Extension, ExtensionCommand, Flag, LoadError
from ludolf.extensions.host import Host
from ludolf.extensions.providers import Registration, backend_registration, registration
from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import call_now
from ludolf.functions.tool import FunctionTool

_FALSE = ("", "0", "false", "no", "off")


class Registry:
    """Registrations of one session.

    `given` are the command-line flags that the program does not define.
    """

    def __init__(self, runtime: Runtime, given: Mapping[str, str | bool]) -> None:
        self.runtime = runtime
        self.bus = Bus(runtime)
        self.extensions: list[Extension] = []
        self.conflicts: list[LoadError] = []
        self._given = {name.removeprefix("--"): value for name, value in given.items()}
        self._queued: list[tuple[Extension, Registration]] = []
        self._providers: dict[str, ProviderEntry] = {}

    def context(self, extension: Extension) -> Context:
        return Context(self.runtime, str(extension.path))

    def command_context(self, extension: Extension) -> CommandContext:
        return CommandContext(self.runtime, str(extension.path))

    def discard(self, extension: Extension) -> None:
        """Remove the registrations of a factory that failed."""
        self.runtime.runner.remove_all(extension.place)
        self.bus.forget(str(extension.path))
        self._queued = [item for item in self._queued if item[0] is not extension]
        self.conflicts = [one for one in self.conflicts if one.path != str(extension.path)]

    # ------------------------------------------------------------ tools and flags

    def add_tool(self, extension: Extension, tool: FunctionTool) -> None:
        """Register a tool. The first extension keeps a name; built-in tools are replaced."""
        for other in self.extensions:
            if other is not extension and tool.name in other.tools:
                self._conflict(extension, f'Tool "{tool.name}" conflicts with {other.path}')
                return
        extension.tools[tool.name] = tool
        if self.runtime.bound:
            self.runtime.do(lambda host: host.tools_changed(tool.name))

    def tools(self) -> dict[str, FunctionTool]:
        return {name: tool for each in self.extensions for name, tool in each.tools.items()}

    def add_flag(self, extension: Extension, flag: Flag) -> None:
        for other in self.extensions:
            if other is not extension and flag.name in other.flags:
                self._conflict(extension, f'Flag "--{flag.name}" conflicts with {other.path}')
                return
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
                errors.append(f"Unknown option: --{name}")
            elif flags[name].type is str and not isinstance(value, str):
                errors.append(f'Extension flag "--{name}" requires a value')
        return tuple(errors)

    # ------------------------------------------------------------ commands

    def commands(self) -> dict[str, tuple[Extension, ExtensionCommand]]:
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

    # ------------------------------------------------------------ providers

    def add_provider(self, extension: Extension, name: Any, config: Mapping[str, Any]) -> None:
        if isinstance(name, str):
            provider = registration(name, config, self._providers.get(name))
        else:
            author = call_now(name) if isinstance(name, type) else name
            provider = backend_registration(author)
        self._providers[provider.name] = provider.entry
        if self.runtime.bound:
            self.runtime.do(lambda host: _register(host, provider))
        else:
            self._queued.append((extension, provider))

    def drop_provider(self, name: str) -> None:
        self._providers.pop(name, None)
        self._queued = [item for item in self._queued if item[1].name != name]
        if self.runtime.bound:
            self.runtime.do(lambda host: host.unregister_provider(name))

    def flush_providers(self) -> None:
        """Register the providers that extensions added while loading."""
        queued, self._queued = self._queued, []
        for extension, provider in queued:
            try:
                _register(self.runtime.host, provider)
            except LudolfError as error:
                report = self.runtime.runner.report
                report(str(extension.path), "register_provider", str(error))

    def _conflict(self, extension: Extension, text: str) -> None:
        if self.runtime.bound:
            self.runtime.runner.report(str(extension.path), "register", text)
            return
        explicit = extension.origin.explicit
        self.conflicts.append(LoadError(path=str(extension.path), error=text, explicit=explicit))


def _register(host: Host, provider: Registration) -> None:
    host.register_provider(provider.name, provider.entry, provider.backend)
