"""The way to the model servers: recorded, or played back, where the options say so."""

import base64
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ludolf.ai.access import Access
from ludolf.ai.http.proxy import proxy_secrets
from ludolf.ai.http.transport import Transport
from ludolf.ai.models import Model
from ludolf.ai.record.scrubbing import secrets_of_url
from ludolf.base import ConfigError
from ludolf.config.auth.keys import ALSO_NEEDED
from ludolf.config.models.selection import Choice
from ludolf.config.settings.home import expand
from ludolf.engine.features.secret_sources import credentials, secrets_of_environment
from ludolf.engine.parts import Parts

if TYPE_CHECKING:
    from ludolf.ai.record.recording import Recorder
    from ludolf.ai.record.replay import Replayer

# No secrets: providers want a key, an account or a project to send, and nothing is sent.
STAND_IN = "replayed"
_CLAIMS = b'{"https://api.openai.com/auth":{"chatgpt_account_id":"replayed"}}'
_PLACES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


def make_transport(parts: Parts) -> Transport:
    """Raises:
    ConfigError: the options contradict each other, or the file cannot be used.
    """
    options = parts.options
    if options.replay is None:
        if options.replay_strict or options.replay_speed is not None:
            raise ConfigError("--replay-strict and --replay-speed need --replay FILE")
        return _recorder(parts, options.record or "")
    if options.record is not None:
        raise ConfigError("--record and --replay exclude each other: a replay has no traffic")
    return _replayer(parts, options.replay)


def _recorder(parts: Parts, name: str) -> "Recorder":
    from ludolf.ai.record.recording import Recorder

    return Recorder(_path(parts, name), lambda: known_secrets(parts), parts.report)


def _replayer(parts: Parts, name: str) -> "Replayer":
    from ludolf.ai.record.recording_file import read_recording
    from ludolf.ai.record.replay import Replayer

    speed = parts.options.replay_speed or 0.0
    if not 0 <= speed < float("inf"):
        raise ConfigError("--replay-speed needs a number from 0 (at once); 1 is real time")
    recording = read_recording(_path(parts, name))
    parts.registry.stand_in = access = stand_in_for(recording.models)
    parts.registry.register(recording.models, access)
    if recording.models:
        parts.replayed = Choice(model=recording.models[0], level=recording.header.thinking_level)
    return Replayer(recording, parts.warn, strict=parts.options.replay_strict, speed=speed)


def stand_in_for(models: Iterable[Model]) -> Access:
    """What providers take for credentials, on a machine that has none."""
    # In the form of a token, since some read an account from it.
    key = f"{STAND_IN}.{base64.urlsafe_b64encode(_CLAIMS).decode()}.{STAND_IN}"
    names = [name for groups in ALSO_NEEDED.values() for group in groups for name in group]
    names += [name for model in models for name in re.findall(r"\{(\w+)\}", model.base_url)]
    places = {name: f"http://{STAND_IN}" if "URL" in name else STAND_IN for name in names}
    return Access(key=key, environment=places | dict.fromkeys(_PLACES, STAND_IN))


def _path(parts: Parts, name: str) -> Path:
    return (parts.home.cwd / expand(name)).absolute()


def known_secrets(parts: Parts) -> Iterator[str]:
    """The keys that this process could send, and what looks like one in its environment."""
    yield from (value for _, value in credentials(parts))
    yield from secrets_of_environment(os.environ)
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy"):
            yield from secrets_of_url(value)
    yield from proxy_secrets()
