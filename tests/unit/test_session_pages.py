"""Pages of the active path, and conversations that stopped before an answer."""

import pytest

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    StopReason,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from ludolf.base import CommandError
from ludolf.session.entries import CustomMessageBody, Entry, LabelBody, MessageBody
from ludolf.session.tree import Session, new_header, new_session
from ludolf.session.views import is_interrupted, path_after, path_tail
from tests.session_samples import answer, no_warning, user


def talk() -> tuple[Session, list[str]]:
    session = new_session("/project", None, no_warning)
    return session, [session.append(user(str(number))).id for number in range(6)]


def page(session: Session, last: int, before: str | None = None) -> tuple[list[str], bool]:
    entries, more = path_tail(session, last, before)
    return [entry.id for entry in entries], more


def asks(stop: StopReason) -> MessageBody:
    return MessageBody(
        message=AssistantMessage(
            content=(Text(text="Reading."), ToolCall(id="c", name="read", arguments={})),
            api="anthropic-messages",
            provider="mock",
            model="large",
            usage=Usage(),
            stop_reason=stop,
            timestamp=2,
        )
    )


def result() -> MessageBody:
    return MessageBody(
        message=ToolResultMessage(
            tool_call_id="c", tool_name="read", content=(), is_error=False, timestamp=3
        )
    )


def shell() -> MessageBody:
    message = BashExecutionMessage(
        command="ls", output="", exit_code=0, cancelled=False, truncated=False, timestamp=4
    )
    return MessageBody(message=message)


def test_pages_from_the_leaf_to_the_root_hold_each_entry_once() -> None:
    session, ids = talk()
    assert page(session, 4) == (ids[2:], True)
    assert page(session, 4, ids[2]) == (ids[:2], False)
    assert page(session, 6) == (ids, False)
    assert page(session, 2, ids[2]) == (ids[:2], False)
    assert page(session, 2, ids[0]) == ([], False)
    with pytest.raises(CommandError, match="Entry not found: nothing"):
        path_tail(session, 2, "nothing")


def test_a_page_holds_only_the_active_branch() -> None:
    session, ids = talk()
    session.branch_to(ids[1])
    new = session.append(user("other")).id
    assert page(session, 2) == ([ids[1], new], True)
    assert [entry.id for entry in path_after(session, ids[0]) or ()] == [ids[1], new]
    assert path_after(session, new) == []
    assert path_after(session, ids[2]) is None
    assert path_after(session, "nothing") is None
    session.branch_to(None)
    assert page(session, 2) == ([], False)
    assert path_after(session, ids[0]) is None


class CountedWalk(Session):
    """Counts the steps from entries to their parents."""

    steps = 0

    def parent(self, entry: Entry) -> Entry | None:
        self.steps += 1
        return super().parent(entry)


def test_the_cost_of_a_page_does_not_depend_on_the_length_of_the_session() -> None:
    session = CountedWalk(new_header("/project"), None, no_warning)
    ids = [session.append(user(str(number))).id for number in range(300)]
    assert page(session, 20, ids[200]) == (ids[180:200], True)
    assert page(session, 20) == (ids[280:], True)
    assert len(path_after(session, ids[295]) or ()) == 4
    assert is_interrupted(session)
    assert session.steps < 50


def test_a_conversation_is_interrupted_until_its_last_message_is_answered() -> None:
    session = new_session("/project", None, no_warning)
    assert not is_interrupted(session)
    for body, expected in (
        (user("hello"), True),
        (asks("toolUse"), True),
        (result(), True),
        (shell(), True),
        (answer("done"), False),
        (shell(), False),
        (CustomMessageBody(custom_type="x", content="look", display=True), True),
        (asks("aborted"), False),
        (asks("error"), False),
        (asks("length"), False),
    ):
        entry = session.append(body)
        session.append(LabelBody(target_id=entry.id, label="mark"))
        assert is_interrupted(session) is expected, body
