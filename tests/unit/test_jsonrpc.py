"""JSON-RPC: answers find their calls, and nothing that the other side sends breaks the peer."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from ludolf.base import LudolfError
from ludolf.base.jsonrpc import RequestId, RpcFault, RpcPeer

GARBAGE = [
    b"INFO started",
    b"[]",
    b"null",
    b"7",
    b'"text"',
    b"{}",
    b'{"half": ',
    b"\xff\xfe\x00",
    b'{"id": 1.5, "result": 1}',
    b'{"id": true, "result": 1}',
    b'{"id": 99, "result": 1}',
    b'{"id": "1", "result": 1}',
    b'{"id": 1}',
    b'{"id": 1, "error": "text"}',
    b'{"method": 5}',
    b'{"id": null, "result": 1}',
    b"[" * 100_000,
]


class Wire:
    """The other side: keeps the frames that the peer sends, and what the peer hands on."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.requests: list[tuple[RequestId, str, Any]] = []
        self.notices: list[tuple[str, Any]] = []
        self.peer = RpcPeer(lambda frame: self.sent.append(json.loads(frame)), self)

    def requested(self, number: RequestId, method: str, params: Any) -> None:
        self.requests.append((number, method, params))

    def notified(self, method: str, params: Any) -> None:
        self.notices.append((method, params))

    def answer(self, number: object, **members: Any) -> None:
        self.peer.receive(json.dumps({"jsonrpc": "2.0", "id": number, **members}).encode())


async def test_answers_in_any_order_reach_their_calls() -> None:
    wire = Wire()
    first = asyncio.ensure_future(wire.peer.call("one", {"a": 1}))
    second = asyncio.ensure_future(wire.peer.call("two"))
    await asyncio.sleep(0)
    assert [(frame["method"], frame.get("params")) for frame in wire.sent] == [
        ("one", {"a": 1}),
        ("two", None),
    ]
    wire.answer(wire.sent[1]["id"], result="b")
    wire.answer(wire.sent[0]["id"], result=None)
    assert (await first, await second) == (None, "b")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        ({"code": -32601, "message": "no such method", "data": [1]}, -32601, "no such method"),
        ({"message": "x" * 50_000}, 0, "x" * 10_000),
        ({"code": "bad"}, 0, '{"code":"bad"}'),
    ],
)
async def test_an_error_answer_raises_with_its_text(error: Any, code: int, text: str) -> None:
    wire = Wire()
    call = asyncio.ensure_future(wire.peer.call("one"))
    await asyncio.sleep(0)
    wire.answer(1, error=error)
    with pytest.raises(RpcFault) as caught:
        await call
    assert (caught.value.code, str(caught.value)) == (code, text)
    assert caught.value.data == error.get("data")


async def test_requests_and_notifications_of_the_other_side_are_handed_on_and_answered() -> None:
    wire = Wire()
    wire.peer.receive(b'{"jsonrpc":"2.0","id":"x","method":"ask","params":{"a":1}}')
    wire.peer.receive(b'{"jsonrpc":"2.0","method":"note"}')
    wire.peer.notify("hello", {"b": 2})
    wire.peer.respond("x", {"ok": True})
    wire.peer.refuse(5, -32601, "unknown", {"c": 3})
    assert wire.requests == [("x", "ask", {"a": 1})]
    assert wire.notices == [("note", None)]
    assert wire.sent == [
        {"jsonrpc": "2.0", "method": "hello", "params": {"b": 2}},
        {"jsonrpc": "2.0", "id": "x", "result": {"ok": True}},
        {
            "jsonrpc": "2.0",
            "id": 5,
            "error": {"code": -32601, "message": "unknown", "data": {"c": 3}},
        },
    ]


async def test_garbage_is_counted_and_does_not_harm_a_call() -> None:
    wire = Wire()
    call = asyncio.ensure_future(wire.peer.call("one"))
    await asyncio.sleep(0)
    for line in (b"", b"  \r", *GARBAGE):
        wire.peer.receive(line)
    assert wire.peer.invalid_count == len(GARBAGE)
    assert wire.peer.first_invalid == "INFO started"
    assert not call.done()
    wire.answer(1, result="fine")
    assert await call == "fine"
    wire.answer(1, result="late")
    assert wire.peer.invalid_count == len(GARBAGE)


async def test_invalid_unicode_in_an_answer_is_replaced() -> None:
    wire = Wire()
    calls = [asyncio.ensure_future(wire.peer.call("one")) for _ in range(2)]
    await asyncio.sleep(0)
    wire.peer.receive(bytearray(b'{"id": 1, "result": "a\xffb"}'))
    wire.peer.receive(b'{"id": 2, "result": "\\ud800"}')
    assert await asyncio.gather(*calls) == ["a\ufffdb", "\ud800"]


@pytest.mark.parametrize("levels", [600, 100_000])
async def test_an_answer_that_is_nested_too_deeply_does_not_arrive(levels: int) -> None:
    wire = Wire()
    call = asyncio.ensure_future(wire.peer.call("one"))
    await asyncio.sleep(0)
    wire.peer.receive(b'{"id": 1, "result": ' + b"[" * levels + b"]" * levels + b"}")
    if levels == 600:
        with pytest.raises(RpcFault, match="nested too deeply"):
            await call
    else:
        assert wire.peer.invalid_count == 1
        call.cancel()


async def test_closing_fails_waiting_and_later_calls() -> None:
    wire = Wire()
    call = asyncio.ensure_future(wire.peer.call("one"))
    await asyncio.sleep(0)
    wire.peer.close(LudolfError("gone"))
    wire.peer.close(LudolfError("later"))
    for waiting in (call, wire.peer.call("two")):
        with pytest.raises(LudolfError, match="gone"):
            await waiting
    assert len(wire.sent) == 1


async def test_a_cancelled_call_is_forgotten() -> None:
    wire = Wire()
    call = asyncio.ensure_future(wire.peer.call("one"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    wire.peer.receive(msgspec.json.encode({"id": 1, "error": {"code": 1, "message": "late"}}))
    wire.peer.close(LudolfError("gone"))
