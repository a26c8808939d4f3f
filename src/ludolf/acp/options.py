"""Options of a session that the client shows: mode, model, thinking level, switches."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.config.settings.approval_rules import SessionApproval
from ludolf.engine.engine import Engine
from ludolf.engine.feature import Feature
from ludolf.protocol.acp.structs import (
    ClientCapabilities,
    ConfigBoolean,
    ConfigOption,
    ConfigSelect,
    ConfigValue,
    ConfigValueGroup,
    InvalidParams,
    SessionMode,
    SessionModes,
)

_MODES: Mapping[SessionApproval, SessionMode] = {
    "ask": SessionMode(
        id="ask", name="Ask", description="Ask before files are changed and commands run"
    ),
    "auto": SessionMode(id="auto", name="Auto", description="Never ask"),
    "read-only": SessionMode(
        id="read-only", name="Read only", description="Refuse to change files and to run commands"
    ),
    "default": SessionMode(
        id="default", name="Default", description="Ask as your approval settings say"
    ),
}


class SessionChoices(Feature):
    """The options of one session. `changed` is called after changes that the client did not make.

    Changes hold for the session; the settings stay as they are.
    """

    def __init__(
        self, engine: Engine, client: ClientCapabilities, changed: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._client = client
        self._changed = changed
        self._is_dirty = False
        engine.features.add(self)

    # ------------------------------------------------------------ for the client

    @property
    def mode(self) -> SessionApproval:
        return self._engine.approvals.mode

    def modes(self) -> SessionModes:
        return SessionModes(current_mode_id=self.mode, available_modes=self._offered_modes())

    def _offered_modes(self) -> tuple[SessionMode, ...]:
        return tuple(_MODES[name] for name in self._engine.approvals.offered_modes)

    def config_options(self) -> tuple[ConfigOption, ...]:
        """Return all options with their values."""
        models = self._engine.models
        found: list[ConfigOption] = [self._mode_option()]
        if models.current is not None:
            found.append(self._model_option(models.current))
            if len(models.levels()) > 1:
                found.append(self._level_option())
        if self._client.booleans:
            found.append(
                ConfigBoolean(
                    id="auto_compaction",
                    name="Compact automatically",
                    description="Replace old history by a summary when the context is full",
                    current_value=self._engine.workspace.settings.compaction.enabled,
                )
            )
        return tuple(found)

    def set(self, name: str, value: Any) -> None:
        """Change an option.

        Raises:
            InvalidParams: the option or the value is not offered.
            CommandError: the model cannot be used.
        """
        option = next((one for one in self.config_options() if one.id == name), None)
        if option is None:
            raise InvalidParams(f"configId: there is no option {name[:100]!r}")
        if isinstance(option, ConfigBoolean):
            if not isinstance(value, bool):
                raise InvalidParams(f"value: {name} is true or false")
            self._engine.workspace.files.override({"compaction": {"enabled": value}})
            return
        if value not in _values_of(option):
            raise InvalidParams(f"value: {str(value)[:100]!r} is not offered for {name}")
        self._choose(name, str(value))
        self._is_dirty = False  # the answer has the whole list

    def _choose(self, name: str, value: str) -> None:
        match name:
            case "mode":
                self._engine.approvals.set_mode(value)
            case "model":
                provider, _, model_id = value.partition("/")
                self._engine.models.set_model(provider, model_id)
            case "thinking":
                self._engine.models.set_level(value)

    # ------------------------------------------------------------ as a feature

    def on_model(self, model: Model, previous: Model | None, source: Any) -> None:
        self._note_change()

    def on_level(self, level: ThinkingLevel, previous: ThinkingLevel) -> None:
        self._note_change()

    def _note_change(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            asyncio.get_running_loop().call_soon(self._report_change)

    def _report_change(self) -> None:
        if self._is_dirty:
            self._is_dirty = False
            self._changed()

    # ------------------------------------------------------------ lists

    def _mode_option(self) -> ConfigSelect:
        values = tuple(
            ConfigValue(value=mode.id, name=mode.name, description=mode.description)
            for mode in self._offered_modes()
        )
        return ConfigSelect(
            id="mode", name="Mode", category="mode", current_value=self.mode, options=values
        )

    def _model_option(self, current: Model) -> ConfigSelect:
        models = self._engine.models
        pool = [item.model for item in models.scoped] or models.registry.available()
        listed = {model.key: model for model in (*pool, current)}
        groups: dict[str, list[ConfigValue]] = {}
        for key, model in listed.items():
            value = ConfigValue(value=key, name=model.name or model.id)
            groups.setdefault(model.provider, []).append(value)
        return ConfigSelect(
            id="model",
            name="Model",
            category="model",
            current_value=current.key,
            options=tuple(
                ConfigValueGroup(group=name, name=name, options=tuple(values))
                for name, values in groups.items()
            ),
        )

    def _level_option(self) -> ConfigSelect:
        models = self._engine.models
        values = tuple(ConfigValue(value=level, name=level) for level in models.levels())
        return ConfigSelect(
            id="thinking",
            name="Thinking",
            category="thought_level",
            current_value=models.level,
            options=values,
        )


def _values_of(option: ConfigSelect) -> set[str]:
    found: set[str] = set()
    for item in option.options:
        if isinstance(item, ConfigValueGroup):
            found.update(value.value for value in item.options)
        else:
            found.add(item.value)
    return found
