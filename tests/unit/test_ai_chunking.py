"""However the network cuts a stream, whatever a server puts between its lines: it is the same."""

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vendor_streams import CUT, FAMILIES, STREAMS, ends, expected, names, plain, played

NEWLINES = st.sampled_from((b"\n", b"\r\n", b"\r"))
# What may stand between events and what may stand inside one, as the form allows.
BETWEEN = st.sampled_from((b"", b"", b": keep-alive\n\n", b":\n", b"\n", b"event: ping\n\n"))
INSIDE = st.sampled_from((b"", b"", b": processing\n", b"id: 7\n", b"retry: 100\n", b"odd line\n"))
PLACES = st.lists(st.integers(0, 99_999), max_size=40)


@cache
def source(family: str, name: str) -> bytes:
    return (STREAMS / family / f"{name}.sse").read_bytes()


@cache
def whole(family: str, name: str) -> tuple[dict[str, Any], list[Any]]:
    told = played(family, [source(family, name)])
    # Without a connection there is none to break: that stream just ends.
    assert name == CUT or plain(told) == expected(family)[name]
    return plain(told), ends(told)


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def check(family: str, name: str, chunks: list[bytes]) -> None:
    told = played(family, chunks)
    message, events = whole(family, name)
    assert plain(told) == message
    assert ends(told) == events


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=100)
@given(st.data())
def test_any_chunking_of_any_stream_gives_the_same_message_and_the_same_events(
    family: str, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(names(family)))
    check(family, name, pieces(source(family, name), data.draw(PLACES)))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=100)
@given(st.data())
def test_line_ends_comments_and_fields_without_meaning_change_nothing(
    family: str, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(names(family)))
    events = source(family, name).split(b"\n\n")
    # What follows the last blank line is an event that was cut off: it must stay the last.
    noisy = [data.draw(BETWEEN) + data.draw(INSIDE) + event for event in events[:-1]]
    joined = b"\n\n".join((*noisy, events[-1]))
    raw = joined.replace(b"\n", data.draw(NEWLINES))
    check(family, name, pieces(raw, data.draw(PLACES)))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["unicode", "surrogates", "line_separators"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_a_stream_may_come_byte_by_byte(family: str, name: str, newline: bytes) -> None:
    raw = source(family, name).replace(b"\n", newline)
    check(family, name, [raw[at : at + 1] for at in range(len(raw))])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_byte_order_mark_before_the_first_event_is_passed_over(family: str) -> None:
    check(family, "text", [b"\xef\xbb\xbf", source(family, "text")])
