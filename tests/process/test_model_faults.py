"""A model server may do anything: retries are announced and counted, half an answer is none."""

import asyncio
from typing import Any

import pytest

from ludolf.client import Record
from tests.loopback import nobody
from tests.process.harness import APIS, WAIT_SECONDS, Lab, messages, only, text_of, types
from tests.process.model_server import ModelServer
from tests.process.script import GARBAGE, Cut, Failure, Gate, Raw, Reply, Reset, answer, bash, say

_OVERLOADED = Failure(status=529, body=b'{"error":{"type":"overloaded_error","message":"busy"}}')


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
    told = await _run(lab, _OVERLOADED, _OVERLOADED, answer("Better.", size=100))
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
    lab.server.add(_OVERLOADED, answer("Better."), answer("Fine."))
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


async def test_a_server_that_is_down_is_tried_four_times(lab: Lab) -> None:
    with nobody() as url:
        models = (lab.agent / "models.json").read_text().replace(lab.server.url, url)
        (lab.agent / "models.json").write_text(models)
        told = await _run(lab)
    assert _retries(told) == [1, 2, 3, False]
    assert _last(told)["errorMessage"].startswith("Connection error")


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
    lab.server.add(_OVERLOADED)
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
