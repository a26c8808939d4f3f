"""Statistics: counts and sums over all branches, and how full the context window is."""

import json
from pathlib import Path
from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Cost,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ludolf.base import dumps
from ludolf.session.entries import CompactionBody, MessageBody
from ludolf.session.stats import OTHER_WORK, Tally
from ludolf.session.tree import Session, new_session, open_session
from tests.session_samples import no_warning


def user(text: str) -> MessageBody:
    return MessageBody(message=UserMessage(content=text, timestamp=1))


def answer(*blocks: Any, usage: Usage, **more: Any) -> MessageBody:
    return MessageBody(
        message=AssistantMessage(
            content=blocks,
            api="a",
            provider="p",
            model="m",
            usage=usage,
            stop_reason="stop",
            timestamp=2,
            **more,
        )
    )


def with_tool(folder: Path | None) -> Session:
    session = new_session("/project", folder, no_warning)
    session.append(user("Run"))
    spent = Usage(input=1000, output=100, cache_read=5000, cache_write=700, cost=Cost(total=0.01))
    session.append(
        answer(ToolCall(id="1", name="bash", arguments={"command": "echo a"}), usage=spent)
    )
    session.append(
        MessageBody(
            message=ToolResultMessage(
                tool_call_id="1",
                tool_name="bash",
                content=(Text(text="a"),),
                is_error=False,
                timestamp=3,
            )
        )
    )
    spent = Usage(input=10, output=20, cache_read=6000, total_tokens=6030, cost=Cost(total=0.02))
    session.append(answer(Text(text="Done."), usage=spent, response_model="m-2026"))
    return session


def test_an_empty_session_counts_nothing() -> None:
    session = new_session("/project", None, no_warning)
    assert json.loads(dumps(Tally(session).stats(200_000))) == {
        "sessionId": session.id,
        "userMessages": 0,
        "assistantMessages": 0,
        "toolCalls": 0,
        "toolResults": 0,
        "totalMessages": 0,
        "tokens": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        "cost": 0,
        "contextUsage": {"tokens": 0, "contextWindow": 200_000, "percent": 0},
    }


def test_counts_and_sums_are_those_of_all_messages() -> None:
    session = with_tool(None)
    tally = Tally(session)
    found = json.loads(dumps(tally.stats(200_000)))
    assert found == {
        "sessionId": session.id,
        "userMessages": 1,
        "assistantMessages": 2,
        "toolCalls": 1,
        "toolResults": 1,
        "totalMessages": 4,
        "tokens": {
            "input": 1010,
            "output": 120,
            "cacheRead": 11000,
            "cacheWrite": 700,
            "total": 12830,
        },
        "cost": 0.03,
        "contextUsage": {"tokens": 6030, "contextWindow": 200_000, "percent": 3.015},
    }
    assert set(tally.by_model()) == {"p/m", "p/m-2026"}


def test_a_tally_goes_on_from_where_it_was() -> None:
    session = with_tool(None)
    tally = Tally(session)
    tally.stats()
    shell = BashExecutionMessage(
        command="echo x", output="x\n", exit_code=0, cancelled=False, truncated=False, timestamp=4
    )
    session.append(MessageBody(message=shell))
    found = tally.stats(200_000)
    assert found == Tally(session).stats(200_000)
    assert found.total_messages == 5
    assert found.context_usage is not None
    assert found.context_usage.tokens == 6032


def test_stored_sessions_count_the_same(tmp_path: Path) -> None:
    session = with_tool(tmp_path)
    session.close()
    assert session.path is not None
    again = open_session(session.path, "/", no_warning)
    assert Tally(again).stats() == Tally(session).stats()
    assert Tally(again).stats().session_file == str(session.path)
    assert Tally(again).stats().context_usage is None


def test_abandoned_branches_and_summaries_were_paid_for_too() -> None:
    session = with_tool(None)
    first = session.entries()[0]
    session.branch_to(first.id)
    session.append(answer(usage=Usage(input=1, output=1, total_tokens=2)))
    body = CompactionBody(
        summary="s",
        first_kept_entry_id=first.id,
        tokens_before=1,
        usage=Usage(input=900, output=60),
        from_hook=False,
    )
    session.append(body)
    tally = Tally(session)
    found = tally.stats(200_000)
    assert found.assistant_messages == 3
    assert found.tokens.input == 1010 + 1 + 900
    assert tally.by_model()[OTHER_WORK].output == 60


def test_after_a_compaction_the_context_is_unknown_until_the_next_answer() -> None:
    session = with_tool(None)
    first = session.entries()[0].id
    session.append(
        CompactionBody(summary="s", first_kept_entry_id=first, tokens_before=1, from_hook=False)
    )
    usage = json.loads(dumps(Tally(session).stats(1000)))["contextUsage"]
    assert usage == {"tokens": None, "contextWindow": 1000, "percent": None}
    session.append(answer(Text(text="x"), usage=Usage(total_tokens=50)))
    usage = json.loads(dumps(Tally(session).stats(1000)))["contextUsage"]
    assert usage == {"tokens": 50, "contextWindow": 1000, "percent": 5.0}
