"""Colours of the terminal by role: built-in themes, and theme files in the format of pi."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import CommandError
from ludolf.tui.colour import Colour, ColourDepth, colour_sequence, parse_colour

_LARGEST_FILE = 256 * 1024
_MOST_FILES = 500
_DEEPEST_REFERENCE = 8
_BACKGROUND = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")


def _palette(**colours: str) -> dict[str, str]:
    """Return a colour for each role; a line of roles shares the colour that it is given."""
    return {role: colours[name] for name, roles in _SHARED.items() for role in roles.split()}


_SHARED = {
    "default": "text userMessageText customMessageText toolTitle",
    "accent": "accent borderAccent mdListBullet mdCode thinkingMedium syntaxType",
    "blue": "border mdLink syntaxFunction thinkingLow",
    "green": "success toolDiffAdded syntaxString bashMode",
    "red": "error toolDiffRemoved thinkingXhigh thinkingMax",
    "yellow": "warning mdHeading syntaxNumber",
    "violet": "customMessageLabel syntaxKeyword thinkingHigh",
    "variable": "syntaxVariable mdCodeBlock syntaxOperator",
    "muted": "muted thinkingText toolOutput mdQuote toolDiffContext syntaxPunctuation"
    " thinkingMinimal",
    "dim": "dim borderMuted mdLinkUrl mdCodeBlockBorder mdQuoteBorder mdHr syntaxComment"
    " thinkingOff",
    "raised": "selectedBg userMessageBg",
    "custom": "customMessageBg",
    "pending": "toolPendingBg",
    "done": "toolSuccessBg",
    "failed": "toolErrorBg",
}
_DARK = _palette(
    default="",
    accent="#7ec8bd",
    blue="#7aa7e8",
    green="#8fc27a",
    red="#e0757d",
    yellow="#e3b566",
    violet="#bd93d8",
    variable="#b8c4d6",
    muted="#9a9fab",
    dim="#737885",
    raised="#30343f",
    custom="#352f40",
    pending="#282b33",
    done="#26302a",
    failed="#3a2a2d",
)
_LIGHT = _palette(
    default="",
    accent="#16776d",
    blue="#2a5fb4",
    green="#3d7a1e",
    red="#b3303c",
    yellow="#8f5f00",
    violet="#7b4aa3",
    variable="#3f5573",
    muted="#5c616c",
    dim="#757a85",
    raised="#e6e9ef",
    custom="#ece6f3",
    pending="#eeeff2",
    done="#e6f1e4",
    failed="#f6e4e5",
)
BUILT_IN = ("auto", "dark", "light")
# Roles that newer themes have, and the role that stands in for each in an older file.
_FALLBACKS = {"thinkingMax": "thinkingXhigh"}


class Theme:
    """The styles of one theme on one terminal. `links` says whether it shows OSC 8 links."""

    def __init__(
        self, name: str, colours: Mapping[str, Colour], depth: ColourDepth, *, links: bool = False
    ) -> None:
        self.name = name
        self.links = links
        self._styles = {
            role: colour_sequence(colour, depth, background=role.endswith("Bg"))
            for role, colour in colours.items()
        }

    def style(self, role: str) -> str:
        """Return the sequence that starts a role's colour; "" if it has the default colour.

        Roles are the colour names of pi's theme files; those that end in `Bg` are backgrounds.
        """
        return self._styles.get(role, "")

    def paint(self, role: str, text: str) -> str:
        """Return the text in the colour of a role, with the default colour after it."""
        start = self.style(role)
        end = "\x1b[49m" if role.endswith("Bg") else "\x1b[39m"
        return f"{start}{text}{end}" if start and text else text


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[22m"


def built_in_theme(depth: ColourDepth, *, light: bool = False, links: bool = False) -> Theme:
    """Return the dark or the light theme."""
    colours = {role: parse_colour(value) for role, value in (_LIGHT if light else _DARK).items()}
    return Theme("light" if light else "dark", colours, depth, links=links)


def load_theme(
    name: str,
    folders: Sequence[Path],
    depth: ColourDepth,
    *,
    light: bool = False,
    links: bool = False,
) -> Theme:
    """Return a theme by its name or by the path of its file.

    Args:
        name: `auto`, `dark`, `light`, a name or path, or `NAME/NAME` for light and dark terminals.
        folders: Folders with theme files, and such files; the first has precedence.
        depth: The colours of the terminal.
        light: Whether the background of the terminal is light.
        links: Whether the terminal shows OSC 8 links.

    Raises:
        CommandError: the theme does not exist or is not valid.
    """
    if not name.endswith(".json") and "/" in name:
        name = name.split("/")[0 if light else 1]
    if name in BUILT_IN:
        return built_in_theme(
            depth, light=light if name == "auto" else name == "light", links=links
        )
    path = _find(name, folders)
    return Theme(name, _file_colours(path, light), depth, links=links)


def theme_names(folders: Sequence[Path]) -> list[str]:
    """Return the names of all themes: the built-in ones, then those of the folders."""
    return list(dict.fromkeys((*BUILT_IN, *(path.stem for path in _files(folders)))))


def is_light(reply: str) -> bool | None:
    """Return whether a background is light, by a reply to OSC 11; None if it cannot be read."""
    found = _BACKGROUND.search(reply)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / int("f" * len(part), 16) for part in found.groups())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5


def _find(name: str, folders: Sequence[Path]) -> Path:
    if name.endswith(".json"):
        return Path(name)
    files = list(_files(folders))
    for path in files:
        if path.stem == name:
            return path
    for path in files:
        if _read(path).get("name") == name:
            return path
    known = ", ".join(theme_names(folders)[:20])
    raise CommandError(f"Unknown theme: {name}. Known themes: {known}")


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.suffix == ".json":
            yield folder
            continue
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        yield from (folder / name for name in names[:_MOST_FILES] if name.endswith(".json"))


def _read(path: Path) -> dict[str, Any]:
    """Return the object in a theme file.

    Raises:
        CommandError: the file cannot be read or does not hold an object.
    """
    try:
        with path.open("rb") as file:
            value = msgspec.json.decode(file.read(_LARGEST_FILE))
    except OSError as problem:
        raise CommandError(f"Cannot read the theme {path}: {problem.strerror}") from problem
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CommandError(f"The theme {path} is not valid JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise CommandError(f"The theme {path} is not a JSON object")
    return value


def _file_colours(path: Path, light: bool) -> dict[str, Colour]:
    """Return the colours of a theme file; roles that it omits have those of a built-in theme."""
    body = _read(path)
    given, variables = body.get("colors"), body.get("vars", {})
    if not isinstance(given, dict) or not isinstance(variables, dict):
        raise CommandError(f"The theme {path} needs an object `colors`")
    values: dict[str, object] = {**(_LIGHT if light else _DARK), **given}
    for role, older in _FALLBACKS.items():
        if role not in given and older in given:
            values[role] = given[older]
    try:
        return {role: _resolved(value, variables) for role, value in values.items()}
    except ValueError as problem:
        raise CommandError(f"The theme {path} has a value that is {problem}") from problem


def _resolved(value: object, variables: Mapping[str, object]) -> Colour:
    for _ in range(_DEEPEST_REFERENCE):
        if not isinstance(value, str) or value not in variables or not value:
            break
        value = variables[value]
    return parse_colour(value)
