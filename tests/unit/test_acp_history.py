"""A loaded session is replayed as updates."""

from pathlib import Path
from typing import Any

from msgspec import UNSET

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    Cost,
    CustomMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ludolf.protocol.acp.history import replay
from ludolf.protocol.acp.structs import ClientCapabilities
from ludolf.protocol.acp.updates import UpdateWriter
from ludolf.session.entries import (
    BranchSummaryBody,
    CompactionBody,
    Entry,
    EntryBody,
    MessageBody,
    ModelChangeBody,
    make_entry,
    read_entry,
)
from tests.acp_frames import updates_in

USAGE = Usage(input=100, output=20, total_tokens=120, cost=Cost(total=0.25))


def _path(*bodies: EntryBody) -> list[Entry]:
    """Return entries as they are read from a file, not decoded yet."""
    entries = []
    for number, body in enumerate(bodies):
        made = make_entry(body, entry_id=f"e{number}", parent_id=None, timestamp="")
        entry = read_entry(made.line)
        assert entry is not None
        entries.append(entry)
    return entries


def _says(*blocks: Block, usage: Usage = USAGE) -> MessageBody:
    message = AssistantMessage(
        content=blocks,
        api="a",
        provider="p",
        model="m",
        usage=usage,
        stop_reason="stop",
        timestamp=1,
    )
    return MessageBody(message=message)


def _result(call_id: str, name: str, text: str, **fields: Any) -> MessageBody:
    message = ToolResultMessage(
        tool_call_id=call_id,
        tool_name=name,
        content=(Text(text=text),),
        details=fields.get("details", UNSET),
        is_error=fields.get("is_error", False),
        timestamp=1,
    )
    return MessageBody(message=message)


def _call(call_id: str, name: str, **args: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=args)


def _asks(*parts: Text | Image) -> MessageBody:
    return MessageBody(message=UserMessage(content=parts, timestamp=1))


def _replayed(
    path: list[Entry], client: ClientCapabilities | None = None
) -> tuple[list[dict[str, Any]], UpdateWriter]:
    writer = UpdateWriter("s1", Path("/w"), client or ClientCapabilities(), lambda: 1000)
    return updates_in(replay(path, writer)), writer


def test_the_whole_path_is_replayed_in_order() -> None:
    path = _path(
        _asks(Text(text="look"), Image(data="AA", mime_type="image/png")),
        ModelChangeBody(provider="p", model_id="m"),
        _says(Thinking(thinking="hm"), Text(text="so"), _call("call_0", "read", path="a.py")),
        _result("call_0", "read", "content", details={"x": 1}),
        _says(_call("call_0", "bash", command="false"), _call("call_1", "ls")),
        _result("call_0", "bash", "Command exited with code 1", is_error=True),
        _says(Text(text="done")),
    )
    updates, writer = _replayed(path)
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds == [
        "user_message_chunk",
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call",
        "tool_call",
        "agent_message_chunk",
        "usage_update",
    ]
    assert [update["messageId"] for update in updates[:4]] == ["e0", "e0", "e2", "e2"]
    read, bash, ls = updates[4:7]
    assert (read["status"], bash["status"], ls["status"]) == ("completed", "failed", "failed")
    assert read["content"][0]["content"]["text"] == "content" and read["rawOutput"] == {"x": 1}
    assert read["locations"] == [{"path": "/w/a.py"}] and bash["title"] == "false"
    assert len({read["toolCallId"], bash["toolCallId"], ls["toolCallId"]}) == 3
    assert updates[-1]["cost"]["amount"] == 0.75 and writer.cost == 0.75
    assert writer.title == "look"


def test_changes_of_files_are_replayed_as_diffs() -> None:
    patch = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"
    path = _path(
        _says(
            _call("w", "write", path="a", content="text"),
            _call("e", "edit", path="a", edits=[{"oldText": "old", "newText": "new"}]),
        ),
        _result("w", "write", "ok"),
        _result("e", "edit", "ok", details={"patch": patch}),
    )
    updates, _ = _replayed(path)
    (written,), (edited,) = updates[0]["content"], updates[1]["content"]
    assert (written["oldText"], written["newText"]) == (None, "text")
    assert (edited["oldText"], edited["newText"]) == ("same\nold\n", "same\nnew\n")


def test_the_last_todo_list_is_the_plan() -> None:
    def listed(status: str) -> dict[str, Any]:
        return {"phases": [{"name": "One", "tasks": [{"content": "a", "status": status}]}]}

    path = _path(
        _says(_call("1", "todo")),
        _result("1", "todo", "", details=listed("pending")),
        _says(_call("2", "todo")),
        _result("2", "todo", "", details=listed("completed")),
    )
    updates, _ = _replayed(path)
    plans = [update["entries"] for update in updates if update["sessionUpdate"] == "plan"]
    assert plans == [[{"content": "a", "priority": "medium", "status": "completed"}]]


def test_summaries_and_messages_of_extensions_are_shown() -> None:
    custom = CustomMessage(custom_type="x", content="note", display=True, timestamp=1)
    hidden = CustomMessage(custom_type="x", content="secret", display=False, timestamp=1)
    compaction = CompactionBody(
        summary="short", first_kept_entry_id="e0", tokens_before=9, from_hook=False
    )
    branch = BranchSummaryBody(from_id="e0", summary="aside", from_hook=False)
    shell = BashExecutionMessage(
        command="ls", output="a\n", exit_code=0, cancelled=False, truncated=False, timestamp=1
    )
    bodies = (
        compaction,
        branch,
        MessageBody(message=custom),
        MessageBody(message=hidden),
        MessageBody(message=shell),
    )
    old, _ = _replayed(_path(*bodies))
    new, _ = _replayed(_path(*bodies), ClientCapabilities(compaction=True))
    assert old[0]["sessionUpdate"] == "agent_thought_chunk" and "short" in old[0]["content"]["text"]
    assert new[0] == {
        "sessionUpdate": "compaction_update",
        "compactionId": "e0",
        "status": "completed",
        "summary": [{"type": "text", "text": "short"}],
    }
    assert "aside" in old[1]["content"]["text"] and old[2]["content"]["text"] == "note"
    assert (old[3]["kind"], old[3]["title"], old[3]["status"]) == ("execute", "ls", "completed")
    assert len(old) == 4


def test_entries_of_unknown_shape_are_left_out() -> None:
    lines = (
        b'{"type":"message","id":"a","message":{"role":"alien","content":1}}',
        b'{"type":"message","id":"b","message":{"role":"assistant","content":"text"}}',
        b'{"type":"compaction","id":"c"}',
        b'{"type":"future","id":"d"}',
    )
    entries = [entry for line in lines if (entry := read_entry(line)) is not None]
    updates, _ = _replayed(entries)
    assert [update["sessionUpdate"] for update in updates] == ["agent_thought_chunk"]
