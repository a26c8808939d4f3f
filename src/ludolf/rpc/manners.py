"""Behaviour that hosts of a family expect: handlers changed as the traits of a dialect ask."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from ludolf.agent.io import QueueKind
from ludolf.base import CommandError, check_path, expand_user
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.protocol.dialects.dialect import Traits
from ludolf.rpc.connection import (
    Call,
    Handler,
    HandlerFunction,
    ReplyData,
    Result,
    Silence,
)
from ludolf.rpc.prompt_results import PromptResults
from ludolf.session.finder import SessionFolder

Table = dict[str, Handler]


def adopt(engine: Engine, traits: Traits) -> None:
    """Apply the traits of a dialect to the engine, unless the settings say otherwise."""
    mode = engine.workspace.settings.interrupt_mode or traits.interrupt_mode
    engine.conversation.queue.interrupts = mode == "immediate"
    if traits.todos or traits.clears_todos or engine.workspace.settings.todo.enabled:
        engine.todos.configure(on=traits.todos, clears=traits.clears_todos)
    engine.offer_subagents(default=traits.tasks)


def with_manners(handlers: Mapping[str, Handler], traits: Traits, results: PromptResults) -> Table:
    """Return the handlers, changed as the traits ask; accepted prompts get results."""
    table = dict(handlers)
    for name in ("prompt", "abort_and_prompt"):
        _wrap(table, name, lambda run: _followed(run, results))
    if traits.queues_when_busy:
        _wrap(table, "prompt", _queued_when_busy)
    if traits.early_ack:
        prompt = table["prompt"].run
        _wrap(table, "abort_and_prompt", lambda _: _abort_and_prompt(prompt))
        _wrap(table, "prompt", _acknowledged)
    if traits.answers_slash:
        _wrap(table, "prompt", lambda run: _answered_here(run, results))
    if traits.starts_when_idle:
        for name in ("steer", "follow_up"):
            _wrap(table, name, _started_when_idle)
    if traits.skips_empty:
        for name in ("prompt", "bash"):
            _wrap(table, name, _skipped_when_empty)
    if traits.opens_existing:
        _wrap(table, "switch_session", _only_existing)
    return table


def _wrap(table: Table, name: str, change: Any) -> None:
    handler = table[name]
    table[name] = structs.replace(handler, run=change(handler.run))


def _followed(run: HandlerFunction, results: PromptResults) -> HandlerFunction:
    async def follow(call: Call) -> Result:
        result = await run(call)
        if not call.connection.prompt_results:
            return result
        if isinstance(result, ReplyData) and isinstance(result.data, dict):
            steered = call.command.streaming_behavior == "steer"
            line: QueueKind = "steering" if steered else "follow_up"
            results.accepted(call.head.id, result.data["disposition"], line)
        return result

    return follow


def _acknowledged(run: HandlerFunction) -> HandlerFunction:
    """Acknowledge before checking; a refusal is then a second reply with the same id."""

    async def early(call: Call) -> Result:
        if not call.engine.prompting.is_command(call.command.message):
            call.answer(None)
            await run(call)
            return Silence()
        # A command of an extension is acknowledged once it has started: after its first requests.
        task = call.engine.tasks.start(run(call))
        await asyncio.sleep(0)
        call.answer(None)
        await task
        return Silence()

    return early


def _answered_here(run: HandlerFunction, results: PromptResults) -> HandlerFunction:
    """Handle a prompt that is a command of the program: first its output, then the reply."""
    from ludolf.rpc.slash_commands import find, perform

    async def choose(call: Call) -> Result:
        called = find(call.engine, call.command.message)
        if called is None:
            return await run(call)
        await perform(call.engine, *called)
        call.answer(ReplyData({"disposition": "handled"}))
        results.accepted(call.head.id, "handled", "follow_up")
        return Silence()

    return choose


def _abort_and_prompt(prompt: HandlerFunction) -> HandlerFunction:
    """Abort, acknowledge, then prompt."""

    async def run(call: Call) -> Result:
        await call.engine.abort()
        call.answer(None)
        await prompt(call)
        return Silence()

    return run


def _started_when_idle(run: HandlerFunction) -> HandlerFunction:
    async def start(call: Call) -> Result:
        if call.engine.runner.running:
            return await run(call)
        from ludolf.protocol.images import read_images

        images = tuple(read_images(call.head.type, call.command.images))
        message = PromptInput(text=call.command.message, extra=images)
        return ReplyData({"disposition": await call.engine.prompting.prompt(message)})

    return start


def _queued_when_busy(run: HandlerFunction) -> HandlerFunction:
    async def queue(call: Call) -> Result:
        command = call.command
        if command.streaming_behavior is None and call.engine.runner.running:
            command = structs.replace(command, streaming_behavior="followUp")
        return await run(structs.replace(call, command=command))

    return queue


def _skipped_when_empty(run: HandlerFunction) -> HandlerFunction:
    async def skip(call: Call) -> Result:
        text = call.command.message if call.head.type == "prompt" else call.command.command
        has_more = call.head.type == "prompt" and bool(
            call.command.images or call.command.attachments
        )
        return await run(call) if text or has_more else Silence()

    return skip


def _only_existing(run: HandlerFunction) -> HandlerFunction:
    async def check(call: Call) -> Result:
        _check_exists(call.engine.conversation.place, call.command.session_path)
        return await run(call)

    return check


def _check_exists(place: SessionFolder, path: str) -> None:
    if not os.path.exists(Path(place.cwd, expand_user(check_path(path), place.home))):
        raise CommandError(f"File not found: {path}")
