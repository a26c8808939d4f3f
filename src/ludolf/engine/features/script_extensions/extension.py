"""One script extension: its registrations, made with the API of extensions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ludolf.base import LudolfError, dumps
from ludolf.engine.features.script_extensions.accounts import ScriptAccounts, ScriptProvider
from ludolf.engine.features.script_extensions.link import ScriptFrame, ScriptLink
from ludolf.engine.features.script_extensions.providers import ScriptBackend, read_provider
from ludolf.engine.features.script_extensions.shapes import (
    ONE_WAY,
    MessageHistory,
    hook_args,
    read_answer,
)
from ludolf.engine.features.script_extensions.tool import ScriptTool
from ludolf.extensions import payloads
from ludolf.extensions.api import Api
from ludolf.extensions.context import CommandContext, Context, TrustContext
from ludolf.extensions.dialogs import UiMethods
from ludolf.extensions.hooks import HOOKS
from ludolf.extensions.registry import (
    Extension,
    ExtensionCommand,
    ExtensionShortcut,
    Flag,
    Registry,
)
from ludolf.extensions.runner import HookHandler
from ludolf.extensions.sources import note_imports
from ludolf.functions.isolation import Failed, call


class ScriptExtension:
    """Registers for one script what the host process says, and calls its functions there.

    `number` names it in frames. `history` are the messages that the process has.
    """

    def __init__(
        self, number: int, extension: Extension, registry: Registry, history: MessageHistory
    ) -> None:
        self.number = number
        self.extension = extension
        self.registry = registry
        self.link: ScriptLink | None = None
        self.api = Api(extension, registry)
        self.context = Context(registry.runtime, str(extension.path))
        self.commands = CommandContext(registry.runtime, str(extension.path))
        # One-way events that it wants, by the number of the handler.
        self.watches: dict[int, str] = {}
        # Logins and refreshes of its providers that are under way.
        self.accounts = ScriptAccounts()
        self._history = history
        self._trust: TrustContext | None = None
        self._handlers: dict[int, tuple[Callable[[], None], HookHandler]] = {}

    @property
    def path(self) -> Path:
        return self.extension.path

    @property
    def ui(self) -> UiMethods:
        """Return the dialogs; before there is a session, those for questions about trust."""
        return self._trust.ui if self._trust is not None else self.context.ui

    async def load(self, link: ScriptLink, generation: int) -> None:
        """Run the factory in a host process.

        What an earlier process registered stays until then: its gates refuse meanwhile.

        Raises:
            ScriptError: the file does not load, or its factory failed.
        """
        own = self.extension
        handlers, tools, commands = self._handlers, dict(own.tools), dict(own.commands)
        self._handlers, self.watches, self.link = {}, {}, link
        asked = {"ext": self.number, "path": str(self.path), "gen": generation}
        note_imports(await link.call("load", asked), self.path)
        for remove, _ in handlers.values():
            remove()
        own.tools = {name: tool for name, tool in own.tools.items() if tools.get(name) is not tool}
        own.commands = {
            name: one for name, one in own.commands.items() if commands.get(name) is not one
        }

    async def start_again(self) -> None:
        """Call the handlers of `session_start` after the process was started again."""
        payload = payloads.SessionStart(reason="reload")
        for _, handler in tuple(self._handlers.values()):
            if handler.event == payload.type:
                try:
                    await call(handler.function, payload, handler.context)
                except Failed as error:
                    self.registry.runner.report(str(self.path), payload.type, str(error), error)

    def take(self, frame: ScriptFrame) -> None:
        """Apply a registration."""
        name = str(frame.get("name", ""))
        match frame.get("t"):
            case "on":
                self._add_handler(int(frame["h"]), str(frame["event"]))
            case "off":
                self._remove_handler(int(frame["h"]))
            case "tool":
                tool = ScriptTool(self._current(), self.number, frame["def"])
                self.registry.add_tool(self.extension, tool)
            case "command":
                self._add_command(name, frame)
            case "shortcut":
                self._add_shortcut(str(frame["key"]), frame.get("description"))
            case "flag":
                kind = bool if frame.get("type") == "boolean" else str
                default, description = frame.get("default"), frame.get("description")
                flag = Flag(name=name, type=kind, default=default, description=description)
                self.registry.add_flag(self.extension, flag)
            case "provider":
                self._add_provider(frame)
            case "unprovider":
                self.registry.drop_provider(name)

    # ------------------------------------------------------------ handlers

    def _add_handler(self, number: int, event: str) -> None:
        if event in ONE_WAY:
            self.watches[number] = event
            return
        if event not in HOOKS:
            return  # as in pi: a handler of an unknown event is never called
        handler = HookHandler(
            event=event,
            function=self._handler(number, event),
            path=self.path,
            context=self.context,
            place=self.extension.place,
        )
        self._handlers[number] = (self.registry.runner.add(handler), handler)

    def _remove_handler(self, number: int) -> None:
        self.watches.pop(number, None)
        found = self._handlers.pop(number, None)
        if found is not None:
            found[0]()

    def _handler(self, number: int, event: str) -> Callable[..., Any]:
        # The process that registered it: a handler of one that has ended must fail.
        link = self._current()

        async def handle(payload: payloads.Payload, ctx: Any) -> Any:
            self._trust = ctx if isinstance(ctx, TrustContext) else self._trust
            try:
                args = hook_args(number, payload, self._history)
                answer = read_answer(event, await link.call_raw("hook", args), self._history)
            finally:
                self._trust = None
            if event == "user_bash" and answer is not None and "operations" in answer:
                answer["operations"] = ScriptOperations(link, answer["operations"])
            return answer

        return handle

    def _current(self) -> ScriptLink:
        assert self.link is not None
        return self.link

    # ------------------------------------------------------------ commands and providers

    def _add_command(self, name: str, frame: ScriptFrame) -> None:
        link = self._current()

        async def run(args: str, ctx: Any) -> None:
            await link.call("command", {"ext": self.number, "name": name, "args": args})

        async def complete(prefix: str) -> Any:
            asked = {"ext": self.number, "name": name, "prefix": prefix}
            return await link.call("completions", asked)

        self.extension.commands[name] = ExtensionCommand(
            name=name,
            function=run,
            description=_text(frame.get("description")),
            completions=complete if frame.get("completes") else None,
        )

    def _add_shortcut(self, key: str, description: Any) -> None:
        link = self._current()

        async def run(ctx: Any) -> None:
            await link.call("shortcut", {"ext": self.number, "key": key})

        self.extension.shortcuts[key] = ExtensionShortcut(
            key=key, function=run, description=_text(description)
        )

    def _add_provider(self, frame: ScriptFrame) -> None:
        link, name, backend = self._current(), str(frame["name"]), None
        if frame.get("streams"):
            api = frame["config"].get("api")
            backend = ScriptBackend(link, self.number, name, api)
        script = ScriptProvider(link, self.number, name)
        try:
            made = read_provider(frame, backend, script, self.accounts)
            self.registry.add_registration(self.extension, made)
        except (LudolfError, Failed) as error:
            self.registry.runner.report(str(self.path), "register_provider", str(error))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class ScriptOperations:
    """Runs a shell command of the user by a function of the extension."""

    def __init__(self, link: ScriptLink, callback: Any) -> None:
        self._link = link
        self._callback = callback

    async def exec(self, command: str, cwd: str, on_data: Callable[[bytes], None]) -> int | None:
        asked = {"operations": self._callback, "command": command, "cwd": cwd}
        code = await self._link.call_raw(
            "operate", dumps(asked), lambda text: on_data(str(text).encode())
        )
        return code if isinstance(code, int) else None
