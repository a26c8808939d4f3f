"""Lines of bounded length: what is lost by shrinking, and that cutting loses nothing."""

import base64
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.protocol.frame_limits import SLICE, TOO_LONG, Bounds, cut, shrink
from ludolf.protocol.framing import Frame


def _event(text: str) -> dict[str, Any]:
    return {"type": "message_end", "message": {"role": "user", "content": text}}


def _records(frame: Frame) -> list[Any]:
    whole = frame if isinstance(frame, bytes) else b"".join(frame)
    return [loads(line) for line in whole.splitlines()]


def test_a_line_that_fits_is_passed_on_as_it_is() -> None:
    frame = [b'{"type":"x",', b'"y":1}\n']
    assert Bounds(100).fit(frame) is frame


def test_long_texts_lose_their_end_and_say_how_much() -> None:
    line = shrink(_event("é" * 5000), 2000)
    kept = loads(line)["message"]["content"]
    assert len(line) <= 2000
    assert kept.startswith("éé")
    left = int(kept.rpartition("[")[2].split()[0])
    assert kept.count("é") + left == 5000


def test_many_short_items_are_cut_too() -> None:
    record = {"type": "x", "items": [{"n": number} for number in range(5000)]}
    line = shrink(record, 4000)
    items = loads(line)["items"]
    assert len(line) <= 4000
    assert items[0] == {"n": 0}
    assert items[-1].endswith("items elided for RPC frame]")


def test_a_reply_that_does_not_fit_becomes_an_error_with_its_id() -> None:
    reply = {"id": 7, "type": "response", "command": "get", "success": True, "data": "x" * 500}
    assert loads(shrink(reply, 200)) == {
        "id": 7,
        "type": "response",
        "command": "get",
        "success": False,
        "error": TOO_LONG,
    }


@pytest.mark.parametrize("size", [1, SLICE, SLICE + 1, 3 * SLICE - 1])
def test_the_pieces_of_a_line_give_it_back(size: int) -> None:
    line = b"x" * size
    pieces = [loads(piece) for piece in cut(line, "rpc-1").splitlines()]
    assert b"".join(base64.b64decode(piece["data"]) for piece in pieces) == line
    assert [piece["index"] for piece in pieces] == list(range(len(pieces)))
    assert {piece["count"] for piece in pieces} == {len(pieces)}
    assert {piece["byteLength"] for piece in pieces} == {size}


def test_of_several_lines_only_the_long_one_is_changed_and_chunks_are_numbered() -> None:
    bounds = Bounds(1000, version=2)
    short, long = dumps(_event("a")) + b"\n", dumps(_event("b" * 2000)) + b"\n"
    told, again = _records(bounds.fit(short + long)), _records(bounds.fit(long))
    assert told[0] == _event("a")
    assert told[1]["chunkId"] != again[0]["chunkId"]
