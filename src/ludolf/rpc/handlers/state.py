"""Commands that read the conversation and the state, and run shell commands for the user."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ludolf.agent.tool import ToolFailure
from ludolf.base import CommandError, dumps
from ludolf.protocol.commands import (
    BadCommand,
    Bash,
    CompleteCommand,
    FindFiles,
    GetEntries,
    GetMessagesPage,
)
from ludolf.protocol.framing import NO_ID
from ludolf.rpc.connection import Call, ReplyData, Result, forwards, handles
from ludolf.rpc.state import context_fill, full_state, overhead_tokens, state
from ludolf.session.tree import Session

DEFAULT_LIMIT = 100
MAX_LIMIT = 256
MAX_BYTES = 768 << 10


class PagingError(CommandError):
    """A page was refused; the code says whether to wait or to start with the first page again."""


def messages_page(session: Session, cursor: Any, limit: Any, *, busy: bool) -> list[bytes]:
    """One page as pieces of JSON: `messages`, `totalMessages`, and `nextCursor` if more follow.

    Raises:
        PagingError: the limit or the cursor is invalid, or the session is changing.
    """
    size = DEFAULT_LIMIT if limit is None else limit
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_LIMIT:
        raise PagingError(f"RPC message page limit must be between 1 and {MAX_LIMIT}")
    stamp = f"{session.id}.{session.leaf or ''}"
    start = 0 if cursor is None else _start(cursor, stamp)
    if busy:
        text = "Cannot page messages while the session is changing"
        raise PagingError(text, code="session_busy")
    return _page(session, start, size, stamp)


def _start(cursor: Any, stamp: str) -> int:
    head, dot, place = cursor.rpartition(".") if isinstance(cursor, str) else ("", "", "")
    if not dot or "." not in head or not place.isdigit():
        raise PagingError("Invalid RPC message cursor")
    if head != stamp:
        raise PagingError("RPC message cursor is stale", code="stale_cursor")
    return int(place)


def _page(session: Session, start: int, size: int, stamp: str) -> list[bytes]:
    every = [bytes(message) for message in session.context.messages_json()]
    chosen: list[bytes] = []
    taken = 0
    for message in every[start : start + size]:
        taken += len(message)
        if chosen and taken > MAX_BYTES:
            break
        chosen.append(message)
    end = start + len(chosen)
    following = b',"nextCursor":"%b.%d"' % (stamp.encode(), end) if end < len(every) else b""
    return [*_list(b"messages", chosen), following, b',"totalMessages":%d}' % len(every)]


def _list(name: bytes, items: Iterable[bytes | msgspec.Raw]) -> list[bytes]:
    """Return the start of an object up to the end of its first field, a list of JSON values."""
    pieces = [b'{"%b":[' % name]
    for place, item in enumerate(items):
        pieces += (b"," if place else b"", bytes(item))
    return [*pieces, b"]"]


@handles
async def get_state(call: Call) -> Result:
    return ReplyData(state(call.engine), lambda: full_state(call.engine))


@handles
async def get_messages(call: Call) -> Result:
    engine = call.engine
    pieces = [*_list(b"messages", engine.session.context.messages_json()), b"}"]
    return ReplyData(pieces, lambda: {"nonMessageTokens": overhead_tokens(engine)})


@handles
async def get_messages_page(call: Call) -> Result:
    command: GetMessagesPage = call.command
    engine = call.engine
    busy = engine.runner.running or engine.compactor.running
    page = messages_page(engine.session, command.cursor, command.limit, busy=busy)
    return ReplyData(page, lambda: {"nonMessageTokens": overhead_tokens(engine)})


@handles
async def get_last_assistant_text(call: Call) -> Result:
    from ludolf.session.views import last_assistant_text

    return ReplyData({"text": last_assistant_text(call.engine.session)})


@handles
async def get_session_stats(call: Call) -> Result:
    engine = call.engine
    return ReplyData(engine.stats(), lambda: {"contextUsage": context_fill(engine)})


@handles
async def get_entries(call: Call) -> Result:
    from ludolf.session.entries import entry_json
    from ludolf.session.views import entries_since, path_tail

    command: GetEntries = call.command
    session, more = call.engine.session, False
    if command.before is None and command.limit is None:
        entries = entries_since(session, command.since)
    elif command.since is not None:
        text = "get_entries: since cannot be combined with before or limit. Send one of them."
        raise BadCommand(text, "since")
    else:
        entries, more = path_tail(session, command.limit or DEFAULT_LIMIT, command.before)
    found = _list(b"entries", map(entry_json, entries))
    end = b',"more":true}' if more else b"}"
    return ReplyData([*found, b',"leafId":', dumps(session.leaf), end])


@handles
async def get_tree(call: Call) -> Result:
    from ludolf.session.views import tree_json

    session = call.engine.session
    return ReplyData([b'{"tree":', tree_json(session), b',"leafId":', dumps(session.leaf), b"}"])


@handles
async def get_available_commands(call: Call) -> Result:
    from ludolf.rpc.slash_commands import available_commands

    return ReplyData({"commands": available_commands(call.engine, call.connection.traits)})


@handles
async def find_files(call: Call) -> Result:
    from ludolf.tools.file_finder import find_files as find

    command: FindFiles = call.command
    engine = call.engine
    try:
        found = await find(
            engine.workspace.cwd, command.query, command.limit, engine.workspace.environ
        )
    except ToolFailure as error:
        raise CommandError(f"find_files: {error}") from error
    return ReplyData({"files": found})


@handles
async def complete_command(call: Call) -> Result:
    command: CompleteCommand = call.command
    found = await call.engine.complete_command(command.name, command.prefix)
    return ReplyData(None if found is None else {"items": found})


@handles
async def run_shortcut(call: Call) -> Result:
    await call.engine.run_shortcut(call.command.key)
    return None


@handles
async def bash(call: Call) -> Result:
    command: Bash = call.command
    reply_id = call.head.id if call.head.id is not NO_ID else None
    about = {"command": command.command, "cwd": str(call.engine.workspace.cwd)}
    result = await call.engine.shell.run(
        command.command, exclude=command.exclude_from_context, reply_id=reply_id
    )
    return ReplyData(result, lambda: about)


forwards(
    get_commands=lambda call: {"commands": call.engine.commands()},
    get_shortcuts=lambda call: {"shortcuts": call.engine.shortcuts()},
    abort_bash=lambda call: call.engine.shell.abort(),
)
