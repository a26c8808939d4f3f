"""Commands that hand messages to the agent: prompts, the queue, aborts, limits of a prompt."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ludolf.agent.io import QueueKind
from ludolf.ai.messages import Part
from ludolf.base import CommandError
from ludolf.base.trace_context import TraceContext, trace_context
from ludolf.engine.feature import PromptInput
from ludolf.protocol.commands import Prompt, QueueMessage, SetLimits
from ludolf.protocol.images import read_attachments, read_images
from ludolf.rpc.connection import FUNCTIONS, Call, ReplyData, Result, forwards, handles

if TYPE_CHECKING:
    from ludolf.functions.final_answer import AnswerTool


@handles
async def prompt(call: Call) -> Result:
    command: Prompt = call.command
    extra: tuple[Part, ...] = ()
    if command.images or command.attachments:
        images = read_images("prompt", command.images)
        extra = (*images, *read_attachments("prompt", command.attachments))
    disposition = await call.engine.prompting.prompt(
        PromptInput(
            text=command.message,
            extra=extra,
            when_busy=command.streaming_behavior,
            attachments=command.attachments or UNSET,
            answer_tool=_answer_tool(command.output_schema),
            trace=_trace_of(command),
        )
    )
    return ReplyData({"disposition": disposition})


def _trace_of(command: Prompt | QueueMessage) -> TraceContext | None:
    if command.traceparent is None:
        return None
    return trace_context(command.traceparent, command.tracestate, command.baggage)


def _answer_tool(schema: Any) -> "AnswerTool[Any] | None":
    if schema is None:
        return None
    from ludolf.engine.features.structured_answers import answer_tool_for

    return answer_tool_for(schema)


async def _queue(call: Call, kind: QueueKind) -> Result:
    command: QueueMessage = call.command
    images = tuple(read_images(call.head.type, command.images))
    message = PromptInput(text=command.message, extra=images, trace=_trace_of(command))
    return ReplyData({"disposition": await call.engine.prompting.queue(kind, message)})


@handles
async def abort(call: Call) -> None:
    """Abort the run, and prompts that were sent before and have not started yet."""
    earlier = call.earlier
    is_pending = earlier is not None and not earlier.done()
    await call.engine.abort(asyncio.wait((earlier,)) if is_pending and earlier else None)


@handles
async def abort_and_prompt(call: Call) -> Result:
    await call.engine.abort()
    return await prompt(call)


def _set_mode(call: Call, kind: QueueKind) -> None:
    save = not call.connection.traits.forgets_modes
    call.engine.set_queue_mode(kind, call.command.mode, save=save)


@handles
async def set_interrupt_mode(call: Call) -> None:
    mode = call.command.mode
    if mode not in ("immediate", "wait"):
        raise CommandError(f"Invalid mode: {mode}")
    call.engine.conversation.queue.interrupts = mode == "immediate"


@handles
async def set_limits(call: Call) -> Result:
    command: SetLimits = call.command
    call.engine.conversation.meter.limits = command.check()
    return ReplyData(command)


FUNCTIONS.update(
    steer=lambda call: _queue(call, "steering"),
    follow_up=lambda call: _queue(call, "follow_up"),
    abort_retry=lambda call: call.engine.runner.retries.abort_wait(),
)
forwards(
    clear_queue=lambda call: call.engine.conversation.queue.clear_texts(),
    set_steering_mode=lambda call: _set_mode(call, "steering"),
    set_follow_up_mode=lambda call: _set_mode(call, "follow_up"),
    set_auto_retry=lambda call: call.engine.set_auto_retry(call.command.enabled),
    set_todos=lambda call: {"todoPhases": call.engine.todos.set(call.command.phases)},
)
