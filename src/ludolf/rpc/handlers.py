"""What each command does, and its pace.

now    answered before the next line is read
turn   begins when earlier commands of this pace have been answered
own    a task of its own from the start
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import UNSET

from ludolf.agent.queue import QueueKind
from ludolf.base import dumps
from ludolf.engine.run.prompting import Disposition, Work
from ludolf.protocol.bash import BashResult
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

ABORT_AGAIN_SECONDS = 0.02

# ---------------------------------------------------------------- prompting


def _prompt(call: Call) -> Result | Coroutine[Any, Any, Result]:
    command: Prompt = call.command
    extra = (
        *read_images("prompt", command.images),
        *read_attachments("prompt", command.attachments),
    )
    return told(
        call.engine.prompting.prompt(
            command.message,
            extra,
            command.streaming_behavior,
            attachments=command.attachments or UNSET,
        )
    )


def told(work: Work) -> Result | Coroutine[Any, Any, Result]:
    """What became of the message, now or when it is known."""
    return Data({"disposition": work}) if isinstance(work, str) else _told_later(work)


async def _told_later(work: Coroutine[Any, Any, Disposition]) -> Result:
    return Data({"disposition": await work})


def _is_command(call: Call) -> bool:
    """A command of an extension may wait for the host's own answers: nothing waits behind it."""
    return call.engine.prompting.is_command(call.command.message)


def _answer_dialog(call: Call) -> Result:
    if isinstance(call.command.id, str):
        call.engine.answer_dialog(call.command)
    return Silence()


def _queue(kind: QueueKind) -> Run:
    def run(call: Call) -> Result | Coroutine[Any, Any, Result]:
        command: QueueMessage = call.command
        images = read_images(call.head.type, command.images)
        return told(call.engine.prompting.queue(kind, command.message, images))

    return run


async def _abort(call: Call) -> Result:
    """Stop what runs, and what was sent before and only now begins to run."""
    if call.engine.logins is not None:
        call.engine.logins.abort()
    await call.engine.abort()
    while call.earlier is not None and not call.earlier.done():
        await asyncio.wait((call.earlier,), timeout=ABORT_AGAIN_SECONDS)
        await call.engine.abort()
    return None


async def _abort_and_prompt(call: Call) -> Result:
    await call.engine.abort()
    result = _prompt(call)
    return await result if isinstance(result, Coroutine) else result


def _clear_queue(call: Call) -> Result:
    return Data(call.engine.parts.queue.clear())


def _set_mode(kind: QueueKind) -> Run:
    def run(call: Call) -> Result:
        save = not call.connection.traits.forgets_modes
        call.engine.set_queue_mode(kind, call.command.mode, save=save)
        return None

    return run


# ---------------------------------------------------------------- state


def _get_state(call: Call) -> Result:
    return Data(state(call.engine), lambda: full_state(call.engine))


def _get_messages(call: Call) -> Result:
    pieces = [b'{"messages":[']
    for place, message in enumerate(call.engine.parts.session.context.messages_json()):
        pieces += (b"," if place else b"", bytes(message))
    engine = call.engine
    return Data([*pieces, b"]}"], lambda: {"nonMessageTokens": overhead_tokens(engine)})


def _get_last_assistant_text(call: Call) -> Result:
    from ludolf.session.views import last_assistant_text

    return Data({"text": last_assistant_text(call.engine.parts.session)})


def _get_session_stats(call: Call) -> Result:
    engine = call.engine
    return Data(engine.stats(), lambda: {"contextUsage": context_fill(engine)})


# ---------------------------------------------------------------- models


def _about_models(run: Callable[[Call], Data], *, named: bool = False) -> Run:
    """Answers at once, unless models of this machine may have to be found first."""

    def begin(call: Call) -> Result | Coroutine[Any, Any, Result]:
        provider: str | None = call.command.provider if named else None
        return found(call) if call.engine.models.must_look(provider) else run(call)

    async def found(call: Call) -> Result:
        await call.engine.models.look()
        return run(call)

    return begin


def _set_model(call: Call) -> Data:
    command: SetModel = call.command
    return Data(call.engine.models.set_model(command.provider, command.model_id))


def _cycle_model(call: Call) -> Data:
    return Data(call.engine.models.cycle())


def _get_available_models(call: Call) -> Data:
    return Data({"models": call.engine.parts.registry.available()})


def _set_thinking_level(call: Call) -> Result:
    call.engine.models.set_level(call.command.level)
    return None


def _cycle_thinking_level(call: Call) -> Result:
    level = call.engine.models.cycle_level()
    return Data(None if level is None else {"level": level})


def _get_available_thinking_levels(call: Call) -> Result:
    return Data({"levels": call.engine.models.levels()})


# ---------------------------------------------------------------- compaction and retry


async def _compact(call: Call) -> Result:
    return Data(await call.engine.compact(call.command.custom_instructions))


def _set_auto_compaction(call: Call) -> Result:
    call.engine.set_auto_compaction(call.command.enabled)
    return None


def _set_auto_retry(call: Call) -> Result:
    call.engine.set_auto_retry(call.command.enabled)
    return None


async def _abort_retry(call: Call) -> Result:
    await call.engine.runner.retries.abort_wait()
    return None


# ---------------------------------------------------------------- sessions


async def _new_session(call: Call) -> Result:
    return Data({"cancelled": await call.engine.sessions.new(call.command.parent_session)})


async def _switch_session(call: Call) -> Result:
    return Data({"cancelled": await call.engine.sessions.switch(call.command.session_path)})


async def _fork(call: Call) -> Result:
    cancelled, text = await call.engine.sessions.fork(call.command.entry_id)
    return Data({"text": text, "cancelled": cancelled})


async def _clone(call: Call) -> Result:
    return Data({"cancelled": await call.engine.sessions.clone()})


def _get_fork_messages(call: Call) -> Result:
    from ludolf.session.views import fork_messages

    return Data({"messages": fork_messages(call.engine.parts.session)})


def _get_entries(call: Call) -> Result:
    from ludolf.session.entries import entry_json
    from ludolf.session.views import entries_since

    session = call.engine.parts.session
    pieces = [b'{"entries":[']
    for place, entry in enumerate(entries_since(session, call.command.since)):
        pieces += (b"," if place else b"", entry_json(entry))
    return Data([*pieces, b'],"leafId":', dumps(session.leaf), b"}"])


def _get_tree(call: Call) -> Result:
    from ludolf.session.views import tree_json

    session = call.engine.parts.session
    return Data([b'{"tree":', tree_json(session), b',"leafId":', dumps(session.leaf), b"}"])


def _set_session_name(call: Call) -> Result:
    call.engine.set_session_name(call.command.name)
    return None


async def _export_html(call: Call) -> Result:
    return Data({"path": await call.engine.export_html(call.command.output_path)})


def _get_commands(call: Call) -> Result:
    return Data({"commands": call.engine.commands()})


# ---------------------------------------------------------------- shell


def _bash(call: Call) -> Result | Coroutine[Any, Any, Result]:
    command: Bash = call.command
    reply_id = call.head.id if call.head.id is not NO_ID else None
    work = call.engine.shell.run(
        command.command, exclude=command.exclude_from_context, reply_id=reply_id
    )
    return _ran(work, {"command": command.command, "cwd": str(call.engine.parts.home.cwd)})


async def _ran(work: Coroutine[Any, Any, BashResult], about: dict[str, Any]) -> Result:
    return Data(await work, lambda: about)


def _abort_bash(call: Call) -> Result:
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
    "prompt": Handler("turn", _prompt, own_if=_is_command),
    "extension_ui_response": Handler("now", _answer_dialog),
    "steer": Handler("turn", _queue("steering")),
    "follow_up": Handler("turn", _queue("follow_up")),
    "abort": Handler("own", _abort, holds=True),
    "abort_and_prompt": Handler("turn", _abort_and_prompt),
    "clear_queue": Handler("now", _clear_queue),
    "set_steering_mode": Handler("now", _set_mode("steering")),
    "set_follow_up_mode": Handler("now", _set_mode("follow_up")),
    "get_state": Handler("now", _get_state),
    "get_messages": Handler("now", _get_messages),
    "get_last_assistant_text": Handler("now", _get_last_assistant_text),
    "get_session_stats": Handler("now", _get_session_stats),
    "set_model": Handler("now", _about_models(_set_model, named=True), holds=True),
    "cycle_model": Handler("now", _about_models(_cycle_model), holds=True),
    "get_available_models": Handler("now", _about_models(_get_available_models)),
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
    "bash": Handler("own", _bash),
    "abort_bash": Handler("now", _abort_bash),
}
