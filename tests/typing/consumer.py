"""What users of the package write, held against its types as they see them; it is never run."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import assert_type

import ludolf
from ludolf import Answer, create_session
from ludolf.client import (
    AgentEnd,
    BashResult,
    Client,
    CycledModel,
    HostTool,
    HostToolContent,
    Image,
    MessageUpdate,
    Model,
    ProgramEnded,
    PromptFailed,
    Refused,
    State,
    StoredMessage,
    Text,
    TextDelta,
    ToolEnd,
    TypedEvent,
    UiRequest,
    UnknownEvent,
)
from ludolf.client import sync as client_sync
from ludolf.ext import Api, Context, ToolCallAnswer, ToolCalled, ToolResult
from ludolf.sdk import BlockDelta, ModelContext, SessionEvent

# ---------------------------------------------------------------- out of process


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def look_up(word: str) -> str:
    """Look a word up."""
    return word


async def on_dialog(request: UiRequest) -> str | bool | None:
    return request.method == "confirm" or None


async def out_of_process() -> str:
    async with Client(
        "--no-session", cwd=".", tools=[add, look_up], on_dialog=on_dialog, timeout=None
    ) as client:
        answer = await client.prompt_and_wait("Add 1 and 2", timeout=60)
        assert_type(answer, Answer)
        state = await client.get_state()
        assert_type(state, State)
        assert_type(state.model, Model | None)
        assert_type(await client.set_model("anthropic", "claude-sonnet-5"), Model)
        assert_type(await client.cycle_model(), CycledModel | None)
        assert_type(await client.get_messages(), tuple[StoredMessage, ...])
        assert_type(await client.get_last_assistant_text(), str | None)
        assert_type(await client.bash("ls", exclude_from_context=True), BashResult)
        picture = Image(data="", mime_type="image/png")
        await client.steer("And this?", images=[picture])
        await client.set_host_tools([HostTool(name="x", description="X", parameters={})])
        content = HostToolContent(content=[Text(text="hi"), picture])
        await client.host_tool_result("1", content, is_error=False)
        async for piece in client.stream_text("More"):
            assert_type(piece, str)
    return answer.text


async def events(client: Client) -> list[str]:
    told: list[str] = []
    async for event in client.typed_events():
        assert_type(event, TypedEvent)
        match event:
            case MessageUpdate(piece=TextDelta(delta=delta)):
                told.append(delta)
            case ToolEnd(tool_name=name, is_error=True):
                told.append(name)
            case UiRequest():
                await client.answer_dialog(event, None)
            case UnknownEvent(type=kind, raw=raw):
                told.append(kind + str(raw))
            case AgentEnd(messages=messages):
                told += [message.role for message in messages]
            case _:
                pass
    return told


async def trouble(program: str) -> str:
    try:
        async with Client(program=(program, "--mode", "rpc"), dialect="pi") as client:
            return (await client.prompt_and_wait("hi")).text
    except PromptFailed as failed:
        return failed.answer.error or ""
    except Refused as refused:
        return refused.code or str(refused)
    except ProgramEnded as ended:
        return f"{ended.code} {ended.stderr}"


def without_asyncio() -> str:
    with client_sync.Client(tools=[add]) as client:
        assert_type(client.get_state(), State)
        for event in client.stream("hi"):
            assert_type(event, TypedEvent)
        assert_type(client.get_available_models(), tuple[Model, ...])
        return client.prompt_and_wait("hi").text


# ---------------------------------------------------------------- in process


@dataclass
class Town:
    name: str
    people: int


async def parrot(context: ModelContext) -> AsyncIterator[str]:
    yield str(context.messages[-1])


async def in_process() -> None:
    async with create_session(model=parrot, tools=[add], settings={}) as session:
        run = session.prompt("hi")
        async for event in run:
            assert_type(event, SessionEvent)
            if isinstance(event, BlockDelta):
                assert_type(event.delta, str)
        assert_type(await session.prompt("again"), Answer)
        assert_type(await session.ask("Which town is it?", Town), Town)


def in_process_without_asyncio() -> str:
    with ludolf.sync.create_session(model="ludolf/offline") as session:
        assert_type(session.ask("How many?", int), int)
        return session.prompt("hi").text


# ---------------------------------------------------------------- as an extension


def extension(api: Api) -> None:
    @api.tool(description="Say it again")
    async def echo(text: str) -> ToolResult:
        return ToolResult(content=text)

    @api.on("tool_call")
    def no_root(event: ToolCalled, ctx: Context) -> ToolCallAnswer | None:
        if event.tool_name == "bash" and "sudo" in event.input["command"]:
            return {"block": True, "reason": "sudo is not available here."}
        return None
