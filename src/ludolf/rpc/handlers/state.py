"""Commands that read the conversation and the state, and run shell commands for the user."""

from ludolf.base import dumps
from ludolf.protocol.commands import Bash, GetMessagesPage
from ludolf.protocol.framing import NO_ID
from ludolf.rpc.call import Call, ReplyData, Result, handles
from ludolf.rpc.paging import messages_page
from ludolf.rpc.state import context_fill, full_state, overhead_tokens, state


@handles
async def get_state(call: Call) -> Result:
    return ReplyData(state(call.engine), lambda: full_state(call.engine))


@handles
async def get_messages(call: Call) -> Result:
    pieces = [b'{"messages":[']
    for place, message in enumerate(call.engine.session.context.messages_json()):
        pieces += (b"," if place else b"", bytes(message))
    engine = call.engine
    return ReplyData([*pieces, b"]}"], lambda: {"nonMessageTokens": overhead_tokens(engine)})


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
    from ludolf.session.views import entries_since

    session = call.engine.session
    pieces = [b'{"entries":[']
    for place, entry in enumerate(entries_since(session, call.command.since)):
        pieces += (b"," if place else b"", entry_json(entry))
    return ReplyData([*pieces, b'],"leafId":', dumps(session.leaf), b"}"])


@handles
async def get_tree(call: Call) -> Result:
    from ludolf.session.views import tree_json

    session = call.engine.session
    return ReplyData([b'{"tree":', tree_json(session), b',"leafId":', dumps(session.leaf), b"}"])


@handles
async def get_commands(call: Call) -> Result:
    return ReplyData({"commands": call.engine.commands()})


@handles
async def get_available_commands(call: Call) -> Result:
    from ludolf.rpc.slash_commands import available_commands

    return ReplyData({"commands": available_commands(call.engine, call.connection.traits)})


@handles
async def bash(call: Call) -> Result:
    command: Bash = call.command
    reply_id = call.head.id if call.head.id is not NO_ID else None
    about = {"command": command.command, "cwd": str(call.engine.workspace.cwd)}
    result = await call.engine.shell.run(
        command.command, exclude=command.exclude_from_context, reply_id=reply_id
    )
    return ReplyData(result, lambda: about)


@handles
async def abort_bash(call: Call) -> Result:
    call.engine.shell.abort()
    return None
