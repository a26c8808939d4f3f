"""Turn the bytes that a terminal sends into keys, pastes and replies.

It reads the legacy encodings, the kitty keyboard protocol (CSI u), xterm's modifyOtherKeys and
bracketed paste. Bytes may be split anywhere: the result is the same.
"""

import codecs
import re
from typing import NamedTuple

MOST_PASTE_BYTES = 16 * 1024 * 1024
_MOST_SEQUENCE_BYTES = 4096
_ESC = 0x1B
_PASTE_START = b"\x1b[200~"
_PASTE_END = b"\x1b[201~"


class KeyPress(NamedTuple):
    """A key with its modifiers.

    Attributes:
        name: `enter`, `alt+enter`, `ctrl+c`, `shift+tab`, `pageup`, `x`, `X`. Modifiers are in the
            order ctrl, alt, shift, super. A key that writes text is named by the text, a space is
            `space`.
        text: What the key writes, or empty.
    """

    name: str
    text: str = ""


class Paste(NamedTuple):
    """A text that was pasted, with line feeds as line ends."""

    text: str


class TerminalReply(NamedTuple):
    """An answer of the terminal to a request.

    Attributes:
        kind: `csi`, `osc`, `dcs`, `apc`.
        body: What stands between the introducer and the end, for CSI with the final letter.
    """

    kind: str
    body: str


InputEvent = KeyPress | Paste | TerminalReply

_CONTROLS = {
    **{code: f"ctrl+{chr(code + 0x60)}" for code in range(1, 27)},
    **{0x00: "ctrl+space", 0x08: "backspace", 0x09: "tab", 0x0D: "enter", 0x7F: "backspace"},
    **{0x1B: "escape", 0x1C: "ctrl+\\", 0x1D: "ctrl+]", 0x1E: "ctrl+^", 0x1F: "ctrl+-"},
}
_LETTERS = {
    **{"A": "up", "B": "down", "C": "right", "D": "left", "E": "clear", "F": "end", "H": "home"},
    **{"P": "f1", "Q": "f2", "R": "f3", "S": "f4", "Z": "shift+tab"},
}
_KEYPAD = {
    **{"M": "enter", "X": "=", "j": "*", "k": "+", "l": ",", "m": "-", "n": ".", "o": "/"},
    **{chr(ord("p") + digit): str(digit) for digit in range(10)},
}
_NUMBERS = {
    **{1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageup", 6: "pagedown"},
    **{7: "home", 8: "end", 11: "f1", 12: "f2", 13: "f3", 14: "f4", 15: "f5", 17: "f6", 18: "f7"},
    **{19: "f8", 20: "f9", 21: "f10", 23: "f11", 24: "f12", 25: "f13", 26: "f14", 28: "f15"},
    **{29: "f16", 31: "f17", 32: "f18", 33: "f19", 34: "f20"},
}
_CODES = {
    **{9: "tab", 13: "enter", 27: "escape", 32: "space", 127: "backspace", 8: "backspace"},
    **{57399 + digit: str(digit) for digit in range(10)},
    **{57409: ".", 57410: "/", 57411: "*", 57412: "-", 57413: "+", 57414: "enter", 57415: "="},
    **{57416: ",", 57417: "left", 57418: "right", 57419: "up", 57420: "down", 57421: "pageup"},
    **{57422: "pagedown", 57423: "home", 57424: "end", 57425: "insert", 57426: "delete"},
    **{57376 + number: f"f{13 + number}" for number in range(23)},
}
_STRINGS = {0x5D: "osc", 0x50: "dcs", 0x5F: "apc", 0x5E: "pm", 0x58: "sos"}
_RELEASE = 3
_CSI = re.compile(r"([<-?]?)([0-9:;]*)([ -/]*)([@-~])")


class KeyParser:
    """Collect bytes until they make a key, a paste or a reply."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._encoding = encoding
        self._pending = bytearray()  # a sequence that begins with ESC and is not complete
        self._alted = False  # another Esc stood before that sequence
        self._paste: bytearray | None = None
        self._out: list[InputEvent] = []

    @property
    def waits(self) -> bool:
        """Whether `flush` would produce a key: an Esc that may be the start of a sequence."""
        return 0 < len(self._pending) <= 2

    def feed(self, data: bytes) -> list[InputEvent]:
        """Return what these bytes complete."""
        at = 0
        while at < len(data):
            if self._paste is not None:
                at = self._take_paste(data, at)
            else:
                self._take(data[at])
                at += 1
        done, self._out = self._out, []
        return done

    def flush(self) -> list[InputEvent]:
        """Return the keys of an incomplete sequence, when no more bytes have come for a while.

        Longer beginnings of a sequence keep waiting, since only a terminal sends them.
        """
        if self.waits:
            held = bytes(self._pending)
            if self._alted:
                self._press("escape")
            self._drop()
            if len(held) == 1 or held[1] == _ESC:
                self._out.extend(KeyPress("escape") for _ in held)
            else:
                self._press(f"alt+{chr(held[1])}")
        done, self._out = self._out, []
        return done

    def _press(self, name: str, text: str = "") -> None:
        self._out.append(KeyPress(name, text))

    def _take(self, byte: int) -> None:
        if not self._pending:
            if byte == _ESC:
                self._end_text()
                self._pending.append(byte)
            else:
                self._take_text(byte)
            return
        self._pending.append(byte)
        if len(self._pending) == 2:
            self._take_second(byte)
        elif self._pending[1] == _ESC:
            self._take_third(byte)
        elif self._pending[1] == 0x5B:
            self._take_csi(byte)
        elif self._pending[1] == 0x4F:
            self._take_ss3(byte)
        else:
            self._take_string(byte)

    def _take_text(self, byte: int) -> None:
        if (byte < 0x20 or byte == 0x7F) and byte in _CONTROLS:
            self._end_text()
            self._press(_CONTROLS[byte])
            return
        for sign in self._decoder.decode(bytes((byte,))):
            self._write(sign)

    def _write(self, sign: str) -> None:
        if sign == " ":
            self._press("space", sign)
        elif not 0x7F <= ord(sign) < 0xA0:
            self._press(sign, sign)

    def _end_text(self) -> None:
        """A key interrupts a character of several bytes, which is then never complete."""
        for sign in self._decoder.decode(b"", final=True):
            self._write(sign)
        self._decoder.reset()

    def _take_second(self, byte: int) -> None:
        if byte in (0x5B, 0x4F, _ESC) or byte in _STRINGS:
            return
        self._pending.clear()
        self._alt(byte)

    def _alt(self, byte: int) -> None:
        if byte < 0x20 or byte == 0x7F:
            name = _CONTROLS[byte]
            self._press(name.replace("ctrl+", "ctrl+alt+") if "ctrl+" in name else f"alt+{name}")
        elif byte == 0x20:
            self._press("alt+space")
        elif byte < 0x7F:
            self._press(f"alt+{chr(byte)}")
        else:
            self._press("escape")
            self._take_text(byte)

    def _take_third(self, byte: int) -> None:
        """After two Esc: Alt with a key that sends a sequence, or the Esc key and another key."""
        if byte in (0x5B, 0x4F):
            del self._pending[0]
            self._alted = True
            return
        del self._pending[1:]
        self._press("escape")
        self._take(byte)

    def _complete(self, events: list[InputEvent]) -> None:
        self._out.extend(map(_with_alt, events) if self._alted else events)
        self._drop()

    def _drop(self) -> None:
        self._pending.clear()
        self._alted = False

    def _take_ss3(self, byte: int) -> None:
        letter = chr(byte)
        if letter in _LETTERS:
            self._complete([KeyPress(_LETTERS[letter])])
        elif letter in _KEYPAD:
            name = _KEYPAD[letter]
            self._complete([KeyPress(name, name if len(name) == 1 else "")])
        else:
            self._complete([KeyPress("alt+O")])
            self._take(byte)

    def _take_csi(self, byte: int) -> None:
        is_first = len(self._pending) == 3
        if is_first and byte == 0x5B:  # the Linux console sends CSI [ A for F1
            return
        if not is_first and self._pending[2] == 0x5B:
            self._complete([KeyPress(f"f{byte - 0x40}")] if 0x41 <= byte <= 0x45 else [])
        elif self._pending == _PASTE_START:
            self._drop()
            self._paste = bytearray()
        elif 0x40 <= byte <= 0x7E:
            self._complete(_csi_events(self._pending[2:].decode("ascii")))
        elif not 0x20 <= byte < 0x40:
            self._drop()
            self._take(byte)
        elif len(self._pending) > _MOST_SEQUENCE_BYTES:
            self._drop()

    def _take_string(self, byte: int) -> None:
        """Collect a reply; a key such as Enter ends one that was cut off."""
        ended = byte == 0x07 or (byte == 0x5C and self._pending[-2] == _ESC)
        if ended:
            end = -1 if byte == 0x07 else -2
            body = self._pending[2:end].decode("utf-8", "replace")
            kind = _STRINGS[self._pending[1]]
            self._pending.clear()
            self._out.append(TerminalReply(kind, body))
        elif self._pending[-2] == _ESC and len(self._pending) > 3:
            self._pending.clear()
            self._take(_ESC)
            self._take(byte)
        elif (byte < 0x20 and byte != _ESC) or len(self._pending) > _MOST_SEQUENCE_BYTES:
            self._pending.clear()
            if byte < 0x20:
                self._take(byte)

    def _take_paste(self, data: bytes, at: int) -> int:
        paste = self._paste
        assert paste is not None
        searched = max(0, len(paste) - len(_PASTE_END) + 1)
        held = len(paste)
        paste += data[at : at + MOST_PASTE_BYTES]
        end = paste.find(_PASTE_END, searched)
        if end >= 0:
            self._paste = None
            self._out.append(Paste(self._pasted(paste[:end])))
            return at + end + len(_PASTE_END) - held
        if len(paste) > MOST_PASTE_BYTES:
            del paste[MOST_PASTE_BYTES:]
            self._out.append(Paste(self._pasted(paste)))
            self._paste = bytearray()
            return at + MOST_PASTE_BYTES - held
        return len(data)

    def _pasted(self, data: bytearray) -> str:
        text = data.decode(self._encoding, "replace")
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _with_alt(event: InputEvent) -> InputEvent:
    if isinstance(event, KeyPress) and "alt+" not in event.name:
        *held, key = _split(event.name)
        return KeyPress(_named(key, {*held, "alt"}))
    return event


def _split(name: str) -> list[str]:
    return [*name[:-1].split("+")[:-1], "+"] if name.endswith("+") else name.split("+")


def _named(key: str, held: set[str]) -> str:
    return "+".join((*(each for each in ("ctrl", "alt", "shift", "super") if each in held), key))


def _held(number: int) -> set[str]:
    bits = max(0, number - 1)
    names = ("shift", "alt", "ctrl", "super")
    return {name for place, name in enumerate(names) if bits >> place & 1}


def _csi_events(body: str) -> list[InputEvent]:
    """Return the key or reply of a CSI sequence without its introducer, if it is one."""
    match = _CSI.fullmatch(body)
    if match is None:
        return []
    private, given, between, final = match.groups()
    if private or between or final in "cnty" or (final in "IO" and not given):
        return [TerminalReply("csi", body)]
    numbers = [[_number(part) for part in group.split(":")] for group in given.split(";")]
    if final == "R" and numbers[0][0] > 1:
        return [TerminalReply("csi", body)]
    return _functional(numbers, final)


def _number(digits: str) -> int:
    return int(digits) if digits and len(digits) < 8 else 0


def _functional(numbers: list[list[int]], final: str) -> list[InputEvent]:
    held = numbers[1] if len(numbers) > 1 else [1]
    if len(held) > 1 and held[1] == _RELEASE:
        return []
    if final == "u":
        return _coded(numbers[0], _held(held[0]))
    if final == "~" and numbers[0][0] == 27 and len(numbers) == 3:
        return _coded(numbers[2], _held(held[0]))
    name = _NUMBERS.get(numbers[0][0]) if final in "~^" else _LETTERS.get(final)
    if name is None:
        return []
    *own, key = name.split("+")
    modifiers = {"ctrl"} if final == "^" else _held(held[0])
    return [KeyPress(_named(key, {*own, *modifiers}))]


def _coded(codes: list[int], held: set[str]) -> list[InputEvent]:
    """Return the key of a code point: the key itself, shifted, and on a Latin keyboard."""
    code, shifted, base = (*codes, 0, 0)[:3]
    name = _CODES.get(code)
    if name is None:
        if base and held & {"ctrl", "alt", "super"} and code > 0x7F:
            code = base
        if not _is_text(code):
            return []
        name = chr(code)
    if len(name) > 1:
        is_space = name == "space" and not held & {"ctrl", "alt", "super"}
        return [KeyPress("space", " ") if is_space else KeyPress(_named(name, held))]
    if not held & {"ctrl", "alt", "super"}:
        text = name
        if "shift" in held:
            text = chr(shifted) if _is_text(shifted) else name.upper()
        return [KeyPress(text, text)]
    if held == {"alt", "shift"}:
        return [KeyPress(f"alt+{chr(shifted) if _is_text(shifted) else name.upper()}")]
    key = name.lower()
    if key == "_":
        return [KeyPress(_named("-", held - {"shift"}))]
    if name != key:
        held = {*held, "shift"}
    return [KeyPress(_named(key, held))]


def _is_text(code: int) -> bool:
    return 0x20 < code < 0x110000 and not (
        0x7F <= code < 0xA0 or 0xD800 <= code < 0xF900 or code in (0xFFFE, 0xFFFF)
    )
