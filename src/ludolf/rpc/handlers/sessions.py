"""Commands about sessions: open another, branch, compact, name, list, delete, export."""

from collections.abc import Coroutine
from typing import Any

from ludolf.base import CommandError
from ludolf.engine.feature import TreeMove, Vetoed
from ludolf.protocol.commands import Handoff, NavigateTree, RenameSession
from ludolf.rpc.connection import FUNCTIONS, Call, ReplyData, Result, forwards, handles


@handles
async def open_session(call: Call) -> Result:
    if not call.command.session_dir.strip():
        raise CommandError("Session folder cannot be empty")
    return ReplyData(await call.engine.sessions.open_folder(call.command.session_dir))


@handles
async def fork(call: Call) -> Result:
    sessions, entry_id = call.engine.sessions, call.command.entry_id
    try:
        return ReplyData({"text": await sessions.fork(entry_id), "cancelled": False})
    except Vetoed:
        return ReplyData({"text": sessions.text_at(entry_id), "cancelled": True})


async def _change(change: Coroutine[Any, Any, Any]) -> Result:
    try:
        await change
    except Vetoed:
        return ReplyData({"cancelled": True})
    return ReplyData({"cancelled": False})


@handles
async def handoff(call: Call) -> Result:
    command: Handoff = call.command
    instructions = command.custom_instructions or command.instructions
    return ReplyData(await call.engine.handoff.go(instructions))


@handles
async def get_fork_messages(call: Call) -> Result:
    from ludolf.session.views import fork_messages

    return ReplyData({"messages": fork_messages(call.engine.session)})


@handles
async def navigate_tree(call: Call) -> Result:
    command: NavigateTree = call.command
    if call.engine.session.get(command.target_id) is None:
        raise CommandError(f"Entry not found: {command.target_id}")
    await call.engine.abort()
    return ReplyData(
        await call.engine.tree.go(
            TreeMove(
                target_id=command.target_id,
                summarize=command.summarize,
                instructions=command.custom_instructions,
                replace=command.replace_instructions,
                label=command.label,
            )
        )
    )


@handles
async def compact(call: Call) -> Result:
    return ReplyData(await call.engine.compact(call.command.custom_instructions))


@handles
async def rename_session(call: Call) -> None:
    command: RenameSession = call.command
    if call.engine.library.is_current(command.session_path):
        call.engine.set_session_name(command.name)
    else:
        call.engine.library.rename(command.session_path, command.name)


@handles
async def export_html(call: Call) -> Result:
    return ReplyData({"path": await call.engine.export_html(call.command.output_path)})


FUNCTIONS.update(
    new_session=lambda call: _change(call.engine.sessions.new(call.command.parent_session)),
    switch_session=lambda call: _change(call.engine.sessions.switch(call.command.session_path)),
    clone=lambda call: _change(call.engine.sessions.clone()),
)
forwards(
    set_auto_compaction=lambda call: call.engine.set_auto_compaction(call.command.enabled),
    set_session_name=lambda call: call.engine.set_session_name(call.command.name),
    list_sessions=lambda call: {"sessions": call.engine.library.list(everywhere=call.command.all)},
    delete_session=lambda call: {
        "movedTo": str(call.engine.library.delete(call.command.session_path))
    },
)
