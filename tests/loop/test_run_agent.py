"""The agent loop by itself: one run against a plain outside that a test can look into."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ludolf.agent.batch import tool_update
from ludolf.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageUpdate,
    ToolEnd,
    ToolUpdate,
    TurnEnd,
)
from ludolf.agent.io import AcceptedCall, Outcome, Queue, QueuedMessage, QueueKind, RunEnd
from ludolf.agent.loop import SLICE_EVENTS, SMALL_READS, run_agent
from ludolf.agent.scope import Aborted, Scope
from ludolf.agent.tool import Deny, ToolContext, ToolOutput, text_output
from ludolf.ai.access import Access
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.builtin.scripted import Scripted, ScriptedReply
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import Message, Text, ToolCall, UserMessage, text_of
from ludolf.ai.models import Model
from ludolf.ai.provider import ModelAnswer, Request
from tests.loop.stage import call, calls, say
from tests.loop.tools import Gates, stage_tools


class PlainOutside:
    """The least that a run needs: a list of events, a list of messages, tools by name."""

    def __init__(self, *replies: ScriptedReply, blocked: Mapping[str, Deny] | None = None) -> None:
        self.script = Scripted(replies)
        self.events: list[AgentEvent] = []
        self.messages: list[Message] = []
        self.queue = Queue("one-at-a-time", "one-at-a-time")
        self.gates = Gates()
        self.tools = {tool.name: tool for tool in stage_tools(self.gates)}
        self.blocked = blocked or {}
        self.bursts = self.breaths = 0
        self.most_turns = 10
        self.fault: Exception | None = None
        self.updates = 0

    async def emit(self, event: AgentEvent) -> None:
        self.events.append(event)
        if isinstance(event, MessageEnd):
            self.messages.append(event.message)

    def post(self, event: MessageUpdate) -> None:
        self.updates += 1

    async def emit_all(self, events: Sequence[AgentEvent]) -> None:
        for event in events:
            await self.emit(event)

    def flush(self) -> bool:
        self.bursts += 1
        return True

    def has_room(self) -> bool:
        return True

    async def yield_to_loop(self) -> None:
        self.breaths += 1

    def model(self) -> Model:
        return scripted_model()

    async def prepare_turn(self) -> bool:
        return len(self.of(TurnEnd)) < self.most_turns

    async def request(self) -> Request:
        if self.fault is not None:
            raise self.fault
        return Request(
            provider=self.script,
            model=self.model(),
            access=Access(),
            system="",
            messages=tuple(self.messages),
        )

    def runs_alone(self, call: ToolCall) -> bool:
        return self.tools[call.name].alone

    def interrupted(self) -> bool:
        return False

    async def before_tool(self, call: ToolCall, *, whole: bool) -> AcceptedCall | Deny:
        if call.name in self.blocked:
            return self.blocked[call.name]

        async def report(partial: ToolOutput) -> None:
            await self.emit(tool_update(call, partial))

        context = ToolContext(call_id=call.id, cwd=Path(), report=report)
        return AcceptedCall(self.tools[call.name], call.arguments, context)

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> Outcome:
        return Outcome(structs.replace(output, details={"seen": call.id}), is_error)

    async def finish_message(self, message: Message) -> Message:
        if isinstance(message, UserMessage):
            text = text_of(message.content).upper()
            return structs.replace(message, content=(Text(text=text),))
        return message

    def due(self, kind: QueueKind) -> int:
        return self.queue.due(kind)

    def take(self, kind: QueueKind) -> QueuedMessage:
        return self.queue.take(kind)

    def will_retry(self, answer: ModelAnswer) -> bool:
        return answer.kind == "overloaded"

    def of(self, *kinds: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


def user(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), timestamp=1)


async def run(outside: PlainOutside, *prompts: str) -> RunEnd:
    return await run_agent([user(text) for text in prompts], outside, Scope())


def said(messages: Sequence[object]) -> list[str]:
    return [text_of(getattr(message, "content", "")) for message in messages]


async def test_a_blocked_call_gives_its_reason_and_the_others_run() -> None:
    ask = calls(call("echo", "a", name="x"), call("hold", "b", name="y"), call("fail", "c"))
    blocked = {"hold": Deny("not on a Sunday"), "fail": Deny()}
    outside = PlainOutside(ask, say("I see"), blocked=blocked)
    end = await run(outside, "go")
    ends = {event.tool_call_id: event for event in outside.of(ToolEnd)}
    assert [ends[name].is_error for name in "abc"] == [False, True, True]
    assert said(end.messages)[2:5] == ["x", "not on a Sunday", "Tool execution was blocked"]
    assert [event.tool_call_id for event in outside.of(ToolEnd)] == ["b", "c", "a"]


async def test_the_outside_may_replace_messages_and_results() -> None:
    outside = PlainOutside(calls(call("echo", "a", name="x")), say("fine"))
    end = await run(outside, "go")
    assert said(end.messages)[0] == "GO"
    assert said(outside.script.requests[0].messages) == ["GO"]
    (result,) = outside.of(TurnEnd)[0].tool_results
    assert result.details == {"seen": "a"}


async def test_a_run_ends_where_the_outside_wants_no_further_turn() -> None:
    outside = PlainOutside(calls(call("echo", "a", name="x")), say("never said"))
    outside.most_turns = 1
    end = await run(outside, "go")
    assert len(outside.script.requests) == 1
    assert end.last is not None
    assert end.last.stop_reason == "toolUse"
    assert isinstance(outside.events[-1], AgentEnd)


async def test_a_run_without_prompts_goes_on_from_where_things_stand() -> None:
    outside = PlainOutside(say("more"))
    outside.messages.append(user("before"))
    end = await run(outside)
    assert said(end.messages) == ["more"]
    assert said(outside.script.requests[0].messages) == ["before"]


async def test_a_request_that_cannot_be_made_is_a_failed_answer() -> None:
    outside = PlainOutside()
    outside.fault = ProviderError("No API key", kind="auth")
    end = await run(outside, "go")
    assert end.last is not None
    assert (end.last.stop_reason, end.last.error_message) == ("error", "No API key")
    assert end.answer is not None
    assert end.answer.kind == "auth"


async def test_a_bug_of_the_outside_reaches_the_caller() -> None:
    outside = PlainOutside()
    outside.fault = KeyError("bug")
    with pytest.raises(KeyError):
        await run(outside, "go")


async def test_the_end_of_a_run_tells_whether_another_follows() -> None:
    outside = PlainOutside(ScriptedReply(error="overloaded"))
    await run(outside, "go")
    assert [event.will_retry for event in outside.of(AgentEnd)] == [True]


async def test_a_burst_of_pieces_is_told_in_slices() -> None:
    outside = PlainOutside(say("x" * 1_000, chunk=1, per_read=5_000))
    await run(outside, "go")
    assert outside.updates == 1_002
    assert outside.breaths > 1_000 // SLICE_EVENTS


async def test_small_reads_are_sent_one_by_one_and_share_turns_of_the_loop() -> None:
    outside = PlainOutside(say("x" * 320, chunk=1, per_read=1))
    await run(outside, "go")
    assert outside.updates == 322
    assert outside.bursts >= 320
    assert 320 // SMALL_READS <= outside.breaths <= 330 // SMALL_READS


async def test_an_aborted_scope_still_gives_a_whole_run() -> None:
    outside, scope = PlainOutside(say("never said")), Scope()
    scope.abort()
    end = await run_agent([user("go")], outside, scope)
    assert end.last is not None
    assert end.last.stop_reason == "aborted"
    assert isinstance(outside.events[0], AgentStart)
    assert isinstance(outside.events[-1], AgentEnd)
    assert outside.script.requests == []


async def test_progress_of_a_tool_comes_before_its_end() -> None:
    outside = PlainOutside(calls(call("echo", "a", name="x")), say("fine"))
    await run(outside, "go")
    kinds = [type(event) for event in outside.of(ToolUpdate, ToolEnd)]
    assert kinds == [ToolUpdate, ToolEnd]


async def test_what_a_scope_runs_after_its_abort_does_not_start() -> None:
    started: list[str] = []

    async def work() -> None:
        started.append("work")

    scope = Scope()
    scope.abort()
    with pytest.raises(Aborted):
        await scope.run(work())
    assert started == []


async def test_a_tool_may_hand_over_what_it_has_when_it_is_stopped() -> None:
    outside, scope = PlainOutside(calls(call("hold", "a", name="gate"))), Scope()
    outside.tools["hold"] = structs.replace(outside.tools["hold"], act=_stop(scope))  # type: ignore[type-var]
    await run_agent([user("go")], outside, scope)
    (end,) = outside.of(ToolEnd)
    assert end.result == text_output("half of it", details={})
    assert end.is_error


def _stop(scope: Scope) -> Any:
    async def act(name: str, ctx: ToolContext) -> ToolOutput:
        import asyncio

        scope.abort()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise asyncio.CancelledError("half of it") from None
        return text_output("all of it")

    return act
