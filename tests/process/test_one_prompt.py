"""One prompt all the way: from a line on stdin to the model, the tools, the file and stdout."""

from collections.abc import Iterable
from typing import Any

import pytest

from ludolf.base import loads
from ludolf.client import Record
from tests.process.harness import APIS, Lab, messages, only, read_entries, text_of, types
from tests.process.script import Gate, Tokens, answer, bash, call, say, think

_MODELS = list(APIS)
# Between the start and the end of the first answer: thinking, text, one call, a delta each.
_BLOCK_BY_BLOCK = [
    *("thinking_start", "thinking_delta", "thinking_end"),
    *("text_start", "text_delta", "text_end"),
    *("toolcall_start", "toolcall_delta", "toolcall_end"),
]
# Chat Completions tells no ends of blocks, and the first delta of a call is empty.
_ENDS_LAST = [
    *("thinking_start", "thinking_delta", "text_start", "text_delta"),
    *("toolcall_start", "toolcall_delta", "toolcall_delta"),
    *("thinking_end", "text_end", "toolcall_end"),
]
_UPDATES = dict.fromkeys(_MODELS, _BLOCK_BY_BLOCK) | {"chat/large": _ENDS_LAST}
# Responses names a call by its own id and by the item's.
_CALL = dict.fromkeys(_MODELS, "call_1") | {"responses/large": "call_1|fc_2"}


def _script(lab: Lab, size: int = 1000) -> None:
    first = (think("I should look."), "Looking 👀.", bash("echo hi"))
    tokens = Tokens(input=100, output=20, cache_read=50)
    lab.server.add(answer(*first, size=size, tokens=tokens), answer("It says hi.", size=1000))


@pytest.mark.parametrize("model", _MODELS)
async def test_a_prompt_is_told_in_the_order_of_the_protocol(lab: Lab, model: str) -> None:
    _script(lab)
    async with lab.client("--model", model) as client:
        await client.prompt_and_collect("Go")
    call_id = _CALL[model]
    assert types(map(loads, lab.lines)) == [
        *("response prompt", "agent_start", "turn_start"),
        *("message_start user", "message_end user"),
        *("message_start assistant", *_UPDATES[model], "message_end assistant"),
        f"tool_execution_start {call_id}",
        f"tool_execution_update {call_id}",
        f"tool_execution_update {call_id}",
        f"tool_execution_end {call_id}",
        *("message_start toolResult", "message_end toolResult", "turn_end"),
        *("turn_start", "message_start assistant"),
        *("text_start", "text_delta", "text_end", "message_end assistant"),
        *("turn_end", "agent_end", "agent_settled"),
    ]


@pytest.mark.parametrize("model", _MODELS)
async def test_each_update_shows_the_message_exactly_after_its_delta(lab: Lab, model: str) -> None:
    _script(lab, size=3)
    async with lab.client("--model", model) as client:
        told = await client.prompt_and_collect("Go")
    first = told[: types(told).index("message_end assistant")]
    updates = only(first, "message_update")
    assert len(updates) > 15
    shown: dict[int, str] = {}
    for update in updates:
        _follow(shown, update["assistantMessageEvent"])
        assert update["message"] == update["assistantMessageEvent"]["partial"]
        assert update["message"]["stopReason"] == "stop"
        for index, block in enumerate(update["message"]["content"]):
            _check_block(block, shown[index])
        assert len(update["message"]["content"]) == len(shown)
    assert updates[-1]["message"]["content"] == told[len(first)]["message"]["content"]


def _follow(shown: dict[int, str], event: Record) -> None:
    index = event["contentIndex"]
    if event["type"].endswith("_start"):
        assert index == len(shown)
        shown[index] = ""
    elif event["type"].endswith("_delta"):
        shown[index] += event["delta"]


def _check_block(block: Record, told: str) -> None:
    if block["type"] == "toolCall":
        # Of arguments that are still arriving, only what is certain may be shown.
        command = block["arguments"].get("command", "")
        assert told.partition('":"')[2].startswith(command)
        assert command == "echo hi" or not told.endswith("}")
    else:
        assert block[block["type"]] == told


@pytest.mark.parametrize("model", _MODELS)
async def test_the_finished_messages_are_whole_counted_and_sent_on(lab: Lab, model: str) -> None:
    _script(lab)
    async with lab.client("--model", model) as client:
        told = await client.prompt_and_collect("Go")
        kept = (await client.ask("get_messages"))["messages"]
        stats = await client.ask("get_session_stats")
    assert kept == only(told, "agent_end")[0]["messages"]
    assert kept == [record["message"] for record in only(told, "message_end")]
    user, first, result, last = kept
    assert user["content"] == [{"type": "text", "text": "Go"}]
    assert (first["api"], first["provider"], first["model"]) == (APIS[model], *model.split("/"))
    _check_first_answer(first)
    assert result["toolCallId"] == first["content"][2]["id"]
    assert (text_of(result), result["isError"]) == ("hi\n", False)
    assert (text_of(last), last["stopReason"]) == ("It says hi.", "stop")
    assert stats["tokens"] == {
        **{"input": 200, "output": 40, "cacheRead": 50, "cacheWrite": 0, "total": 290},
    }
    counts = ("userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages")
    assert [stats[name] for name in counts] == [1, 2, 1, 1, 4]
    before, after = (_texts(asked.body) for asked in lab.server.requests)
    assert "Go" in before & after
    assert "hi\n" in after - before


def _check_first_answer(message: Record) -> None:
    thinking, text, calling = message["content"]
    assert thinking["thinking"] == "I should look."
    assert text["text"] == "Looking 👀."
    assert (calling["name"], calling["arguments"]) == ("bash", {"command": "echo hi"})
    assert message["stopReason"] == "toolUse"
    usage = message["usage"]
    assert (usage["input"], usage["output"], usage["cacheRead"]) == (100, 20, 50)
    assert usage["totalTokens"] == 170
    assert usage["cost"]["total"] == pytest.approx((100 * 1 + 20 * 2 + 50 * 0.5) / 1e6)


def _texts(value: Any) -> set[str]:
    """All texts anywhere in a request."""
    if isinstance(value, str):
        return {value}
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return set()
    return {text for item in inner for text in _texts(item)}


async def test_a_message_is_in_the_file_when_the_host_sees_its_end(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Hold ", gate, "on."), bash("echo hi")), answer("Done."))
    seen = 0
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        for _ in range(4):
            end = await client.wait_for("message_end")
            seen += 1
            (path,) = lab.sessions
            stored = messages(read_entries(path))
            assert len(stored) >= seen
            assert stored[seen - 1] == end["message"]
            gate.open()
        await client.wait_for("agent_settled")
    assert [message["role"] for message in messages(lab.entries)] == [
        *("user", "assistant", "toolResult", "assistant"),
    ]


async def test_the_prompt_is_in_the_file_before_the_model_is_asked(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Fine."))
    async with lab.client() as client:
        await client.ask("prompt", message="Remember me")
        await client.wait_for("message_end")
        assert text_of(messages(lab.entries)[0]) == "Remember me"
        gate.open()
        await client.wait_for("agent_settled")


async def test_the_delta_dialect_tells_deltas_only(lab: Lab) -> None:
    _script(lab, size=3)
    async with lab.client("--rpc-dialect", "pi-delta") as client:
        told = await client.prompt_and_collect("Go")
    updates = only(told, "message_update")
    assert all(set(update) == {"type", "usage", "assistantMessageEvent"} for update in updates)
    assert not any("partial" in update["assistantMessageEvent"] for update in updates)
    deltas = [update["assistantMessageEvent"] for update in updates]
    thinking = "".join(event["delta"] for event in deltas if event["type"] == "thinking_delta")
    assert thinking == "I should look."
    starts = [event for event in deltas if event["type"] == "toolcall_start"]
    assert [(event["id"], event["toolName"]) for event in starts] == [("call_1", "bash")]
    heads = only(told, "message_start")
    assert heads[1]["message"]["stopReason"] == "pending"


async def test_odd_characters_arrive_unharmed(lab: Lab) -> None:
    odd = "naïve 日本 👩‍👩‍👧 \u2028\u2029\u0085\x0b\x00 end"
    lab.server.add(answer(odd, size=1))
    async with lab.client() as client:
        told = await client.prompt_and_collect(odd)
    ends = only(told, "message_end")
    assert [text_of(end["message"]) for end in ends] == [odd, odd]
    assert [text_of(message) for message in messages(lab.entries)] == [odd, odd]


async def test_an_image_reaches_the_model(lab: Lab) -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
        "awAAAABJRU5ErkJggg=="
    )
    lab.server.add(answer("A dot."))
    async with lab.client() as client:
        image = {"type": "image", "data": pixel, "mimeType": "image/png"}
        told = await client.prompt_and_collect("What is this?", images=[image])
    assert only(told, "message_end")[0]["message"]["content"][1] == image
    assert pixel in _texts(lab.server.requests[0].body)


async def test_an_empty_answer_is_an_answer(lab: Lab) -> None:
    lab.server.add(answer())
    async with lab.client() as client:
        told = await client.prompt_and_collect("Say nothing")
    end = only(told, "turn_end")[0]["message"]
    assert (end["content"], end["stopReason"]) == ([], "stop")


# ---------------------------------------------------------------- several commands


async def test_two_prompts_in_one_write_start_one_run_and_refuse_the_other(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "One."))
    async with lab.client() as client:
        line = b'{"id":%d,"type":"prompt","message":"%d"}\n'
        await client.process.write(line % (1, 1) + line % (2, 2))
        first, second = await client.reply_to(1), await client.reply_to(2)
        gate.open()
        told = await client.collect("agent_settled")
    assert first["success"]
    assert (second["success"], second["code"]) == (False, "busy")
    assert second["error"].startswith("Agent is already processing.")
    assert types(told).count("message_end user") == 1


async def test_state_asked_behind_a_prompt_tells_of_the_run(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "One."))
    async with lab.client() as client:
        await client.send("prompt", message="Go")
        busy = await client.ask("get_state")
        gate.open()
        await client.wait_for("agent_settled")
        idle = await client.ask("get_state")
    assert (busy["isStreaming"], idle["isStreaming"]) == (True, False)
    assert idle["messageCount"] == 2
    assert (idle["model"]["provider"], idle["model"]["id"]) == ("claude", "large")
    assert idle["sessionFile"] == str(lab.sessions[0])


@pytest.mark.parametrize("behavior", ["steer", "followUp"])
async def test_a_prompt_for_later_is_queued_and_delivered(lab: Lab, behavior: str) -> None:
    gate = Gate()
    lab.server.add(answer(say("A", gate), bash("true")), answer("B"), answer("C"))
    async with lab.client() as client:
        await client.ask("prompt", message="first")
        await client.wait_for("message_update")
        await client.ask("prompt", message="second", streamingBehavior=behavior)
        gate.open()
        told = await client.collect("agent_settled")
    queues = [[*record["steering"], *record["followUp"]] for record in only(told, "queue_update")]
    assert queues == [["second"], []]
    texts = [text_of(message) for message in messages(lab.entries) if message["role"] == "user"]
    assert texts == ["first", "second"]
    said = [text_of(m) for m in messages(lab.entries) if m["role"] == "assistant"]
    assert said == (["A", "B"] if behavior == "steer" else ["A", "B", "C"])


async def test_writing_and_editing_change_real_files(lab: Lab) -> None:
    edits = [{"oldText": "two", "newText": "2"}]
    lab.server.add(
        answer(call("write", {"path": "a.txt", "content": "one\ntwo\n"}, "w")),
        answer(call("edit", {"path": "a.txt", "edits": edits}, "e")),
        answer(call("read", {"path": "a.txt"}, "r")),
        answer("Done."),
    )
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    ends = only(told, "tool_execution_end")
    assert [end["isError"] for end in ends] == [False, False, False]
    assert text_of(ends[2]["result"]) == "one\n2\n"
    assert "+2 2" in ends[1]["result"]["details"]["diff"]
    assert (lab.work / "a.txt").read_text() == "one\n2\n"
