"""Compaction: where the cut falls, what is summarised, and the texts around it."""

from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.session.compaction import (
    ALREADY,
    NO_BRANCH,
    TOO_SMALL,
    BranchPreparation,
    Preparation,
    collect_files,
    prepare,
    prepare_branch,
    summary_limit,
)
from ludolf.session.context import CompactionSettings, estimate_all, should_compact
from ludolf.session.entries import (
    BranchSummaryBody,
    CompactionBody,
    Entry,
    MessageBody,
    ModelChangeBody,
)
from ludolf.session.summary_text import (
    FileLists,
    branch_request,
    branch_summary,
    compaction_summary,
    history_request,
    prefix_request,
    serialize,
)
from ludolf.session.tree import Session, new_session

SENTENCE = (
    "The quick brown fox jumps over the lazy dog while the committee discusses the agenda of the "
    "next meeting. "
)


def ask(session: Session, text: str) -> Entry:
    return session.append(MessageBody(message=UserMessage(content=(Text(text=text),), timestamp=1)))


def assistant(*blocks: Any, total: int = 120, stop: Any = "stop") -> AssistantMessage:
    return AssistantMessage(
        content=blocks,
        api="a",
        provider="p",
        model="m",
        usage=Usage(total_tokens=total),
        stop_reason=stop,
        timestamp=2,
    )


def reply(session: Session, text: str, **more: Any) -> Entry:
    return session.append(MessageBody(message=assistant(Text(text=text), **more)))


def call(session: Session, name: str, path: str, result: str) -> None:
    block = ToolCall(id="c", name=name, arguments={"path": path})
    session.append(MessageBody(message=assistant(block, stop="toolUse")))
    outcome = ToolResultMessage(
        tool_call_id="c",
        tool_name=name,
        content=(Text(text=result),),
        is_error=False,
        timestamp=3,
    )
    session.append(MessageBody(message=outcome))


def compacted(session: Session, summary: str, first: str, **more: Any) -> Entry:
    return session.append(
        CompactionBody(
            summary=summary, first_kept_entry_id=first, tokens_before=1, from_hook=False, **more
        )
    )


def fresh() -> Session:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    session = new_session("/project", None, refuse)
    session.append(ModelChangeBody(provider="p", model_id="m"))
    return session


def keep(tokens: int) -> CompactionSettings:
    return CompactionSettings(keep_recent_tokens=tokens, reserve_tokens=1000)


def prepared(session: Session, tokens: int) -> Preparation:
    found = prepare(session.path_to_leaf(), keep(tokens), session.omitted)
    assert isinstance(found, Preparation), found
    return found


def told(messages: tuple[Message, ...]) -> list[str]:
    return [
        text_of(message.content)[:10]
        for message in messages
        if isinstance(message, UserMessage | AssistantMessage | ToolResultMessage)
    ]


def two_exchanges() -> tuple[Session, list[Entry]]:
    session = fresh()
    entries = []
    for number in range(2):
        entries.append(ask(session, f"Question {number}: {SENTENCE * 3}"))
        entries.append(reply(session, f"Answer {number}: {SENTENCE * 3}"))
    return session, entries


def test_a_cut_at_a_user_message_summarises_what_came_before() -> None:
    session, entries = two_exchanges()
    found = prepared(session, 100)
    assert found.first_kept_id == entries[2].id
    assert told(found.history) == ["Question 0", "Answer 0: "]
    assert (found.prefix, found.split, found.previous_summary) == ((), False, None)
    assert found.tokens_before == 120


def test_a_cut_inside_a_turn_summarises_its_first_part_apart() -> None:
    session, entries = two_exchanges()
    found = prepared(session, 60)
    assert found.first_kept_id == entries[3].id
    assert told(found.history) == ["Question 0", "Answer 0: "]
    assert told(found.prefix) == ["Question 1"]
    text = "## Goal\nOne of two."
    summary = compaction_summary(text, text, None, found.files)
    # The very text and the figure that pi 0.79.10 gave for the same conversation.
    assert summary == f"{text}\n\n---\n\n**Turn Context (split turn):**\n\n{text}"
    compacted(session, summary, found.first_kept_id)
    assert estimate_all(session.context.messages()) == 102


def test_a_session_under_the_budget_has_nothing_to_compact() -> None:
    session, _ = two_exchanges()
    assert prepare(session.path_to_leaf(), keep(20_000)) == TOO_SMALL
    assert prepare([], keep(1)) == TOO_SMALL
    assert prepare(fresh().path_to_leaf(), keep(1)) == TOO_SMALL


def test_directly_after_a_compaction_there_is_none() -> None:
    session, entries = two_exchanges()
    compacted(session, "past", entries[2].id)
    assert prepare(session.path_to_leaf(), keep(10)) == ALREADY


def test_the_next_compaction_takes_up_the_last_one() -> None:
    session, entries = two_exchanges()
    compacted(session, "past", entries[2].id)
    ask(session, f"And now? {SENTENCE * 3}")
    after = reply(session, f"After. {SENTENCE * 3}")
    ask(session, f"And then? {SENTENCE * 3}")
    reply(session, "Then.")
    found = prepared(session, 100)
    assert found.previous_summary == "past"
    assert told(found.history) == ["Question 1", "Answer 1: "]
    assert told(found.prefix) == ["And now? T"]
    assert found.first_kept_id == after.id


def test_a_tool_result_is_never_the_first_kept() -> None:
    session = fresh()
    ask(session, "do it")
    call(session, "read", "a.py", "x" * 4000)
    last = reply(session, "done")
    assert prepared(session, 500).first_kept_id == last.id
    assert told(prepared(session, 500).prefix) == ["do it", "", "x" * 10]


def test_silent_entries_before_the_cut_are_kept_with_it() -> None:
    session, _ = two_exchanges()
    change = session.append(ModelChangeBody(provider="p", model_id="other"))
    ask(session, "x" * 400)
    reply(session, "y")
    assert prepared(session, 100).first_kept_id == change.id


def test_an_input_that_no_model_took_is_summarised_too() -> None:
    session, _ = two_exchanges()
    ask(session, "x" * 4000)
    failed = reply(session, "", total=0, stop="error")
    session.omit(failed.id)
    found = prepared(session, 100)
    assert found.first_kept_id == failed.id
    assert told(found.prefix) == ["x" * 10]


def test_files_come_from_calls_and_from_the_summary_before() -> None:
    session = fresh()
    first = ask(session, "start")
    compacted(
        session, "past", first.id, details={"readFiles": ["old.py"], "modifiedFiles": ["b.py"]}
    )
    call(session, "read", "a.py", "1")
    call(session, "read", "c.py", "1")
    call(session, "edit", "c.py", "1")
    call(session, "write", "d.py", "1")
    call(session, "bash", "e.py", "1")
    reply(session, "x" * 400)
    files = prepared(session, 50).files
    assert files.read_files == ("a.py", "old.py")
    assert files.modified_files == ("b.py", "c.py", "d.py")
    assert compaction_summary("S", None, None, files) == (
        "S\n\n<read-files>\na.py\nold.py\n</read-files>"
        "\n\n<modified-files>\nb.py\nc.py\nd.py\n</modified-files>"
    )


def test_details_of_an_extension_are_not_taken_for_file_lists() -> None:
    session = fresh()
    details = {"readFiles": ["secret"]}
    entry = session.append(
        CompactionBody(
            summary="s", first_kept_entry_id="", tokens_before=1, details=details, from_hook=True
        )
    )
    assert collect_files((), (entry,)) == FileLists()


def test_without_history_the_old_summary_or_a_note_stands_there() -> None:
    assert compaction_summary(None, "p", "old", FileLists()).startswith("old\n\n---")
    assert compaction_summary(None, "p", None, FileLists()).startswith("No prior history.")


def test_the_conversation_is_told_as_text() -> None:
    result = ToolResultMessage(
        tool_call_id="c",
        tool_name="read",
        content=(Text(text="z" * 2010),),
        is_error=False,
        timestamp=1,
    )
    shell = BashExecutionMessage(
        command="ls", output="a", exit_code=0, cancelled=False, truncated=False, timestamp=1
    )
    messages = (
        UserMessage(content="question", timestamp=1),
        assistant(
            Thinking(thinking="hm"),
            Text(text="reading"),
            ToolCall(id="1", name="read", arguments={"path": "a", "limit": 2}),
        ),
        result,
        shell,
    )
    assert serialize(messages) == (
        "[User]: question\n\n[Assistant thinking]: hm\n\n[Assistant]: reading\n\n"
        '[Assistant tool calls]: read(path="a", limit=2)\n\n'
        f"[Tool result]: {'z' * 2000}\n\n[... 10 more characters truncated]\n\n"
        "[User]: Ran `ls`\na"
    )


def test_requests_name_the_headings_and_carry_summary_and_focus() -> None:
    messages = (UserMessage(content="question", timestamp=1),)
    request = history_request(messages, focus="the tests")
    for heading in ("Goal", "Constraints & Preferences", "Progress", "Done", "In Progress"):
        assert f"# {heading}\n" in request
    for heading in ("Blocked", "Key Decisions", "Next Steps", "Critical Context"):
        assert f"# {heading}\n" in request
    assert request.startswith("<conversation>\n[User]: question\n</conversation>\n\n")
    assert request.endswith("Additional focus: the tests")
    update = history_request(messages, "old facts")
    assert "<previous-summary>\nold facts\n</previous-summary>" in update
    prefix = prefix_request(messages)
    for heading in ("Original Request", "Progress So Far", "Context Needed to Continue"):
        assert f"## {heading}\n" in prefix
    assert "Critical Context" not in branch_request(messages)
    assert branch_request(messages, "only this", replace=True).endswith("\n\nonly this")


def test_limits_follow_the_reserve() -> None:
    assert summary_limit(keep(1), 16384) == 800
    assert summary_limit(keep(1), 16384, prefix=True) == 500
    assert summary_limit(keep(1), 100) == 100
    assert not should_compact(199_000, 200_000, keep(1))
    assert should_compact(199_001, 200_000, keep(1))
    assert not should_compact(199_001, 200_000, CompactionSettings(enabled=False))


def test_a_branch_left_behind_is_told_from_its_newest_end() -> None:
    session = fresh()
    root = ask(session, "root")
    reply(session, "a" * 400)
    ask(session, "b" * 40)
    call(session, "edit", "f.py", "r" * 4000)
    old = list(session.path_to_leaf())
    session.branch_to(root.id)
    reply(session, "other")
    found = prepare_branch(old, session.path_to_leaf(), 50)
    assert isinstance(found, BranchPreparation)
    assert told(found.messages) == ["b" * 10, ""]
    assert found.files.modified_files == ("f.py",)
    assert prepare_branch(old[:2], session.path_to_leaf(), 50) == NO_BRANCH
    text = branch_summary("S", found.files)
    assert text.endswith("\n\nS\n\n<modified-files>\nf.py\n</modified-files>")


def test_a_summary_in_a_branch_is_taken_although_it_does_not_fit() -> None:
    session = fresh()
    session.append(BranchSummaryBody(from_id="root", summary="s" * 4000, from_hook=False))
    ask(session, "x" * 40)
    found = prepare_branch(session.path_to_leaf(), [], 50)
    assert isinstance(found, BranchPreparation)
    assert [message.__struct_config__.tag for message in found.messages] == [
        "branchSummary",
        "user",
    ]
