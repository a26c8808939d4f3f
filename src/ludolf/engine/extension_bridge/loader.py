"""Find and load extensions for a session."""

import sys
from collections.abc import Mapping
from typing import Any

from ludolf.base import ConfigError
from ludolf.config.settings.trust import guarded_paths, save_decision
from ludolf.engine.engine import Engine
from ludolf.engine.extension_bridge.bridge import ExtensionBridge
from ludolf.engine.extension_bridge.host import EngineHost
from ludolf.engine.feature import SessionMove
from ludolf.engine.project_trust import NOT_APPLIED, keep_imports, verify_code
from ludolf.extensions import points
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.extension import factory_origin
from ludolf.extensions.extensions import Extensions
from ludolf.extensions.finding import find_extensions
from ludolf.extensions.host import EarlyHost
from ludolf.extensions.payloads import SessionStart
from ludolf.extensions.runner import Limit


class ExtensionLoader:
    """Loads the extensions of one engine, again for each session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        dialogs = Dialogs(engine.send) if engine.send is not None else None
        self._host = EngineHost(engine, dialogs)
        self.bridge = ExtensionBridge(engine, self._host)

    async def load(self, move: SessionMove) -> None:
        """Load extensions and start them in the current session.

        Raises:
            ConfigError: an extension named on the command line does not load, or a flag is unknown.
        """
        engine = self._engine
        if engine.mode != "sdk":  # there stdout belongs to another program
            # Extensions print for people: their text must not come between frames.
            sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[assignment,misc]  # any stream will do
        limit = _seconds(engine.workspace.settings.handler_timeout_ms)
        flags = {
            name.removeprefix("--"): value for name, value in engine.workspace.options.flags.items()
        }
        extensions = Extensions(self.bridge.report, flags=flags, limit=limit)
        await self._load(extensions)
        self._guard_code(move)
        for text in extensions.flag_errors():
            raise ConfigError(text)
        if extensions.count:
            previous = str(move.previous) if move.previous is not None else None
            start = SessionStart(reason=move.reason, previous_session_file=previous)
            await self.bridge.attach(extensions, start)
            await self.bridge.continue_with(move.then)

    async def _load(self, extensions: Extensions) -> None:
        """Load the user's extensions first; they may trust the project, whose own follow."""
        workspace, bundles = self._engine.workspace, self._engine.bundles
        verify_code(bundles)
        errors = await self._load_found(extensions)
        if not workspace.files.trusted and await self._project_is_trusted(extensions):
            self._engine.trust_project()
            verify_code(bundles)
            errors += await self._load_found(extensions)
        keep_imports(bundles)
        for error in errors:
            if error.explicit:
                raise ConfigError(str(error))
            workspace.warn(f"Warning: {error}")
            self.bridge.report(error.path, "load", error.error)

    def _guard_code(self, move: SessionMove) -> None:
        """Protect imported code. A start ends if that fails; a later session only reports it."""
        try:
            self._engine.features.guard_code()
        except ConfigError as error:
            if move.reason == "startup":
                raise
            self._engine.conversation.hub.report(NOT_APPLIED.format(error=error))

    async def _load_found(self, extensions: Extensions) -> list[Any]:
        workspace = self._engine.workspace
        options = workspace.options
        found = find_extensions(
            workspace.home,
            workspace.files,
            paths=options.extensions,
            discover=not options.no_extensions,
        )
        for text in found.warnings():
            workspace.warn(f"Warning: {text}")
        factories = [factory_origin(factory) for factory in options.factories]
        return [*found.errors, *await extensions.load([*factories, *found.origins])]

    async def _project_is_trusted(self, extensions: Extensions) -> bool:
        home, options = self._engine.workspace.home, self._engine.workspace.options
        if options.approve is not None or not guarded_paths(home):
            return False
        early = EarlyHost(self._engine.mode, self._host.ui, home.cwd)
        answer = await points.project_trust(extensions.runner, early)
        if answer is not None and answer.remember:
            save_decision(home, trusted=answer.trusted)
        return answer is not None and answer.trusted


def _seconds(limit: int | Mapping[str, int]) -> Limit:
    if isinstance(limit, int):
        return limit / 1000 or None
    return {name: ms / 1000 for name, ms in limit.items() if ms}
