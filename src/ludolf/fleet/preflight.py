"""Check once, before the first item, that a session can start: model, key, sandbox."""

import os
from pathlib import Path

from ludolf.base import ConfigError, LudolfError, Warn
from ludolf.config.settings.options import Options
from ludolf.config.settings.session_request import with_choices
from ludolf.engine.build import build
from ludolf.engine.features.structured_answers import answer_tool_for
from ludolf.engine.start import OFFLINE
from ludolf.engine.workspace import Workspace
from ludolf.fleet.orders import FleetSetup
from ludolf.fleet.pipes import WorkerReady

NO_MODEL = (
    "No model has credentials, so only the built-in offline model would answer. Set a key, or "
    f"choose a model with --model ({OFFLINE} is one)."
)


async def prepare_session(setup: FleetSetup, warn: Warn) -> tuple[WorkerReady, FleetSetup]:
    """Return the model of the sessions, and the setup with the sandbox that they use.

    Raises:
        LudolfError: no session can start with these options.
    """
    if setup.schema is not None:
        answer_tool_for(setup.schema)
    if setup.via is not None:
        return WorkerReady(), setup
    if setup.offline:
        os.environ["PI_OFFLINE"] = "1"
    options = with_choices(Options(cwd=Path(setup.start)), setup.choices)
    options.no_session = True
    options.sandbox = "off"
    engine = build(options, warn)
    try:
        await engine.start("sdk")
        model, models = engine.models.current, engine.models
        if model is None or (models.by_default and model.key == OFFLINE):
            raise ConfigError(models.unusable_default or NO_MODEL)
        if not models.registry.admits(model):
            raise ConfigError(f"No API key for {model.key}. See `ludolf auth status`.")
        mode = _sandbox_mode(setup, engine.workspace, warn)
    finally:
        await engine.close()
    choices = {**setup.choices, **({"sandbox": mode} if mode is not None else {})}
    return WorkerReady(model=model.key, sandbox=mode), setup.replace(choices=choices)


def _sandbox_mode(setup: FleetSetup, workspace: Workspace, warn: Warn) -> str | None:
    """Return the mode to choose; None if the user chose one."""
    if setup.choices.get("sandbox") is not None or workspace.files.user.sandbox is not None:
        return None
    from ludolf.tools.sandbox.policy import Ground
    from ludolf.tools.sandbox.sandbox import Sandbox

    home = workspace.home
    ground = Ground(
        mode="workspace", network=True, home=home.user, agent=home.agent, environ=os.environ
    )
    probe = Path(setup.out, "work", f".sandbox-{os.getpid()}")
    probe.mkdir(mode=0o700, exist_ok=True)
    try:
        Sandbox(ground, probe).close()
    except (LudolfError, OSError) as error:
        warn(f"Items run without a sandbox: {error}")
        return None
    finally:
        probe.rmdir()
    return "workspace"
