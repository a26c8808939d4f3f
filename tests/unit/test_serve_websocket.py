"""The WebSocket protocol of the server: what clients send, in any pieces, and what breaks it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.rpc.line_reader import TOO_LONG
from ludolf.serve.websocket import (
    BrokenSocket,
    SocketInput,
    SocketReader,
    accept_handshake,
    close_frame,
    ping_frame,
    text_frame,
)

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MASK = b"\x11\x00\xfe\x37"


def sent(
    opcode: int,
    content: bytes = b"",
    *,
    final: bool = True,
    mask: bytes | None = MASK,
    bits: int = 0,
) -> bytes:
    """A frame of a client."""
    size, flag = len(content), 0x80 if mask is not None else 0
    head = struct.pack("!B", (0x80 if final else 0) | bits | opcode)
    if size < 126:
        head += struct.pack("!B", flag | size)
    elif size < 1 << 16:
        head += struct.pack("!BH", flag | 126, size)
    else:
        head += struct.pack("!BQ", flag | 127, size)
    if mask is None:
        return head + content
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))


def read(data: bytes, step: int, longest: int = 1000) -> SocketInput:
    reader, found = SocketReader(longest), SocketInput()
    for at in range(0, len(data), step):
        part = reader.feed(data[at : at + step])
        found.lines += part.lines
        found.answers += part.answers
        found.close_code = found.close_code or part.close_code
    return found


CONVERSATION = b"".join(
    (
        sent(TEXT, b'{"a":1}\n'),
        sent(TEXT, b'{"b":1}\n\n{"c":1}\r\n{"d":1}'),
        sent(TEXT, b'{"e"', final=False),
        sent(PING, b"in between"),
        sent(0, b"", final=False),
        sent(0, b":1}\n{", final=False),
        sent(0, b"}"),
        sent(TEXT),
        sent(PONG),
        sent(TEXT, b"x" * 600 + b"\n" + b"y" * 1000 + b"\n" + b"z" * 1001 + b"\n[]"),
        sent(TEXT, b"w" * 70_000),
        sent(TEXT, "é\n".encode(), mask=b"\0\0\0\0"),
        sent(CLOSE, b"\x0f\xa0bye"),
    )
)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 1 << 20])
def test_lines_are_the_same_in_whatever_pieces_they_arrive(step: int) -> None:
    found = read(CONVERSATION, step)
    assert found.lines == [
        b'{"a":1}',
        *(b'{"b":1}', b"", b'{"c":1}', b'{"d":1}'),
        *(b'{"e":1}', b"{}"),
        *(b"x" * 600, b"y" * 1000, TOO_LONG, b"[]"),
        TOO_LONG,
        "é".encode(),
    ]
    assert found.answers == b"\x8a\x0ain between"
    assert found.close_code == 4000


def test_nothing_is_read_behind_a_closing_frame() -> None:
    found = SocketReader(1000).feed(sent(CLOSE) + sent(TEXT, b"{}") + b"\xff\xff")
    assert found == SocketInput(close_code=1000)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(sent(BINARY, b"{}"), 1003, id="binary"),
        pytest.param(sent(TEXT, b"{}", mask=None), 1002, id="no mask"),
        pytest.param(sent(TEXT, b"{}", bits=0x40), 1002, id="compressed"),
        pytest.param(sent(TEXT, b"{}", bits=0x10), 1002, id="reserved bit"),
        pytest.param(sent(3), 1002, id="unknown opcode"),
        pytest.param(sent(11), 1002, id="unknown control"),
        pytest.param(sent(0, b"{}"), 1002, id="nothing to continue"),
        pytest.param(sent(TEXT, final=False) + sent(TEXT), 1002, id="message in a message"),
        pytest.param(sent(PING, b"x" * 126), 1002, id="long ping"),
        pytest.param(sent(PING, final=False), 1002, id="ping in parts"),
        pytest.param(sent(CLOSE, b"\x03"), 1002, id="half a code"),
        pytest.param(b"\x81\xff" + b"\xff" * 8 + MASK, 1002, id="impossible length"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 1002, id="not a WebSocket"),
    ],
)
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_what_is_not_the_protocol_breaks_the_connection(data: bytes, code: int, step: int) -> None:
    with pytest.raises(BrokenSocket) as caught:
        read(data, step)
    assert caught.value.code == code


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_no_bytes_of_a_client_raise_another_error(parts: list[bytes], valid_start: bool) -> None:
    reader = SocketReader(20)
    try:
        if valid_start:
            reader.feed(sent(TEXT, b"x" * 10, final=False))
        for part in parts:
            found = reader.feed(part)
            assert all(len(line) <= 20 for line in found.lines)
    except BrokenSocket as error:
        assert error.code in (1002, 1003)


def test_a_line_without_an_end_is_not_kept() -> None:
    reader = SocketReader(1000)
    assert reader.feed(b"\x81\xff" + struct.pack("!Q", 1 << 62) + MASK) == SocketInput()
    for _ in range(1000):
        assert reader.feed(b"x" * 1000) == SocketInput()
    assert len(reader._line) <= 1000


def test_frames_of_the_server_have_the_three_forms_of_a_length() -> None:
    assert text_frame(b"{}\n") == b"\x81\x03{}\n"
    assert text_frame(b"x" * 126)[:4] == b"\x81\x7e\x00\x7e"
    assert text_frame(b"x" * 65536)[:10] == b"\x81\x7f" + struct.pack("!Q", 65536)
    assert close_frame(4401) == b"\x88\x02\x11\x31"
    assert ping_frame() == b"\x89\x00"


HANDSHAKE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "WebSocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def test_a_handshake_is_answered_as_the_standard_says() -> None:
    answer = accept_handshake(HANDSHAKE)
    assert answer is not None
    assert answer["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    "change",
    [
        {"Connection": "close"},
        {"Upgrade": "h2c"},
        {"Sec-WebSocket-Key": ""},
        {"Sec-WebSocket-Key": "c2hvcnQ="},
        {"Sec-WebSocket-Key": "é"},
        {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="[:-1]},
        {"Sec-WebSocket-Version": "8"},
    ],
)
def test_a_handshake_that_is_none_gets_no_answer(change: dict[str, str]) -> None:
    assert accept_handshake({**HANDSHAKE, **change}) is None
