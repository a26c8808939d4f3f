"""What one vendor's model began, another vendor's goes on with: every family to every other."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from ludolf.ai.history import NO_IMAGE, NO_TOOL_IMAGE
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
)
from tests.vendor_requests import PICTURE, results, user
from tests.vendor_rules import FOREIGN_CALL, REASONING_FIELDS, broken_rules
from tests.vendor_streams import FAMILIES, body_of, message_of, model, names

PAIRS = [(source, target) for source in FAMILIES for target in FAMILIES]
OTHERS = [(source, target) for source, target in PAIRS if source != target]
_TOKEN = re.compile(r"[A-Za-z0-9+/=_-]{30,}")


@cache
def answer(family: str, name: str) -> AssistantMessage:
    """A stream's message; the clock of a session goes on, the one of a test might not."""
    place = names(family).index(name) + 1000 * FAMILIES.index(family)
    return structs.replace(message_of(family, name), timestamp=1_763_400_000_000 + place)


# ---------------------------------------------------------------- what befalls an answer

Treatment = Callable[[AssistantMessage], Sequence[Message]]


def _with_pictures(said: AssistantMessage) -> Sequence[Message]:
    return [user("Look."), said, *results(said, Text(text="a chart"), PICTURE)]


def _picture_alone(said: AssistantMessage) -> Sequence[Message]:
    return [user("Look.", PICTURE), said, *results(said, PICTURE)]


def _failed(said: AssistantMessage) -> Sequence[Message]:
    return [user(), said, *results(said, Text(text="no such file"), is_error=True)]


def _failed_without_words(said: AssistantMessage) -> Sequence[Message]:
    return [user(), said, *results(said, Text(text=""), is_error=True)]


def _one_missing(said: AssistantMessage) -> Sequence[Message]:
    return [user(), said, *results(said)[1:]]


def _out_of_order(said: AssistantMessage) -> Sequence[Message]:
    return [user(), said, user("Meanwhile."), *reversed(results(said))]


def _twice(said: AssistantMessage) -> Sequence[Message]:
    return [user(), said, *results(said), *results(said)]


def _after_a_command(said: AssistantMessage) -> Sequence[Message]:
    ran = BashExecutionMessage(
        command="ls", output="a\n", exit_code=0, cancelled=False, truncated=False, timestamp=5
    )
    return [user(), said, ran, *results(said)]


def _aborted(said: AssistantMessage) -> Sequence[Message]:
    stopped = structs.replace(said, stop_reason="aborted", error_message="Request was aborted")
    return [user(), stopped, *results(said)]


TREATMENTS: dict[str, Treatment] = {
    "answered": lambda said: [user(), said, *results(said)],
    "orphaned": lambda said: [user(), said],
    "with pictures": _with_pictures,
    "a picture alone": _picture_alone,
    "failed": _failed,
    "failed without words": _failed_without_words,
    "one missing": _one_missing,
    "out of order": _out_of_order,
    "twice": _twice,
    "after a command": _after_a_command,
    "aborted": _aborted,
}


def odd(family: str) -> list[Message]:
    """What no stream gives, but old sessions and careless servers do."""
    whole = answer(family, "tools")
    calls = [ToolCall(id=f"{'long_name_' * 7}{n}", name="read", arguments={}) for n in range(2)]
    lists = [ToolCall(id="call_a", name="read", arguments=[1]), *calls]
    texts = (Text(text="half \ud83d"), Text(text=" \n"), Thinking(thinking="unsigned"))
    # By a model that is no more: what a vendor's own model says is taken as it is.
    said = structs.replace(whole, content=(*texts, *lists), model="older", timestamp=1)
    nothing = structs.replace(whole, content=(), usage=NO_USAGE)
    summary = CompactionSummaryMessage(summary="Before.", tokens_before=9, timestamp=1)
    stray = ToolResultMessage(
        tool_call_id="nobody", tool_name="ls", content=(), is_error=False, timestamp=3
    )
    return [summary, user(), said, *results(said), user(), nothing, stray, user(" ")]


@cache
def session(family: str) -> tuple[Message, ...]:
    """Each stream of a family once, and its calls once more for everything that may befall them."""
    said: list[Message] = [*odd(family)]
    for name in names(family):
        said += TREATMENTS["answered"](answer(family, name))
    for place, treatment in enumerate(TREATMENTS.values()):
        said += treatment(once_more(answer(family, "tools"), place))
    return (*said, user("And now?"))


def once_more(said: AssistantMessage, number: int) -> AssistantMessage:
    """The same calls with other ids."""
    calls = []
    for call in said.tool_calls:
        name, bar, item = call.id.partition("|")
        new_id = f"{name}{number}{bar}{item}{number}" if bar else f"{name}{number}"
        calls.append(structs.replace(call, id=new_id))
    return structs.replace(said, content=tuple(calls), timestamp=said.timestamp + 500 + number)


# ---------------------------------------------------------------- the matrix


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_session_satisfies_the_rules_of_every_family(source: str, target: str) -> None:
    assert broken_rules(target, body_of(target, *session(source))) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_session_satisfies_the_rules_for_another_model_of_its_family(family: str) -> None:
    other = model(family, id="gemini-3.5-flash" if family == "google" else "another-model")
    body = body_of(family, *session(family), model=other)
    assert broken_rules(family, body) == []
    assert own_marks(family).isdisjoint(tokens(body))


@pytest.mark.parametrize(("source", "target"), OTHERS)
def test_no_mark_of_another_vendor_is_sent(source: str, target: str) -> None:
    body = body_of(target, *session(source))
    said = body.get("messages") or body.get("input") or body["contents"]
    sent = msgspec.json.encode(said).decode()
    assert own_marks(source).isdisjoint(tokens(body))
    assert "[Reasoning redacted]" not in sent
    assert not any(f'"{field}"' in sent for field in REASONING_FIELDS)
    assert '"type":"thinking"' not in sent
    assert '"thought":' not in sent
    signed = set(re.findall(r'"thoughtSignature":"([^"]*)"', sent))
    assert signed <= {FOREIGN_CALL}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_gets_its_own_marks_back(family: str) -> None:
    kept = own_marks(family)
    assert kept
    missing = kept - tokens(body_of(family, *session(family)))
    assert missing == set()


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_model_that_sees_no_pictures_is_told_of_them(source: str, target: str) -> None:
    blind = model(target, input=("text",))
    body = body_of(target, *session(source), model=blind)
    sent = msgspec.json.encode(body).decode()
    assert broken_rules(target, body) == []
    assert PICTURE.data not in sent
    assert NO_IMAGE in sent
    assert NO_TOOL_IMAGE in sent


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_model_that_sees_gets_every_picture_once(source: str, target: str) -> None:
    shown = msgspec.json.encode(body_of(target, *session(source))).decode().count(PICTURE.data)
    calls = len(answer(source, "tools").tool_calls)
    assert shown == 2 * calls + 1


@pytest.mark.parametrize(("source", "target"), OTHERS)
def test_what_was_thought_in_the_open_goes_on_as_text(source: str, target: str) -> None:
    name = {"openai-chat": "reasoning_content", "openai-responses": "reasoning"}.get(source)
    said = answer(source, name or "thinking")
    thought = next(block.thinking for block in said.content if isinstance(block, Thinking))
    body = body_of(target, user(), said, user())
    assert thought in texts(body)


@pytest.mark.parametrize("target", FAMILIES)
@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(family, name) for family in FAMILIES for name in names(family)]),
            st.sampled_from(sorted(TREATMENTS)),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda each: each[0],
    )
)
def test_any_conversation_of_all_vendors_satisfies_the_rules(
    target: str, turns: list[tuple[tuple[str, str], str]]
) -> None:
    said: list[Message] = []
    for (family, name), treatment in turns:
        said += TREATMENTS[treatment](answer(family, name))
    assert broken_rules(target, body_of(target, *said, user())) == []


# ---------------------------------------------------------------- what is looked for


def own_marks(family: str) -> set[str]:
    """Whatever in a family's whole answers only the vendor understands."""
    found: set[str] = set()
    for name in names(family):
        said = answer(family, name)
        # Thinking that was cut before it led to something is refused, so it is not sent.
        if said.failed or name.startswith("max_tokens_in"):
            continue
        for block in said.content:
            if isinstance(block, Text) and not block.text.strip():
                continue  # it is not sent, and what marks it neither
            mark = {
                Text: lambda each: each.text_signature,
                Thinking: lambda each: each.thinking_signature,
                ToolCall: lambda each: each.thought_signature,
            }[type(block)](block)
            found |= set(_TOKEN.findall(mark or ""))
    return found


def tokens(value: Any) -> set[str]:
    return set(_TOKEN.findall(msgspec.json.encode(value).decode().replace('\\"', '"')))


def texts(value: Any) -> str:
    """All strings of a body, one after the other."""
    if isinstance(value, dict):
        return "\n".join(texts(item) for item in value.values())
    if isinstance(value, list):
        return "\n".join(texts(item) for item in value)
    return str(value)
