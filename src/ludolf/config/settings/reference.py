"""The table of all settings: key, type, default and help, derived from the structs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import inspect

from ludolf.ai.messages import THINKING_LEVELS
from ludolf.base import CommandError, dumps
from ludolf.config.settings.approval_rules import Approval
from ludolf.config.settings.mistakes import OF_PI
from ludolf.config.settings.safety_settings import SandboxSettings, SecretSettings
from ludolf.config.settings.settings import GLOBAL_ONLY, WITHOUT_EFFECT, Settings
from ludolf.config.settings.settings_help import HELP, PRECEDENCE

# Groups that are parsed where they are used.
STRICT: dict[str, type[msgspec.Struct]] = {
    "approval": Approval,
    "sandbox": SandboxSettings,
    "secrets": SecretSettings,
}
_NAMES: dict[type[inspect.Type], str] = {
    inspect.AnyType: "any JSON",
    inspect.BoolType: "true or false",
    inspect.StrType: "text",
    inspect.StructType: "object",
    inspect.DictType: "object",
    inspect.FloatType: "number",
    inspect.IntType: "whole number",
}


class UnknownSetting(CommandError):
    """Raised for a key that Ludolf does not have."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One key of settings.json. `path` has the names of the objects that contain it."""

    path: tuple[str, ...]
    type: Any
    default: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def help(self) -> str:
        return HELP[self.key]

    @property
    def precedence(self) -> tuple[str, ...]:
        """Flags and variables that take precedence over the settings."""
        return PRECEDENCE.get(self.key, ())

    @property
    def has_effect(self) -> bool:
        return self.key not in WITHOUT_EFFECT

    @property
    def user_only(self) -> bool:
        """Whether a project's file cannot have this key."""
        return self.path[0] in GLOBAL_ONLY

    @property
    def type_text(self) -> str:
        return _words(inspect.type_info(self.type))

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a setting with a fixed set of them."""
        return tuple(_choices(inspect.type_info(self.type)))

    def read(self, text: str) -> Any:
        """Return the value that a text of the command line means, checked.

        JSON is accepted for every type, plain text for texts, and `a,b` for a list of texts.

        Raises:
            CommandError: the value does not have the type.
        """
        for value in _candidates(text):
            try:
                msgspec.convert(value, self.type)
            except msgspec.ValidationError:
                continue
            if value is not None:
                return value
        raise CommandError(f'{self.key} cannot be "{text}". Valid: {self.type_text}')


def settings_table() -> tuple[Setting, ...]:
    """Return all settings in the order of the structs."""
    return tuple(_of(Settings, Settings(), ()))


def find_setting(key: str) -> Setting:
    """Return a setting by its key; an entry of an object is a setting too.

    Raises:
        UnknownSetting: the key is unknown.
        CommandError: the key names a group.
    """
    table = settings_table()
    for setting in table:
        if setting.key == key:
            return setting
        if key.startswith(f"{setting.key}.") and (entry := _entry_type(setting.type)) is not None:
            name = key.removeprefix(f"{setting.key}.")
            return ObjectEntry(path=(*setting.path, name), type=entry, default=None, of=setting)
    below = [setting.key for setting in table if setting.key.startswith(f"{key}.")]
    if below:
        raise CommandError(f"{key} is a group of settings. Name one of: {', '.join(below)}")
    if key.partition(".")[0] in OF_PI:
        raise UnknownSetting(f"{key} is a setting of pi. It has no effect in Ludolf.")
    raise UnknownSetting(f'Unknown setting "{key}".{_hint(key, [one.key for one in table])}')


class ObjectEntry(Setting, frozen=True, kw_only=True):
    """One entry of an object, such as `modelThinkingLevels.openai/gpt-5`."""

    of: Setting

    @property
    def help(self) -> str:
        return self.of.help

    @property
    def user_only(self) -> bool:
        return self.of.user_only


# ---------------------------------------------------------------- private


def _of(
    kind: type[msgspec.Struct], usual: msgspec.Struct, before: tuple[str, ...]
) -> Iterator[Setting]:
    for field in msgspec.structs.fields(kind):
        path = (*before, field.encode_name)
        group = STRICT.get(".".join(path), field.type)
        if isinstance(group, type) and issubclass(group, msgspec.Struct):
            value = getattr(usual, field.name)
            yield from _of(group, value if isinstance(value, group) else group(), path)
        else:
            default = msgspec.to_builtins(getattr(usual, field.name))
            yield Setting(path=path, type=field.type, default=default)


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType(types=types):
            parts = [_words(one) for one in types if not isinstance(one, inspect.NoneType)]
            return " or ".join(parts)
        case inspect.LiteralType(values=values):
            levels = set(values) <= set(THINKING_LEVELS)
            ordered = sorted(values, key=THINKING_LEVELS.index) if levels else values
            return " or ".join(f"`{value}`" for value in ordered)
        case inspect.VarTupleType(item_type=item):
            return "list" if isinstance(item, inspect.UnionType) else f"list of {_words(item)}"
        case inspect.DictType(value_type=value) if not isinstance(value, inspect.AnyType):
            return f"object of {_words(value)}"
        case inspect.IntType() | inspect.FloatType() if kind.ge is not None:
            top = f" to {kind.le}" if kind.le is not None else " or more"
            return f"{_NAMES[type(kind)]}, {kind.ge}{top}"
        case _:
            return _NAMES[type(kind)]


def _choices(kind: inspect.Type) -> Iterator[str]:
    match kind:
        case inspect.UnionType(types=types):
            for one in types:
                yield from _choices(one)
        case inspect.LiteralType(values=values):
            yield from map(str, values)
        case inspect.BoolType():
            yield from ("true", "false")


def _candidates(text: str) -> Iterator[Any]:
    with suppress(msgspec.DecodeError, UnicodeEncodeError):  # not JSON: plain text
        yield msgspec.json.decode(text)
    yield text
    yield [part.strip() for part in text.split(",") if part.strip()]


def _entry_type(kind: Any) -> Any:
    """Return the type of the entries of an object; None for other types."""
    from typing import get_args, get_origin

    for one in (kind, *get_args(kind)):
        if get_origin(one) is dict:
            return get_args(one)[1]
    return None


def _hint(key: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    same = [name for name in names if name.lower() == key.lower()]
    close = same or get_close_matches(key, names, 1, 0.6)
    return f" Did you mean {close[0]}?" if close else " List them with `ludolf settings`."


def json_text(value: Any) -> str:
    """Return a value as JSON on one line."""
    return dumps(value).decode()
