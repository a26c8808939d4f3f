"""An answer while it streams: events, snapshots as JSON, the final message."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft
from ludolf.ai.messages import Text, Thinking, ToolCall, Usage
from ludolf.ai.models import Model, ModelCost
from ludolf.base import dumps, loads


def model() -> Model:
    return Model(
        id="here",
        name="Here",
        api="api",
        provider="provider",
        base_url="http://127.0.0.1",
        reasoning=True,
        input=("text",),
        cost=ModelCost(input=2, output=10),
        context_window=1000,
        max_tokens=100,
    )


def spliced(draft: Draft) -> Any:
    return json.loads(b"".join(draft.segments()))


def test_every_call_returns_the_event_that_tells_of_it() -> None:
    draft = Draft(model())
    assert draft.start_thinking() == BlockStart("thinking", 0)
    assert draft.thinking(0, "hm") == BlockDelta("thinking", 0, "hm", b"hm")
    assert draft.start_text() == BlockStart("text", 1)
    assert draft.text(1, 'a"b\n') == BlockDelta("text", 1, 'a"b\n', b'a\\"b\\n')
    assert draft.start_tool("c1", "bash") == BlockStart("toolcall", 2, "c1", "bash")
    assert draft.tool_args(2, '{"x":') == BlockDelta("toolcall", 2, '{"x":', b'{\\"x\\":')
    assert draft.tool_args(2, "1}").kind == "toolcall"
    call = ToolCall(id="c1", name="bash", arguments={"x": 1})
    assert list(draft.end_all()) == [
        BlockEnd("thinking", 0, Thinking(thinking="hm", thinking_signature="")),
        BlockEnd("text", 1, Text(text='a"b\n')),
        BlockEnd("toolcall", 2, call),
    ]
    assert draft.finish().tool_calls == (call,)
    assert draft.broken == set()


STEPS = st.lists(
    st.tuples(st.sampled_from(("text", "thinking", "tool", "end", "count")), st.text(max_size=9)),
    max_size=25,
)


@settings(deadline=None)
@given(STEPS)
def test_the_spliced_snapshot_equals_the_encoded_one_at_every_step(
    steps: list[tuple[str, str]],
) -> None:
    draft, current = Draft(model()), ""
    for step, text in steps:
        if step == "end":
            list(draft.end_all())
            current = ""
        elif step == "count":
            draft.count(Usage(output=len(text)))
            draft.identify(text, text)
        else:
            _add(draft, step, text, is_new=step != current)
            current = step
        assert spliced(draft) == json.loads(dumps(draft.snapshot()))


def _add(draft: Draft, kind: str, text: str, *, is_new: bool) -> None:
    index = len(draft.snapshot().content) - (0 if is_new else 1)
    if kind == "text":
        _ = is_new and draft.start_text()
        draft.text(index, text)
    elif kind == "thinking":
        _ = is_new and draft.start_thinking()
        draft.thinking(index, text)
        draft.sign(index, "s", append=True)
    else:
        _ = is_new and draft.start_tool("c", "bash")
        draft.tool_args(index, '{"a":"' + text if is_new else text)


def test_a_long_answer_is_spliced_whole() -> None:
    draft = Draft(model())
    draft.start_text()
    words = [f"word {number}\n" for number in range(30_000)]
    for word in words:
        draft.text(0, word)
    assert spliced(draft)["content"][0]["text"] == "".join(words)
    assert len(draft.segments()) < 40


def test_a_redacted_thought_shows_as_such_from_its_start() -> None:
    draft = Draft(model())
    draft.start_thinking("[hidden]", "secret", redacted=True)
    shown = {"type": "thinking", "thinking": "[hidden]", "thinkingSignature": "secret"}
    assert spliced(draft)["content"] == [{**shown, "redacted": True}]
    draft.end(0)
    assert spliced(draft)["content"] == [{**shown, "redacted": True}]


def test_a_pair_of_surrogates_in_two_pieces_becomes_one_character() -> None:
    draft = Draft(model())
    draft.start_text()
    draft.text(0, "\ud83d")
    draft.text(0, "\ude00")
    assert spliced(draft)["content"][0]["text"] == "😀"
    list(draft.end_all())
    assert draft.finish().content == (Text(text="😀"),)
    assert spliced(draft)["content"][0]["text"] == "😀"


def test_snapshots_between_pieces_are_the_text_so_far() -> None:
    draft = Draft(model())
    draft.start_text()
    seen = []
    for piece in ("a", "\ud83d", "\ude00", "é", "\ud83d", "z"):
        draft.text(0, piece)
        seen.append(draft.snapshot().content)
    texts = ("a", "a\ud83d", "a😀", "a😀é", "a😀é\ud83d", "a😀é\ud83dz")
    assert seen == [(Text(text=text),) for text in texts]
    assert next(draft.end_all()).block == Text(text="a😀é\ud83dz")


@pytest.mark.parametrize("args", ['{"command":"rm -rf /tmp/x', '{"a" 1}'])
def test_a_call_with_cut_or_invalid_arguments_is_marked_broken(args: str) -> None:
    draft = Draft(model())
    draft.start_tool("c1", "bash")
    draft.tool_args(0, args)
    draft.end(0)
    assert draft.broken == {"c1"}


def test_a_call_without_arguments_is_whole() -> None:
    draft = Draft(model())
    draft.start_tool("c1", "bash")
    draft.end(0)
    assert (draft.broken, draft.finish().tool_calls[0].arguments) == (set(), {})


def test_a_call_may_get_its_name_late() -> None:
    draft = Draft(model())
    draft.start_tool("", "")
    draft.rename_tool(0, "c1", "read")
    assert spliced(draft)["content"] == [
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    ]


def test_signatures_are_set_or_extended() -> None:
    draft = Draft(model())
    draft.start_thinking()
    draft.start_text()
    draft.start_tool("c1", "bash")
    for part in ("ab", "cd"):
        draft.sign(0, part, append=True)
        draft.sign(1, part)
        draft.sign(2, part)
    list(draft.end_all())
    assert draft.finish().content == (
        Thinking(thinking="", thinking_signature="abcd"),
        Text(text="", text_signature="cd"),
        ToolCall(id="c1", name="bash", arguments={}, thought_signature="cd"),
    )


def test_counts_get_their_cost_and_show_in_the_next_snapshot() -> None:
    draft = Draft(model())
    assert spliced(draft)["usage"]["cost"]["total"] == 0
    draft.count(Usage(input=1_000_000, output=100_000, total_tokens=1_100_000))
    assert draft.usage.cost.total == 3.0
    assert spliced(draft)["usage"]["cost"] == json.loads(draft.usage_json)["cost"]


def test_a_failure_keeps_what_has_arrived() -> None:
    draft = Draft(model())
    draft.start_text()
    draft.text(0, "half")
    draft.identify("id", "here")
    draft.stopped("error", "refusal")
    message = draft.finish("error", "it broke")
    assert (message.content, message.error_message) == ((Text(text="half"),), "it broke")
    assert (message.response_id, message.response_model) == ("id", None)
    assert (message.stop_reason, message.raw_stop_reason) == ("error", "refusal")


def test_the_named_reason_is_the_reason_of_the_final_message_only() -> None:
    draft = Draft(model())
    draft.stopped("length", "max_tokens")
    draft.identify("id", "concrete")
    assert draft.snapshot().stop_reason == "stop"
    assert draft.finish().stop_reason == "length"
    assert draft.finish().response_model == "concrete"


def test_whole_costs_are_written_without_a_fraction() -> None:
    draft = Draft(scripted_model().replace(cost=ModelCost(input=1_000_000, output=0.5)))
    draft.count(Usage(input=2, output=1))
    cost = loads(draft.usage_json)["cost"]
    assert [repr(cost[name]) for name in ("input", "output", "cacheRead")] == ["2", "5e-07", "0"]
