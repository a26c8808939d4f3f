"""Events of the engine become updates of the Agent Client Protocol."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.events import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from ludolf.agent.tool import ToolOutput, text_output
from ludolf.ai.draft import Draft
from ludolf.ai.messages import (
    Cost,
    CustomMessage,
    Image,
    StopReason,
    Text,
    Usage,
    UserMessage,
)
from ludolf.protocol.acp.call_sources import CallSources, ToolFacts
from ludolf.protocol.acp.structs import (
    AvailableCommand,
    ClientCapabilities,
    ConfigBoolean,
    NoticeSeverity,
)
from ludolf.protocol.acp.updates import UpdateWriter, merge_chunks
from ludolf.protocol.dialects.dialect import UNKNOWN_MODEL
from ludolf.protocol.events import (
    AutoRetryStart,
    CompactionEnd,
    CompactionResult,
    CompactionStart,
    Event,
    ExtensionError,
    LimitReached,
    SessionInfoChanged,
    Warned,
)
from ludolf.protocol.host_events import CommandOutput, TodoAutoClear
from ludolf.protocol.subagent_events import (
    EventPayload,
    LifecyclePayload,
    SubagentEvent,
    SubagentLifecycle,
)
from tests.acp_frames import updates_in

MODERN = ClientCapabilities(notices=True, compaction=True)
TERMINAL = ClientCapabilities(terminal_output=True)
OLD = ClientCapabilities()


class Client:
    """Collects the checked updates of one session; `now` is the time of its writer's clock."""

    def __init__(
        self,
        client: ClientCapabilities = MODERN,
        *,
        asks: bool = False,
        files: dict[str, str] | None = None,
    ) -> None:
        self.now = 0.0
        facts = {"mcp__a__b": ToolFacts("Bee", read_only=True)}
        sources = CallSources(
            facts=lambda name: facts.get(name, ToolFacts()),
            read=lambda path: (files or {}).get(str(path)),
            asks=lambda start: asks,
            clock=lambda: self.now,
        )
        self.writer = UpdateWriter("s1", Path("/w"), client, lambda: 1000, sources)

    def takes(self, *events: Event) -> list[dict[str, Any]]:
        return updates_in(frame for event in events for frame in self.writer.frames(event))


class Answer:
    """An answer of the model as events."""

    def __init__(self) -> None:
        self.draft = Draft(UNKNOWN_MODEL)
        self.events: list[Event] = [MessageStart(message=self.draft.message_head())]
        self._index = -1

    def text(self, *deltas: str, thinking: bool = False) -> "Answer":
        start = self.draft.start_thinking() if thinking else self.draft.start_text()
        self._index += 1
        self._add(start, *(self.draft.text(self._index, delta) for delta in deltas))
        self._add(self.draft.end(self._index))
        return self

    def call(self, call_id: str, name: str, args: str, *, whole: bool = True) -> "Answer":
        self._index += 1
        self._add(self.draft.start_tool(call_id, name), self.draft.tool_args(self._index, args))
        if whole:
            self._add(self.draft.end(self._index))
        return self

    def ends(self, stop: StopReason = "stop", usage: Usage | None = None) -> list[Event]:
        if usage is not None:
            self.draft.usage = usage
        return [*self.events, MessageEnd(message=self.draft.finish(stop))]

    def _add(self, *pieces: Any) -> None:
        self.events += [MessageUpdate(piece, self.draft) for piece in pieces]


def _start(call_id: str, name: str, **args: Any) -> ToolStart:
    return ToolStart(tool_call_id=call_id, tool_name=name, args=args)


def _update(call_id: str, name: str, text: str, details: Any = None) -> ToolUpdate:
    output = text_output(text, details or {}) if text else ToolOutput(content=())
    return ToolUpdate(tool_call_id=call_id, tool_name=name, args={}, partial_result=output)


def _end(call_id: str, name: str, output: ToolOutput | str, is_error: bool = False) -> ToolEnd:
    result = text_output(output) if isinstance(output, str) else output
    return ToolEnd(tool_call_id=call_id, tool_name=name, result=result, is_error=is_error)


def _kinds(updates: Iterable[dict[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


# ---------------------------------------------------------------- text


def test_text_and_thoughts_of_an_answer_share_its_message_id() -> None:
    client = Client()
    first = client.takes(*Answer().text("hm", thinking=True).text('say "', "ü\n").ends())
    second = client.takes(*Answer().text("more").ends())
    assert _kinds(first) == ["agent_thought_chunk", "agent_message_chunk", "agent_message_chunk"]
    assert "".join(update["content"]["text"] for update in first[1:]) == 'say "ü\n'
    assert len({update["messageId"] for update in first}) == 1
    assert second[0]["messageId"] != first[0]["messageId"]


def test_a_text_delta_costs_at_most_260_bytes() -> None:
    writer = UpdateWriter("0199f2f0-0000-7000-8000-000000000000", Path("/w"), MODERN, lambda: 1)
    (start, _, delta, *_) = Answer().text("twenty characters ..").ends()
    writer.frames(start)
    assert len(writer.frames(delta)[0]) <= 260


def test_a_block_that_arrives_without_deltas_is_sent_at_its_end() -> None:
    client, draft = Client(), Draft(UNKNOWN_MODEL)
    start = draft.start_text()
    end = draft.end(0, text="whole")
    updates = client.takes(MessageUpdate(start, draft), MessageUpdate(end, draft))
    assert [update["content"]["text"] for update in updates] == ["whole"]


def test_adjacent_chunks_of_a_message_can_be_merged() -> None:
    client = Client()
    events = (
        Answer().text("a", "b", thinking=True).text("c", '"d', "e").call("1", "ls", "{}").ends()
    )
    frames = [frame for event in events for frame in client.writer.frames(event)]
    merged = updates_in(merge_chunks(frames))
    assert [update.get("content", {}).get("text") for update in merged] == [
        "ab",
        'c"de',
        None,
        None,
    ]


# ---------------------------------------------------------------- calls


def test_a_call_is_announced_described_run_and_ended() -> None:
    client = Client()
    args = {"path": "a.py", "offset": 3}
    updates = client.takes(
        *Answer().call("call_0", "read", '{"path":"a.py","offset":3}').ends("toolUse"),
        _start("call_0", "read", **args),
        _end("call_0", "read", text_output("text", {"lines": 1})),
    )
    announced, described, runs, ended = updates
    assert _kinds(updates) == ["tool_call", *["tool_call_update"] * 3]
    assert announced == {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_0",
        "title": "read",
        "name": "read",
        "kind": "read",
        "status": "pending",
    }
    assert described["title"] == "Read a.py:3" and described["rawInput"] == args
    assert described["locations"] == [{"path": "/w/a.py", "line": 3}]
    assert runs["status"] == "in_progress" and ended["status"] == "completed"
    assert ended["content"][0]["content"]["text"] == "text"
    assert ended["rawOutput"] == {"lines": 1}


def test_ids_that_a_provider_repeats_are_unique_for_the_client() -> None:
    client = Client()
    twice = Answer().call("call_0", "ls", "{}").call("call_0", "ls", "{}").ends("toolUse")
    run = [_start("call_0", "ls"), _start("call_0", "ls")]
    ends = [_end("call_0", "ls", "one"), _end("call_0", "ls", "two")]
    updates = client.takes(*twice, *run, *ends, *Answer().call("call_0", "ls", "{}").ends())
    announced = [each["toolCallId"] for each in updates if each["sessionUpdate"] == "tool_call"]
    assert len(announced) == 3 == len(set(announced))
    finished = {each["toolCallId"]: each["content"] for each in updates if "content" in each}
    assert list(finished) == announced[:2]
    assert client.writer.tool_call_id("call_0") == announced[2]


def test_a_call_that_waits_for_approval_stays_pending_until_it_runs() -> None:
    client = Client(asks=True)
    before = client.takes(_start("c", "bash", command="x"))
    after = updates_in(client.writer.running("c"))
    assert [update.get("status") for update in before] == ["pending"]
    assert [update["status"] for update in after] == ["in_progress"]
    assert client.writer.running("c") == ()


def test_calls_of_an_answer_that_is_cut_off_end_as_failed() -> None:
    client = Client()
    answer = Answer().call("a", "ls", "{}").call("b", "write", '{"path', whole=False)
    updates = client.takes(*answer.ends("aborted"), AgentEnd(messages=(), will_retry=False))
    failed = [update["toolCallId"] for update in updates if update.get("status") == "failed"]
    assert failed == ["a", "b"]


def test_calls_without_a_result_end_with_the_run() -> None:
    client = Client()
    client.takes(_start("a", "ls"))
    (update,) = client.takes(AgentEnd(messages=(), will_retry=False))
    assert (update["toolCallId"], update["status"]) == ("a", "failed")
    assert client.takes(AgentEnd(messages=(), will_retry=False)) == []


def test_a_write_ends_with_a_diff_against_the_text_before_it() -> None:
    client = Client(files={"/w/a": "old"})
    args = {"path": "a", "content": "new"}
    updates = client.takes(_start("c", "write", **args), _end("c", "write", "done"))
    diff = {"type": "diff", "path": "/w/a", "oldText": "old", "newText": "new"}
    assert updates[-1]["content"] == [diff]
    updates = client.takes(_start("d", "write", **args), _end("d", "write", "denied", True))
    assert updates[-1]["status"] == "failed"
    assert updates[-1]["content"][0]["content"]["text"] == "denied"


def test_an_edit_ends_at_the_line_that_changed() -> None:
    client = Client()
    patch = "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-x\n+y\n"
    details = {"patch": patch, "firstChangedLine": 7}
    updates = client.takes(
        _start("c", "edit", path="a"), _end("c", "edit", text_output("", details))
    )
    assert updates[-1]["locations"] == [{"path": "/w/a", "line": 7}]
    assert updates[-1]["content"][0]["newText"] == "y\n"


def test_tools_of_others_show_label_text_and_images() -> None:
    parts = (Text(text="a"), Image(data="AA", mime_type="image/png"))
    updates = Client().takes(
        _start("c", "mcp__a__b", x=1), _end("c", "mcp__a__b", ToolOutput(content=parts))
    )
    assert (updates[0]["title"], updates[0]["kind"]) == ("Bee", "read")
    assert [item["content"]["type"] for item in updates[-1]["content"]] == ["text", "image"]


def test_calls_of_subagents_name_their_agent_and_end_with_it() -> None:
    client = Client()
    main = client.takes(_start("call_0", "ls"))
    inner = [
        SubagentEvent(payload=EventPayload(id="Bee", event=event))
        for event in (_start("call_0", "bash", command="x"), _update("call_0", "bash", "out"))
    ]
    updates = client.takes(*inner)
    shown = client.writer.tool_call_id("call_0", of_agent=True)
    assert {update["toolCallId"] for update in updates} == {shown}
    assert all(update["_meta"] == {"ludolf/agent": "Bee"} for update in updates)
    assert main[0]["toolCallId"] == client.writer.tool_call_id("call_0") != shown
    payload = LifecyclePayload(
        id="Bee",
        agent="task",
        agent_source="bundled",
        description="",
        status="aborted",
        session_file="",
        parent_tool_call_id="",
        index=0,
        detached=True,
    )
    (ended,) = client.takes(SubagentLifecycle(payload=payload))
    assert (ended["toolCallId"], ended["status"]) == (shown, "failed")


# ---------------------------------------------------------------- output of commands


def test_progress_is_the_last_8_kb_at_most_twice_a_second() -> None:
    client = Client()
    client.takes(_start("c", "bash", command="x"), _update("c", "bash", ""))
    shown = client.takes(_update("c", "bash", "a" * 9000 + "1"))
    assert len(shown[0]["content"][0]["content"]["text"]) == 8192
    assert client.takes(_update("c", "bash", "2"), _update("c", "bash", "3")) == []
    assert client.writer.due == 0.5 and client.writer.flush() == ()
    client.now = 0.5
    (flushed,) = updates_in(client.writer.flush())
    assert flushed["content"][0]["content"]["text"] == "3"
    assert client.writer.due is None
    client.takes(_update("c", "bash", "4"))
    (ended,) = client.takes(_end("c", "bash", "1234"))
    assert ended["content"][0]["content"]["text"] == "1234" and client.writer.due is None


def test_a_flood_of_output_is_sent_once() -> None:
    for capabilities in (MODERN, TERMINAL):
        client = Client(capabilities)
        output, sent, total = "", 0, 0
        events: list[Event] = [_start("c", "bash", command="seq")]
        for number in range(500):
            output = (output + f"{number:04} {'x' * 200}\n" * 10)[-50_000:]
            total = 2060 * (number + 1)
            cut = {"truncation": {"totalBytes": total}} if total > 50_000 else {}
            events.append(_update("c", "bash", output, cut))
        for event in events:
            client.now += 0.1
            sent += sum(map(len, client.writer.frames(event)))
        sent += sum(map(len, client.writer.frames(_end("c", "bash", output))))
        assert sent < 1.2 * total


def test_a_terminal_of_the_client_gets_only_new_output() -> None:
    client = Client(TERMINAL)
    updates = client.takes(
        *Answer().call("c", "bash", '{"command":"x"}').ends("toolUse"),
        _start("c", "bash", command="x"),
        _update("c", "bash", ""),
        _update("c", "bash", "one\n"),
        _update("c", "bash", "one\ntwo\n"),
        _end("c", "bash", "one\ntwo\n\n\nCommand exited with code 2", True),
    )
    assert updates[0]["content"] == [{"type": "terminal", "terminalId": "c"}]
    assert updates[0]["_meta"] == {"terminal_info": {"terminal_id": "c", "cwd": "/w"}}
    metas = [update["_meta"] for update in updates[1:] if "_meta" in update]
    data = [meta["terminal_output"]["data"] for meta in metas if "terminal_output" in meta]
    assert data == ["one\n", "two\n", "\n\nCommand exited with code 2"]
    assert metas[-1] == {"terminal_exit": {"terminal_id": "c", "exit_code": 2, "signal": None}}
    assert updates[-1]["status"] == "failed" and "content" not in updates[-1]


def test_a_command_that_did_not_run_shows_why_in_place_of_a_terminal() -> None:
    updates = Client(TERMINAL).takes(
        _start("c", "bash", command="x"), _end("c", "bash", "Not run: denied", True)
    )
    assert updates[-1]["content"][0]["content"]["text"] == "Not run: denied"


# ---------------------------------------------------------------- around the calls


def test_todos_are_a_plan_without_dropped_tasks() -> None:
    client = Client()
    statuses = ("completed", "in_progress", "blocked", "abandoned", "pending")
    tasks = [{"id": name, "content": name, "status": name} for name in statuses]
    details = {"phases": [{"id": "1", "name": "One", "tasks": tasks}]}
    updates = client.takes(_start("c", "todo"), _end("c", "todo", text_output("", details)))
    assert _kinds(updates)[-1] == "plan"
    entries = [(entry["content"], entry["status"]) for entry in updates[-1]["entries"]]
    assert entries == [
        ("completed", "completed"),
        ("in_progress", "in_progress"),
        ("blocked", "pending"),
        ("pending", "pending"),
    ]
    (cleared,) = client.takes(TodoAutoClear())
    assert [entry["content"] for entry in cleared["entries"]] == [
        "in_progress",
        "blocked",
        "pending",
    ]


def test_usage_follows_each_answer_with_the_cost_so_far() -> None:
    client = Client()
    usage = Usage(input=100, output=20, total_tokens=120, cost=Cost(total=0.25))
    first = client.takes(*Answer().ends(usage=usage))
    second = client.takes(*Answer().ends(usage=usage))
    assert first[-1]["used"] == 120 and first[-1]["size"] == 1000
    assert second[-1]["cost"] == {"amount": 0.5, "currency": "USD"}


def test_the_first_prompt_or_a_name_is_the_title() -> None:
    client = Client()
    prompts = [MessageEnd(message=UserMessage(content=text, timestamp=1)) for text in ("a  b", "c")]
    updates = client.takes(*prompts, SessionInfoChanged(name="named"))
    assert [update["title"] for update in updates] == ["a b", "named"]


def test_messages_that_no_model_wrote_are_shown() -> None:
    shown = CustomMessage(custom_type="x", content="shown", display=True, timestamp=1)
    hidden = CustomMessage(custom_type="x", content="hidden", display=False, timestamp=1)
    updates = Client().takes(
        MessageEnd(message=shown), MessageEnd(message=hidden), CommandOutput(text="answer")
    )
    assert [update["content"]["text"] for update in updates] == ["shown", "answer"]
    assert updates[0]["messageId"] != updates[1]["messageId"]


@pytest.mark.parametrize(
    ("event", "level", "words"),
    [
        (Warned(message="Disk full\nFree some space"), "warning", "Disk full"),
        (
            AutoRetryStart(attempt=2, max_attempts=3, delay_ms=1500, error_message="overloaded"),
            "warning",
            "attempt 2 of 3 follows in 1.5 s",
        ),
        (LimitReached(limit="turns", used=5, maximum=5), "warning", "limit of turns"),
        (ExtensionError(extension_path="/x.py", event="input", error="bad"), "error", "/x.py"),
    ],
)
def test_problems_are_notices_or_else_thoughts_and_messages(
    event: Event, level: NoticeSeverity, words: str
) -> None:
    (notice,) = Client(MODERN).takes(event)
    assert (notice["sessionUpdate"], notice["severity"]) == ("notice", level)
    assert words in notice["title"] and "\n" not in notice["title"]
    (chunk,) = Client(OLD).takes(event)
    expected = "agent_message_chunk" if level == "error" else "agent_thought_chunk"
    assert chunk["sessionUpdate"] == expected and words in chunk["content"]["text"]


def test_a_compaction_is_one_entity_with_its_summary() -> None:
    result = CompactionResult(summary="short", first_kept_entry_id="e", tokens_before=900)
    start = CompactionStart(reason="manual")
    ends = [
        CompactionEnd(reason="manual", result=result, aborted=False, will_retry=False),
        CompactionEnd(reason="manual", result=None, aborted=True, will_retry=False),
        CompactionEnd(
            reason="manual", result=None, aborted=False, will_retry=False, error_message="no"
        ),
    ]
    client, old = Client(), Client(OLD)
    for end, status in zip(ends, ("completed", "cancelled", "failed"), strict=True):
        first, last = client.takes(start, end)
        assert first["compactionId"] == last["compactionId"]
        assert (first["status"], last["status"]) == ("in_progress", status)
        assert set(_kinds(old.takes(start, end))) <= {"agent_thought_chunk", "agent_message_chunk"}


def test_a_compaction_reports_the_smaller_context() -> None:
    result = CompactionResult(
        summary="short", first_kept_entry_id="e", tokens_before=900, estimated_tokens_after=90
    )
    end = CompactionEnd(reason="manual", result=result, aborted=False, will_retry=False)
    for client in (Client(), Client(OLD)):
        assert client.takes(end)[-1]["used"] == 90


def test_single_notifications_match_the_schema() -> None:
    writer = Client().writer
    frames = (
        writer.commands([AvailableCommand(name="compact", description="Compact")]),
        writer.config_options([ConfigBoolean(id="a", name="A", current_value=True)]),
        writer.mode("ask"),
        writer.info("title"),
        writer.notice("info", ""),
        writer.notice("info", "x" * 500),
        writer.message("lone \ud800 surrogate"),
    )
    updates = updates_in(frames)
    assert updates[2]["currentModeId"] == "ask" and updates[3]["title"] == "title"
    assert len(updates[5]["title"]) == 200 and len(updates[5]["description"]) == 500
