"""The agent inside a Python program: prompts, events, tools, types, models, isolation."""

import asyncio
import dataclasses
import enum
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ludolf
from ludolf import create_session
from ludolf.ext import Api, ToolCalled
from ludolf.sdk import (
    AgentSession,
    AgentSettled,
    AgentStart,
    AssistantMessage,
    BlockDelta,
    CommandError,
    ConfigError,
    LimitReached,
    LudolfError,
    ModelContext,
    NotAnswered,
    PromptFailed,
    Scripted,
    ScriptedReply,
    Text,
    Thinking,
    ToolCall,
    ToolEnd,
    ToolResultMessage,
    Usage,
)
from ludolf.sdk.sync import BlockingSession


async def parrot(context: ModelContext) -> AsyncIterator[str]:
    """Says again what was said last."""
    for word in context.messages[-1].content[0].text.split(" "):
        yield f"{word} "


async def adder(context: ModelContext) -> AsyncIterator[str | Thinking | ToolCall | Usage]:
    """Calls `add` once, then tells what it gave."""
    last = context.messages[-1]
    if isinstance(last, ToolResultMessage):
        assert isinstance(last.content[0], Text)
        yield f"it is {last.content[0].text}"
        return
    yield Thinking(thinking="two numbers")
    yield "adding"
    yield ToolCall(id="", name="add", arguments={"a": 1, "b": 2})
    yield Usage(input=10, output=5, total_tokens=15)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def alone(**more: Any) -> AgentSession:
    """A session that depends on nothing outside this file."""
    return create_session(**{"settings": {}, "builtin_tools": (), **more})


async def test_a_prompt_is_answered() -> None:
    async with alone(model=parrot) as session:
        answer = await session.prompt("hello there")
    assert answer.text == "hello there "
    assert answer.stop_reason == "stop"
    assert [message.role for message in answer.messages] == ["user", "assistant"]


async def test_a_function_is_a_tool_and_costs_are_summed() -> None:
    async with alone(model=adder, tools=[add]) as session:
        answer = await session.prompt("add")
    assert answer.text == "it is 3"
    assert answer.usage.input == 10
    roles = [message.role for message in answer.messages]
    assert roles == ["user", "assistant", "toolResult", "assistant"]


async def test_events_come_in_order_and_end_with_rest() -> None:
    async with alone(model=adder, tools=[add]) as session:
        events = [event async for event in session.prompt("add")]
    assert isinstance(events[0], AgentStart)
    assert isinstance(events[-1], AgentSettled)
    deltas = [event.delta for event in events if isinstance(event, BlockDelta)]
    assert deltas == ["two numbers", "adding", '{"a":1,"b":2}', "it is 3"]
    assert [event.is_error for event in events if isinstance(event, ToolEnd)] == [False]


async def test_only_the_text_can_be_streamed() -> None:
    async with alone(model=parrot) as session:
        assert [piece async for piece in session.prompt("a b c").text()] == ["a ", "b ", "c "]


async def test_a_loop_left_early_aborts_the_run() -> None:
    ended = asyncio.Event()

    async def endless(context: ModelContext) -> AsyncIterator[str]:
        try:
            while True:
                yield "more "
                await asyncio.sleep(0)
        finally:
            ended.set()

    async with alone(model=endless) as session:
        async for event in session.prompt("go"):
            if isinstance(event, BlockDelta):
                break
        del event
        gc.collect()
        async with asyncio.timeout(30):
            await ended.wait()
            await session.engine.runner.idle()
        assert session.messages[-1].role == "assistant"


async def test_a_slow_reader_holds_the_model_back() -> None:
    said = 0

    async def flood(context: ModelContext) -> AsyncIterator[str]:
        nonlocal said
        for _ in range(5_000):
            said += 1
            yield "x"

    async with alone(model=flood) as session:
        run = aiter(session.prompt("go"))
        for _ in range(20):
            await anext(run)
        for _ in range(5_000):  # turns of the loop: enough for a model that nothing holds
            await asyncio.sleep(0)
        assert said < 1_000
        count = len([event async for event in run if isinstance(event, BlockDelta)])
    assert said == 5_000
    assert count > 4_900


async def test_a_failing_model_raises_with_what_there_is() -> None:
    async def broken(context: ModelContext) -> AsyncIterator[str]:
        yield "half "
        raise ValueError("no more")

    settings = {"retry": {"enabled": False}}
    async with create_session(model=broken, builtin_tools=(), settings=settings) as session:
        with pytest.raises(PromptFailed, match="no more") as failed:
            await session.prompt("go")
    assert failed.value.answer.text == "half "
    assert failed.value.answer.stop_reason == "error"


async def test_a_second_prompt_is_refused_and_steering_is_heard() -> None:
    gate = asyncio.Event()

    async def waits(context: ModelContext) -> AsyncIterator[str]:
        said = [message.role for message in context.messages].count("user")
        if said == 1:
            await gate.wait()
        yield f"heard {said}"

    async with alone(model=waits) as session:
        first = session.prompt("one")
        started = asyncio.Event()

        async def watch() -> None:
            async for _ in first:
                started.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            await started.wait()
            with pytest.raises(CommandError, match="already processing"):
                await session.prompt("two")
            await session.steer("three")
            gate.set()
        assert first.answer.text == "heard 2"


async def test_an_abort_ends_the_run_and_is_told() -> None:
    async def hangs(context: ModelContext) -> AsyncIterator[str]:
        yield "thinking"
        await asyncio.Event().wait()

    async with alone(model=hangs) as session:
        run = session.prompt("go")
        async for event in run:
            if isinstance(event, BlockDelta):
                await session.abort()
        assert run.answer.aborted
        assert run.answer.text == "thinking"


# ---------------------------------------------------------------- answers of a type


def sync_alone(**more: Any) -> BlockingSession:
    return ludolf.sync.create_session(**{"settings": {}, "builtin_tools": (), **more})


@dataclasses.dataclass
class City:
    name: str
    people: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def answering(*answers: Any) -> Any:
    """A model that gives these arguments to the answer tool, one after another, else says no."""
    left = list(answers)

    async def model(context: ModelContext) -> AsyncIterator[Any]:
        last = context.messages[-1]
        if isinstance(last, ToolResultMessage) and not last.is_error:
            return
        if left:
            answer = left.pop(0)
            yield (
                answer
                if isinstance(answer, str)
                else ToolCall(id="c", name="final_answer", arguments=answer)
            )
        else:
            yield "I do not know"

    return model


async def test_an_answer_of_a_type_comes_back_as_that_type() -> None:
    model = answering({"name": "Bonn", "people": 330_000})
    async with alone(model=model) as session:
        assert await session.ask("which?", City) == City("Bonn", 330_000)


async def test_what_does_not_fit_goes_back_to_the_model() -> None:
    model = answering({"name": "Bonn", "people": "many"}, {"name": "Bonn", "people": 1})
    async with alone(model=model) as session:
        assert await session.ask("which?", City) == City("Bonn", 1)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (int, {"value": 3}, 3),
        (list[str], {"value": ["a"]}, ["a"]),
        (Colour, {"value": "blue"}, Colour.BLUE),
        (dict[str, int], {"value": {"a": 1}}, {"a": 1}),
    ],
)
async def test_plain_types_can_be_asked_for(kind: Any, given: Any, expected: Any) -> None:
    async with alone(model=answering(given)) as session:
        assert await session.ask("which?", kind) == expected


async def test_an_answer_in_plain_json_counts_too() -> None:
    model = answering('```json\n{"name": "Bonn", "people": 2}\n```')
    async with alone(model=model) as session:
        assert await session.ask("which?", City) == City("Bonn", 2)


async def test_no_answer_of_the_type_is_an_error_and_leaves_no_tool_behind() -> None:
    async with alone(model=answering()) as session:
        with pytest.raises(NotAnswered, match="I do not know"):
            await session.ask("which?", City)
        assert session.engine.toolset.specs() == ()


# ---------------------------------------------------------------- isolation


async def test_nothing_is_read_or_written_with_settings_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("SECRET RULE")
    seen: list[str] = []

    async def model(context: ModelContext) -> AsyncIterator[str]:
        seen.append(context.system_prompt)
        yield "ok"

    async with create_session(model=model, cwd=work, settings={}) as session:
        await session.prompt("hi")
        session.engine.set_auto_retry(False)
        assert session.path is None
    assert not (tmp_path / "nobody").exists()
    assert [path.name for path in work.iterdir()] == ["AGENTS.md"]
    assert "SECRET RULE" not in seen[0]


async def test_what_the_folder_brings_is_used_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("SECRET RULE")
    seen: list[str] = []

    async def model(context: ModelContext) -> AsyncIterator[str]:
        seen.append(context.system_prompt)
        yield "ok"

    async with alone(model=model, cwd=tmp_path, discover=True) as session:
        await session.prompt("hi")
    assert "SECRET RULE" in seen[0]


async def test_a_stored_session_goes_on_where_it_ended(tmp_path: Path) -> None:
    places: dict[str, Any] = {"session_dir": tmp_path / "kept", "cwd": tmp_path}
    async with alone(model=parrot, store="files", **places) as session:
        await session.prompt("remember me")
        path = session.path
    assert path is not None
    assert path.is_file()
    async with alone(model=parrot, session=path, **places) as session:
        assert [message.role for message in session.messages] == ["user", "assistant"]
    async with alone(model=parrot, session="last", **places) as session:
        assert session.path == path


async def test_the_beginning_of_several_session_ids_is_rejected(tmp_path: Path) -> None:
    places: dict[str, Any] = {"session_dir": tmp_path / "kept", "cwd": tmp_path}
    for _ in range(2):
        async with alone(model=parrot, store="files", **places) as session:
            await session.prompt("hello")
    with pytest.raises(CommandError, match="2 sessions have an id that begins with '0'"):
        await alone(model=parrot, session="0", **places).open()


async def test_a_session_file_has_one_writer_in_a_program_too(tmp_path: Path) -> None:
    places: dict[str, Any] = {"session_dir": tmp_path / "kept", "cwd": tmp_path}
    async with alone(model=parrot, store="files", **places) as session:
        await session.prompt("mine")
        with pytest.raises(CommandError, match="already open in this program"):
            await alone(model=parrot, session=session.path, **places).open()
        assert (await session.prompt("still mine")).text == "still mine "
    async with alone(model=parrot, session="last", **places) as again:
        assert len(again.messages) == 4


async def test_sessions_in_one_program_do_not_meet() -> None:
    async with (
        alone(model=parrot) as one,
        alone(model=adder, tools=[add]) as two,
    ):
        first, second = await asyncio.gather(one.prompt("left"), two.prompt("right"))
        assert (first.text, second.text) == ("left ", "it is 3")
        assert one.id != two.id
        assert len(one.messages) == 2


async def test_an_extension_may_be_a_function() -> None:
    called: list[str] = []

    def watch(api: Api) -> None:
        @api.on("tool_call")
        async def seen(event: ToolCalled, ctx: Any) -> dict[str, Any]:
            called.append(ctx.mode)
            yes = await ctx.ui.confirm("Run?", event.tool_name)
            return {"block": not yes, "reason": "not today"}

    async with alone(
        model=adder, tools=[add], extensions=[watch], on_dialog=lambda ask: False
    ) as session:
        answer = await session.prompt("add")
    assert called == ["sdk"]
    assert answer.text == "it is not today"


async def test_bad_options_are_named() -> None:
    with pytest.raises(ConfigError, match="Unknown option: modle"):
        await create_session(modle="x").open()  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="remove store"):
        await create_session(session="x", store="memory").open()
    with pytest.raises(ConfigError, match="cannot be used as a model"):
        await create_session(model=3, settings={}).open()  # type: ignore[arg-type]
    with pytest.raises(LudolfError, match="not open"):
        create_session().prompt("hi")


async def test_a_model_can_be_changed_by_its_name() -> None:
    async with alone(model=parrot) as session:
        await session.set_model("ludolf/offline")
        assert session.model is not None
        assert (await session.prompt("hello")).text
        with pytest.raises(LudolfError):
            await session.set_model("nobody/nothing")


# ---------------------------------------------------------------- without asyncio


def test_the_blocking_form_does_the_same() -> None:
    with sync_alone(model=adder, tools=[add]) as session:
        assert session.prompt("add").text == "it is 3"
        assert "".join(session.stream_text("add")) == "addingit is 3"
        assert isinstance(next(iter(session.stream("add"))), AgentStart)
        assert session.stats().tool_calls >= 2
    session.close()


async def test_the_blocking_form_works_inside_a_running_loop() -> None:
    with sync_alone(model=parrot) as session:
        assert session.prompt("notebook").text == "notebook "


def test_the_blocking_form_raises_what_happened() -> None:
    with pytest.raises(LudolfError, match="not open"):
        sync_alone(model=parrot).prompt("hi")
    with (
        pytest.raises(NotAnswered),
        sync_alone(model=answering()) as session,
    ):
        session.ask("which?", City)


async def test_a_failing_gate_blocks_the_call_and_warns_the_program(tmp_path: Path) -> None:
    def extension(api: Api) -> None:
        api.on("tool_call", lambda event, ctx: {"blok": True})

    warned: list[str] = []
    async with alone(
        model=adder, tools=[add], extensions=[extension], on_warning=warned.append
    ) as session:
        answer = await session.prompt("add")
    assert "failed, so this call was blocked: tool_call: unknown key 'blok'" in answer.text
    (text,) = warned
    assert text.startswith("Extension error (")


# ---------------------------------------------------------------- invalid options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"thinking": "ultra"},
            'Unknown thinking level "ultra". Levels: off, minimal, low, medium, high, xhigh, max.',
        ),
        ({"cwd": "/no/such"}, "The working folder does not exist: /no/such"),
        (
            {"model": "no/such"},
            'Model "no/such" not found. `ludolf models` lists the available models.',
        ),
        (
            {"approval": "sometimes"},
            'Invalid approval mode "sometimes". Valid values: never, on-command, on-write, '
            "always, rules",
        ),
        (
            {"sandbox": "half"},
            'Invalid sandbox mode "half". Valid values: off, workspace, read-only',
        ),
        (
            {"sandbox_network": "off"},
            "Only a sandbox can switch the network off: choose the sandbox mode workspace or "
            "read-only.",
        ),
        ({"model": None, "api_key": "k"}, "An API key is for one model: name the model too."),
        ({"name": " "}, "The name of a session must not be empty."),
        ({"store": "disk"}, 'Unknown store "disk". Use "memory" or "files".'),
    ],
)
async def test_an_invalid_option_is_a_config_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        async with alone(**{"model": parrot, **options}):
            pass
    assert str(error.value) == text


async def test_an_unknown_thinking_level_is_refused_later_too() -> None:
    async with alone(model=parrot) as session:
        with pytest.raises(ConfigError, match="Levels: off, minimal"):
            session.set_thinking("ultra")  # type: ignore[arg-type]  # on purpose


# ---------------------------------------------------------------- scripts


async def test_a_script_is_a_model() -> None:
    script = Scripted([ScriptedReply(text="One")], strict=True)
    async with alone(model=script) as session:
        assert (await session.prompt("Hi")).text == "One"
        with pytest.raises(PromptFailed, match="no reply left"):
            await session.prompt("Again")
    assert len(script.requests) == 2


# ---------------------------------------------------------------- conversations


def stored(folder: Path, **more: Any) -> AgentSession:
    return alone(model=parrot, store="files", session_dir=folder, agent_dir=folder, **more)


async def test_a_session_moves_between_stored_conversations(tmp_path: Path) -> None:
    async with stored(tmp_path, name="first") as session:
        await session.prompt("one")
        first, first_id = session.path, session.id
        assert first is not None
        assert await session.new_session(parent=first)
        await session.prompt("two")
        session.set_session_name("second")
        second = session.path
        assert second is not None
        assert session.name == "second"
        assert await session.switch_session(first)
        assert (session.id, session.name) == (first_id, "first")
        session.rename_session(second, "other")
        session.rename_session(first, "mine")
        assert {one.name for one in session.list_sessions()} == {"other", "mine"}
        with pytest.raises(CommandError, match="Cannot delete the current session"):
            session.delete_session(first)
        assert session.delete_session(second).is_file()
        assert [one.path for one in session.list_sessions(everywhere=True)] == [str(first)]


async def test_a_missing_file_and_one_that_is_open_are_not_switched_to(tmp_path: Path) -> None:
    async with stored(tmp_path) as one, stored(tmp_path) as two:
        await one.prompt("one")
        await two.prompt("two")
        assert one.path is not None
        with pytest.raises(CommandError, match="Session file not found"):
            await two.switch_session(tmp_path / "nowhere.jsonl")
        with pytest.raises(CommandError, match="already open in this program"):
            await two.switch_session(one.path)
        assert await one.switch_session(one.path)
        assert (await two.prompt("three")).text == "three "


async def test_a_conversation_is_forked_cloned_and_moved_in() -> None:
    async with alone(model=parrot) as session:
        await session.prompt("one")
        await session.prompt("two")
        first, second = session.get_fork_messages()
        assert (first.text, second.text) == ("one", "two")
        before = session.id
        assert await session.clone()
        assert session.id != before
        assert len(session.messages) == 4
        moved = await session.navigate_tree(second.entry_id, label="here")
        assert (moved.cancelled, moved.text) == (False, "two")
        await session.prompt("three")
        (root,) = session.history.tree()
        assert root.entry.id == session.history.branch()[0].id
        texts = [message.text for message in session.get_fork_messages()]
        assert texts == ["one", "two", "three"]
        with pytest.raises(CommandError, match="Entry not found: nothing"):
            await session.navigate_tree("nothing")
        assert await session.fork(second.entry_id) == "two"
        assert len(session.messages) == 2


async def test_an_extension_may_refuse_every_change() -> None:
    def extension(api: Api) -> None:
        for event in ("session_before_switch", "session_before_fork", "session_before_tree"):
            api.on(event, lambda event, ctx: {"cancel": True})

    async with alone(model=parrot, extensions=[extension]) as session:
        await session.prompt("one")
        (message,) = session.get_fork_messages()
        assert not await session.new_session()
        assert not await session.clone()
        assert await session.fork(message.entry_id) is None
        assert (await session.navigate_tree(message.entry_id)).cancelled
        assert len(session.messages) == 2


async def test_a_command_of_the_user_runs_and_the_model_reads_it(tmp_path: Path) -> None:
    async with alone(model=parrot, cwd=tmp_path) as session:
        result = await session.bash("echo out; exit 3")
        assert (result.output, result.exit_code, result.cancelled) == ("out\n", 3, False)
        await session.bash("echo quiet", exclude_from_context=True)
        await session.prompt("go")
        shown = str(session.engine.session.context.messages())
        assert "echo out" in shown
        async with asyncio.TaskGroup() as group:
            os.mkfifo(tmp_path / "started")
            waiting = group.create_task(session.bash("echo > started; exec sleep 1000"))
            await asyncio.to_thread((tmp_path / "started").read_text)
            session.abort_bash()
        assert waiting.result().cancelled


async def test_limits_change_and_are_checked() -> None:
    async with alone(model=adder, tools=[add]) as session:
        assert session.set_limits(max_turns=1).max_turns == 1
        assert (await session.prompt("add")).stop_reason == "toolUse"
        session.set_limits()
        assert (await session.prompt("add")).stop_reason == "stop"
        with pytest.raises(CommandError, match="max_turns must be a number greater than 0"):
            session.set_limits(max_turns=0)


async def test_a_conversation_is_exported(tmp_path: Path) -> None:
    async with stored(tmp_path, cwd=tmp_path) as session:
        await session.prompt("hello")
        written = await session.export_html("page.html")
    assert written == tmp_path / "page.html"
    assert "hello" in written.read_text()


def test_a_blocking_session_has_all_of_it(tmp_path: Path) -> None:
    session = ludolf.sync.create_session(
        model=parrot, settings={}, store="files", session_dir=tmp_path, agent_dir=tmp_path
    )
    with session:
        session.prompt("one")
        (message,) = session.get_fork_messages()
        assert message.text == "one"
        first = session.path
        assert first is not None
        session.set_session_name("first")
        assert session.name == "first"
        assert session.clone()
        assert session.fork(message.entry_id) == "one"
        assert session.switch_session(first)
        assert session.navigate_tree(message.entry_id).text == "one"
        assert len(session.history.entries()) > 1
        session.rename_session(first, "mine")
        assert "mine" in {one.name for one in session.list_sessions()}
        assert session.bash("echo hi").output == "hi\n"
        session.abort_bash()
        assert session.set_limits(max_turns=2).max_turns == 2
        assert session.export_html(tmp_path / "page.html").is_file()
        assert session.new_session()
        assert session.delete_session(first).is_file()


def _members(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_forms_of_a_session_have_the_same_members() -> None:
    assert _members(AgentSession) - _members(BlockingSession) == {"engine"}
    assert _members(BlockingSession) - _members(AgentSession) == {"stream", "stream_text"}


async def interrupting(context: ModelContext) -> AsyncIterator[str]:
    """Presses Ctrl-C in the main thread during its first answer, and answers all others."""
    yield "one "
    if len(context.messages) == 1:
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)
        await asyncio.Event().wait()


@pytest.mark.parametrize("method", ["prompt", "stream", "stream_text"])
def test_ctrl_c_aborts_a_blocking_run_before_it_is_raised(method: str) -> None:
    with ludolf.sync.create_session(model=interrupting, settings={}) as session:
        with pytest.raises(KeyboardInterrupt):
            for _ in getattr(session, method)("Go") if method != "prompt" else ():
                pass
            session.prompt("Go")
        assert not session.running
        assert session.prompt("Again").text == "one "


async def test_an_answer_names_the_limit_that_ended_it() -> None:
    async with alone(model=adder, tools=[add], max_turns=1) as session:
        answer = await session.prompt("1 + 2")
        session.set_limits(max_turns=5)
        free = await session.prompt("1 + 2")
    assert answer.limit == LimitReached(limit="turns", used=1, maximum=1)
    assert free.limit is None


async def test_a_failed_prompt_is_explained_in_a_sentence() -> None:
    raw = "Connection error: Connect call failed ('127.0.0.1', 9) (http://127.0.0.1:9/v1)"
    settings = {"retry": {"enabled": False}}
    script = Scripted([ScriptedReply(error=raw), ScriptedReply(error="529 overloaded")])
    async with create_session(model=script, builtin_tools=(), settings=settings) as session:
        with pytest.raises(PromptFailed) as refused:
            await session.prompt("Go")
        with pytest.raises(PromptFailed) as busy:
            await session.prompt("Go")
    assert str(refused.value) == (
        "Error from ludolf/scripted: the server at http://127.0.0.1:9/v1 refused the connection. "
        'Start the server, or correct "baseUrl" in models.json.'
    )
    assert refused.value.answer.error == str(refused.value)
    last = refused.value.answer.messages[-1]
    assert isinstance(last, AssistantMessage) and last.error_message == raw
    assert str(busy.value).endswith("Try again later, or choose another model.")


def spread(*numbers: int) -> int:
    """Add all numbers."""
    return sum(numbers)


def plain_model(context: ModelContext) -> str:
    return "Hi"


async def coroutine_model(context: ModelContext) -> str:
    return "Hi"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tools": ["read"]}, 'To choose built-in tools, write builtin_tools=["read"].'),
        ({"tools": add}, "tools takes a list of functions: write tools=[function]."),
        ({"tools": [3]}, "tools takes functions, not int."),
        ({"tools": [spread]}, "The function spread cannot be a tool: a tool cannot take *numbers"),
        ({"tools": [add, add]}, "Several tools have the name add. Rename all but one."),
        ({"builtin_tools": "read"}, 'builtin_tools takes a list of names: write ["read"].'),
        ({"model": coroutine_model}, "is not an async generator function. Write `async def"),
        ({"model": Scripted}, "model is the class Scripted. Pass an instance: model=Scripted()."),
        ({"model": lambda: None}, "must take one argument, the context"),
        ({"max_turns": -1}, "max_turns must be a number greater than 0, not -1."),
        ({"max_cost": "1"}, "max_cost must be a number greater than 0, not '1'."),
    ],
)
async def test_misuse_is_a_config_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        async with create_session(**{"model": parrot, "settings": {}, **options}):
            pass
    assert text in str(error.value)


async def test_a_function_that_returns_text_is_explained() -> None:
    settings = {"retry": {"enabled": False}}
    async with create_session(model=plain_model, settings=settings) as session:  # type: ignore[arg-type]  # on purpose
        with pytest.raises(PromptFailed, match=r"plain_model returned str\. Write `async def"):
            await session.prompt("Go")


async def test_the_replies_of_a_script_may_be_texts() -> None:
    script = Scripted(["One"])
    script.add("Two")
    async with alone(model=script) as session:
        assert [(await session.prompt("Hi")).text for _ in range(2)] == ["One", "Two"]
    with pytest.raises(ConfigError, match="a ScriptedReply or a text, not dict"):
        Scripted([{"text": "One"}])  # type: ignore[list-item]  # on purpose


async def test_misspelt_settings_are_reported_to_the_program() -> None:
    warned: list[str] = []
    settings = {"retry": {"enabld": True}}
    async with create_session(model=parrot, settings=settings, on_warning=warned.append):
        pass
    assert len(warned) == 1
    assert 'settings: unknown key "retry.enabld". Did you mean "retry.enabled"?' in warned[0]


def test_a_blocking_session_says_how_it_is_opened() -> None:
    session = ludolf.sync.create_session(model=parrot, settings={})
    for use in (lambda: session.prompt("Hi"), session.stats, lambda: session.id):
        with pytest.raises(LudolfError, match=r"not open. Use `with`, or call open\(\)"):
            use()


async def test_a_second_prompt_names_the_methods_that_queue() -> None:
    async with alone(model=parrot) as session:
        async for _ in session.prompt("one"):
            with pytest.raises(CommandError, match=r"with steer\(\) or follow_up\(\)"):
                await session.prompt("two")
            break


async def test_an_export_replaces_a_file_only_if_asked(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    async with alone(model=parrot, store="files", session_dir=tmp_path / "s") as session:
        await session.prompt("hello")
        with pytest.raises(CommandError, match="or pass overwrite=True"):
            await session.export_html(page)
        assert page.read_text() == "mine"
        assert await session.export_html(page, overwrite=True) == page
    assert "hello" in page.read_text() or page.stat().st_size > 1000


async def test_an_error_of_an_extension_names_its_type_and_line() -> None:
    def extension(api: Api) -> None:
        api.on("turn_start", lambda event, ctx: os.environ["COMAND"])

    warned: list[str] = []
    async with alone(model=parrot, extensions=[extension], on_warning=warned.append) as session:
        await session.prompt("hi")
    assert "KeyError: 'COMAND' (test_sdk.py, line " in warned[0]
