"""What each command does, and its pace.

now    answered before the next line is read
turn   begins when earlier commands of this pace have been answered
own    a task of its own from the start
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec import UNSET

from ludolf.agent.queue import QueueKind
from ludolf.base import dumps
from ludolf.engine.feature import PromptInput, Vetoed
from ludolf.protocol.commands import Bash, Prompt, QueueMessage, SetModel
from ludolf.protocol.framing import NO_ID
from ludolf.protocol.images import read_attachments, read_images
from ludolf.rpc.call import Call, Data, Handler, Result, Run, Silence
from ludolf.rpc.host_tools import HOST_TOOLS
from ludolf.rpc.host_uri_handlers import HOST_URIS
from ludolf.rpc.login_handlers import LOGINS
from ludolf.rpc.more_handlers import MORE
from ludolf.rpc.moving_handlers import MOVING
from ludolf.rpc.omp_handlers import OMP
from ludolf.rpc.state import context_fill, full_state, overhead_tokens, state
from ludolf.rpc.subagent_handlers import SUBAGENTS

# ---------------------------------------------------------------- prompting


async def prompt(call: Call) -> Result:
    command: Prompt = call.command
    extra = (
        *read_images("prompt", command.images),
        *read_attachments("prompt", command.attachments),
    )
    disposition = await call.engine.prompting.prompt(
        PromptInput(
            text=command.message,
            extra=extra,
            when_busy=command.streaming_behavior,
            attachments=command.attachments or UNSET,
        )
    )
    return Data({"disposition": disposition})


def _is_command(call: Call) -> bool:
    """A command of an extension may wait for answers of the host: nothing waits for it."""
    return call.engine.prompting.is_command(call.command.message)


async def _answer_dialog(call: Call) -> Result:
    if isinstance(call.command.id, str):
        call.engine.answer_dialog(call.command)
    return Silence()


def _queue(kind: QueueKind) -> Run:
    async def run(call: Call) -> Result:
        command: QueueMessage = call.command
        images = tuple(read_images(call.head.type, command.images))
        message = PromptInput(text=command.message, extra=images)
        return Data({"disposition": await call.engine.prompting.queue(kind, message)})

    return run


async def _abort(call: Call) -> Result:
    """Stop what runs, and prompts that were sent before and start only now."""
    earlier = call.earlier
    is_pending = earlier is not None and not earlier.done()
    await call.engine.abort(asyncio.wait((earlier,)) if is_pending and earlier else None)
    return None


async def _abort_and_prompt(call: Call) -> Result:
    await call.engine.abort()
    return await prompt(call)


async def _clear_queue(call: Call) -> Result:
    return Data(call.engine.conversation.queue.clear_texts())


def _set_mode(kind: QueueKind) -> Run:
    async def run(call: Call) -> Result:
        save = not call.connection.traits.forgets_modes
        call.engine.set_queue_mode(kind, call.command.mode, save=save)
        return None

    return run


# ---------------------------------------------------------------- state


async def _get_state(call: Call) -> Result:
    return Data(state(call.engine), lambda: full_state(call.engine))


async def _get_messages(call: Call) -> Result:
    pieces = [b'{"messages":[']
    for place, message in enumerate(call.engine.session.context.messages_json()):
        pieces += (b"," if place else b"", bytes(message))
    engine = call.engine
    return Data([*pieces, b"]}"], lambda: {"nonMessageTokens": overhead_tokens(engine)})


async def _get_last_assistant_text(call: Call) -> Result:
    from ludolf.session.views import last_assistant_text

    return Data({"text": last_assistant_text(call.engine.session)})


async def _get_session_stats(call: Call) -> Result:
    engine = call.engine
    return Data(engine.stats(), lambda: {"contextUsage": context_fill(engine)})


# ---------------------------------------------------------------- models


async def _find_local_models(call: Call, provider: str | None = None) -> None:
    """Find local models first, if the command may be about one of them."""
    if call.engine.models.needs_scan(provider):
        await call.engine.models.scan()


async def _set_model(call: Call) -> Result:
    command: SetModel = call.command
    await _find_local_models(call, command.provider)
    return Data(call.engine.models.set_model(command.provider, command.model_id))


async def _cycle_model(call: Call) -> Result:
    await _find_local_models(call)
    return Data(call.engine.models.cycle())


async def _get_available_models(call: Call) -> Result:
    await _find_local_models(call)
    return Data({"models": call.engine.models.registry.available()})


async def _set_thinking_level(call: Call) -> Result:
    call.engine.models.set_level(call.command.level)
    return None


async def _cycle_thinking_level(call: Call) -> Result:
    level = call.engine.models.cycle_level()
    return Data(None if level is None else {"level": level})


async def _get_available_thinking_levels(call: Call) -> Result:
    return Data({"levels": call.engine.models.levels()})


# ---------------------------------------------------------------- compaction and retry


async def _compact(call: Call) -> Result:
    return Data(await call.engine.compact(call.command.custom_instructions))


async def _set_auto_compaction(call: Call) -> Result:
    call.engine.set_auto_compaction(call.command.enabled)
    return None


async def _set_auto_retry(call: Call) -> Result:
    call.engine.set_auto_retry(call.command.enabled)
    return None


async def _abort_retry(call: Call) -> Result:
    await call.engine.runner.retries.abort_wait()
    return None


# ---------------------------------------------------------------- sessions


async def _change(change: Coroutine[Any, Any, Any]) -> Result:
    try:
        await change
    except Vetoed:
        return Data({"cancelled": True})
    return Data({"cancelled": False})


async def _new_session(call: Call) -> Result:
    return await _change(call.engine.sessions.new(call.command.parent_session))


async def _switch_session(call: Call) -> Result:
    return await _change(call.engine.sessions.switch(call.command.session_path))


async def _fork(call: Call) -> Result:
    sessions, entry_id = call.engine.sessions, call.command.entry_id
    try:
        return Data({"text": await sessions.fork(entry_id), "cancelled": False})
    except Vetoed:
        return Data({"text": sessions.text_at(entry_id), "cancelled": True})


async def _clone(call: Call) -> Result:
    return await _change(call.engine.sessions.clone())


async def _get_fork_messages(call: Call) -> Result:
    from ludolf.session.views import fork_messages

    return Data({"messages": fork_messages(call.engine.session)})


async def _get_entries(call: Call) -> Result:
    from ludolf.session.entries import entry_json
    from ludolf.session.views import entries_since

    session = call.engine.session
    pieces = [b'{"entries":[']
    for place, entry in enumerate(entries_since(session, call.command.since)):
        pieces += (b"," if place else b"", entry_json(entry))
    return Data([*pieces, b'],"leafId":', dumps(session.leaf), b"}"])


async def _get_tree(call: Call) -> Result:
    from ludolf.session.views import tree_json

    session = call.engine.session
    return Data([b'{"tree":', tree_json(session), b',"leafId":', dumps(session.leaf), b"}"])


async def _set_session_name(call: Call) -> Result:
    call.engine.set_session_name(call.command.name)
    return None


async def _export_html(call: Call) -> Result:
    return Data({"path": await call.engine.export_html(call.command.output_path)})


async def _get_commands(call: Call) -> Result:
    return Data({"commands": call.engine.commands()})


# ---------------------------------------------------------------- shell


async def _bash(call: Call) -> Result:
    command: Bash = call.command
    reply_id = call.head.id if call.head.id is not NO_ID else None
    about = {"command": command.command, "cwd": str(call.engine.workspace.cwd)}
    result = await call.engine.shell.run(
        command.command, exclude=command.exclude_from_context, reply_id=reply_id
    )
    return Data(result, lambda: about)


async def _abort_bash(call: Call) -> Result:
    call.engine.shell.abort()
    return None


# Another session is open when these have been answered ...
MOVES = frozenset(
    ("new_session", "switch_session", "open_session", "fork", "branch", "clone", "handoff")
)
# ... and these, sent right behind one of them, are about that one.
OF_A_SESSION = frozenset(
    (
        "set_model",
        "cycle_model",
        "set_thinking_level",
        "cycle_thinking_level",
        "set_session_name",
        "set_todos",
    )
)
HANDLERS: dict[str, Handler] = {
    **MORE,
    **HOST_TOOLS,
    **HOST_URIS,
    **MOVING,
    **LOGINS,
    **OMP,
    **SUBAGENTS,
    "prompt": Handler("turn", prompt, own_if=_is_command, eager=True),
    "extension_ui_response": Handler("now", _answer_dialog),
    "steer": Handler("turn", _queue("steering"), eager=True),
    "follow_up": Handler("turn", _queue("follow_up"), eager=True),
    "abort": Handler("own", _abort, holds=True),
    "abort_and_prompt": Handler("turn", _abort_and_prompt),
    "clear_queue": Handler("now", _clear_queue),
    "set_steering_mode": Handler("now", _set_mode("steering")),
    "set_follow_up_mode": Handler("now", _set_mode("follow_up")),
    "get_state": Handler("now", _get_state),
    "get_messages": Handler("now", _get_messages),
    "get_last_assistant_text": Handler("now", _get_last_assistant_text),
    "get_session_stats": Handler("now", _get_session_stats),
    "set_model": Handler("now", _set_model, holds=True),
    "cycle_model": Handler("now", _cycle_model, holds=True),
    "get_available_models": Handler("now", _get_available_models),
    "set_thinking_level": Handler("now", _set_thinking_level),
    "cycle_thinking_level": Handler("now", _cycle_thinking_level),
    "get_available_thinking_levels": Handler("now", _get_available_thinking_levels),
    "compact": Handler("own", _compact),
    "set_auto_compaction": Handler("now", _set_auto_compaction),
    "set_auto_retry": Handler("now", _set_auto_retry),
    "abort_retry": Handler("own", _abort_retry),
    "new_session": Handler("turn", _new_session),
    "switch_session": Handler("turn", _switch_session),
    "fork": Handler("turn", _fork),
    "branch": Handler("turn", _fork),
    "clone": Handler("turn", _clone),
    "get_fork_messages": Handler("now", _get_fork_messages),
    "get_branch_messages": Handler("now", _get_fork_messages),
    "get_entries": Handler("now", _get_entries),
    "get_tree": Handler("now", _get_tree),
    "set_session_name": Handler("now", _set_session_name),
    "get_commands": Handler("now", _get_commands),
    "export_html": Handler("own", _export_html),
    "bash": Handler("own", _bash, eager=True),
    "abort_bash": Handler("now", _abort_bash),
}
