"""What a model is sent of a conversation."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.ai.encoded_cache import Pieces
from ludolf.ai.history import (
    NO_IMAGE,
    NO_TOOL_IMAGE,
    HistoryAdapter,
    ModelMessage,
    NormalId,
    bash_text,
)
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    BashExecutionMessage,
    Block,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Image,
    Message,
    OpaqueMessage,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model, ModelCost


def adapt(
    messages: Sequence[Message | OpaqueMessage], model: Model, normal_id: NormalId | None = None
) -> list[ModelMessage]:
    return HistoryAdapter(normal_id).adapt(messages, model)


PICTURE = Image(data="aGk=", mime_type="image/png")


def model(model_id: str = "here", *, images: bool = True) -> Model:
    return Model(
        id=model_id,
        name=model_id,
        api="api",
        provider="provider",
        base_url="http://127.0.0.1",
        reasoning=True,
        input=("text", "image") if images else ("text",),
        cost=ModelCost(),
        context_window=1000,
        max_tokens=100,
    )


def user(text: str = "hello") -> UserMessage:
    return UserMessage(content=(Text(text=text),), timestamp=1)


def assistant(
    *blocks: Block, by: str = "here", stop: StopReason = "stop", provider: str = "provider"
) -> AssistantMessage:
    return AssistantMessage(
        content=blocks,
        api="api",
        provider=provider,
        model=by,
        usage=NO_USAGE,
        stop_reason=stop,
        timestamp=2,
    )


def call(call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name="bash", arguments=arguments)


def result(call_id: str, text: str = "done") -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="bash",
        content=(Text(text=text),),
        is_error=False,
        timestamp=3,
    )


def bash(**changes: Any) -> BashExecutionMessage:
    fields = {"command": "ls", "output": "a\n", "cancelled": False, "truncated": False}
    return BashExecutionMessage(**{**fields, "exit_code": 0, "timestamp": 4, **changes})


def test_messages_that_need_no_change_come_back_as_the_same_objects() -> None:
    thought = Thinking(thinking="hm", thinking_signature="sig")
    messages: list[Message] = [user(), assistant(thought, call("c1")), result("c1")]
    out = adapt(messages, model())
    assert len(out) == 3
    assert all(new is old for new, old in zip(out, messages, strict=True))


def test_a_changed_message_gives_the_same_object_each_time() -> None:
    handoff = HistoryAdapter(lambda call_id, _: call_id.upper())
    messages: list[Message] = [
        bash(),
        assistant(Thinking(thinking="hm"), call("c1"), call("c2"), by="other"),
        result("c1"),
    ]
    first, second = (handoff.adapt(messages, model()) for _ in range(2))
    assert len(first) == 4
    assert all(one is two for one, two in zip(first, second, strict=True))


def test_another_model_gets_its_own_form_of_the_same_messages() -> None:
    handoff = HistoryAdapter()
    message = assistant(Thinking(thinking="hm", thinking_signature="s"), by="here")
    assert handoff.adapt([message], model("here")) == [message]
    there = handoff.adapt([message], model("there"))
    assert there[0].content == (Text(text="hm"),)
    assert handoff.adapt([message], model("here"))[0] is message


def test_failed_and_aborted_answers_are_not_sent() -> None:
    messages: list[Message] = [
        user("one"),
        assistant(Text(text="half"), stop="error"),
        assistant(call("c1"), stop="aborted"),
        user("two"),
    ]
    assert adapt(messages, model()) == [messages[0], messages[3]]


def test_a_call_without_result_gets_one_before_the_next_message() -> None:
    asked = assistant(call("c1"), call("c2"))
    out = adapt([asked, result("c1"), user("next")], model())
    made = out[2]
    assert isinstance(made, ToolResultMessage)
    assert (made.tool_call_id, made.is_error, text_of(made.content)) == (
        "c2",
        True,
        "No result provided",
    )
    assert text_of(out[3].content) == "next"


def test_a_call_at_the_very_end_gets_a_result_too() -> None:
    out = adapt([assistant(call("c1"))], model())
    assert [type(message) for message in out] == [AssistantMessage, ToolResultMessage]


def test_what_came_between_a_call_and_its_result_is_moved_after_the_result() -> None:
    asked, between, answer = assistant(call("c1")), user("meanwhile"), result("c1")
    assert adapt([asked, between, answer], model()) == [asked, answer, between]


def test_results_that_no_call_waits_for_are_left_out() -> None:
    asked = assistant(call("c1"))
    again = result("c1", "a second time")
    out = adapt([result("c0"), user(), asked, result("c1"), again, result("c9")], model())
    assert [text_of(message.content) for message in out] == ["hello", "", "done"]


def test_ids_of_another_model_are_normalised_and_results_follow() -> None:
    foreign = assistant(call("a|b"), by="other")
    out = adapt([foreign, result("a|b")], model(), lambda call_id, _: call_id.replace("|", "_"))
    assert isinstance(out[0], AssistantMessage)
    assert isinstance(out[1], ToolResultMessage)
    assert (out[0].tool_calls[0].id, out[1].tool_call_id) == ("a_b", "a_b")


def test_own_ids_are_kept() -> None:
    own = assistant(call("a|b"))
    assert adapt([own, result("a|b")], model(), lambda *_: "never")[0] is own


def test_marks_of_another_model_are_taken_off() -> None:
    foreign = assistant(
        Thinking(thinking="hm", thinking_signature="s"),
        Thinking(thinking="[hidden]", thinking_signature="s", redacted=True),
        Thinking(thinking=" \n", thinking_signature="s"),
        Text(text="hi", text_signature="s"),
        ToolCall(id="c", name="bash", arguments={}, thought_signature="s"),
        by="other",
    )
    out = adapt([foreign, result("c")], model())
    assert out[0].content == (Text(text="hm"), Text(text="hi"), call("c"))


def test_the_same_model_name_at_another_provider_is_another_model() -> None:
    foreign = assistant(Thinking(thinking="hm", thinking_signature="s"), provider="elsewhere")
    assert adapt([foreign], model())[0].content == (Text(text="hm"),)


def test_own_thinking_is_kept_unless_it_is_blank_and_unsigned() -> None:
    signed = Thinking(thinking="", thinking_signature="s")
    plain = Thinking(thinking="hm", thinking_signature="")
    own = assistant(signed, plain, Thinking(thinking=" ", thinking_signature=""))
    assert adapt([own], model())[0].content == (signed, plain)


def test_each_run_of_images_becomes_one_placeholder_for_a_model_without_eyes() -> None:
    asked = assistant(call("c1"))
    seen = UserMessage(content=(PICTURE, PICTURE, Text(text="look"), PICTURE), timestamp=1)
    found = msgspec.structs.replace(result("c1"), content=(Text(text="read"), PICTURE))
    out = adapt([seen, asked, found], model(images=False))
    assert text_of(out[0].content, "|") == f"{NO_IMAGE}|look|{NO_IMAGE}"
    assert text_of(out[2].content, "|") == f"read|{NO_TOOL_IMAGE}"
    assert adapt([seen, asked, found], model()) == [seen, asked, found]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (bash(), "Ran `ls`\n```\na\n\n```"),
        (bash(output=""), "Ran `ls`\n(no output)"),
        (bash(exit_code=2), "Ran `ls`\n```\na\n\n```\n\nCommand exited with code 2"),
        (
            bash(output="", cancelled=True, exit_code=None),
            "Ran `ls`\n(no output)\n\n(command cancelled)",
        ),
        (
            bash(truncated=True, full_output_path="/tmp/x"),
            "Ran `ls`\n```\na\n\n```\n\n[Output truncated. Full output: /tmp/x]",
        ),
    ],
)
def test_a_command_of_the_host_is_told_in_words(message: BashExecutionMessage, text: str) -> None:
    assert bash_text(message) == text
    assert adapt([message], model()) == [UserMessage(content=(Text(text=text),), timestamp=4)]


def test_a_command_excluded_from_context_is_not_sent() -> None:
    assert adapt([bash(exclude_from_context=True)], model()) == []


def test_messages_of_extensions_are_sent_as_the_users() -> None:
    plain = CustomMessage(custom_type="x", content="hi", display=False, timestamp=5)
    blocks = CustomMessage(
        custom_type="x", content=(Text(text="a"), PICTURE), display=True, timestamp=6
    )
    assert adapt([plain, blocks], model()) == [
        UserMessage(content="hi", timestamp=5),
        UserMessage(content=(Text(text="a"), PICTURE), timestamp=6),
    ]


@pytest.mark.parametrize(
    "message",
    [
        BranchSummaryMessage(summary="it went so", from_id=None, timestamp=7),
        CompactionSummaryMessage(summary="it went so", tokens_before=9, timestamp=7),
    ],
)
def test_summaries_follow_one_line_that_says_what_they_are(message: Message) -> None:
    (out,) = adapt([message], model())
    statement, _, rest = text_of(out.content).partition("\n\n")
    assert "\n" not in statement
    assert "summary" in statement
    assert rest == "<summary>\nit went so\n</summary>"


def test_messages_of_unknown_roles_are_not_sent() -> None:
    odd = OpaqueMessage(role="developer", raw=msgspec.Raw(b'{"role":"developer"}'))
    assert adapt([odd, user()], model()) == [user()]


def test_lone_surrogates_are_removed_and_pairs_joined() -> None:
    lone, pair = "a\ud800b", "\ud83d\ude00"
    asked = assistant(
        Text(text=lone),
        Thinking(thinking=lone, thinking_signature="s"),
        call("c1", path=[lone, {lone: pair}], count=1),
    )
    found = result("c1", lone + pair)
    spoken = UserMessage(content=lone, timestamp=1)
    out = adapt([user(lone), spoken, bash(command=lone), asked, found], model())
    texts = [text_of(message.content) for message in out]
    assert texts == ["ab", "ab", "Ran `ab`\n```\na\n\n```", "ab", "ab😀"]
    assert isinstance(out[3], AssistantMessage)
    assert out[3].content[1] == Thinking(thinking="ab", thinking_signature="s")
    assert out[3].tool_calls[0].arguments == {"path": ["ab", {"ab": "😀"}], "count": 1}


def _conversations() -> st.SearchStrategy[list[Message]]:
    ids = st.sampled_from(("c1", "c2", "c3", ""))
    stops: st.SearchStrategy[StopReason] = st.sampled_from(("stop", "toolUse", "error", "aborted"))
    answers = st.builds(
        lambda names, stop, by: assistant(*map(call, names), stop=stop, by=by),
        st.lists(ids, max_size=3),
        stops,
        st.sampled_from(("here", "other")),
    )
    return st.lists(st.one_of(answers, ids.map(result), st.builds(user), st.builds(bash)))


def _numbered(call_id: str, source: AssistantMessage) -> str:
    return f"n{call_id}"


@settings(deadline=None)
@given(_conversations())
def test_every_call_is_followed_by_exactly_its_results(messages: list[Message]) -> None:
    handoff = HistoryAdapter(_numbered)
    out = handoff.adapt(messages, model())
    again = handoff.adapt(messages, model())
    assert all(one is two for one, two in zip(out, again, strict=True))
    assert _unpaired(out) == []


@settings(deadline=None)
@given(_conversations(), st.lists(st.integers(0, 30), max_size=4))
def test_a_conversation_that_grew_is_adapted_as_if_it_were_new(
    messages: list[Message], lengths: list[int]
) -> None:
    handoff = HistoryAdapter(_numbered)
    for length in lengths:
        part = messages[:length]
        assert handoff.adapt(part, model()) == adapt(part, model(), _numbered)


def _unpaired(messages: list[ModelMessage]) -> list[str]:
    waiting: list[str] = []
    wrong: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
            else:
                wrong.append(message.tool_call_id)
            continue
        wrong += waiting
        waiting = []
        if isinstance(message, AssistantMessage):
            waiting = [item.id for item in message.tool_calls]
    return wrong + waiting


def test_a_piece_is_built_once_per_message() -> None:
    pieces, message, built = Pieces(), user(), list[int]()

    def build() -> bytes:
        built.append(1)
        return b"form"

    assert [pieces.get(message, build) for _ in range(3)] == [b"form"] * 3
    assert built == [1]


def test_an_equal_message_is_not_the_same_message() -> None:
    pieces = Pieces()
    pieces.get(user(), lambda: b"old")
    assert pieces.get(user(), lambda: b"new") == b"new"


def test_pieces_are_bounded() -> None:
    pieces, first = Pieces(limit=2), user()
    pieces.get(first, lambda: b"old")
    pieces.get(user(), lambda: b"")
    pieces.get(user(), lambda: b"")
    assert pieces.get(first, lambda: b"again") == b"again"


def test_pieces_of_another_conversation_are_dropped() -> None:
    pieces, first, second = Pieces(), user(), user()
    pieces.get(first, lambda: b"one")
    pieces.keep_for(first)
    assert pieces.get(first, lambda: b"") == b"one"
    pieces.keep_for(second)
    assert pieces.get(first, lambda: b"new") == b"new"
