"""Ends of texts moved forward, to where older families tell them."""

from ludolf.agent.events import MessageUpdate
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.draft import BlockDelta, BlockEnd, Draft, StreamEvent
from ludolf.protocol.dialects.pi import EagerEnds


def _order(ends: EagerEnds, draft: Draft, *events: StreamEvent) -> list[str]:
    told = [item for event in events for item in ends.order(MessageUpdate(event, draft))]
    return [_name(item.event) for item in told]


def _name(event: StreamEvent) -> str:
    kind = {BlockDelta: "delta", BlockEnd: "end"}.get(type(event), "start")
    return f"{kind} {event.index}"


def test_a_text_ends_when_the_next_block_begins_and_not_again() -> None:
    draft, ends = Draft(scripted_model()), EagerEnds()
    told = _order(
        ends, draft, draft.start_text(), draft.text(0, "a"), draft.start_tool("c", "bash")
    )
    told += _order(ends, draft, draft.tool_args(1, "{}"))
    for event in draft.end_all():
        told += _order(ends, draft, event)
    assert told == ["start 0", "delta 0", "end 0", "start 1", "delta 1", "end 1"]


def test_the_early_end_has_the_text_so_far() -> None:
    draft, ends = Draft(scripted_model()), EagerEnds()
    _order(ends, draft, draft.start_text(), draft.text(0, "so far"))
    (end, _) = ends.order(MessageUpdate(draft.start_text(), draft))
    assert isinstance(end.event, BlockEnd)
    assert end.event.block == draft.snapshot().content[0]


def test_a_text_that_goes_on_after_all_ends_once_more() -> None:
    draft, ends = Draft(scripted_model()), EagerEnds()
    told = _order(ends, draft, draft.start_text(), draft.start_tool("c", "bash"))
    told += _order(ends, draft, draft.text(0, "more"), draft.end(0))
    assert told == ["start 0", "end 0", "start 1", "delta 0", "end 0"]


def test_another_answer_begins_afresh() -> None:
    ends = EagerEnds()
    first, second = Draft(scripted_model()), Draft(scripted_model())
    _order(ends, first, first.start_text())
    assert _order(ends, second, second.start_text()) == ["start 0"]
