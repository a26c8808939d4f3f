"""The context: which messages a path gives, with compactions, edits and omissions."""

import json
from pathlib import Path
from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Image,
    Message,
    OpaqueMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.session.context import (
    ContextView,
    has_known_usage,
    message_tokens,
    view_tokens,
)
from ludolf.session.entries import (
    BranchSummaryBody,
    CompactionBody,
    CustomMessageBody,
    MessageBody,
    ModelChangeBody,
    ThinkingLevelChangeBody,
    time_ms,
)
from ludolf.session.tree import Session, new_session, open_session
from tests.session_samples import no_warning, user


def answer(text: str, total: int = 0, stop: Any = "stop") -> MessageBody:
    return MessageBody(
        message=AssistantMessage(
            content=(Text(text=text),),
            api="a",
            provider="heard",
            model="m2",
            usage=Usage(total_tokens=total),
            stop_reason=stop,
            timestamp=2,
        )
    )


def compaction(summary: str, first_kept: str) -> CompactionBody:
    return CompactionBody(
        summary=summary, first_kept_entry_id=first_kept, tokens_before=7, from_hook=False
    )


def memory() -> Session:
    return new_session("/project", None, no_warning)


def told(message: Message | OpaqueMessage) -> str:
    match message:
        case UserMessage() | AssistantMessage() | CustomMessage() | ToolResultMessage():
            return text_of(message.content)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return f"<{message.summary}>"
        case _:
            return "?"


def texts(session: Session) -> list[str]:
    """The context that grew and one that is built at once must agree."""
    found = [told(message) for message in session.context.messages()]
    pure = ContextView()
    pure.follow(session.path_to_leaf(), session.omitted)
    assert [told(message) for message in pure.messages()] == found
    assert view_tokens(pure) == view_tokens(session.context)
    return found


def test_model_and_level_are_the_last_ones_on_the_path() -> None:
    session = memory()
    empty = session.context
    assert (empty.messages(), empty.model, empty.thinking_level) == ([], None, None)
    session.append(ModelChangeBody(provider="chosen", model_id="m1"))
    session.append(ThinkingLevelChangeBody(thinking_level="low"))
    first = session.append(user("q"))
    assert session.context.model == ("chosen", "m1")
    session.append(answer("a"))
    assert session.context.model == ("heard", "m2")
    session.append(ThinkingLevelChangeBody(thinking_level="high"))
    assert session.context.thinking_level == "high"
    session.branch_to(first.id)
    assert session.context.model == ("chosen", "m1")
    assert session.context.thinking_level == "low"


def test_a_compaction_stands_before_what_it_keeps() -> None:
    session = memory()
    session.append(user("old"))
    session.append(answer("old answer"))
    kept = session.append(user("kept"))
    session.append(answer("kept answer"))
    entry = session.append(compaction("past", kept.id))
    assert texts(session) == ["<past>", "kept", "kept answer"]
    session.append(user("new"))
    assert texts(session) == ["<past>", "kept", "kept answer", "new"]
    summary = session.context.messages()[0]
    assert isinstance(summary, CompactionSummaryMessage)
    assert summary.tokens_before == 7
    assert summary.timestamp == time_ms(entry.timestamp)


def test_only_the_latest_compaction_counts_and_older_ones_in_its_range_are_silent() -> None:
    session = memory()
    session.append(user("a"))
    kept = session.append(user("b"))
    session.append(compaction("first", kept.id))
    session.append(user("c"))
    session.append(compaction("second", kept.id))
    session.append(user("d"))
    assert texts(session) == ["<second>", "b", "c", "d"]


def test_a_compaction_that_keeps_an_unknown_entry_keeps_nothing() -> None:
    session = memory()
    session.append(user("a"))
    session.append(compaction("past", "nowhere"))
    assert texts(session) == ["<past>"]


def test_branch_summaries_and_custom_messages_speak_with_the_time_of_their_entry() -> None:
    session = memory()
    stamp = "2026-01-02T03:04:05.678Z"
    session.append(user("a"), timestamp=stamp)
    body = BranchSummaryBody(from_id="root", summary="left", from_hook=False)
    session.append(body, timestamp=stamp)
    session.append(BranchSummaryBody(from_id="root", summary="", from_hook=False))
    note = CustomMessageBody(custom_type="note", content="hint", display=True, details={"n": 1})
    session.append(note, timestamp=stamp)
    assert texts(session) == ["a", "<left>", "hint"]
    _, summary, custom = session.context.messages()
    assert isinstance(summary, BranchSummaryMessage)
    assert isinstance(custom, CustomMessage)
    assert summary.timestamp == custom.timestamp == 1767323045678
    assert custom.details == {"n": 1}
    assert json.loads(bytes(session.context.messages_json()[2])) == {
        "role": "custom",
        "customType": "note",
        "content": "hint",
        "display": True,
        "details": {"n": 1},
        "timestamp": 1767323045678,
    }


def test_an_omitted_attempt_leaves_the_context_but_not_the_file(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    session.append(user("q"))
    failed = session.append(answer("", stop="error"))
    assert texts(session) == ["q", ""]
    session.omit(failed.id)
    assert texts(session) == ["q"]
    session.append(answer("good"))
    assert texts(session) == ["q", "good"]
    session.close()
    assert session.path is not None
    assert texts(open_session(session.path, "/project", no_warning)) == ["q", "", "good"]


def _file(path: Path, entries: list[dict[str, Any]]) -> Session:
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"}
    parent = None
    lines = [header]
    for number, item in enumerate(entries):
        stamp = "2026-01-01T00:00:00.000Z"
        lines.append({"id": str(number), "parentId": parent, "timestamp": stamp, **item})
        parent = str(number)
    path.write_text("".join(json.dumps(item) + "\n" for item in lines))
    return open_session(path, "/", no_warning)


def _message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "message": {"role": role, "content": content, "timestamp": 1, **more},
    }


def _assistant(text: str, total: int = 5) -> dict[str, Any]:
    usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": total}
    return _message(
        "assistant",
        [{"type": "text", "text": text}],
        api="a",
        provider="p",
        model="m",
        stopReason="stop",
        usage=usage,
    )


def _edit(target: str, replacement: Any) -> dict[str, Any]:
    return {"type": "context_edit", "targetId": target, "replacement": replacement}


def test_system_messages_of_newer_programs_are_left_out(tmp_path: Path) -> None:
    session = _file(
        tmp_path / "s.jsonl",
        [_message("system", "", sections={"a": "b"}), _message("user", "hi")],
    )
    assert texts(session) == ["hi"]


def test_context_edits_remove_or_replace_and_the_latest_wins(tmp_path: Path) -> None:
    session = _file(
        tmp_path / "s.jsonl",
        [
            _message("user", "question"),
            _assistant("failed"),
            _edit("1", None),
            _assistant("long answer"),
            _edit("3", {"content": "draft"}),
            _edit("3", {"content": "short"}),
            _edit("0", {"content": [{"type": "text", "text": "better"}]}),
        ],
    )
    assert texts(session) == ["better", "short"]
    raw = [json.loads(bytes(item))["content"] for item in session.context.messages_json()]
    assert raw == [[{"type": "text", "text": "better"}], [{"type": "text", "text": "short"}]]
    session.branch_to("3")
    assert texts(session) == ["question", "long answer"]


def test_null_content_is_read_as_empty(tmp_path: Path) -> None:
    session = _file(tmp_path / "s.jsonl", [_message("user", None)])
    (message,) = session.context.messages()
    assert isinstance(message, UserMessage)
    assert message.content == ()


def test_a_message_is_a_quarter_of_its_characters_rounded_up() -> None:
    blocks = (
        Thinking(thinking="abcd"),
        Text(text="efgh"),
        ToolCall(id="1", name="read", arguments={"path": "x"}),
    )
    message = AssistantMessage(
        content=blocks,
        api="a",
        provider="p",
        model="m",
        usage=Usage(),
        stop_reason="stop",
        timestamp=1,
    )
    assert message_tokens(message) == (4 + 4 + 4 + len('{"path":"x"}')) / 4
    picture = UserMessage(content=(Image(data="", mime_type="image/png"),), timestamp=1)
    assert message_tokens(picture) == 1200
    assert message_tokens(UserMessage(content="abcde", timestamp=1)) == 2


def test_context_tokens_are_the_last_usage_plus_what_came_after() -> None:
    session = memory()
    session.append(user("x" * 400))
    session.append(answer("a", total=1000))
    session.append(user("y" * 40))
    session.append(answer("failed", total=9, stop="error"))
    assert view_tokens(session.context) == 1000 + 10 + 2


def test_usage_from_before_a_compaction_counts_no_more() -> None:
    session = memory()
    session.append(user("old"))
    kept = session.append(answer("x" * 40, total=1000))
    session.append(compaction("s" * 8, kept.id))
    view = session.context
    assert view_tokens(view) == 12
    assert not has_known_usage(view)
    session.append(answer("new", total=50))
    assert view_tokens(session.context) == 50
    assert has_known_usage(session.context)


def test_after_an_edit_everything_is_estimated(tmp_path: Path) -> None:
    session = _file(
        tmp_path / "s.jsonl",
        [_message("user", "x" * 40), _assistant("y" * 8, 900), _edit("0", None)],
    )
    assert view_tokens(session.context) == 2
    assert has_known_usage(session.context)
