"""Frames of a session become finished rows once, and live rows as long as they are live."""

from typing import Any

import pytest

from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import unstyled
from ludolf.tui.conversation import Conversation, Effect
from ludolf.tui.dialogs import Dialog
from ludolf.tui.drawing import Drawing
from ludolf.tui.footer import footer_text
from ludolf.tui.keys import KeyPress
from ludolf.tui.theme import built_in_theme

Frame = dict[str, Any]
CELLS = 60
SESSION = {"sessionId": "s", "sessionFile": "/s.jsonl", "model": {"id": "large", "provider": "x"}}


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def make(*, is_ascii: bool = False, show_thinking: bool = False) -> tuple[Conversation, Clock]:
    clock = Clock()
    drawing = Drawing(built_in_theme("none"), CELLS, is_ascii=is_ascii)
    return Conversation(drawing, show_thinking=show_thinking, clock=clock), clock


def printed(conversation: Conversation) -> str:
    return "\n".join(map(unstyled, conversation.take_rows()))


def live(conversation: Conversation, most: int = 20) -> str:
    return "\n".join(map(unstyled, conversation.live_rows(most)))


def user(text: str, timestamp: int = 1) -> Frame:
    content = [{"type": "text", "text": text}]
    return {"role": "user", "content": content, "timestamp": timestamp}


def assistant(text: str, timestamp: int = 2, **more: Any) -> Frame:
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}] if text else [],
        "api": "a",
        "provider": "x",
        "model": "large",
        "usage": {**usage, "cost": cost},
        "stopReason": "stop",
        "timestamp": timestamp,
        **more,
    }


def delta(kind: str, **more: Any) -> Frame:
    event = {"type": kind, "contentIndex": 0, **more}
    return {"type": "message_update", "assistantMessageEvent": event}


def feed(conversation: Conversation, *frames: Frame) -> None:
    for frame in frames:
        conversation.take(frame)


def stream(text: str, timestamp: int = 2) -> list[Frame]:
    deltas = [delta("text_delta", delta=sign) for sign in text]
    end = {"type": "message_end", "message": assistant(text, timestamp)}
    return [delta("text_start"), *deltas, delta("text_end", content=text), end]


def test_an_answer_is_printed_once_and_open_only_while_it_is_written() -> None:
    conversation, _ = make()
    conversation.sent("hello")
    feed(conversation, {"type": "agent_start"}, {"type": "message_end", "message": user("hello")})
    first, second, end = "The first paragraph.\n\n", "The second one", " is open."
    feed(conversation, delta("text_start"), delta("text_delta", delta=first + second))
    assert "The first paragraph." not in live(conversation)
    assert live(conversation).splitlines()[-3:] == [second, "", "⠋ Writing"]
    rows = printed(conversation)
    assert "hello" in rows
    feed(conversation, delta("text_delta", delta=end), delta("text_end"))
    message = assistant(first + second + end)
    feed(conversation, {"type": "message_end", "message": message}, {"type": "agent_settled"})
    rows += printed(conversation)
    assert rows.count("The first paragraph.") == 1
    assert rows.count("The second one is open.") == 1
    assert live(conversation) == ""
    assert not conversation.moves
    assert Effect("settled") in conversation.take_effects()


def test_a_tool_is_live_with_its_last_lines_and_then_a_card() -> None:
    conversation, clock = make()
    blocks = [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "make"}}]
    message = assistant("", content=blocks, stopReason="toolUse")
    about = {"toolCallId": "c", "toolName": "bash", "args": {"command": "make"}}
    output = {"content": [{"type": "text", "text": "\n".join(map(str, range(100)))}]}
    feed(
        conversation,
        {"type": "agent_start"},
        {"type": "message_end", "message": message},
        {"type": "tool_execution_start", **about},
        {"type": "tool_execution_update", **about, "partialResult": output},
    )
    clock.seconds += 12
    assert "bash  make" in live(conversation)
    assert "12 s" in live(conversation)
    assert "\n  99" in live(conversation)
    assert "\n  90" not in live(conversation)
    result = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "isError": False}
    feed(
        conversation,
        {"type": "tool_execution_end", **about, "result": output, "isError": False},
        {"type": "message_end", "message": {**result, **output, "timestamp": 3}},
    )
    rows = printed(conversation)
    assert rows.count("bash  make") == 1
    assert "90 more lines" in rows
    assert "bash" not in live(conversation)


def test_a_snapshot_prints_only_what_is_not_printed_and_continues_what_is_open() -> None:
    conversation, _ = make()
    conversation.begin({"state": SESSION, "entries": []})
    feed(conversation, {"type": "message_end", "message": user("one", 1)}, *stream("First.", 2))
    entries = [
        {"type": "message", "id": str(number), "parentId": None, "message": message}
        for number, message in enumerate((user("one", 1), assistant("First.", 2), user("two", 3)))
    ]
    before = printed(conversation)
    underway = {
        "message": assistant("Half of"),
        "followUp": ["later"],
        "dialogs": [{"id": "d", "method": "confirm", "title": "Sure?"}],
    }
    conversation.take(
        {"type": "resync", "data": {"state": SESSION, "entries": entries, "underway": underway}}
    )
    rows = printed(conversation)
    assert before.count("First.") == 1
    assert "First." not in rows
    assert rows.count("two") == 1
    assert "then: later" in live(conversation)
    assert list(conversation.dialogs) == ["d"]
    feed(conversation, delta("text_delta", delta=" it."), delta("text_end"))
    assert "Half of it." in printed(conversation)
    tools = [{"toolCallId": "c", "toolName": "bash", "args": {"command": "sleep 9"}}]
    conversation.begin({"state": SESSION, "entries": entries, "underway": {"tools": tools}})
    assert "sleep 9" in live(conversation)
    assert printed(conversation) == ""


def test_an_answer_that_a_snapshot_interrupts_is_printed_once() -> None:
    first, second = "A whole paragraph.\n\n", "And the rest of it."
    message = assistant(first + second)
    entry = {"type": "message", "id": "e", "parentId": None, "message": message}
    snapshots: list[Frame] = [
        {"entries": [], "underway": {"message": message}},
        {"entries": [entry], "underway": {}},
    ]
    for snapshot in snapshots:
        conversation, _ = make()
        feed(conversation, delta("text_start"), delta("text_delta", delta=first + "And"))
        conversation.take({"type": "resync", "data": {"state": SESSION, **snapshot}})
        feed(conversation, delta("text_end"), {"type": "message_end", "message": message})
        rows = printed(conversation)
        assert rows.count("A whole paragraph.") == 1
        assert rows.count("And the rest of it.") == 1


def test_prompts_of_others_have_their_name() -> None:
    conversation, _ = make()
    joined = {"type": "client_joined", "client": "w1", "name": "web\x1b[31m", "role": "control"}
    conversation.sent("mine")
    feed(
        conversation,
        joined,
        {"type": "message_end", "message": user("mine", 1)},
        {"type": "message_end", "message": user("theirs", 2)},
    )
    rows = printed(conversation)
    assert rows.count("web") == 1
    assert rows.index("mine") < rows.index("web") < rows.index("theirs")
    assert "also: web" in footer_text(conversation, "~/demo", 80, is_ascii=False)
    conversation.take({"type": "client_left", "client": "w1"})
    assert conversation.others == {}


def test_thinking_is_one_line_or_all_of_it() -> None:
    text = "First thought.\n\nSecond thought."
    for shown in (False, True):
        conversation, clock = make(show_thinking=shown)
        conversation.take({"type": "agent_start"})
        feed(conversation, delta("thinking_start"), delta("thinking_delta", delta=text))
        clock.seconds += 7
        assert "Thinking  7 s" in live(conversation)
        feed(conversation, delta("thinking_end"), *stream("Answer."))
        rows = printed(conversation)
        assert "First thought." in rows
        assert ("\n┊ Second thought." in rows) is shown


def test_a_dialog_that_another_client_answered_vanishes_with_its_name() -> None:
    conversation, _ = make()
    conversation.others["p"] = "phone"
    request = {"type": "extension_ui_request", "id": "q", "method": "select"}
    feed(conversation, {**request, "title": "Allow?", "options": ["Yes", "No"]})
    assert "q" in conversation.dialogs
    cancel = {"type": "extension_ui_request", "id": "x", "method": "cancel", "targetId": "q"}
    feed(conversation, {**cancel, "by": "p"})
    assert conversation.dialogs == {}
    assert "Allow?: answered by phone" in printed(conversation)


def test_the_live_rows_fit_and_are_ascii_where_the_terminal_is() -> None:
    conversation, _ = make(is_ascii=True)
    feed(
        conversation,
        {"type": "agent_start"},
        {"type": "queue_update", "steering": ["x" * 200] * 5, "followUp": ["y"] * 5},
        {"type": "message_end", "message": user("hello")},
    )
    rows = conversation.live_rows(4)
    assert len(rows) == 4
    assert all(len(unstyled(row)) <= CELLS for row in rows)
    assert "".join(rows).isascii()
    assert printed(conversation).isascii()


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "message_end"},
        {"type": "message_update", "assistantMessageEvent": 3},
        {"type": "tool_execution_end", "toolCallId": None, "result": [1]},
        {"type": "extension_ui_request", "method": "select", "options": 5},
        {"type": "extension_ui_request", "method": "setWidget", "widgetLines": [None, {}]},
        {"type": "queue_update", "steering": 7, "followUp": {}},
        {"type": "resync", "data": {"entries": [None, {"type": 3}], "underway": {"tools": [1]}}},
        {"type": "auto_retry_start", "delayMs": "soon"},
        {"type": "client_joined", "client": ["\x1b]0;x\x07"]},
        {},
    ],
)
def test_odd_frames_are_harmless(frame: Frame) -> None:
    conversation, _ = make()
    conversation.take(frame)
    for row in (*conversation.take_rows(), *conversation.live_rows(10)):
        assert "\x1b]0" not in row


def _dialog(**request: Any) -> Dialog:
    return Dialog({"id": "d", "title": "Allow bash: rm", **request}, Bindings())


def test_a_choice_is_made_by_number_arrows_letters_or_dismissed() -> None:
    approval = {"method": "select", "options": ["Approve", "Session", "Deny"], "toolName": "bash"}
    assert _dialog(**approval).handle(KeyPress("2", "2")) == {"value": "Session"}
    assert _dialog(**approval).handle(KeyPress("y", "y")) == {"value": "Approve"}
    assert _dialog(**approval).handle(KeyPress("n", "n")) == {"value": "Deny"}
    assert _dialog(**approval).handle(KeyPress("escape")) == {"cancelled": True}
    dialog = _dialog(**approval)
    assert dialog.handle(KeyPress("up")) is None
    assert dialog.handle(KeyPress("enter")) == {"value": "Deny"}
    assert _dialog(method="select", options=["a"]).handle(KeyPress("y", "y")) is None
    assert _dialog(method="confirm").handle(KeyPress("escape")) == {"confirmed": False}
    text = _dialog(method="input", prefill="ab")
    assert text.handle(KeyPress("c", "c")) is None
    assert text.handle(KeyPress("enter")) == {"value": "abc"}


def test_a_long_command_leaves_room_for_the_options() -> None:
    command = "\n".join(f"echo {number}" for number in range(50))
    approval = {"method": "select", "options": ["Approve", "Deny"], "toolName": "bash"}
    dialog = _dialog(**approval, args={"command": command}, risk="execute")
    rows, _ = dialog.rows(Drawing(built_in_theme("none"), CELLS), 8)
    assert len(rows) == 8
    assert "more rows" in rows[5]
    assert "1. Approve" in unstyled(rows[6])


def test_a_tool_without_a_diff_is_approved_by_its_arguments() -> None:
    approval = {"method": "select", "options": ["Approve", "Deny"], "toolName": "mcp__x__send"}
    dialog = _dialog(**approval, args={"to": "all\x1b[2J", "text": "one\ntwo"})
    rows, _ = dialog.rows(Drawing(built_in_theme("none"), CELLS), 12)
    assert rows[1:4] == ["  to: all", "  text: one", "  two"]


@pytest.mark.parametrize("ended", [False, True])
def test_an_answer_that_was_stored_while_its_engine_died_is_printed_once(*, ended: bool) -> None:
    conversation, _ = make()
    feed(conversation, delta("text_start"), delta("text_delta", delta="First answ"))
    if ended:
        feed(conversation, delta("text_delta", delta="er."), delta("text_end"))
    conversation.lost()
    entry = {"type": "message", "id": "a", "message": assistant("First answer.")}
    conversation.begin({"state": SESSION, "entries": [entry]})
    text = printed(conversation)
    assert "".join(text.split()) == "Firstanswer."
    conversation.begin({"state": SESSION, "entries": [entry]})
    assert printed(conversation) == ""
