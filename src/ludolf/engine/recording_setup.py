"""Set up recording and replay of model traffic."""

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ludolf.ai.access import Access
from ludolf.ai.http.proxy import proxy_secrets
from ludolf.ai.models import Model
from ludolf.ai.record.scrubbing import secrets_of_url
from ludolf.ai.registry import Providers
from ludolf.base import ConfigError
from ludolf.config.auth.keys import ALSO_NEEDED
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import ModelChoice
from ludolf.engine.features.secrets import credentials, secrets_of_environment
from ludolf.engine.hub import Hub
from ludolf.engine.models import ModelAccess
from ludolf.engine.workspace import Workspace

# No secrets: providers want a key, an account or a project to send, and nothing is sent.
STAND_IN = "replayed"
_CLAIMS = b'{"https://api.openai.com/auth":{"chatgpt_account_id":"replayed"}}'
_PLACES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


def make_access(workspace: Workspace, registry: ModelRegistry, hub: Hub) -> ModelAccess:
    """Raises:
    ConfigError: the options contradict each other, or the file cannot be used.
    """
    options = workspace.options
    if options.replay is not None:
        if options.record is not None:
            raise ConfigError("--record and --replay exclude each other: a replay has no traffic")
        return _replayed(workspace, registry, options.replay)
    if options.replay_strict or options.replay_speed is not None:
        raise ConfigError("--replay-strict and --replay-speed need --replay FILE")
    from ludolf.ai.record.recording import Recorder

    path = _path(workspace, options.record or "")
    recorder = Recorder(
        path, lambda: known_secrets(options.api_key, registry), hub.report, workspace.environ
    )
    return ModelAccess(registry, recorder, Providers(recorder))


def _replayed(workspace: Workspace, registry: ModelRegistry, name: str) -> ModelAccess:
    from ludolf.ai.record.recording_file import read_recording
    from ludolf.ai.record.replay import Replayer

    options = workspace.options
    speed = options.replay_speed or 0.0
    if not 0 <= speed < float("inf"):
        raise ConfigError("--replay-speed needs a number from 0 (at once); 1 is real time")
    recording = read_recording(_path(workspace, name))
    registry.stand_in = access = stand_in_for(recording.models)
    registry.register(recording.models, access)
    recorded: ModelChoice | None = None
    if recording.models:
        recorded = ModelChoice(model=recording.models[0], level=recording.header.thinking_level)
    replayer = Replayer(recording, workspace.warn, strict=options.replay_strict, speed=speed)
    return ModelAccess(registry, replayer, Providers(replayer), recorded)


def stand_in_for(models: Iterable[Model]) -> Access:
    """What providers take for credentials, on a machine that has none."""
    # In the form of a token, since some read an account from it.
    key = f"{STAND_IN}.{base64.urlsafe_b64encode(_CLAIMS).decode()}.{STAND_IN}"
    names = [name for groups in ALSO_NEEDED.values() for group in groups for name in group]
    names += [name for model in models for name in re.findall(r"\{(\w+)\}", model.base_url)]
    places = {name: f"http://{STAND_IN}" if "URL" in name else STAND_IN for name in names}
    return Access(key=key, environment=places | dict.fromkeys(_PLACES, STAND_IN))


def _path(workspace: Workspace, name: str) -> Path:
    return (workspace.cwd / workspace.home.expand(name)).absolute()


def known_secrets(api_key: str | None, registry: ModelRegistry) -> Iterator[str]:
    """Yield the keys that this session could send, and secrets of its environment."""
    yield from (value for _, value in credentials(api_key, registry))
    environ = registry.keyring.environ
    yield from secrets_of_environment(environ)
    for name, value in environ.items():
        if name.lower().endswith("_proxy"):
            yield from secrets_of_url(value)
    yield from proxy_secrets(environ)
