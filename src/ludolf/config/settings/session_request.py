"""What a program sends to a server to open a session: options and an environment."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from ludolf.base import ConfigError
from ludolf.config.settings.options import ChosenOptions, Options


@cache
def choice_fields() -> Mapping[str, structs.FieldInfo]:
    """Return the options that a client can choose for a session, by their names in camelCase."""
    return {_camel(field.name): field for field in structs.fields(ChosenOptions)}


def session_choices(options: Options) -> dict[str, Any]:
    """Return the options that were given, by their names in camelCase."""
    chosen = {}
    for name, field in choice_fields().items():
        value = getattr(options, field.name)
        if value not in (None, (), {}, False) or (name == "approve" and value is False):
            chosen[name] = value
    return chosen


class InvalidChoice(ConfigError):
    """A session cannot have this option; `cause` is None if there is no such option."""

    def __init__(self, name: str, cause: str | None = None) -> None:
        super().__init__(
            f"Unknown option: {name}." if cause is None else f"Option {name}: {cause}."
        )
        self.name = name
        self.cause = cause


def with_choices(options: Options, choices: Mapping[str, Any]) -> Options:
    """Return the options with those that were chosen, by their names in camelCase.

    Raises:
        InvalidChoice: an option is unknown, or its value has the wrong type.
    """
    changes: dict[str, Any] = {}
    for name, value in choices.items():
        field = choice_fields().get(name)
        if field is None:
            raise InvalidChoice(name)
        try:
            changes[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            raise InvalidChoice(name, str(error)) from error
    return structs.replace(options, **changes)


def session_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a session of a server; what is not text cannot be sent.

    Without the address of the server: programs that the session starts run their own sessions.
    """
    found = {name: value for name, value in environ.items() if _is_text(name + value)}
    found.pop("LUDOLF_CONNECT", None)
    return found


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in value)
