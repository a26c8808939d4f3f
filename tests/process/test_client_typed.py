"""The typed client: commands and events as values, prompts waited for, tools and dialogs."""

import asyncio
import inspect
import sys
from contextlib import suppress
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from ludolf.agent.events import AgentEnd, AgentStart, ToolEnd
from ludolf.ai.messages import AssistantMessage, Image, ToolResultMessage, text_of
from ludolf.base import loads
from ludolf.client import (
    Client,
    ClientError,
    NoAnswer,
    OddAnswer,
    PromptFailed,
    Refused,
    UnknownEvent,
    sync,
)
from ludolf.client.events import TypedEvent
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.events import AgentSettled
from ludolf.protocol.results import (
    State,
)
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.answers import ANSWERS
from ludolf.protocol.wire.dialects import WIRE
from ludolf.protocol.wire.frames import MessageEnd, MessageStart, MessageUpdate
from ludolf.protocol.wire.pieces import TextDelta
from ludolf.protocol.wire.stored import MessageEntry
from tests.frames import frames_in
from tests.process.extending import lay
from tests.process.harness import RPC, WAIT_SECONDS, ForkedClient, Lab, Patient, survivors
from tests.process.script import Failure, Gate, answer, call

DIALECTS = ("pi", "pi-0.79", "pi-delta", "omp", "xcsh", "pi-early")
# Parameters that a method does not have: another name for one, and what follows from another.
LEFT_OUT = {"handoff": {"instructions"}, "host_uri_result": {"is_error"}}


def typed(lab: Lab, *arguments: str, **options: Any) -> Client:
    """A client of the program, or of another one that is among the options."""
    given = {"program": RPC, "cwd": lab.work, "env": lab.env, **options}
    kind = Patient if "program" in options else ForkedClient
    return kind(*arguments, **given)


def speaking(lab: Lab, dialect: str, **options: Any) -> Client:
    return typed(lab, "--rpc-dialect", dialect, **options)


# ---------------------------------------------------------------- every command


@pytest.mark.parametrize("client", [Client, sync.Client], ids=["asyncio", "blocking"])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_method_with_its_parameters(name: str, client: type[Any]) -> None:
    method = getattr(client, name)
    assert method.__doc__
    taken = set(inspect.signature(method).parameters) - {"self"}
    assert taken == set(COMMANDS[name].params.__struct_fields__) - LEFT_OUT.get(name, set())


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_method_returns_the_answer_or_what_is_in_it(name: str) -> None:
    kind = ANSWERS[name]
    returned = get_type_hints(getattr(Client, name))["return"]
    if kind is None:
        assert returned is type(None)
        return
    structs = [one for one in get_args(kind) or (kind,) if one is not type(None)]
    fields = [field.type for one in structs for field in msgspec.structs.fields(one)]
    possible = {str(one) for one in (kind, kind | None, *structs, *fields, type(None))}
    wanted = {str(one) for one in (returned, *get_args(returned))}
    assert wanted & possible, (returned, possible)


def test_every_frame_has_a_type_that_users_can_name() -> None:
    others = {"rpc_chunk", "session"}
    for wire in WIRE.values():
        for tag, kind in wire.by_type().items():
            assert tag in others or issubclass(kind, get_args(TypedEvent)), kind


async def test_commands_are_sent_as_the_schema_says(lab: Lab) -> None:
    """Each method once; what a command is answered does not matter here."""
    sent: list[bytes] = []
    async with typed(lab) as client:
        write = client.process.write

        async def keep(data: bytes) -> None:
            sent.append(data)
            await write(data)

        client.process.write = keep  # type: ignore[method-assign]  # to see what is written
        for name in sorted(set(ANSWERS) - {"reload", "abort_and_prompt", "prompt", "login"}):
            taken = inspect.signature(getattr(client, name)).parameters
            given = {field: VALUES[field] for field in taken} | OTHERS.get(name, {})
            with suppress(Refused):
                await getattr(client, name)(**given)
    assert len(sent) == len(ANSWERS) - 4
    for line in sent:
        frames_in().check(loads(line))


OTHERS = {"set_interrupt_mode": {"mode": "wait"}}
VALUES: dict[str, Any] = {
    "all": True,
    "api_key": "k",
    "command": "true",
    "cursor": None,
    "custom_instructions": None,
    "enabled": True,
    "entry_id": "e",
    "events": None,
    "exclude_from_context": True,
    "exposure": "direct",
    "from_byte": 0,
    "key": "f9",
    "images": [Image(data="aa", mime_type="image/png")],
    "label": "here",
    "level": "off",
    "limit": 5,
    "locale": "de",
    "max_cost": 1.5,
    "max_tokens": 5,
    "max_turns": 5,
    "message": "hi",
    "mode": "all",
    "model_id": "large",
    "name": "name",
    "output_path": "page.html",
    "parent_session": None,
    "phases": [],
    "baggage": None,
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": None,
    "protocol_version": 1,
    "prefix": "p",
    "provider": "claude",
    "provider_id": "openai",
    "query": "a",
    "remember": False,
    "replace_instructions": False,
    "save": False,
    "schemes": [],
    "servers": {},
    "session_dir": "sessions",
    "session_file": None,
    "session_path": "nowhere.jsonl",
    "since": None,
    "before": None,
    "subagent_id": "one",
    "summarize": False,
    "target_id": "e",
    "tools": [],
    "trusted": True,
    "usage": "changes",
}


async def test_answers_are_values(lab: Lab) -> None:
    lab.server.add(answer("Hi."))
    async with typed(lab) as client:
        await client.prompt_and_wait("Go")
        state = await client.get_state()
        model = await client.set_model("claude", "large")
        stats = await client.get_session_stats()
        messages = await client.get_messages()
        entries = await client.get_entries()
        tree = await client.get_tree()
        shell = await client.bash("echo hi")
        await client.set_session_name("Named")
        (named,) = await client.list_sessions()
    assert isinstance(state, State)
    assert (state.model and state.model.key, state.message_count) == ("claude/large", 2)
    assert (model.key, stats.total_messages, len(messages)) == ("claude/large", 2, 2)
    assert any(isinstance(entry, MessageEntry) for entry in entries.entries)
    assert tree.leaf_id == entries.leaf_id
    assert (shell.output, shell.exit_code) == ("hi\n", 0)
    assert (named.name, named.first_message) == ("Named", "Go")


async def test_a_refusal_is_an_error_with_its_code(lab: Lab) -> None:
    async with typed(lab) as client:
        with pytest.raises(Refused, match="Model not found: claude/small"):
            await client.set_model("claude", "small")
        with pytest.raises(Refused, match="stale") as caught:
            await client.get_messages_page("a.b.1")
    assert caught.value.code == "stale_cursor"


async def test_an_answer_of_another_shape_is_told_as_such(lab: Lab) -> None:
    odd = (
        "import sys; sys.stdin.readline();"
        'print(\'{"type":"response","id":"c1","command":"get_state","success":true,"data":{}}\','
        "flush=True); sys.stdin.read()"
    )
    async with typed(lab, program=(sys.executable, "-c", odd)) as client:
        with pytest.raises(OddAnswer, match=r"get_state: .*thinkingLevel|get_state: .*missing"):
            await client.get_state()


async def test_a_long_conversation_is_no_trouble_for_who_asks_for_its_tree(lab: Lab) -> None:
    deep = '{"entry":{},"children":[' * 2000 + "]}" * 2000
    head = '{"id":"c1","type":"response","command":"get_tree","success":true,"data":{"tree":['
    program = f"import sys; sys.stdin.readline(); print({head!r} + {deep!r} + ']}}}}', flush=True)"
    async with typed(lab, program=(sys.executable, "-c", program)) as client:
        with pytest.raises(Refused, match="get_tree: the answer cannot be read"):
            await client.get_tree()


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_prompt_is_waited_for_in_every_family(lab: Lab, dialect: str) -> None:
    lab.server.add(answer(call("read", {"path": "a.txt"})), answer("It says hi."), answer("Two."))
    (lab.work / "a.txt").write_text("hi\n")
    async with speaking(lab, dialect) as client:
        first = await client.prompt_and_wait("Read a.txt")
        second = await client.prompt_and_wait("Again")
    assert (first.text, first.stop_reason, first.error) == ("It says hi.", "stop", None)
    roles = [message.role for message in first.messages]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert (first.usage.input, first.usage.output) == (200, 40)
    assert (second.text, len(second.messages)) == ("Two.", 2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_everything_that_happens_is_typed_in_every_family(lab: Lab, dialect: str) -> None:
    lab.server.add(answer(call("read", {"path": "a.txt"})), answer("It says hi."))
    (lab.work / "a.txt").write_text("hi\n")
    async with speaking(lab, dialect) as client:
        events = [event async for event in client.stream("Read a.txt")]
    assert [event for event in events if isinstance(event, UnknownEvent)] == []
    assert any(isinstance(event, AgentStart) for event in events)
    assert isinstance(
        events[-1], AgentSettled if dialect.startswith("pi-d") or dialect == "pi" else AgentEnd
    )
    (end,) = (event for event in events if isinstance(event, ToolEnd))
    assert (end.tool_name, end.is_error) == ("read", False)
    updates = [event.piece for event in events if isinstance(event, MessageUpdate)]
    assert "".join(one.delta for one in updates if isinstance(one, TextDelta)) == "It says hi."


async def test_only_the_text_can_be_streamed(lab: Lab) -> None:
    lab.server.add(answer("One two three.", size=4))
    async with typed(lab) as client:
        pieces = [piece async for piece in client.stream_text("Go")]
    assert pieces == ["One ", "two ", "thre", "e."]


async def test_a_model_that_fails_fails_the_prompt(lab: Lab) -> None:
    lab.settings(retry={"enabled": False})
    async with typed(lab) as client:
        with pytest.raises(PromptFailed) as caught:
            await client.prompt_and_wait("Go")
        assert (await client.get_state()).is_streaming is False
    assert caught.value.answer.stop_reason == "error"
    assert str(caught.value) == caught.value.answer.error


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_prompt_that_is_refused_raises_in_every_family(lab: Lab, dialect: str) -> None:
    (lab.agent / "models.json").write_text('{"providers":{"claude":{"models":[]}}}')
    env = {**lab.env, "LUDOLF_OFFLINE_MODEL": "0"}
    async with speaking(lab, dialect, env=env) as client:
        with pytest.raises(Refused, match="No model selected"):
            await client.prompt_and_wait("Go", timeout=WAIT_SECONDS)


async def test_a_prompt_that_takes_too_long_is_given_up_and_the_next_one_works(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer("Begun", gate, "never"), answer("Here."))
    async with typed(lab) as client:
        with pytest.raises(NoAnswer, match=r"No end of the prompt within 0\.5 s"):
            await client.prompt_and_wait("Go", timeout=0.5)
        gate.open()
        again = await client.prompt_and_wait("Again")
    # A slow program is told to stop before it has asked; the first answer is then the second's.
    assert again.text in ("Here.", "Begunnever")
    assert len(again.messages) == 2


@pytest.mark.parametrize("dialect", ["pi-delta", "omp", "pi-early"])
async def test_a_loop_left_early_aborts_the_run(lab: Lab, dialect: str) -> None:
    gate = Gate()
    lab.server.add(answer("Begun", gate, "never"), answer("Here."))
    async with speaking(lab, dialect) as client:
        stream = client.stream("Go")
        async for event in stream:
            if isinstance(event, MessageUpdate):
                break
        await stream.aclose()
        again = await client.prompt_and_wait("Again")
        gate.open()
    assert (again.text, len(again.messages)) == ("Here.", 2)


async def test_without_an_event_for_the_end_a_retry_is_waited_for(lab: Lab) -> None:
    lab.server.add(Failure(status=529), answer("Now it works."))
    async with speaking(lab, "pi-0.79") as client:
        assert (await client.prompt_and_wait("Go")).text == "Now it works."


async def test_whoever_cancels_the_waiting_aborts_the_run(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "never"), answer("Here."))
    async with typed(lab) as client:
        waiting = asyncio.ensure_future(client.prompt_and_wait("Go"))
        assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await client.prompt_and_wait("Again")).text == "Here."
        gate.open()


async def test_a_command_of_an_extension_leads_to_no_run(lab: Lab) -> None:
    lay(lab, COMMAND)
    async with typed(lab) as client:
        told = await client.prompt_and_wait("/hello")
        events = [event async for event in client.stream("/hello")]
    assert (told.text, told.messages, told.stop_reason) == ("", (), None)
    (request,) = events
    assert isinstance(request, UiRequest)
    assert request.message == "Hello."


COMMAND = """
def extension(api):
    @api.command("hello")
    async def hello(args, ctx):
        ctx.ui.notify("Hello.")
"""


async def test_two_readers_at_once_are_refused(lab: Lab) -> None:
    async with typed(lab) as client:
        reader = asyncio.ensure_future(anext(client.typed_events()))
        await asyncio.sleep(0)
        with pytest.raises(ClientError, match="Another task reads the events"):
            await client.prompt_and_wait("Go")
        reader.cancel()


async def test_who_reads_the_events_prompts_without_waiting(lab: Lab) -> None:
    lab.server.add(answer("Hi."))
    said = []
    async with typed(lab) as client:
        assert await client.prompt("Go") == "started"
        async for event in client.typed_events():
            if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
                said.append(event.message.stop_reason)
            if isinstance(event, AgentSettled):
                break
    assert said == ["stop"]


# ---------------------------------------------------------------- tools and dialogs


@pytest.mark.parametrize("dialect", ["pi-delta", "omp"])
async def test_functions_are_tools(lab: Lab, dialect: str) -> None:
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    async def wait_for(name: str, *, update: Any) -> str:
        """Wait for something."""
        update(f"waiting for {name}")
        return f"{name} is there"

    one, two = call("add", {"a": 1}, "c1"), call("wait_for", {"name": "it"}, "c2")
    lab.server.add(answer(one, two), answer("Done."))
    async with speaking(lab, dialect, tools=[add, wait_for]) as client:
        done = await client.prompt_and_wait("Go")
    results = [one for one in done.messages if isinstance(one, ToolResultMessage)]
    assert {one.tool_name: text_of(one.content) for one in results} == {
        "add": "3",
        "wait_for": "it is there",
    }
    told = [tool for tool in lab.server.requests[0].body["tools"] if tool["name"] == "add"]
    assert told[0]["description"] == "Add two numbers."
    assert told[0]["input_schema"]["required"] == ["a"]


async def test_a_tool_that_fails_tells_the_model(lab: Lab) -> None:
    def broken() -> str:
        raise ValueError("it is broken")

    lab.server.add(answer(call("broken", {})), answer("I see."))
    async with typed(lab, tools=[broken]) as client:
        ends = [e async for e in client.stream("Go") if isinstance(e, ToolEnd)]
    assert [end.is_error for end in ends] == [True]
    assert "it is broken" in str(ends[0].result.content)


async def test_an_abort_cancels_a_running_tool(lab: Lab) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    lab.server.add(answer(call("slow", {})))
    async with typed(lab, tools=[slow]) as client:
        await client.prompt("Go")
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        await client.abort()
        await asyncio.wait_for(ended.wait(), WAIT_SECONDS)


async def test_tools_are_answered_while_nobody_reads(lab: Lab) -> None:
    called = asyncio.Event()

    async def ring() -> str:
        called.set()
        return "rung"

    lab.server.add(answer(call("ring", {})), answer("Done."))
    async with typed(lab, tools=[ring]) as client:
        await client.prompt("Go")
        await asyncio.wait_for(called.wait(), WAIT_SECONDS)
        assert (await client.wait_for("agent_settled"))["type"] == "agent_settled"


async def test_a_program_that_takes_no_tools_says_so(lab: Lab) -> None:
    def add(a: int) -> int:
        return a

    refuse = (
        "import sys, json; line = json.loads(sys.stdin.readline());"
        "print(json.dumps({'type': 'response', 'id': line['id'], 'command': line['type'],"
        "'success': False, 'error': 'Unknown command: set_host_tools'}), flush=True);"
        "sys.stdin.read()"
    )
    client = typed(lab, program=(sys.executable, "-c", refuse), tools=[add])
    with pytest.raises(Refused, match="Unknown command: set_host_tools"):
        await client.open()
    assert survivors([client.process.pid]) == []


ASKING = """
def extension(api):
    @api.command("ask")
    async def ask(args, ctx):
        sure = await ctx.ui.confirm("Sure?", "Really.")
        name = await ctx.ui.input("Name?")
        size = await ctx.ui.select("Size?", ["small", "large"])
        ctx.ui.notify(f"{sure} {name} {size}")
"""


@pytest.mark.parametrize("form", ["plain", "async"])
async def test_dialogs_are_answered_by_a_function(lab: Lab, form: str) -> None:
    lay(lab, ASKING)
    answers = {"confirm": True, "input": "Ada", "select": None}

    def plain(request: UiRequest) -> Any:
        return answers[request.method]

    async def later(request: UiRequest) -> Any:
        return answers[request.method]

    async with typed(lab, on_dialog=plain if form == "plain" else later) as client:
        events = [event async for event in client.stream("/ask")]
    (said,) = [event.message for event in events if isinstance(event, UiRequest)]
    assert said == "True Ada None"


async def test_dialogs_are_events_where_no_function_answers(lab: Lab) -> None:
    lay(lab, ASKING)
    values = iter((False, "Ada", "large"))
    async with typed(lab) as client:
        async for event in client.stream("/ask"):
            assert isinstance(event, UiRequest)
            if event.method == "notify":
                said = event.message
            else:
                await client.answer_dialog(event, next(values))
    assert said == "False Ada large"


async def test_a_dialog_function_that_fails_dismisses_the_dialog(lab: Lab) -> None:
    lay(lab, ASKING)

    def broken(request: UiRequest) -> Any:
        raise KeyError("no idea")

    with pytest.warns(UserWarning, match="on_dialog failed"):
        async with typed(lab, on_dialog=broken) as client:
            events = [event async for event in client.stream("/ask")]
    assert [e.message for e in events if isinstance(e, UiRequest)] == ["False None None"]


async def test_frames_of_one_message_are_known_by_its_id(lab: Lab) -> None:
    lab.server.add(answer("Hi."))
    async with speaking(lab, "pi-delta") as client:
        await client.set_prompt_results(True)
        told = [event async for event in client.stream("Hello")]
    kinds = (MessageStart, MessageUpdate, MessageEnd)
    ids = [event.message_id for event in told if isinstance(event, kinds)]
    assert len(set(ids)) == 2  # the question and the answer
    assert None not in ids
    assert ids == sorted(ids, key=ids.index)


# ---------------------------------------------------------------- structured output


async def test_a_prompt_with_a_schema_returns_a_value_or_fails(lab: Lab) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    lab.server.add(answer(call("final_answer", {"value": [1, 2]})))
    lab.server.add(*(answer("None.") for _ in range(3)))
    async with typed(lab) as client:
        first = await client.prompt_and_wait("Count", output_schema=schema)
        assert first.structured == [1, 2]
        with pytest.raises(PromptFailed, match="did not call final_answer"):
            await client.prompt_and_wait("Count", output_schema=schema)
        with pytest.raises(Refused, match="The output schema cannot be used"):
            await client.prompt_and_wait("Count", output_schema={"type": "city"})
