"""What happens in a run is told to extensions in their own words."""

from typing import Any

import pytest
from msgspec import structs

from ludolf.agent import events
from ludolf.agent.tool import text_output
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.messages import ToolCall, UserMessage
from ludolf.base import Value
from ludolf.engine.extension_bridge.bridge import NAMES, Teller
from ludolf.extensions import payloads
from ludolf.extensions.hooks import HOOKS
from ludolf.extensions.payloads import compaction_plan
from ludolf.protocol.events import AgentSettled, SessionInfoChanged
from ludolf.session.compaction import Preparation
from ludolf.session.summary_text import FileLists
from tests.extension_host import MODEL

USER = UserMessage(content="hi", timestamp=1)
OUTPUT = text_output("x")


@pytest.mark.parametrize(
    "event",
    [
        events.MessageStart(message=USER),
        events.ToolStart(tool_call_id="1", tool_name="t", args={"a": 1}),
        events.ToolUpdate(tool_call_id="1", tool_name="t", args={}, partial_result=OUTPUT),
        events.ToolEnd(tool_call_id="1", tool_name="t", result=OUTPUT, is_error=True),
        AgentSettled(),
        SessionInfoChanged(name="n"),
    ],
)
def test_an_event_is_told_with_the_fields_that_hosts_see(event: Value) -> None:
    payload = Teller().payload(event)
    assert payload.type == NAMES[type(event)] == event.__struct_config__.tag
    assert structs.asdict(payload) == structs.asdict(event)


def test_the_start_of_a_run_is_told_without_its_trace() -> None:
    event = events.AgentStart(traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
    assert Teller().payload(event) == payloads.AgentStart()


def test_the_end_of_a_run_is_told_with_its_messages() -> None:
    event = events.AgentEnd(messages=(USER,), will_retry=False)
    assert Teller().payload(event) == payloads.AgentEnd(messages=(USER,))


def test_turns_are_counted_from_the_beginning_of_each_run() -> None:
    teller, told = Teller(), []
    turn = events.TurnStart()
    for event in (events.AgentStart(), turn, turn, events.AgentStart(), turn):
        teller.note(event)
        if event is turn:
            told.append(teller.payload(turn))
    indexes = [each.turn_index for each in told if isinstance(each, payloads.TurnStart)]
    assert indexes == [0, 1, 0]


def _pieces() -> list[tuple[StreamEvent, dict[str, Any]]]:
    draft = Draft(MODEL)
    call = ToolCall(id="c", name="read", arguments={"a": 1})
    return [
        (draft.start_text(), {"type": "text_start", "content_index": 0}),
        (draft.text(0, "hi"), {"type": "text_delta", "content_index": 0, "delta": "hi"}),
        (draft.end(0), {"type": "text_end", "content_index": 0, "content": "hi"}),
        (draft.start_thinking(), {"type": "thinking_start", "content_index": 1}),
        (draft.end(1), {"type": "thinking_end", "content_index": 1, "content": ""}),
        (draft.start_tool("c", "read"), {"type": "toolcall_start", "content_index": 2}),
        (
            draft.tool_args(2, '{"a":1}'),
            {"type": "toolcall_delta", "content_index": 2, "delta": '{"a":1}'},
        ),
        (draft.end(2), {"type": "toolcall_end", "content_index": 2, "tool_call": call}),
    ]


def test_pieces_of_an_answer_are_told_in_the_words_of_the_wire() -> None:
    for event, piece in _pieces():
        assert payloads.answer_piece(event) == payloads.AnswerPiece(**piece)


def test_an_update_holds_the_message_as_it_stands() -> None:
    draft = Draft(MODEL)
    draft.start_text()
    update = Teller().payload(events.MessageUpdate(draft.text(0, "so far"), draft))
    draft.text(0, " and on")
    assert isinstance(update, payloads.MessageUpdate)
    assert update.message.content[0].text == "so far"  # type: ignore[union-attr]  # it is text


def test_every_event_of_the_hub_that_is_told_is_one_that_handlers_only_hear_of() -> None:
    assert {HOOKS[name].kind for name in NAMES.values()} == {"notify"}


def test_a_compaction_is_told_with_its_files() -> None:
    prepared = Preparation(
        first_kept_id="e",
        history=(USER,),
        prefix=(),
        previous_summary="before",
        tokens_before=7,
        files=FileLists(read_files=("a",), modified_files=("b",)),
    )
    plan = compaction_plan(prepared)
    assert (plan.first_kept_entry_id, plan.tokens_before, plan.is_split_turn) == ("e", 7, False)
    assert (plan.messages_to_summarize, plan.previous_summary) == ((USER,), "before")
    assert (plan.read_files, plan.modified_files) == (("a",), ("b",))
