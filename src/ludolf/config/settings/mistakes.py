"""Explain mistakes in configuration files: unknown keys and values outside a fixed set."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

# Keys of pi that Ludolf does not read; most are for its terminal interface.
OF_PI = frozenset(
    (
        *("quietStartup", "tuiMode", "fullscreen", "hideThinkingBlock"),
        *("showCacheMissNotices", "externalEditor", "doubleEscapeAction", "treeFilterMode"),
        *("editorPaddingX", "outputPad", "autocompleteMaxVisible", "showHardwareCursor"),
        *("markdown", "warnings", "collapseChangelog", "lastChangelogVersion", "trackingId"),
        *("enableInstallTelemetry", "enableAnalytics", "apiKeys"),
    )
)


def misspelt_keys(raw: Mapping[str, Any], kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield a text for each key that resembles a known one; other keys may belong to pi."""
    return (_unknown(key, near) for key, near in _keys(raw, kind, "") if near is not None)


def unknown_keys(raw: Any, kind: Any) -> Iterator[str]:
    """Yield a text for each unknown key of an object and of the objects in it."""
    return (_unknown(key, near) for key, near in _keys(raw, kind, ""))


def _unknown(key: str, near: str | None) -> str:
    from ludolf.base.near import suggestion

    return f'unknown key "{key}".{suggestion(near)}'


def _keys(raw: Any, kind: Any, where: str) -> Iterator[tuple[str, str | None]]:
    """Yield each unknown key and the known one that it resembles, both with their full path."""
    kind = inner_type(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(raw, dict):
        types = _types_of(kind)
        for name, value in raw.items():
            if name in types:
                yield from _keys(value, types[name], f"{where}{name}.")
            elif name[:1].isalpha() and name not in OF_PI:  # `$schema` and `//` are comments
                from ludolf.base.near import nearest

                near = nearest(name, types)
                yield f"{where}{name}", None if near is None else f"{where}{near}"
    elif get_origin(kind) is dict and isinstance(raw, dict):
        for name, value in raw.items():
            yield from _keys(value, get_args(kind)[1], f"{where}{name}.")
    elif get_origin(kind) is tuple and isinstance(raw, list):
        for place, value in enumerate(raw):
            yield from _keys(value, get_args(kind)[0], f"{where}{place}.")


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def valid_values(kind: Any, path: str = "") -> str:
    """Return `. Valid values: …` if a type, or its field at a path such as `$.mode`, has a set."""
    for name in path.strip("$.` ").split(".") if path else ():
        kind = inner_type(kind)
        fields = msgspec.structs.fields(kind) if isinstance(kind, type) else ()
        kind = next((field.type for field in fields if field.encode_name == name), None)
    values = list(_literals(kind))
    return f". Valid values: {', '.join(values)}" if values else ""


def inner_type(kind: Any) -> Any:
    """Return the type without `Annotated` and `None`."""
    if get_origin(kind) is Annotated:
        return inner_type(get_args(kind)[0])
    members = [part for part in get_args(kind) if part is not type(None)]
    union = type(None) in get_args(kind)
    return inner_type(members[0]) if union and len(members) == 1 else kind


def _literals(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
        return
    if get_origin(kind) in (dict, list):
        return
    for part in get_args(kind):
        yield from _literals(part)
