"""A terminal as a page: what tmux shows, with its colours, for pictures of `ludolf`."""

import html
import re
import subprocess
import time
from pathlib import Path

_STYLE = re.compile(r"\x1b\[([0-9;]*)m|\x1b\]8;[^\x1b]*\x1b\\")
_COLOURS = (
    *("#16161d", "#e46876", "#87a987", "#e6c384", "#7fb4ca", "#957fb8", "#7aa89f", "#c8c093"),
    *("#727169", "#ff5d62", "#98bb6c", "#e6c384", "#7fb4ca", "#938aa9", "#7aa89f", "#dcd7ba"),
)
_FRONT, _BACK = "#dcd7ba", "#1f1f28"
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body{{margin:0;background:#1f1f28}}
pre{{margin:0;padding:18px 22px;color:#dcd7ba;font:15px/1.35 "DejaVu Sans Mono",monospace}}
</style><pre>{rows}</pre>"""


class TerminalStage:
    """A program in a pane of a tmux server of its own, in an environment of its own."""

    def __init__(self, folder: Path, command: str, env: dict[str, str], cwd: Path) -> None:
        self._socket = folder / "tmux"
        self._env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._cwd = cwd
        self._tmux("new-session", "-d", "-x", "98", "-y", "34", command)
        self._tmux("set", "-g", "status", "off")

    def _tmux(self, *words: str) -> str:
        program = ("tmux", "-S", str(self._socket), "-f", "/dev/null", *words)
        done = subprocess.run(
            program, env=self._env, cwd=self._cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def key(self, name: str) -> None:
        self._tmux("send-keys", name)

    def wait(self, text: str) -> None:
        """Wait until a text is on the screen.

        Raises:
            TimeoutError: it did not appear within a minute.
        """
        deadline = time.monotonic() + 60
        while text not in self._tmux("capture-pane", "-p"):
            if time.monotonic() > deadline:
                raise TimeoutError(self._tmux("capture-pane", "-p"))
            time.sleep(0.1)

    def page(self) -> str:
        """Return the screen as an HTML document."""
        rows = self._tmux("capture-pane", "-e", "-p").rstrip("\n").split("\n")
        return _PAGE.format(rows="\n".join(_styled(row) for row in rows))

    def close(self) -> None:
        self._tmux("kill-server")


def _styled(row: str) -> str:
    style: dict[str, str] = {}
    pieces, last = [], 0
    for found in _STYLE.finditer(row):
        pieces.append(_span(row[last : found.start()], style))
        last = found.end()
        if found[1] is not None:
            _apply(style, [int(part or 0) for part in found[1].split(";")])
    return "".join((*pieces, _span(row[last:], style)))


def _span(text: str, style: dict[str, str]) -> str:
    if not text:
        return ""
    shown = dict(style)
    if shown.pop("reverse", ""):
        front, back = shown.get("color", _FRONT), shown.get("background", _BACK)
        shown |= {"color": back, "background": front}
    look = ";".join(f"{name}:{value}" for name, value in shown.items())
    return f'<span style="{look}">{html.escape(text)}</span>'


def _apply(style: dict[str, str], codes: list[int]) -> None:
    """Change a style as a terminal does for `CSI … m`."""
    while codes:
        code = codes.pop(0)
        name = "color" if code in (38, *range(30, 38), *range(90, 98)) else "background"
        if code == 0:
            style.clear()
        elif code in (38, 48):
            style[name] = _extended(codes)
        elif code in _PLAIN:
            style.update(_PLAIN[code])
        elif code in _ENDS:
            style.pop(_ENDS[code], None)
        elif 30 <= code < 48:
            style[name] = _COLOURS[code % 10]
        elif 90 <= code < 108:
            style[name] = _COLOURS[8 + code % 10]


_PLAIN = {
    1: {"font-weight": "bold"},
    2: {"opacity": "0.65"},
    3: {"font-style": "italic"},
    4: {"text-decoration": "underline"},
    7: {"reverse": "on"},
}
_ENDS = {
    22: "font-weight",
    23: "font-style",
    24: "text-decoration",
    27: "reverse",
    39: "color",
    49: "background",
}


def _extended(codes: list[int]) -> str:
    if codes and codes.pop(0) == 2:
        red, green, blue, *rest = codes
        codes[:] = rest
        return f"rgb({red},{green},{blue})"
    number = codes.pop(0) if codes else 7
    if number < 16:
        return _COLOURS[number]
    if number >= 232:
        level = 8 + (number - 232) * 10
        return f"rgb({level},{level},{level})"
    number -= 16
    steps = [0, 95, 135, 175, 215, 255]
    return f"rgb({steps[number // 36]},{steps[number // 6 % 6]},{steps[number % 6]})"
