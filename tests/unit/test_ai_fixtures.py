"""The vendors' streams and failures, as in their documentation, through our readers."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart
from ludolf.ai.messages import Text, Thinking, ToolCall
from ludolf.base import join_surrogates, loads
from tests.vendor_streams import (
    FAMILIES,
    STREAMS,
    Bench,
    Told,
    canned,
    every,
    expected,
    lines,
    names,
    plain,
    refusal,
)

FAILURES = [(family, row) for family in FAMILIES for row in lines(f"{family}/errors.jsonl")]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize(("family", "name"), every())
def test_a_stream_becomes_exactly_the_expected_message(
    bench: Bench, family: str, name: str
) -> None:
    assert plain(bench.ask(family, canned(family, name))) == expected(family)[name]


@pytest.mark.parametrize(("family", "name"), every())
def test_the_events_of_a_stream_tell_what_the_message_holds(
    bench: Bench, family: str, name: str
) -> None:
    told = bench.ask(family, canned(family, name))
    deltas: dict[int, list[str]] = {}
    closed: list[int] = []
    for event in told.events:
        match event:
            case BlockStart(index=index):
                assert index == len(deltas)
                deltas[index] = []
            case BlockDelta(index=index, delta=delta):
                assert index in deltas
                assert index not in closed
                deltas[index].append(delta)
            case BlockEnd(index=index, block=block):
                assert index not in closed
                assert block == told.message.content[index] or family == "openai-responses"
                closed.append(index)
    assert len(told.message.content) == len(deltas)
    assert told.message.failed or sorted(closed) == list(deltas)
    for index, pieces in deltas.items():
        _check_pieces(told, index, "".join(pieces))


def _check_pieces(told: Told, index: int, joined: str) -> None:
    match told.message.content[index]:
        case Text(text=text):
            assert join_surrogates(joined) == text
        case Thinking(redacted=True):
            assert joined == ""
        case Thinking(thinking=text):
            # The gap after a summary's part is told before it is known that no part follows.
            assert joined.strip() == text.strip()
        case ToolCall(id=call_id, arguments=arguments):
            assert call_id in told.broken or loads(joined or "{}") == arguments


@pytest.mark.parametrize("family", FAMILIES)
def test_every_stream_has_an_expected_outcome_and_a_word_in_the_readme(family: str) -> None:
    sections = (STREAMS / "README.md").read_text().split("\n## ")
    section = next(each for each in sections if each.startswith(f"{family}\n"))
    assert sorted(expected(family)) == names(family)
    assert sorted(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|$)", section, re.MULTILINE)) == names(family)


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}], ids=["none", "plain"])
def test_a_stream_without_the_name_of_its_type_is_read_all_the_same(
    bench: Bench, headers: dict[str, str]
) -> None:
    reply = structs.replace(canned("openai-chat", "text"), headers=headers)
    assert plain(bench.ask("openai-chat", reply)) == expected("openai-chat")["text"]


# ---------------------------------------------------------------- failures


def _title(value: Any) -> str:
    return str(value.get("name") or value["vendor"]) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("family", "row"), FAILURES, ids=_title)
def test_a_refusal_by_http_gives_its_kind_its_words_and_the_wait_it_asks_for(
    bench: Bench, family: str, row: dict[str, Any]
) -> None:
    answer = bench.ask(family, refusal(row)).answer
    found = (answer.kind, answer.retry_after, answer.message.error_message)
    assert found == (row["kind"], row.get("retryAfter"), row["text"])
    assert answer.message.content == ()


@pytest.mark.parametrize("row", lines("overflow.jsonl"), ids=_title)
def test_every_vendors_words_for_a_full_context_are_understood(
    bench: Bench, row: dict[str, Any]
) -> None:
    assert bench.ask(row["family"], refusal(row)).answer.kind == "overflow"
