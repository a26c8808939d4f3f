"""Typed functions for the hook points; they skip the dispatch if no handler is registered."""

from collections.abc import Mapping
from typing import Any

from ludolf.agent.tool import ToolOutput
from ludolf.ai.messages import AnyMessage, Message, OpaqueMessage
from ludolf.extensions import answers, payloads
from ludolf.extensions.context import TrustContext
from ludolf.extensions.host import EarlyHost
from ludolf.extensions.runner import HookRunner


async def project_trust(runner: HookRunner, host: EarlyHost) -> answers.TrustDecision | None:
    """Ask the user's extensions, before a session, whether to trust the project."""
    if not runner.wants("project_trust"):
        return None
    context = TrustContext(host.mode, host.ui, host.cwd)
    state = await runner.dispatch(payloads.ProjectTrust(cwd=str(host.cwd)), context)
    answer: answers.TrustDecision | None = state.answer
    return answer


async def before_switch(
    runner: HookRunner, payload: payloads.SessionBeforeSwitch
) -> answers.SwitchAnswer:
    return await runner.verdict(payload) or answers.SwitchAnswer()


async def before_fork(
    runner: HookRunner, payload: payloads.SessionBeforeFork
) -> answers.ForkDecision:
    return await runner.verdict(payload) or answers.ForkDecision()


async def before_compact(
    runner: HookRunner, payload: payloads.SessionBeforeCompact
) -> answers.CompactDecision:
    return await runner.verdict(payload) or answers.CompactDecision()


async def before_tree(
    runner: HookRunner, payload: payloads.SessionBeforeTree
) -> answers.TreeDecision:
    return await runner.verdict(payload) or answers.TreeDecision()


async def user_input(runner: HookRunner, payload: payloads.Input) -> payloads.Input | None:
    """Return the input to process; None if an extension has handled it."""
    if not runner.wants("input"):
        return payload
    state = await runner.dispatch(payload)
    changed: payloads.Input = state.payload
    return None if state.answer == "handled" else changed


async def tool_call(
    runner: HookRunner, name: str, call_id: str, args: Mapping[str, Any]
) -> answers.ToolCallDecision:
    """Return the arguments to use, or a block.

    Raises:
        Failed: a handler failed; the tool must not run, and the text is its error result.
    """
    payload = payloads.ToolCalled(tool_name=name, tool_call_id=call_id, input=args)
    if not runner.wants("tool_call"):
        return answers.ToolCallDecision(input=args)
    state = await runner.dispatch(payload)
    return state.answer or answers.ToolCallDecision(input=state.payload.input)


async def tool_result(
    runner: HookRunner, payload: payloads.ToolReturned, output: ToolOutput
) -> tuple[ToolOutput, bool]:
    """Return the output and its error flag after the handlers."""
    final = await runner.transform(payload)
    changed = ToolOutput(
        content=final.content,
        details=final.details,
        usage=final.usage,
        ends_run=output.ends_run,
    )
    return changed, final.is_error


async def user_bash(
    runner: HookRunner, payload: payloads.UserBash
) -> answers.BashAnswer | answers.BashElsewhere | None:
    """Return the result or operations of an extension; None to run the command here.

    Raises:
        Failed: a handler failed or its answer is invalid; the command is refused with the text.
    """
    answer: answers.BashAnswer | answers.BashElsewhere | None = await runner.verdict(payload)
    return answer


async def message_end(runner: HookRunner, message: Message) -> Message:
    """Return the message to store; its role never changes."""
    if not runner.wants("message_end"):
        return message
    final = (await runner.transform(payloads.MessageEnd(message=message))).message
    assert not isinstance(final, OpaqueMessage)
    return final


async def context(
    runner: HookRunner, system: str, messages: tuple[AnyMessage, ...]
) -> tuple[str, tuple[AnyMessage, ...]]:
    """Return system prompt and messages of one request; the session does not change."""
    if runner.wants("context"):
        messages = (await runner.transform(payloads.ContextBuilt(messages=messages))).messages
    if runner.wants("context_with_system"):
        both = payloads.ContextWithSystem(system_prompt=system, messages=messages)
        changed = await runner.transform(both)
        system, messages = changed.system_prompt, changed.messages
    return system, messages
