"""Load extensions when there are some; nothing of them is imported otherwise."""

from typing import TYPE_CHECKING

from ludolf.base import ConfigError
from ludolf.config.settings.arguments import unknown_option
from ludolf.engine.engine import Engine
from ludolf.engine.feature import Feature, SessionMove
from ludolf.engine.workspace import Workspace

if TYPE_CHECKING:
    from ludolf.engine.extension_bridge.bridge import ExtensionBridge


class LazyExtensions(Feature):
    """Looks for extensions in every session; the bridge is made for the first of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bridge: ExtensionBridge | None = None

    async def start(self) -> None:
        """Raises:
        ConfigError: an extension named on the command line does not load, or a flag is unknown.
        """
        flags = self._engine.workspace.options.flags
        if flags and not may_have_extensions(self._engine.workspace):
            raise ConfigError(unknown_option(next(iter(flags))))
        await self.enter_session(SessionMove(reason="startup"))

    async def enter_session(self, move: SessionMove) -> None:
        if not may_have_extensions(self._engine.workspace):
            return
        if self._bridge is None:
            from ludolf.engine.extension_bridge.bridge import ExtensionBridge

            self._bridge = ExtensionBridge(self._engine)
            self._engine.features.add(self._bridge, outermost=True)
        await self._bridge.load(move)


def may_have_extensions(workspace: Workspace) -> bool:
    """Return whether there may be an extension, without importing any of their code."""
    options, home = workspace.options, workspace.home
    if options.extensions or options.factories:
        return True
    if options.no_extensions:
        return False
    settings = workspace.settings
    if settings.extensions or settings.packages or (home.agent / "extensions").is_dir():
        return True
    if (home.project / "extensions").is_dir():
        return True
    # The host may trust the project later.
    if not workspace.files.trusted and (home.project / "settings.json").is_file():
        return True
    from ludolf.config.resources.entry_points import installed

    return next(iter(installed()), None) is not None
