"""Forms of MCP servers: the fields of a schema, and how answers of the user become values."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from ludolf.base import LudolfError
from ludolf.config.resources.linear_pattern import LinearPattern, Unsupported
from ludolf.mcp.cleaning import clean_text
from ludolf.mcp.wire import Json, Refusal

INVALID_PARAMS = -32602
MOST_FIELDS = 32
MOST_CHOICES = 200
# Options of a `select` that no server may use as a label of its own.
DECLINE, LEAVE_EMPTY, DONE = "Decline", "Leave empty", "Done"
_MOST_TITLE = 200
_MOST_DESCRIPTION = 400
_MOST_VALUE = 10_000
# The largest integer that every JSON reader keeps exactly.
_LARGEST = 2**53 - 1
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
FieldKind = Literal["boolean", "choice", "choices", "string", "number", "integer"]


class InvalidAnswer(LudolfError):
    """An answer does not fit its field; the text is the reason, for the user."""


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a form. `options` maps the labels of a choice to its values."""

    name: str
    kind: FieldKind
    schema: Json
    required: bool
    options: Mapping[str, Any] = {}
    # The value of an answer that is left empty; UNSET without one.
    default: Any = UNSET

    @property
    def question(self) -> str:
        """Return the title and the description on one line, with the default of a choice."""
        title = shown_text(self.schema.get("title"), _MOST_TITLE)
        title = title or shown_text(self.name, _MOST_TITLE)
        description = shown_text(self.schema.get("description"), _MOST_DESCRIPTION)
        text = f"{title}: {description}" if description else title
        shows_default = self.kind in ("boolean", "choice", "choices") and self.default is not UNSET
        return f"{text} (default: {self.shown_default})" if shows_default else text

    @property
    def shown_default(self) -> str | None:
        """Return the default as the user reads it; None without one."""
        if self.default is UNSET:
            return None
        if self.kind == "boolean":
            return "yes" if self.default else "no"
        values = self.default if self.kind == "choices" else [self.default]
        labels = {value: label for label, value in self.options.items()}
        return ", ".join(
            labels.get(value) or shown_text(str(value), _MOST_TITLE) for value in values
        )

    @property
    def may_be_empty(self) -> bool:
        """Return whether the user may leave the field empty, which gives `default`."""
        return not self.required or self.default is not UNSET

    @property
    def count_limits(self) -> tuple[int, int]:
        """Return the least and the most choices of a field that takes several."""
        least, most = _limit(self.schema, "minItems"), _limit(self.schema, "maxItems")
        total = len(self.options)
        highest = total if most is None else int(max(1, min(most, total)))
        return int(max(0, min(least or 0, highest))), highest

    def accepts(self, value: Any) -> bool:
        """Return whether a value that a host gives fits the schema."""
        match self.kind:
            case "boolean":
                return isinstance(value, bool)
            case "choice":
                return value in self.options.values()
            case "choices":
                least, most = self.count_limits
                known = list(self.options.values())
                return (
                    isinstance(value, list)
                    and least <= len(value) <= most
                    and all(item in known for item in value)
                )
            case "string":
                typed: Any = value if isinstance(value, str) else None
            case _:
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                typed = str(value) if is_number else None
        try:
            return typed is not None and self.read(typed) is not UNSET
        except InvalidAnswer:
            return False

    def read(self, text: str) -> Any:
        """Return the value of a typed answer; UNSET if an optional field is left empty.

        Raises:
            InvalidAnswer: the answer does not fit the schema.
        """
        if not text.strip():
            if not self.may_be_empty:
                raise InvalidAnswer("an answer is required")
            return self.default
        if self.kind == "string":
            return _checked_text(text, self.schema)
        return _checked_number(text.strip(), self.schema, whole=self.kind == "integer")


def shown_text(value: Any, limit: int) -> str:
    """Return a text of a server on one line, without invisible characters; empty if not a text."""
    return " ".join(clean_text(value, limit).split()) if isinstance(value, str) else ""


def read_form(schema: Any) -> tuple[FormField, ...]:
    """Return the fields of a `requestedSchema`, in its order.

    Raises:
        Refusal: it is not a flat object of values that a dialog can ask for, or too large.
    """
    schema = {} if schema is None else schema
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        raise _invalid("requestedSchema must be an object schema with properties")
    if len(properties) > MOST_FIELDS:
        raise _invalid(f"requestedSchema has more than {MOST_FIELDS} fields")
    needed = schema.get("required")
    required = needed if isinstance(needed, list | tuple) else ()
    return tuple(_field(name, shape, name in required) for name, shape in properties.items())


def _field(name: str, raw: Any, required: bool) -> FormField:
    shape = _without_null(raw)
    multiple = shape.get("type") == "array"
    choices = _choices(name, shape.get("items") if multiple else shape)
    kind: Any = shape.get("type", "string")
    if choices is not None:
        kind = "choices" if multiple else "choice"
    elif kind not in ("boolean", "string", "number", "integer"):
        raise _invalid(
            f"the field {shown_text(name, _MOST_TITLE)} has a type that is not supported"
        )
    options = choices or {}
    default = _default(kind, shape.get("default"), options)
    return FormField(
        name=name, kind=kind, schema=shape, required=required, options=options, default=default
    )


def _without_null(raw: Any) -> Json:
    """Return the schema of an optional value without its alternative null."""
    if not isinstance(raw, Mapping):
        raise _invalid("each field of requestedSchema must be an object")
    members = raw.get("anyOf")
    if isinstance(members, list | tuple) and "type" not in raw:
        kept = [one for one in members if isinstance(one, Mapping) and one.get("type") != "null"]
        if len(kept) == 1 and len(members) > 1:
            return {**{key: raw[key] for key in raw if key != "anyOf"}, **kept[0]}
    kinds = raw.get("type")
    if isinstance(kinds, list | tuple):
        others = [kind for kind in kinds if kind != "null"]
        return {**raw, "type": others[0] if len(others) == 1 else None}
    return raw


def _choices(name: str, shape: Any) -> dict[str, Any] | None:
    """Return the values of an enumeration by their labels; None if it is not one."""
    if not isinstance(shape, Mapping):
        return None
    values, labels = shape.get("enum"), shape.get("enumNames")
    titled = shape.get("oneOf") or shape.get("anyOf")
    if isinstance(values, list | tuple):
        names = labels if isinstance(labels, list | tuple) else ()
        pairs = [(value, names[at] if at < len(names) else None) for at, value in enumerate(values)]
    elif isinstance(titled, list | tuple):
        members = [one for one in titled if isinstance(one, Mapping) and "const" in one]
        pairs = [(one["const"], one.get("title")) for one in members]
    else:
        return None
    if not 0 < len(pairs) <= MOST_CHOICES or not all(_is_plain(value) for value, _ in pairs):
        text = f"needs 1 to {MOST_CHOICES} choices that are texts or numbers"
        raise _invalid(f"the field {shown_text(name, _MOST_TITLE)} {text}")
    return _labelled(pairs)


def _labelled(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Give each value a label that no other value and no option of ours has."""
    labelled: dict[str, Any] = {}
    for value, title in pairs:
        base = shown_text(title, _MOST_TITLE) or shown_text(str(value), _MOST_TITLE) or "(empty)"
        label, number = base, 2
        while label in labelled or label in (DECLINE, LEAVE_EMPTY, DONE):
            label, number = f"{base} ({number})", number + 1
        labelled[label] = value
    return labelled


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _default(kind: FieldKind, value: Any, options: Mapping[str, Any]) -> Any:
    known = tuple(options.values())
    fits: dict[FieldKind, Callable[[], bool]] = {
        "boolean": lambda: isinstance(value, bool),
        "choice": lambda: _is_plain(value) and value in known,
        "choices": lambda: (
            isinstance(value, list | tuple)
            and all(_is_plain(one) and one in known for one in value)
        ),
        "string": lambda: isinstance(value, str),
        "number": lambda: _is_plain(value) and not isinstance(value, str),
        "integer": lambda: isinstance(value, int) and not isinstance(value, bool),
    }
    return value if fits[kind]() else UNSET


# ---------------------------------------------------------------- typed answers


def _checked_text(text: str, schema: Json) -> str:
    least, most = _limit(schema, "minLength"), _limit(schema, "maxLength")
    if least is not None and len(text) < least:
        raise InvalidAnswer(f"at least {least:g} characters are required")
    if len(text) > (_MOST_VALUE if most is None else most):
        raise InvalidAnswer(f"at most {_MOST_VALUE if most is None else most:g} characters fit")
    check = _FORMATS.get(str(schema.get("format")))
    if check is not None and not check(text.strip()):
        raise InvalidAnswer(f"this must be {_FORMAT_WORDS[str(schema['format'])]}")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, text):
        raise InvalidAnswer(f"this must match {shown_text(pattern, _MOST_TITLE)}")
    return text if check is None else text.strip()


def _checked_number(text: str, schema: Json, *, whole: bool) -> int | float:
    value = _number(text, whole=whole)
    if value is None:
        raise InvalidAnswer(f"this must be a {'whole ' if whole else ''}number")
    least, most = _limit(schema, "minimum"), _limit(schema, "maximum")
    if least is not None and value < least:
        raise InvalidAnswer(f"this must be at least {least:g}")
    if most is not None and value > most:
        raise InvalidAnswer(f"this must be at most {most:g}")
    return value


def _number(text: str, *, whole: bool) -> int | float | None:
    """Return a number that JSON readers keep exactly; None if the text is not one."""
    for kind in (int,) if whole else (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if abs(value) <= _LARGEST else None
    return None


def _limit(schema: Json, name: str) -> float | None:
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _LARGEST else None


def _matches(pattern: str, text: str) -> bool:
    """Return whether a text matches; True for a pattern whose search could take long."""
    try:
        return LinearPattern(pattern).search(text)
    except Unsupported:
        return True


def _is_date(text: str) -> bool:
    try:
        return str(date.fromisoformat(text)) == text
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        return len(text) > len("2026-01-01") and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", text)


_FORMATS: dict[str, Callable[[str], object]] = {
    "email": _EMAIL.fullmatch,
    "uri": _is_address,
    "date": _is_date,
    "date-time": _is_time,
}
_FORMAT_WORDS = {
    "email": "an email address",
    "uri": "an address such as https://example.com",
    "date": "a date such as 2026-01-31",
    "date-time": "a date and time such as 2026-01-31T09:30:00Z",
}


def _invalid(reason: str) -> Refusal:
    return Refusal(INVALID_PARAMS, f"Invalid elicitation: {reason}")
