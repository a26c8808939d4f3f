"""A model server may do anything: retries are announced and counted, half an answer is none, and
garbage, floods and silence end."""

import asyncio
import gzip
import socket
import time
from contextlib import ExitStack
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest

from ludolf.client import Record
from tests.loopback import nobody
from tests.process.faults import MIB, peak_bytes
from tests.process.harness import APIS, WAIT_SECONDS, Lab, messages, only, text_of, types
from tests.process.model_server import ModelServer
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


def _retries(told: list[Record]) -> list[Any]:
    """The announced attempts, and how the retrying ended."""
    starts = [record["attempt"] for record in only(told, "auto_retry_start")]
    return [*starts, *(record["success"] for record in only(told, "auto_retry_end"))]


# ---------------------------------------------------------------- failures that pass


async def test_a_busy_server_is_asked_again_until_it_answers(lab: Lab) -> None:
    told = await _run(lab, BUSY, BUSY, answer("Better.", size=100))
    assert text_of(_last(told)) == "Better."
    assert _retries(told) == [1, 2, True]
    names = types(told)
    failed = ["message_start assistant", "message_end assistant", "turn_end", "agent_end"]
    attempt = ["auto_retry_start", "agent_start", "turn_start"]
    assert names == [
        *("agent_start", "turn_start", "message_start user", "message_end user"),
        *failed,
        *attempt,
        *failed,
        *attempt,
        *("message_start assistant", "text_start", "text_delta", "text_end"),
        *("message_end assistant", "auto_retry_end", "turn_end", "agent_end", "agent_settled"),
    ]
    assert [end["willRetry"] for end in only(told, "agent_end")] == [True, True, False]


async def test_failed_attempts_stay_out_of_the_conversation(lab: Lab) -> None:
    lab.server.add(BUSY, answer("Better."), answer("Fine."))
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        kept = (await client.ask("get_messages"))["messages"]
        await client.prompt_and_collect("Two")
    assert [message["role"] for message in kept] == ["user", "assistant"]
    assert len(lab.server.requests[-1].body["messages"]) == 3
    assert [m.get("stopReason") for m in messages(lab.entries)] == [
        *(None, "error", "stop", None, "stop"),
    ]


async def test_a_broken_server_is_asked_four_times(lab: Lab) -> None:
    told = await _run(lab, *[Failure(status=500), Failure(status=503)] * 3)
    assert len(lab.server.requests) == 4
    assert _retries(told) == [1, 2, 3, False]
    assert _last(told)["stopReason"] == "error"
    assert types(told)[-3:] == ["agent_end", "auto_retry_end", "agent_settled"]


async def test_a_server_on_this_machine_that_is_down_is_tried_once(lab: Lab) -> None:
    with nobody() as url:
        models = (lab.agent / "models.json").read_text().replace(lab.server.url, url)
        (lab.agent / "models.json").write_text(models)
        told = await _run(lab)
    assert _retries(told) == []
    assert _last(told)["errorMessage"].startswith("Connection error")
    assert types(told)[-2:] == ["agent_end", "agent_settled"]


@pytest.mark.parametrize("model", APIS)
async def test_an_answer_that_breaks_is_asked_for_again(lab: Lab, model: str) -> None:
    """A plain end, a reset, an event that is none: half an answer never passes for a whole one."""
    faults = (Cut(), Reset(), GARBAGE)
    lab.server.add(*(answer(say("Half an ", fault, "answer.")) for fault in faults))
    lab.server.add(answer("All of it."))
    async with lab.client("--model", model) as client:
        told = await client.prompt_and_collect("Go")
    assert _retries(told) == [1, 2, 3, True]
    assert text_of(_last(told)) == "All of it."
    stored = messages(lab.entries)
    assert [m.get("stopReason") for m in stored] == [None, "error", "error", "error", "stop"]
    # A reset may overtake what was sent before it; a plain end may not.
    assert text_of(stored[1]) == "Half an "


async def test_an_error_inside_the_stream_is_asked_again(lab: Lab) -> None:
    event = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    told = await _run(lab, answer(say("Half", Raw(event), Cut())), answer("All."))
    assert _retries(told) == [1, True]
    assert text_of(_last(told)) == "All."


async def test_silence_has_a_deadline(lab: Lab) -> None:
    # Longer than any answer takes on a busy machine, and shorter than the gate stays closed.
    lab.settings(retry={"baseDelayMs": 1, "provider": {"timeoutMs": 2000}})
    told = await _run(lab, answer(say("Half ", Gate())), answer("All."))
    assert _retries(told) == [1, True]
    assert "timed out" in messages(lab.entries)[1]["errorMessage"]
    assert text_of(_last(told)) == "All."


async def test_abort_ends_a_wait_between_attempts(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 60_000, "jitter": 0})
    lab.server.add(BUSY)
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        start = await client.wait_for("auto_retry_start")
        assert (start["maxAttempts"], start["delayMs"]) == (3, 60_000)
        assert (await client.ask("get_state"))["isStreaming"]
        await client.ask("abort")  # which has no patience for a minute
        told = await client.collect("agent_settled")
    (end,) = only(told, "auto_retry_end")
    assert (end["success"], end["finalError"]) == (False, "Retry cancelled")
    assert len(lab.server.requests) == 1


# ---------------------------------------------------------------- failures that stay


@pytest.mark.parametrize("model", APIS)
async def test_a_refused_request_is_not_asked_again(lab: Lab, model: str) -> None:
    body = b'{"error":{"message":"no such thing","code":"bad"}}'
    lab.server.add(*(Failure(status=status, body=body) for status in (400, 401)))
    async with lab.client("--model", model) as client:
        for count in (1, 2):
            told = await client.prompt_and_collect("Go")
            assert len(lab.server.requests) == count
            assert _retries(told) == []
            last = _last(told)
            assert (last["stopReason"], last["content"]) == ("error", [])
            assert "no such thing" in last["errorMessage"]
            assert only(told, "message_start")[-1]["message"] == last


async def test_a_wait_of_an_hour_is_named_and_not_waited_for(lab: Lab) -> None:
    body = b'{"error":{"type":"rate_limit_error","message":"slow down"}}'
    failure = Failure(status=429, body=body, headers={"retry-after": "3600"})
    told = await _run(lab, failure)
    assert len(lab.server.requests) == 1
    assert _last(told)["stopReason"] == "error"
    assert "3600" in _last(told)["errorMessage"]


async def test_a_short_wait_that_the_server_asks_for_is_kept(lab: Lab) -> None:
    failure = Failure(status=429, headers={"retry-after-ms": "30"})
    told = await _run(lab, failure, answer("Better."))
    assert only(told, "auto_retry_start")[0]["delayMs"] == 30
    assert text_of(_last(told)) == "Better."


async def test_a_web_page_is_one_clear_error(lab: Lab) -> None:
    page = Failure(status=200, body=b"<html>Sign in</html>", kind="text/html")
    told = await _run(lab, page)
    assert len(lab.server.requests) == 1
    assert "Sign in" in _last(told)["errorMessage"]


async def test_a_redirect_is_not_followed_and_takes_no_key_along(lab: Lab) -> None:
    with ModelServer() as other:
        other.add(answer("Stolen."))
        where = {"location": f"{other.url}/v1/messages"}
        told = await _run(lab, Failure(status=307, headers=where))
        assert other.requests == []
    assert _last(told)["stopReason"] == "error"


async def test_after_a_failure_the_conversation_goes_on(lab: Lab) -> None:
    lab.server.add(Failure(status=400), answer("Fine."))
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        told = await client.prompt_and_collect("Two")
    assert text_of(_last(told)) == "Fine."


# ---------------------------------------------------------------- oddities that are none


async def test_unknown_events_and_comments_are_passed_over(lab: Lab) -> None:
    odd = Raw(b': ping\n\nevent: news\ndata: {"type":"news","index":0}\n\nretry: 5\n\n')
    told = await _run(lab, answer(odd, say("Hel", odd, "lo."), odd))
    assert text_of(_last(told)) == "Hello."
    assert _retries(told) == []


async def test_one_huge_event_is_taken_quickly(lab: Lab) -> None:
    text = "0123456789" * 500_000
    told = await _run(lab, answer(text, size=len(text)))
    assert text_of(_last(told)) == text


async def test_a_call_of_an_answer_that_broke_off_never_runs(lab: Lab) -> None:
    told = await _run(lab, answer(bash("touch ran"), Cut()), answer("All."))
    assert "tool_execution_start call_1" not in types(told)
    assert list(lab.work.iterdir()) == []


async def test_a_run_ends_while_the_server_still_holds_the_connection(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer("Quick."), answer(gate, "Held."))
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        await client.ask("prompt", message="Two")
        assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
        await client.ask("abort")  # the gate stays closed for longer than that is waited for


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
    model = ("--model", "gemini/large")  # which begins with its words
    async with lab.client(*model) as client, lab.client(*model) as other:
        await client.ask("prompt", message="Go")
        assert await asyncio.to_thread(slow.reached.wait, WAIT_SECONDS)
        began = time.monotonic()
        told = await other.prompt_and_collect("Go on")
        assert time.monotonic() - began < 5
        slow.open()  # after a silence longer than it may be within an answer
        assert text_of(_last(await client.collect("agent_settled"))) == "Slow."
    assert "timed out" in _last(told)["errorMessage"]
    assert text_of(_last(told)) == "Half "


# ---------------------------------------------------------------- waits


async def test_waits_are_spread_and_last_as_long_as_they_are_announced(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 100, "jitter": 0.2})
    lab.server.add(BUSY, BUSY, BUSY, answer("Better."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        starts = [await client.wait_for("auto_retry_start") for _ in range(3)]
        await client.collect("agent_settled")
    delays = [start["delayMs"] for start in starts]
    spread = [delay / plain for delay, plain in zip(delays, (100, 200, 400), strict=True)]
    assert all(0.8 <= each <= 1.2 for each in spread)
    assert any(each != 1 for each in spread)
    # From the arrival of one request to that of the next: a busy machine can only add to it.
    arrivals = [asked.at for asked in lab.server.requests]
    gaps = [1000 * (later - earlier) for earlier, later in pairwise(arrivals)]
    assert all(gap >= delay for gap, delay in zip(gaps, delays, strict=True)), (gaps, delays)


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
