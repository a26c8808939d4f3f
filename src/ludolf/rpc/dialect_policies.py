"""What hosts of a family expect of some commands, laid over the handlers that all share."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from ludolf.base import CommandError, check_path
from ludolf.engine.engine import Engine
from ludolf.engine.toolbox import offers_tasks
from ludolf.protocol.dialects.dialect import Traits
from ludolf.rpc.call import Call, Data, Handler, Result, Run, Silence
from ludolf.rpc.prompt_results import PromptResults

Table = dict[str, Handler]


def adopt(engine: Engine, traits: Traits) -> None:
    """Take over what a family expects, where the settings do not say otherwise."""
    mode = engine.parts.settings.interrupt_mode or traits.interrupt_mode
    engine.parts.queue.interrupts = mode == "immediate"
    engine.parts.todos.adopt(on=traits.todos, clears=traits.clears_todos)
    if offers_tasks(engine.parts, default=traits.tasks):
        from ludolf.engine.features.subagents.tool import offer

        offer(engine)


def with_manners(handlers: Mapping[str, Handler], traits: Traits, results: PromptResults) -> Table:
    """The handlers, changed where the traits ask for it; prompts are followed to their end."""
    table = dict(handlers)
    for name in ("prompt", "abort_and_prompt"):
        _wrap(table, name, lambda run: _followed(run, results))
    if traits.queues_when_busy:
        _wrap(table, "prompt", _queued_when_busy)
    if traits.early_ack:
        table["abort_and_prompt"] = Handler("turn", _abort_and_prompt(table["prompt"].run))
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


def _followed(run: Run, results: PromptResults) -> Run:
    def follow(call: Call) -> Result | Coroutine[Any, Any, Result]:
        result = run(call)
        if isinstance(result, Coroutine):
            return _follow_later(result, call, results)
        return _note(result, call, results)

    return follow


async def _follow_later(
    work: Coroutine[Any, Any, Result], call: Call, results: PromptResults
) -> Result:
    return _note(await work, call, results)


def _note(result: Result, call: Call, results: PromptResults) -> Result:
    if isinstance(result, Data) and isinstance(result.data, dict):
        steered = call.command.streaming_behavior == "steer"
        disposition = result.data["disposition"]
        results.accepted(call.head.id, disposition, "steering" if steered else "follow_up")
    return result


def _acknowledged(run: Run) -> Run:
    """Say yes before looking; a refusal is then a second reply with the same id."""

    def early(call: Call) -> Result | Coroutine[Any, Any, Result]:
        if call.engine.prompting.is_command(call.command.message):
            return _acknowledged_begun(run, call)
        call.answer(None)
        result = run(call)
        return _then_silence(result) if isinstance(result, Coroutine) else Silence()

    return early


async def _acknowledged_begun(run: Run, call: Call) -> Result:
    """A command of an extension is acknowledged once it has begun: behind its first requests."""
    result = run(call)
    if isinstance(result, Coroutine):
        task = call.engine.tasks.start(result)
        await asyncio.sleep(0)
        call.answer(None)
        await task
    return Silence()


async def _then_silence(work: Coroutine[Any, Any, Result]) -> Result:
    await work
    return Silence()


def _answered_here(run: Run, results: PromptResults) -> Run:
    """A command of the program itself: what it says comes first, then the reply."""
    from ludolf.rpc.slash_commands import find, perform

    async def answer(call: Call, name: str, words: str) -> Result:
        await perform(call.engine, name, words)
        call.answer(Data({"disposition": "handled"}))
        results.accepted(call.head.id, "handled", "follow_up")
        return Silence()

    def choose(call: Call) -> Result | Coroutine[Any, Any, Result]:
        called = find(call.engine, call.command.message)
        return run(call) if called is None else answer(call, *called)

    return choose


def _abort_and_prompt(prompt: Run) -> Run:
    """Aborted, acknowledged, then prompted."""

    async def run(call: Call) -> Result:
        await call.engine.abort()
        call.answer(None)
        result = prompt(call)
        if isinstance(result, Coroutine):
            await result
        return Silence()

    return run


def _started_when_idle(run: Run) -> Run:
    def start(call: Call) -> Result | Coroutine[Any, Any, Result]:
        if call.engine.runner.running:
            return run(call)
        from ludolf.protocol.images import read_images
        from ludolf.rpc.handlers import told

        images = read_images(call.head.type, call.command.images)
        return told(call.engine.prompting.prompt(call.command.message, images))

    return start


def _queued_when_busy(run: Run) -> Run:
    def queue(call: Call) -> Result | Coroutine[Any, Any, Result]:
        command = call.command
        if command.streaming_behavior is None and call.engine.runner.running:
            command = structs.replace(command, streaming_behavior="followUp")
        return run(structs.replace(call, command=command))

    return queue


def _skipped_when_empty(run: Run) -> Run:
    def skip(call: Call) -> Result | Coroutine[Any, Any, Result]:
        text = call.command.message if call.head.type == "prompt" else call.command.command
        has_more = call.head.type == "prompt" and bool(
            call.command.images or call.command.attachments
        )
        return run(call) if text or has_more else Silence()

    return skip


def _only_existing(run: Run) -> Run:
    def check(call: Call) -> Result | Coroutine[Any, Any, Result]:
        path = call.command.session_path
        if not os.path.exists(Path(call.engine.parts.place.cwd, check_path(path)).expanduser()):
            raise CommandError(f"File not found: {path}")
        return run(call)

    return check
