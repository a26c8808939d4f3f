"""Server-sent events from bytes, however the network cut them."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.sse import SseParser

LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
DATA = st.lists(LINE, min_size=1, max_size=3)
NEWLINES = st.sampled_from(("\n", "\r\n", "\r"))


def parsed(*chunks: bytes) -> list[bytes]:
    parser = SseParser()
    out = [data for chunk in chunks for data in parser.feed(chunk)]
    return out + list(parser.close())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@settings(deadline=None)
@given(st.lists(DATA, max_size=5), NEWLINES, st.lists(st.integers(0, 9_999), max_size=30))
def test_any_chunking_gives_the_same_events(
    events: list[list[str]], newline: str, places: list[int]
) -> None:
    lines = []
    for event in events:
        lines += ["event: message", ": a comment", *(f"data: {line}" for line in event), ""]
    raw = newline.join([*lines, ""]).encode()
    assert parsed(*cut(raw, places)) == ["\n".join(event).encode() for event in events]


@settings(deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 999), max_size=10))
def test_any_bytes_are_read_alike_whole_and_in_pieces(raw: bytes, places: list[int]) -> None:
    raw = raw.replace(b"x", b"\ndata:")
    assert parsed(*cut(raw, places)) == parsed(raw)


def test_one_space_after_the_colon_belongs_to_the_form() -> None:
    assert parsed(b"data:a\n\ndata: b\n\ndata:  c\n\n") == [b"a", b"b", b" c"]


def test_a_byte_order_mark_before_the_first_event_is_passed_over() -> None:
    assert parsed(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]


def test_an_event_without_its_blank_line_is_told_at_the_end() -> None:
    parser = SseParser()
    assert list(parser.feed(b"data: a")) == []
    assert list(parser.close()) == [b"a"]


def test_comments_and_other_fields_are_no_events() -> None:
    parser = SseParser()
    assert list(parser.feed(b": ping\n\nevent: ping\nid: 7\nretry: 1\n\n")) == []
    assert not parser.has_event
    assert list(parser.feed(b"data: x\n\n")) == [b"x"]
    assert parser.has_event


def test_an_event_without_end_is_refused() -> None:
    parser = SseParser(1_000)
    with pytest.raises(ProviderError, match="larger than") as caught:
        for _ in range(20):
            list(parser.feed(b"x" * 100))
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize("data", [b'{"type": "ping"}', b'{"type":"keepalive","sequence_number":3}'])
def test_a_ping_is_given_but_tells_nothing(data: bytes) -> None:
    parser = SseParser()
    assert list(parser.feed(b"data: " + data + b"\n\n")) == [data]
    assert not parser.has_event
    assert list(parser.feed(b'data: {"type":"message_stop"}\n\n'))
    assert parser.has_event
