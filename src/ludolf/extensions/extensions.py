"""The extensions of one session: load, bind to an engine, run commands, close."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from ludolf.extensions.actions import RUNTIME
from ludolf.extensions.api import Api
from ludolf.extensions.context import CommandContext, Context
from ludolf.extensions.host import Host, Then
from ludolf.extensions.loader import (
    CannotLoad,
    ExtensionFile,
    LoadError,
    NoInterpreter,
    forget_module,
    load_factory,
    located,
    private_name,
)
from ludolf.extensions.registry import (
    Extension,
    ExtensionCommandItem,
    ExtensionShortcut,
    Registry,
)
from ludolf.extensions.runner import HookRunner, Limit, ReportError
from ludolf.functions.content import BadAnswer, read
from ludolf.functions.isolation import Failed, call
from ludolf.protocol.results import CommandCompletion, ShortcutItem

MOST_COMPLETIONS = 1000
# Name and arguments of a command that a text calls.
Invocation = tuple[str, str]


class Extensions(Registry):
    """All extensions of one session. Construct it inside a running event loop.

    Call order: `load` (again if the project is trusted later), `bind`, events, `close`.
    """

    def __init__(
        self,
        report: ReportError,
        *,
        flags: Mapping[str, str | bool] | None = None,
        limit: Limit = None,
    ) -> None:
        super().__init__(HookRunner(report, limit=limit), flags or {})
        self.errors: list[LoadError] = []
        self._loaded = 0

    # ------------------------------------------------------------ lifecycle

    async def load(self, origins: Iterable[ExtensionFile]) -> tuple[LoadError, ...]:
        """Load extensions in order, skipping loaded ones. Returns the new errors."""
        paths = {each.origin.real_path for each in self.extensions}
        before = len(self.errors)
        for origin in origins:
            if origin.real_path not in paths:
                await self._load(origin)
        return tuple(self.errors[before:])

    def bind(self, host: Host) -> None:
        """Let extensions act on the host and register their providers with it."""
        self.runtime.bind(host)
        self.flush_providers()
        self.flush_mcp_servers()

    async def close(self) -> None:
        """Make every `api` and `ctx` stale and stop the tasks of extensions."""
        await self.runtime.close()
        for extension in self.extensions:
            forget_module(extension.module)

    async def continue_with(self, then: Then | None) -> None:
        """Call `with_session` of the command that changed to this session."""
        if then is None:
            return
        try:
            await call(then, CommandContext(self.runtime, RUNTIME))
        except Failed as error:
            self.runner.report(RUNTIME, "with_session", str(error), error)

    # ------------------------------------------------------------ commands

    def commands(self) -> tuple[ExtensionCommandItem, ...]:
        """Return the commands as items of `get_commands`."""
        return tuple(
            ExtensionCommandItem(
                name=name,
                description=command.description,
                source="extension",
                source_info=extension.origin.info(),
                path=str(extension.path),
            )
            for name, (extension, command) in self.named_commands().items()
        )

    def find_command(self, text: str) -> Invocation | None:
        """Return the extension command that a text calls, or None."""
        if not text.startswith("/"):
            return None
        name, _, args = text[1:].partition(" ")
        return (name, args) if name in self.named_commands() else None

    async def run_command(self, invocation: Invocation) -> None:
        """Run a command; its errors are reported, never raised."""
        name, args = invocation
        if name not in (commands := self.named_commands()):
            return
        extension, command = commands[name]
        try:
            await call(command.function, args, CommandContext(self.runtime, str(extension.path)))
        except Failed as error:
            self.runner.report(f"command:{name}", "command", str(error), error)

    async def complete_command(
        self, name: str, prefix: str
    ) -> tuple[CommandCompletion, ...] | None:
        """Return completions of a command's arguments; None if it offers none.

        A function that fails is reported, and offers nothing this time.
        """
        _, command = self.named_commands().get(name, (None, None))
        if command is None or command.completions is None:
            return None
        try:
            return read_completions(await call(command.completions, prefix))
        except (Failed, BadAnswer) as error:
            cause = error if isinstance(error, Failed) else None
            self.runner.report(f"command:{name}", "completions", str(error), cause)
            return ()

    # ------------------------------------------------------------ keys

    def shortcut_items(self) -> tuple[ShortcutItem, ...]:
        """Return the keys as items of `get_shortcuts`."""
        return tuple(
            ShortcutItem(
                key=one.key, description=one.description, extension_path=str(extension.path)
            )
            for extension, one in self._shortcuts().values()
        )

    async def run_shortcut(self, key: str) -> bool:
        """Run the function of a key, whose errors are reported; False if there is none."""
        found = self._shortcuts().get(key.lower())
        if found is None:
            return False
        extension, shortcut = found
        path = str(extension.path)
        try:
            await call(shortcut.function, Context(self.runtime, path))
        except Failed as error:
            self.runner.report(path, f"shortcut:{shortcut.key}", str(error), error)
        return True

    def _shortcuts(self) -> dict[str, tuple[Extension, ExtensionShortcut]]:
        """Return the shortcuts by key; of several for one key the last counts, as in pi."""
        return {
            key.lower(): (each, one)
            for each in self.extensions
            for key, one in each.shortcuts.items()
        }

    # ------------------------------------------------------------ private

    async def _load(self, origin: ExtensionFile) -> None:
        self._loaded += 1
        extension = Extension(origin, self._loaded, private_name(origin))
        try:
            if origin.connect is not None:
                await call(origin.connect, extension, self)
            else:
                factory = origin.factory or load_factory(origin, extension.module)
                await call(factory, Api(extension, self))
        except (CannotLoad, Failed) as error:
            self.discard(extension)
            forget_module(extension.module)
            text = located(error, origin.path) if isinstance(error, Failed) else str(error)
            foreign = isinstance(error.__cause__, NoInterpreter)
            failed = LoadError(
                path=str(origin.path), error=text, explicit=origin.explicit, foreign=foreign
            )
            self.errors.append(failed)
            return
        self.extensions.append(extension)
        self.errors += self.conflicts
        self.conflicts.clear()


def read_completions(items: Any) -> tuple[CommandCompletion, ...]:
    """Return completions of an extension: texts, or dicts with `value`, `label`, `description`.

    Raises:
        BadAnswer: an item is neither.
    """
    if items is None:
        return ()
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise BadAnswer("a list of completions is expected")
    return tuple(_completion(one) for one in islice(items, MOST_COMPLETIONS))


def _completion(item: Any) -> CommandCompletion:
    if isinstance(item, str):
        return CommandCompletion(value=item, label=item)
    if isinstance(item, Mapping):
        item = {"label": item.get("value"), **item}
    return read(CommandCompletion, item, "completion")
