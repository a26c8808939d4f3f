"""Turn colours into SGR sequences for terminals with 16, 256 or 16.7 million colours."""

import colorsys
import functools
from collections.abc import Mapping
from typing import Literal

ColourDepth = Literal["none", "16", "256", "true"]
# Red, green and blue from 0 to 255; an index of the palette of 256; None is the default colour.
Colour = tuple[int, int, int] | int | None

_TRUE_TERMS = ("direct", "kitty", "alacritty", "wezterm", "ghostty", "foot", "contour")
_TRUE_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby", "mintty")
# Red, yellow, green, cyan, blue, magenta.
_HUES = (1, 3, 2, 6, 4, 5)
_GREYS = ((0.15, 0), (0.63, 8), (0.9, 7), (1.0, 15))
_LEAST_SATURATION = 0.2
_BRIGHT = 0.72
_CUBE = (0, 95, 135, 175, 215, 255)
_SIXTEEN = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0)),
    *((0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)


def colour_depth(environment: Mapping[str, str]) -> ColourDepth:
    """Return how many colours the terminal has, by its environment variables."""
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR") or term in ("", "dumb"):
        return "none"
    if environment.get("COLORTERM") in ("truecolor", "24bit") or "WT_SESSION" in environment:
        return "true"
    if any(name in term for name in _TRUE_TERMS):
        return "true"
    # A multiplexer inherits the variable of the terminal that started it.
    if environment.get("TERM_PROGRAM") in _TRUE_PROGRAMS and not term.startswith(
        ("tmux", "screen")
    ):
        return "true"
    return "256" if "256" in term or term.startswith("tmux") else "16"


def parse_colour(value: object) -> Colour:
    """Read a colour of a theme file: `#rrggbb`, `#rgb`, an index, or `""` for the default.

    Raises:
        ValueError: the value is not a colour.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255:
        return value
    if value == "":
        return None
    if isinstance(value, str) and value.startswith("#") and len(value) in (4, 7):
        digits = value[1:] if len(value) == 7 else "".join(sign * 2 for sign in value[1:])
        number = int(digits, 16)
        return number >> 16, number >> 8 & 255, number & 255
    raise ValueError(f"not a colour: {value!r}"[:100])


@functools.lru_cache(maxsize=512)
def colour_sequence(colour: Colour, depth: ColourDepth, *, background: bool = False) -> str:
    """Return the SGR sequence of the nearest colour; "" for the default colour."""
    if colour is None or depth == "none":
        return ""
    start = 48 if background else 38
    if depth == "true" and not isinstance(colour, int):
        red, green, blue = colour
        return f"\x1b[{start};2;{red};{green};{blue}m"
    if depth == "16":
        return _sixteen_sequence(colour, background)
    index = colour if isinstance(colour, int) else _nearest_index(colour)
    return f"\x1b[{start};5;{index}m"


def _sixteen_sequence(colour: tuple[int, int, int] | int, background: bool) -> str:
    if not isinstance(colour, int) or colour > 15:
        if background:
            return ""  # The nearest of sixteen is rarely near enough to be read on.
        mixed = _components(colour) if isinstance(colour, int) else colour
        colour = _nearest_of_sixteen(mixed)
    bright = 60 if colour > 7 else 0
    return f"\x1b[{(40 if background else 30) + bright + colour % 8}m"


def _nearest_of_sixteen(colour: tuple[int, int, int]) -> int:
    """Return the index by hue: by distance, nearly all colours would become grey."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in colour))
    if saturation < _LEAST_SATURATION:
        return next(index for most, index in _GREYS if value <= most)
    return _HUES[round(hue * 6) % 6] + (8 if value > _BRIGHT else 0)


def _nearest_index(colour: tuple[int, int, int]) -> int:
    places = [min(range(6), key=lambda step: abs(_CUBE[step] - part)) for part in colour]
    cube = 16 + 36 * places[0] + 6 * places[1] + places[2]
    grey = 232 + min(23, max(0, round((sum(colour) / 3 - 8) / 10)))
    return min((cube, grey), key=lambda index: _distance(colour, _components(index)))


def _components(index: int) -> tuple[int, int, int]:
    """Return red, green and blue of an index of the palette of 256."""
    if index < 16:
        return _SIXTEEN[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    index -= 16
    return _CUBE[index // 36], _CUBE[index // 6 % 6], _CUBE[index % 6]


def _distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    red, green, blue = (first - second for first, second in zip(one, other, strict=True))
    return 2 * red * red + 4 * green * green + 3 * blue * blue
