"""Start Node for script extensions while the program still loads its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludolf.engine.feature import Feature
from ludolf.engine.features.script_extensions.node import find_known_node, host_environment
from ludolf.engine.features.script_extensions.process import ScriptProcess
from ludolf.tools.process import ProcessCommand, StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ludolf.config.settings.home import Home
    from ludolf.engine.bundles import Bundles


class EarlyScriptHost(Feature):
    """A host process that was launched before there was an engine."""

    def __init__(self, process: ScriptProcess) -> None:
        self._process: ScriptProcess | None = process

    def join(self, bundles: Bundles) -> None:
        """Become a feature of the engine, which takes the process or ends it."""
        bundles.features.add(self)

    def take_process(self, command: ProcessCommand) -> ScriptProcess | None:
        """Return the process if it runs this command; it enters the folder of its session."""
        process, self._process = self._process, None
        if process is None:
            return None
        if (process.command.argv, process.command.env) == (command.argv, command.env):
            return process
        process.abandon()
        return None

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.abandon()


def launch_host(
    home: Home, environ: Mapping[str, str], node_command: str | None
) -> EarlyScriptHost | None:
    """Launch the host process, if the version of Node is known; None if it is not launched."""
    node = find_known_node(home, environ, node_command)
    if node is None:
        return None
    env = host_environment(home, environ)
    process = ScriptProcess(ProcessCommand(argv=node.argv(), cwd=home.cwd, env=env))
    try:
        process.launch()
    except StartError:
        return None  # reported when the extensions are loaded
    return EarlyScriptHost(process)
