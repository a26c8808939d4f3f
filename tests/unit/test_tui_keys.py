"""Bytes of a terminal become the same keys, pastes and replies however they are split."""

import random

import pytest

from ludolf.tui.keys import InputEvent, KeyParser, KeyPress, Paste, TerminalReply

LEGACY = [
    (b"a", KeyPress("a", "a")),
    (b"A", KeyPress("A", "A")),
    (b" ", KeyPress("space", " ")),
    ("é".encode(), KeyPress("é", "é")),
    ("日".encode(), KeyPress("日", "日")),
    ("😀".encode(), KeyPress("😀", "😀")),
    (b"\r", KeyPress("enter")),
    (b"\n", KeyPress("ctrl+j")),
    (b"\t", KeyPress("tab")),
    (b"\x7f", KeyPress("backspace")),
    (b"\x08", KeyPress("backspace")),
    (b"\x03", KeyPress("ctrl+c")),
    (b"\x00", KeyPress("ctrl+space")),
    (b"\x1d", KeyPress("ctrl+]")),
    (b"\x1f", KeyPress("ctrl+-")),
    (b"\x1b\r", KeyPress("alt+enter")),
    (b"\x1b\x7f", KeyPress("alt+backspace")),
    (b"\x1bb", KeyPress("alt+b")),
    (b"\x1bB", KeyPress("alt+B")),
    (b"\x1b\x1d", KeyPress("ctrl+alt+]")),
    (b"\x1b[A", KeyPress("up")),
    (b"\x1bOA", KeyPress("up")),
    (b"\x1b[Z", KeyPress("shift+tab")),
    (b"\x1b[1;3A", KeyPress("alt+up")),
    (b"\x1b\x1b[A", KeyPress("alt+up")),
    (b"\x1b\x1bOC", KeyPress("alt+right")),
    (b"\x1b[1;6D", KeyPress("ctrl+shift+left")),
    (b"\x1b[H", KeyPress("home")),
    (b"\x1b[4~", KeyPress("end")),
    (b"\x1b[5~", KeyPress("pageup")),
    (b"\x1b[6;2~", KeyPress("shift+pagedown")),
    (b"\x1b[3;5~", KeyPress("ctrl+delete")),
    (b"\x1b[3^", KeyPress("ctrl+delete")),
    (b"\x1bOP", KeyPress("f1")),
    (b"\x1b[[A", KeyPress("f1")),
    (b"\x1b[24~", KeyPress("f12")),
    (b"\x1bOM", KeyPress("enter")),
    (b"\x1bOs", KeyPress("3", "3")),
]
KITTY = [
    (b"\x1b[27u", KeyPress("escape")),
    (b"\x1b[13;2u", KeyPress("shift+enter")),
    (b"\x1b[13;3u", KeyPress("alt+enter")),
    (b"\x1b[99;5u", KeyPress("ctrl+c")),
    (b"\x1b[112;6u", KeyPress("ctrl+shift+p")),
    (b"\x1b[97;2u", KeyPress("A", "A")),
    (b"\x1b[49:33;2u", KeyPress("!", "!")),
    (b"\x1b[97;4u", KeyPress("alt+A")),
    (b"\x1b[1089::99;5u", KeyPress("ctrl+c")),
    (b"\x1b[97;1:2u", KeyPress("a", "a")),
    (b"\x1b[32;1u", KeyPress("space", " ")),
    (b"\x1b[45;5u", KeyPress("ctrl+-")),
    (b"\x1b[95;6u", KeyPress("ctrl+-")),
    (b"\x1b[107;9u", KeyPress("super+k")),
    (b"\x1b[1;1:1A", KeyPress("up")),
    (b"\x1b[57417u", KeyPress("left")),
    (b"\x1b[57401u", KeyPress("2", "2")),
    (b"\x1b[99;69u", KeyPress("ctrl+c")),
]
OTHER_KEYS = [
    (b"\x1b[27;2;13~", KeyPress("shift+enter")),
    (b"\x1b[27;5;105~", KeyPress("ctrl+i")),
    (b"\x1b[27;5;99~", KeyPress("ctrl+c")),
    (b"\x1b[27;6;80~", KeyPress("ctrl+shift+p")),
    (b"\x1b[27;3;127~", KeyPress("alt+backspace")),
]
OTHERS: list[tuple[bytes, InputEvent]] = [
    (b"\x1b[200~one\r\ntwo\rthree\x1b[A\x1b[201~", Paste("one\ntwo\nthree\x1b[A")),
    ("\x1b[200~é日\x1b[201~".encode(), Paste("é日")),
    (b"\x1b[200~\x1b[201~", Paste("")),
    (b"\x1b]11;rgb:0000/8080/ffff\x1b\\", TerminalReply("osc", "11;rgb:0000/8080/ffff")),
    (b"\x1b]11;rgb:00/80/ff\x07", TerminalReply("osc", "11;rgb:00/80/ff")),
    (b"\x1bP>|tmux 3.5a\x1b\\", TerminalReply("dcs", ">|tmux 3.5a")),
    (b"\x1b_Gi=1;OK\x1b\\", TerminalReply("apc", "Gi=1;OK")),
    (b"\x1b[?62;4c", TerminalReply("csi", "?62;4c")),
    (b"\x1b[?5u", TerminalReply("csi", "?5u")),
    (b"\x1b[12;40R", TerminalReply("csi", "12;40R")),
    (b"\x1b[?2026;2$y", TerminalReply("csi", "?2026;2$y")),
]
ALL: list[tuple[bytes, InputEvent]] = [*LEGACY, *KITTY, *OTHER_KEYS, *OTHERS]


def _fed(*pieces: bytes) -> list[InputEvent]:
    parser = KeyParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(("data", "event"), ALL, ids=[repr(data) for data, _ in ALL])
def test_a_sequence_is_one_event_wherever_it_is_cut(data: bytes, event: InputEvent) -> None:
    assert _fed(data) == [event]
    for cut in range(len(data) + 1):
        assert _fed(data[:cut], data[cut:]) == [event]
        assert _fed(b"x" + data[:cut], data[cut:] + b"y") == [
            KeyPress("x", "x"),
            event,
            KeyPress("y", "y"),
        ]


def test_any_bytes_give_the_same_events_however_they_are_split() -> None:
    chance = random.Random(7)
    samples = [data for data, _ in ALL]
    for _ in range(300):
        data = b"".join(
            chance.choice(samples)
            if chance.random() < 0.6
            else chance.randbytes(chance.randint(1, 4))
            for _ in range(chance.randint(1, 12))
        )
        whole = _fed(data)
        assert _fed(*(data[at : at + 1] for at in range(len(data)))) == whole
        cut = chance.randint(0, len(data))
        assert _fed(data[:cut], data[cut:]) == whole


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\x1b", ["escape"]),
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\x1b[", ["alt+["]),
        (b"\x1bO", ["alt+O"]),
        (b"\x1b]", ["alt+]"]),
        (b"\x1bP", ["alt+P"]),
        (b"\x1b\x1b[", ["escape", "alt+["]),
        (b"\x1b[1;", []),
        (b"\x1b]11;rgb", []),
        (b"", []),
    ],
)
def test_a_lone_esc_is_a_key_when_nothing_follows(data: bytes, names: list[str]) -> None:
    parser = KeyParser()
    assert parser.feed(data) == []
    assert parser.waits is bool(names)
    assert [event for event in parser.flush() if isinstance(event, KeyPress)] == [
        KeyPress(name) for name in names
    ]
    assert parser.flush() == []


def test_keys_that_are_released_or_unknown_are_no_events() -> None:
    assert _fed(b"\x1b[97;1:3u\x1b[1;1:3A\x1b[57441u\x1b[99~\x1b[1;5y"[:-6]) == []


def test_two_esc_before_a_letter_are_esc_and_alt() -> None:
    assert _fed(b"\x1b\x1bx") == [KeyPress("escape"), KeyPress("alt+x")]


@pytest.mark.parametrize("start", [b"\x1b]11;rgb:", b"\x1bP>|", b"\x1b[12;"])
def test_a_reply_that_is_cut_off_swallows_no_later_key(start: bytes) -> None:
    assert _fed(start, b"\r", b"x") == [KeyPress("enter"), KeyPress("x", "x")]
    assert _fed(start, b"\x03", b"\x1b[A") == [KeyPress("ctrl+c"), KeyPress("up")]
    assert _fed(start, b"\x1b[B") == [KeyPress("down")]


def test_a_long_paste_comes_as_one_event() -> None:
    text = "".join(f"line {number} é\n" for number in range(60_000))
    data = b"\x1b[200~" + text.encode() + b"\x1b[201~z"
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    assert _fed(*pieces) == [Paste(text), KeyPress("z", "z")]


def test_bytes_that_are_not_text_become_replacement_characters() -> None:
    assert _fed(b"\xff", b"a") == [KeyPress("\ufffd", "\ufffd"), KeyPress("a", "a")]
    assert _fed(b"\xc3\r") == [KeyPress("\ufffd", "\ufffd"), KeyPress("enter")]
    parser = KeyParser("latin-1")
    assert parser.feed(b"\xe9") == [KeyPress("é", "é")]
