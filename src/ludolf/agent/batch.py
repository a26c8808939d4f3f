"""Run the tool calls of one answer concurrently and emit their events in a fixed order."""

import asyncio
import traceback
from collections.abc import Sequence

from ludolf.agent.events import AgentEvent, MessageEnd, MessageStart, ToolEnd, ToolStart, ToolUpdate
from ludolf.agent.io import AcceptedCall, AgentIO, Outcome
from ludolf.agent.scope import Aborted, Scope
from ludolf.agent.tool import Deny, ToolFailure, ToolOutput, text_output
from ludolf.ai.messages import AssistantMessage, ToolCall, ToolResultMessage
from ludolf.base import now_ms

CUT_OFF = (
    'Tool call "{name}" was not executed: the response hit the output token limit, '
    "so its arguments may be truncated. Re-issue the tool call with complete arguments."
)
# Number of calls of one answer that run at the same time.
AT_ONCE = 64
# Number of calls that are stored and emitted in one step after an abort.
_GROUP = 64
ABORTED = "Operation aborted"
SKIPPED = (
    "Skipped due to queued user message. This call did not run and proves nothing. "
    "Read the message first, then call again if the call is still needed."
)
SKIPPED_DETAILS = {"__synthetic": True, "source": "interrupt_skipped", "executed": False}


class _Slot:
    """State of one call: accepted or not, then its outcome."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.accepted: AcceptedCall | None = None
        self.outcome: Outcome | None = None
        self.end_emitted = False


class Batch:
    def __init__(self, io: AgentIO, scope: Scope) -> None:
        self._io = io
        self._scope = scope

    async def run(
        self, message: AssistantMessage, broken: frozenset[str]
    ) -> tuple[tuple[ToolResultMessage, ...], bool]:
        """Run all calls; return their results, and whether every result asks to end the run."""
        slots = [_Slot(call) for call in message.tool_calls]
        if message.stop_reason == "length":
            results = await self._refuse(slots)
        else:
            results = await self._run(slots, broken)
        ends = bool(slots) and all(s.outcome and s.outcome.output.ends_run for s in slots)
        return results, ends

    async def _run(
        self, slots: Sequence[_Slot], broken: frozenset[str]
    ) -> tuple[ToolResultMessage, ...]:
        if any(self._io.runs_alone(slot.call) for slot in slots):
            return await self._sequentially(slots, broken)
        for index, slot in enumerate(slots):
            if self._scope.aborted:
                await self._emit_groups(slots[index:], starts=True, ends=True)
                break
            await self._admit(slot, broken)
        await self._execute_all([slot for slot in slots if slot.accepted and not slot.outcome])
        results: list[ToolResultMessage] = []
        for index, slot in enumerate(slots):
            if self._scope.aborted:
                return (*results, *await self._emit_groups(slots[index:], results=True))
            results.append(await self._emit_result(slot))
        return tuple(results)

    async def _sequentially(
        self, slots: Sequence[_Slot], broken: frozenset[str]
    ) -> tuple[ToolResultMessage, ...]:
        """Run the batch sequentially in call order, because it contains a sequential tool.

        Before each call but the first, a queued user message can skip the remaining calls.
        """
        results: list[ToolResultMessage] = []
        for index, slot in enumerate(slots):
            if self._scope.aborted:
                rest = await self._emit_groups(slots[index:], starts=True, ends=True, results=True)
                return (*results, *rest)
            if index and self._io.interrupted():
                await self._start(slot)
                slot.outcome = Outcome(text_output(SKIPPED, details=dict(SKIPPED_DETAILS)), True)
                await self._end(slot)
            else:
                await self._admit(slot, broken)
            if slot.outcome is None:
                await self._execute_all([slot])
            results.append(await self._emit_result(slot))
        return tuple(results)

    async def _refuse(self, slots: Sequence[_Slot]) -> tuple[ToolResultMessage, ...]:
        results = []
        for slot in slots:
            await self._start(slot)
            await self._fail(slot, CUT_OFF.format(name=slot.call.name))
            results.append(await self._emit_result(slot))
        return tuple(results)

    # ------------------------------------------------------------ before

    async def _admit(self, slot: _Slot, broken: frozenset[str]) -> None:
        await self._start(slot)
        whole = slot.call.id not in broken
        try:
            verdict = await self._scope.run(self._io.before_tool(slot.call, whole=whole))
        except ToolFailure as error:
            await self._fail(slot, str(error))
        except Aborted:
            await self._fail(slot, ABORTED)
        except Exception as error:  # as in `_outcome`: a bug in a tool is an error result
            await self._fail(slot, _bug(error))
        else:
            if isinstance(verdict, Deny):
                await self._fail(slot, verdict.reason, ends_run=verdict.ends_run)
            else:
                slot.accepted = verdict

    async def _start(self, slot: _Slot) -> None:
        await self._io.emit(_started(slot.call))

    # ------------------------------------------------------------ running

    async def _execute_all(self, slots: Sequence[_Slot]) -> None:
        if not slots:
            return
        work = self._execute(slots[0]) if len(slots) == 1 else self._concurrently(slots)
        try:
            await self._scope.run(work)
        except Aborted:
            open_slots = [slot for slot in slots if not slot.end_emitted]
            await self._emit_groups(open_slots, ends=True)

    async def _concurrently(self, slots: Sequence[_Slot]) -> None:
        """Run calls in order with limited concurrency; an abort must be able to stop them all."""
        waiting = iter(slots)

        async def run_next() -> None:
            for slot in waiting:
                await self._execute(slot)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(slots))):
                group.create_task(run_next())

    async def _execute(self, slot: _Slot) -> None:
        slot.outcome = await self._outcome(slot)
        await self._end(slot)

    async def _outcome(self, slot: _Slot) -> Outcome:
        accepted, call = slot.accepted, slot.call
        assert accepted is not None
        try:
            output = await accepted.tool.execute(accepted.args, accepted.context)
            return await self._io.after_tool(call, output, False)
        except ToolFailure as error:
            return await self._io.after_tool(call, error.output or _error(str(error)), True)
        except asyncio.CancelledError as error:
            # A tool can pass its partial output as the message of its cancellation.
            text = error.args[0] if error.args and isinstance(error.args[0], str) else ABORTED
            slot.outcome = Outcome(_error(text), True)
            raise
        except Exception as error:  # a bug in a tool is an error result, not the end of the run
            return await self._io.after_tool(call, _error(_bug(error)), True)

    # ------------------------------------------------------------ after

    async def _fail(self, slot: _Slot, text: str, *, ends_run: bool = False) -> None:
        slot.outcome = Outcome(_error(text).replace(ends_run=ends_run), True)
        await self._end(slot)

    async def _end(self, slot: _Slot) -> None:
        if not slot.end_emitted:
            await self._io.emit(_ended(slot))

    async def _emit_result(self, slot: _Slot) -> ToolResultMessage:
        result = _result(slot)
        await self._io.emit(MessageStart(message=result))
        final = await self._finish(result)
        await self._io.emit(MessageEnd(message=final))
        return final

    async def _finish(self, result: ToolResultMessage) -> ToolResultMessage:
        final = await self._io.finish_message(result)
        assert isinstance(final, ToolResultMessage)
        return final

    # ------------------------------------------------------------ after an abort

    async def _emit_groups(
        self,
        slots: Sequence[_Slot],
        *,
        starts: bool = False,
        ends: bool = False,
        results: bool = False,
    ) -> tuple[ToolResultMessage, ...]:
        """End calls that an abort prevented, in groups, because there can be thousands.

        The events of one call follow each other. Returns the results, if they are emitted.
        """
        finals: list[ToolResultMessage] = []
        for first in range(0, len(slots), _GROUP):
            events: list[AgentEvent] = []
            for slot in slots[first : first + _GROUP]:
                if starts:
                    events.append(_started(slot.call))
                if ends:
                    events.append(_ended(slot))
                if results:
                    result = _result(slot)
                    finals.append(await self._finish(result))
                    events += (MessageStart(message=result), MessageEnd(message=finals[-1]))
            await self._io.emit_all(events)
        return tuple(finals)


def _started(call: ToolCall) -> ToolStart:
    return ToolStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments)


def _ended(slot: _Slot) -> ToolEnd:
    slot.end_emitted = True
    slot.outcome = slot.outcome or Outcome(_error(ABORTED), True)
    return ToolEnd(
        tool_call_id=slot.call.id,
        tool_name=slot.call.name,
        result=slot.outcome.output,
        is_error=slot.outcome.is_error,
    )


def _result(slot: _Slot) -> ToolResultMessage:
    assert slot.outcome is not None
    output = slot.outcome.output
    return ToolResultMessage(
        tool_call_id=slot.call.id,
        tool_name=slot.call.name,
        content=output.content,
        details=output.details,
        usage=output.usage,
        is_error=slot.outcome.is_error,
        timestamp=now_ms(),
    )


def tool_update(call: ToolCall, partial: ToolOutput) -> ToolUpdate:
    return ToolUpdate(
        tool_call_id=call.id, tool_name=call.name, args=call.arguments, partial_result=partial
    )


def _bug(error: Exception) -> str:
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


def _error(text: str) -> ToolOutput:
    return text_output(text, details={})
