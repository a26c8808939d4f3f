"""Model servers that misbehave: garbage, floods, silence, storms; each ends, and is counted."""

import asyncio
import gzip
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from ludolf.client import Record
from tests.process.faults import MIB, peak_bytes
from tests.process.harness import APIS, Lab, messages, only, text_of, types
from tests.process.script import (
    GARBAGE,
    Block,
    Cut,
    Failure,
    Gate,
    Raw,
    Reply,
    Reset,
    answer,
    bash,
    raw_call,
    say,
)

BUSY = Failure(status=529, body=b'{"error":{"type":"overloaded_error","message":"busy"}}')


async def _run(lab: Lab, *script: Reply, model: str = "claude/large") -> list[Record]:
    lab.server.add(*script)
    async with lab.client("--model", model) as client:
        told = await client.prompt_and_collect("Go")
        assert not (await client.ask("get_state"))["isStreaming"]
        assert "Traceback" not in client.process.stderr
    return told


def _last(told: list[Record]) -> Record:
    message: Record = only(told, "turn_end")[-1]["message"]
    return message


def _attempts(told: list[Record]) -> list[int]:
    return [record["attempt"] for record in only(told, "auto_retry_start")]


# ---------------------------------------------------------------- garbage


@pytest.mark.parametrize("model", APIS)
async def test_an_event_that_cannot_be_read_is_asked_for_once_more_and_no_more(
    lab: Lab, model: str
) -> None:
    broken = answer(say("Half an ", GARBAGE, "answer."))
    told = await _run(lab, broken, broken, answer("Never asked for."), model=model)
    assert len(lab.server.requests) == 2
    assert _attempts(told) == [1]
    last = _last(told)
    assert last["stopReason"] == "error"
    assert text_of(last) == "Half an "


async def test_garbage_counts_on_its_own_among_other_faults(lab: Lab) -> None:
    broken = answer(say("Half", GARBAGE))
    told = await _run(lab, BUSY, broken, BUSY, answer("All of it."))
    assert _attempts(told) == [1, 2, 3]
    assert text_of(_last(told)) == "All of it."


async def test_odd_text_of_a_model_is_kept_as_well_as_it_can_be(lab: Lab) -> None:
    delta = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    odd = Raw(
        delta
        + b'"delta":{"type":"text_delta","text":"lone \\ud83d, "}}\n\n'
        + delta
        + b'"delta":{"type":"text_delta","text":"bad \xff bytes"}}\n\n'
    )
    lab.server.add(answer(say("Odd: ", odd)), answer("Fine."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
        again = await client.prompt_and_collect("And?")
    assert text_of(_last(told)) == "Odd: lone \ud83d, bad \ufffd bytes"
    assert text_of(_last(again)) == "Fine."
    sent = str(lab.server.requests[-1].body).encode("utf-8")
    assert b"bad" in sent


@pytest.mark.parametrize("model", ["claude/large", "chat/large", "responses/large"])
async def test_a_call_cut_in_mid_argument_never_runs(lab: Lab, model: str) -> None:
    cut = raw_call("bash", '{"command":"touch ran; echo')
    told = await _run(lab, answer(cut), answer("Sorry."), model=model)
    (end,) = only(told, "tool_execution_end")
    assert end["isError"]
    assert "not a complete JSON object" in text_of(end["result"])
    assert list(lab.work.iterdir()) == []


# ---------------------------------------------------------------- too much


async def test_an_event_over_the_limit_is_one_error(lab: Lab) -> None:
    text = "x" * (20 * MIB)
    told = await _run(lab, answer(text, size=len(text)))
    assert len(lab.server.requests) == 1
    assert "larger than 16 MiB" in _last(told)["errorMessage"]


async def test_an_answer_without_end_is_ended_by_its_limit(lab: Lab) -> None:
    pause = Raw(b": %b\n\n" % (b"-" * MIB))
    lab.server.add(answer("Ready."), answer(say("More. ", *[pause] * 70)))
    async with lab.client() as client:
        await client.prompt_and_collect("Are you there?")
        before = peak_bytes(client.process.pid)
        told = await client.prompt_and_collect("Go")
        grown = peak_bytes(client.process.pid) - before
    assert "larger than 64 MiB" in _last(told)["errorMessage"]
    assert text_of(_last(told)) == "More. "
    assert grown < 16 * MIB


async def test_a_packed_answer_is_refused_unpacked(lab: Lab) -> None:
    bomb = gzip.compress(b"data: x\n\n" * (20 * MIB // 9))
    packed = Failure(
        status=200, body=bomb, kind="text/event-stream", headers={"content-encoding": "gzip"}
    )
    lab.server.add(answer("Ready."), packed)
    async with lab.client() as client:
        await client.prompt_and_collect("Are you there?")
        before = peak_bytes(client.process.pid)
        told = await client.prompt_and_collect("Go")
        grown = peak_bytes(client.process.pid) - before
    assert len(lab.server.requests) == 2
    assert "compressed" in _last(told)["errorMessage"]
    assert grown < 16 * MIB


# ---------------------------------------------------------------- too little


async def test_a_server_that_never_answers_has_a_deadline(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 1, "maxRetries": 1, "provider": {"timeoutMs": 200}})
    began = time.monotonic()
    told = await _run(lab, *[answer(Gate(), "Late.")] * 2)
    assert time.monotonic() - began < 12
    assert _attempts(told) == [1]
    assert "timed out" in _last(told)["errorMessage"]


async def test_pings_do_not_pass_for_an_answer(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 1, "maxRetries": 0, "provider": {"timeoutMs": 300}})
    gates = [Gate() for _ in range(200)]
    pieces: list[str | Gate | Raw] = ["Half "]
    for gate in gates:
        pieces += (Raw(b": ping\n\n"), gate)
    lab.server.add(answer(say(*pieces)))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        began = time.monotonic()
        for gate in gates:
            if not gate.reached.wait(0.2):
                break
            await asyncio.sleep(0.01)  # the pace of the pings: never silent, and two seconds long
            gate.open()
        told = await client.collect("agent_settled")
        assert time.monotonic() - began < 12
    assert (
        "no event for" in _last(told)["errorMessage"] or "timed out" in _last(told)["errorMessage"]
    )


async def test_events_of_the_server_that_only_say_it_lives_do_not_pass_for_an_answer(
    lab: Lab,
) -> None:
    lab.settings(retry={"maxRetries": 0}, httpIdleTimeoutMs=60_000, streamIdleTimeoutMs=300)
    ping = Raw(b'event: ping\ndata: {"type": "ping"}\n\n')
    gates = [Gate() for _ in range(200)]
    pieces: list[str | Gate | Raw] = ["Half "]
    for gate in gates:
        pieces += (ping, gate)
    lab.server.add(answer(say(*pieces)))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        for gate in gates:
            if not gate.reached.wait(0.2):
                break
            await asyncio.sleep(0.01)  # the pace of the pings
            gate.open()
        told = await client.collect("agent_settled")
    assert "timed out" in _last(told)["errorMessage"]
    assert text_of(_last(told)) == "Half "


async def test_a_server_that_takes_no_call_has_a_deadline(lab: Lab) -> None:
    lab.settings(retry={"maxRetries": 0}, connectTimeoutMs=200)
    with socket.socket() as deaf, ExitStack() as callers:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(2):  # all that may wait: whoever calls now is not heard
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        models = lab.agent / "models.json"
        old, new = (f":{port}" for port in (urlsplit(lab.server.url).port, deaf.getsockname()[1]))
        models.write_text(models.read_text().replace(old, new))
        async with lab.client() as client:
            told = await client.prompt_and_collect("Go")
    assert "timed out" in _last(told)["errorMessage"]


async def test_silence_before_an_answer_and_within_it_have_limits_of_their_own(lab: Lab) -> None:
    lab.settings(retry={"maxRetries": 0}, httpIdleTimeoutMs=60_000, streamIdleTimeoutMs=300)
    slow, stuck = Gate(), Gate()
    lab.server.add(answer(slow, "Slow."), answer(say("Half ", stuck)))
    async with lab.client("--model", "gemini/large") as client:  # which begins with its words
        await client.ask("prompt", message="Go")
        assert await asyncio.to_thread(slow.reached.wait, 5)
        await asyncio.sleep(0.6)  # longer than the silence within an answer may be
        slow.open()
        assert text_of(_last(await client.collect("agent_settled"))) == "Slow."
        began = time.monotonic()
        told = await client.prompt_and_collect("Go on")
        assert time.monotonic() - began < 5
    assert "timed out" in _last(told)["errorMessage"]
    assert text_of(_last(told)) == "Half "


# ---------------------------------------------------------------- waits


async def test_waits_are_spread_and_last_as_long_as_they_are_announced(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 100, "jitter": 0.2})
    lab.server.add(BUSY, BUSY, BUSY, answer("Better."))
    spread = []
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        for plain in (100, 200, 400):
            start = await client.wait_for("auto_retry_start")
            began = time.monotonic()
            assert 0.8 * plain <= start["delayMs"] <= 1.2 * plain
            spread.append(start["delayMs"] - plain)
            await client.wait_for("agent_start")
            assert (time.monotonic() - began) * 1000 > start["delayMs"] - 20
        await client.collect("agent_settled")
    assert any(spread)


# ---------------------------------------------------------------- storms

STORM: list[Reply] = [
    BUSY,
    answer(say("Half", Cut())),
    answer(say("Half", Reset())),
    Failure(status=500),
    Failure(status=503),
    Failure(status=429, headers={"retry-after-ms": "5"}),
]


@pytest.mark.parametrize("start", range(len(STORM)))
async def test_a_storm_of_failures_is_four_requests_each_announced(lab: Lab, start: int) -> None:
    told = await _run(lab, *(STORM[(start + number) % len(STORM)] for number in range(8)))
    assert len(lab.server.requests) == 4
    assert _attempts(told) == [1, 2, 3]
    assert types(told)[-2:] == ["auto_retry_end", "agent_settled"]
    assert only(told, "auto_retry_end")[0]["success"] is False
    stored = messages(lab.entries)
    assert [m.get("stopReason") for m in stored] == [None, *["error"] * 4]


async def test_failures_between_tools_are_counted_for_each_answer(lab: Lab) -> None:
    step: list[Block] = [bash("true", f"c{number}") for number in range(3)]
    script = [reply for call in step for reply in (BUSY, BUSY, answer(call))]
    told = await _run(lab, *script, answer("Done."))
    assert _attempts(told) == [1, 2] * 3
    assert text_of(_last(told)) == "Done."
    assert len(only(told, "tool_execution_end")) == 3
