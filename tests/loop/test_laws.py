"""The checker of the laws can fail: each law, broken on purpose, is named."""

from pathlib import Path
from typing import Any

import pytest

from tests.loop.laws import LawBroken, Log, Record, Said, Sent, check
from tests.loop.stage import call, calls, fails, say, stage

USER = {"role": "user", "content": [{"type": "text", "text": "go"}]}
STEERED = {"role": "user", "content": [{"type": "text", "text": "more"}]}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "stopReason": "stop"}
CALLS = {
    "role": "assistant",
    "content": [{"type": "toolCall", "id": "a"}, {"type": "toolCall", "id": "b"}],
    "stopReason": "toolUse",
}
STATE = {"isStreaming": False, "isCompacting": False, "pendingMessageCount": 0}


def said(kind: str, **fields: Any) -> Said:
    return Said({"type": kind, **fields})


def sent(number: str, kind: str, **fields: Any) -> Sent:
    return Sent({"id": number, "type": kind, **fields})


def reply(number: str, command: str, **fields: Any) -> Said:
    return said("response", id=number, command=command, success=True, **fields)


def message(content: Record, *updates: Said) -> list[Said]:
    head = {**content, "content": []} if content["role"] == "assistant" else content
    return [
        said("message_start", message=head),
        *updates,
        said("message_end", message=content),
    ]


def delta(text: str) -> Said:
    event = {"type": "text_delta", "contentIndex": 0, "delta": text}
    return said("message_update", assistantMessageEvent=event)


def result(call_id: str) -> Record:
    return {"role": "toolResult", "toolCallId": call_id, "content": []}


def turn(*body: Said, answer: Record = ANSWER, results: tuple[Record, ...] = ()) -> list[Said]:
    return [
        said("turn_start"),
        *body,
        *message(answer, *([delta("hi")] if answer is ANSWER else [])),
        *([] if results else [said("turn_end", message=answer, toolResults=[])]),
    ]


def log_of(*body: Said, messages: tuple[Record, ...] = (USER, ANSWER)) -> Log:
    """A prompt, its reply, a run with this inside, and the rest after it."""
    return [
        sent("1", "prompt", message="go"),
        reply("1", "prompt", data={"disposition": "started"}),
        said("agent_start"),
        *body,
        said("agent_end", messages=list(messages), willRetry=False),
        said("agent_settled"),
    ]


def tools(*body: Said, results: tuple[str, ...] = ("a", "b")) -> Log:
    """A run whose answer calls the tools a and b, with this in its turn."""
    ended = tuple(map(result, results))
    first = turn(*message(USER), answer=CALLS, results=ended)
    end = said("turn_end", message=CALLS, toolResults=list(ended))
    return log_of(*first, *body, end, messages=(USER, CALLS, *ended))


def tool(kind: str, call_id: str) -> Said:
    return said(f"tool_execution_{kind}", toolCallId=call_id)


def without(log: Log, place: int) -> Log:
    return [*log[:place], *log[place + 1 :]]


GOOD = log_of(*turn(*message(USER)))
SIDE_BY_SIDE = tools(
    tool("start", "a"),
    tool("start", "b"),
    tool("end", "b"),
    tool("end", "a"),
    *message(result("a")),
    *message(result("b")),
)
ONE_BY_ONE = tools(
    tool("start", "a"),
    tool("update", "a"),
    tool("end", "a"),
    *message(result("a")),
    tool("start", "b"),
    tool("end", "b"),
    *message(result("b")),
)
COMPACTING = said("compaction_start", reason="manual")
COMPACTED = said("compaction_end", reason="manual", result={}, aborted=False, willRetry=False)
QUEUED: Log = [
    sent("q", "steer", message="more"),
    said("queue_update", steering=["more"], followUp=[]),
    reply("q", "steer"),
]
TAKEN = said("queue_update", steering=[], followUp=[])


@pytest.mark.parametrize(
    "log",
    [
        GOOD,
        SIDE_BY_SIDE,
        ONE_BY_ONE,
        [
            *QUEUED,
            *log_of(
                *turn(*message(USER), TAKEN, *message(STEERED)), messages=(USER, STEERED, ANSWER)
            ),
        ],
        [sent("c", "compact"), COMPACTING, COMPACTED, reply("c", "compact")],
    ],
)
def test_what_is_right_passes(log: Log) -> None:
    check(log)


@pytest.mark.parametrize("place", range(len(GOOD)))
def test_no_record_of_a_run_may_be_missing(place: int) -> None:
    # Pieces of an answer may come in any number.
    if GOOD[place].record["type"] != "message_update":
        with pytest.raises(LawBroken):
            check(without(GOOD, place))


@pytest.mark.parametrize("place", range(3, len(GOOD)))
def test_no_record_of_a_run_may_come_twice(place: int) -> None:
    with pytest.raises(LawBroken):
        check([*GOOD[:place], GOOD[place], *GOOD[place:]])


@pytest.mark.parametrize("place", range(2, len(GOOD) - 1))
def test_no_two_records_of_a_run_may_change_places(place: int) -> None:
    with pytest.raises(LawBroken):
        check([*GOOD[:place], GOOD[place + 1], GOOD[place], *GOOD[place + 2 :]])


@pytest.mark.parametrize(
    ("law", "log"),
    [
        ("started out of order", tools(tool("start", "b"))),
        ("before its start", tools(tool("start", "a"), tool("end", "b"))),
        ("ended twice", tools(tool("start", "a"), tool("end", "a"), tool("end", "a"))),
        ("after its end", tools(tool("start", "a"), tool("end", "a"), tool("update", "a"))),
        ("came before its end", tools(tool("start", "a"), *message(result("a")))),
        (
            "while other calls ran",
            tools(tool("start", "a"), tool("start", "b"), tool("end", "a"), *message(result("a"))),
        ),
        ("out of order", tools(tool("start", "a"), tool("end", "a"), *message(result("b")))),
        (
            "other results",
            tools(
                tool("start", "a"),
                tool("end", "a"),
                *message(result("a")),
                tool("start", "b"),
                tool("end", "b"),
                *message({**result("b"), "content": [1]}),
            ),
        ),
        ("turn_end in phase tools", tools(tool("start", "a"), tool("end", "a"))),
    ],
)
def test_tools_out_of_order_are_noticed(law: str, log: Log) -> None:
    with pytest.raises(LawBroken, match=law):
        check(log)


@pytest.mark.parametrize(
    ("law", "log"),
    [
        ("never answered", [sent("1", "abort")]),
        ("nobody waits for", [*GOOD, reply("1", "prompt", data={})]),
        ("names another command", [sent("1", "abort"), reply("1", "bash")]),
        ("no answer at once", [sent("1", "get_state"), sent("2", "abort")]),
        ("nobody asked for", GOOD[2:]),
        ("never ran", GOOD[:2]),
        ("answered before the rest", [*GOOD[:4], sent("2", "abort"), reply("2", "abort")]),
        (
            "isStreaming",
            [*GOOD[:4], sent("2", "get_state"), reply("2", "get_state", data=STATE)],
        ),
        (
            "pendingMessageCount",
            [*QUEUED, sent("2", "get_state"), reply("2", "get_state", data=STATE)],
        ),
        (
            "isCompacting",
            [COMPACTING, sent("2", "get_state"), reply("2", "get_state", data=STATE)],
        ),
        ("was not told of", [sent("q", "steer", message="more"), reply("q", "steer")]),
        ("a success or has an error", [sent("1", "abort"), reply("1", "abort", error="x")]),
    ],
)
def test_wrong_replies_are_noticed(law: str, log: Log) -> None:
    with pytest.raises(LawBroken, match=law):
        check(log)


@pytest.mark.parametrize(
    ("law", "log"),
    [
        ("without having been taken", log_of(*turn(*message(USER), *message(STEERED)))),
        ("not delivered", [*QUEUED, *log_of(*turn(*message(USER), TAKEN))]),
        ("the queue changed", [*QUEUED, said("queue_update", steering=["other"], followUp=[])]),
        ("without a word", [*QUEUED, TAKEN, *GOOD]),
        (
            "gave back",
            [
                *QUEUED,
                sent("2", "clear_queue"),
                TAKEN,
                reply("2", "clear_queue", data={"steering": [], "followUp": []}),
            ],
        ),
    ],
)
def test_what_waits_cannot_get_lost_unnoticed(law: str, log: Log) -> None:
    with pytest.raises(LawBroken, match=law):
        check(log)


RETRY = said("auto_retry_start", attempt=1, maxAttempts=3)
FAILED = {"role": "assistant", "content": [], "stopReason": "error"}


@pytest.mark.parametrize(
    ("law", "log"),
    [
        (
            "compaction threshold in phase inject",
            [*GOOD[:4], said("compaction_start", reason="threshold")],
        ),
        ("had not begun", [COMPACTED]),
        ("never ended", [COMPACTING]),
        ("compacted by hand in phase", [*GOOD[:4], COMPACTING, COMPACTED]),
        ("two compactions", [COMPACTING, COMPACTING]),
        ("did not announce", [*GOOD[:-1], RETRY]),
        ("had not begun", [*GOOD[:-1], said("auto_retry_end", success=False)]),
        ("without a cause", [*GOOD[:-1], said("agent_start")]),
        (
            "after an answer that did not fail",
            [*GOOD[:-2], said("agent_end", messages=[USER, ANSWER], willRetry=True)],
        ),
        ("after a limit", [*GOOD[:-2], said("limit_reached"), said("turn_start")]),
        ("pieces of an answer", [*GOOD[:7], delta("ho"), *GOOD[8:]]),
        ("outside a message", [*GOOD[:3], delta("ho")]),
        ("no law knows", [said("surprise")]),
    ],
)
def test_things_at_the_wrong_time_are_noticed(law: str, log: Log) -> None:
    with pytest.raises(LawBroken, match=law):
        check(log)


def test_a_retry_that_never_comes_is_noticed() -> None:
    body = turn(*message(USER), answer=FAILED)
    log = log_of(*body, messages=(USER, FAILED))
    check(log)
    log[-2] = said("agent_end", messages=[USER, FAILED], willRetry=True)
    with pytest.raises(LawBroken, match="no retry was announced"):
        check(log)
    log[-1:-1] = [RETRY]
    with pytest.raises(LawBroken, match="settled while a retry"):
        check(log)


async def test_frames_of_a_real_run_are_needed_in_their_order(tmp_path: Path) -> None:
    replies = (fails("overloaded"), calls(call("echo", "a", name="x")), say("done"))
    async with stage(tmp_path, *replies) as s:
        await s.run("go")
        log = list(s.log)
    check(log)
    loose = ("message_update", "tool_execution_update")
    for place, item in enumerate(log):
        if item.record["type"] not in loose:
            with pytest.raises(LawBroken):
                check(without(log, place))
