"""Requests wait at a gate: a busy server is neither an error nor a retry."""

import asyncio
from pathlib import Path

import pytest

from ludolf import create_session
from ludolf.ai.builtin.scripted import Scripted, ScriptedFailure, ScriptedReply
from ludolf.engine.features.request_gate import MOST_REFUSALS, GatedRequests
from ludolf.fleet.gate import RateGate
from ludolf.sdk import (
    AgentSession,
    AssistantMessage,
    AutoRetryStart,
    GateReport,
    MessageEnd,
    Model,
    PromptFailed,
    RequestGate,
    Run,
)
from tests.limited_model import LimitedModel, note

FAST = {"retry": {"baseDelayMs": 1, "maxRetries": 1}}


class LoggingGate:
    """Admits all, or none while it is closed, and writes down what it was given."""

    def __init__(self) -> None:
        self.log: list[tuple[str, object]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.came = asyncio.Event()

    async def enter(self, lane: str) -> int:
        self.log.append(("enter", lane))
        self.came.set()
        await self.open.wait()
        return len(self.log)

    def report(self, ticket: int, report: GateReport) -> None:
        self.log.append(("report", report))

    def leave(self, ticket: int) -> None:
        self.log.append(("leave", ticket))

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.log]


def session_of(model: Model | Scripted, gate: RequestGate, folder: Path) -> AgentSession:
    return create_session(
        model=model,
        api_key="k",
        tools=[note],
        builtin_tools=(),
        settings=FAST,
        gate=gate,
        cwd=folder,
    )


def busy(times: int, status: int = 429, retry_after: float | None = None) -> list[ScriptedReply]:
    failure = ScriptedFailure(text="slow down", status=status, retry_after=retry_after)
    return [ScriptedReply(error=failure)] * times


async def test_many_sessions_share_the_limit_of_a_server_that_really_refuses(
    tmp_path: Path,
) -> None:
    gate, refusal = RateGate(), {"retry-after-ms": "50"}
    with LimitedModel(per_second=20, burst=20, refusal=refusal) as server:

        async def item() -> list[object]:
            async with session_of(server.model, gate, tmp_path) as session:
                events: list[object] = [event async for event in session.prompt("go")]
                assert session.messages[-1].role == "assistant"
                return events

        stories = await asyncio.gather(*(item() for _ in range(10)))
        events = [event for story in stories for event in story]
        ends = (event.message for event in events if isinstance(event, MessageEnd))
        answers = [message for message in ends if isinstance(message, AssistantMessage)]
        assert len(answers) == len(server.requests) == 30
        assert {message.stop_reason for message in answers} == {"toolUse", "stop"}
        assert not [event for event in events if isinstance(event, AutoRetryStart)]
        assert 0 < server.refused <= 15


async def test_a_refused_request_is_sent_again_and_shows_in_no_event(tmp_path: Path) -> None:
    gate, script = LoggingGate(), Scripted([*busy(3), "at last"])
    async with session_of(script, gate, tmp_path) as session:
        events = [event async for event in session.prompt("go")]
        assert session.messages[-1].role == "assistant"
        feature = session.engine.features.find(GatedRequests)
        assert feature is not None
        assert feature.refused == 3
        assert feature.waited >= 0
    assert len(script.requests) == 4
    assert not [event for event in events if isinstance(event, AutoRetryStart)]
    assert gate.words == ["enter", "report", "leave"] * 4
    reports = [value for word, value in gate.log if word == "report"]
    assert reports == [GateReport(status=429)] * 3 + [GateReport(status=200)]


@pytest.mark.parametrize(
    "failures",
    [busy(2, status=503), busy(2, retry_after=3600), busy(2 * MOST_REFUSALS)],
    ids=["another status", "a delay beyond the limit", "refused always"],
)
async def test_failures_that_a_wait_does_not_mend_are_errors_as_without_a_gate(
    tmp_path: Path, failures: list[ScriptedReply]
) -> None:
    gate, script = LoggingGate(), Scripted(failures)
    async with session_of(script, gate, tmp_path) as session:
        with pytest.raises(PromptFailed, match="slow down"):
            await session.prompt("go")
    assert gate.words.count("enter") == gate.words.count("leave") == len(script.requests)


async def test_an_answer_that_breaks_after_its_start_is_not_sent_again_by_the_gate(
    tmp_path: Path,
) -> None:
    broken = ScriptedReply(text="half", error=ScriptedFailure(text="slow down", status=429))
    gate, script = LoggingGate(), Scripted([broken, "whole"])
    async with session_of(script, gate, tmp_path) as session:
        events = [event async for event in session.prompt("go")]
    assert len([event for event in events if isinstance(event, AutoRetryStart)]) == 1


async def test_an_abort_ends_the_wait_at_once(tmp_path: Path) -> None:
    gate, script = LoggingGate(), Scripted(["never"])
    gate.open.clear()
    async with session_of(script, gate, tmp_path) as session:
        run = asyncio.ensure_future(_answer(session.prompt("go")))
        await gate.came.wait()
        await session.abort()
        assert await run == "aborted"
    assert gate.words == ["enter"]
    assert script.requests == []


async def _answer(run: Run) -> str | None:
    return (await run).stop_reason
