"""Handlers are called in order, their answers combined by rule, and their failures contained."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ludolf.agent.questions import AnswerClock
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import AssistantMessage, Text, Usage, UserMessage, text_of
from ludolf.engine.host.dialogs import HostDialogs
from ludolf.extensions import answers, payloads
from ludolf.extensions.context import TrustContext
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.hooks import HOOKS
from ludolf.functions.isolation import Failed
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest
from ludolf.session.entries import CompactionBody, CustomBody
from tests.extension_host import Bench

ANSWER = AssistantMessage(
    content=(Text(text="one"),),
    api="a",
    provider="p",
    model="m",
    usage=Usage(),
    stop_reason="stop",
    timestamp=1,
)
PLAN = payloads.CompactionPlan(
    first_kept_entry_id="e1",
    tokens_before=9,
    messages_to_summarize=(),
    turn_prefix_messages=(),
    is_split_turn=False,
)
SWITCH = payloads.SessionBeforeSwitch(reason="new")
FORK = payloads.SessionBeforeFork(entry_id="e", position="before")
COMPACT = payloads.SessionBeforeCompact(preparation=PLAN, reason="manual")
TREE = payloads.SessionBeforeTree(
    preparation=payloads.TreePlan(target_id="t", old_leaf_id=None, common_ancestor_id=None)
)
INPUT = payloads.Input(text="hi")
TURN_END = payloads.TurnEnd(turn_index=0, message=ANSWER, tool_results=())
SETTLE = payloads.AgentBeforeSettle(outcome="completed")
BASH = payloads.UserBash(command="ls", exclude_from_context=False, cwd="/")
RESULT = payloads.ToolReturned(
    tool_name="t", tool_call_id="1", input={}, content=(Text(text="raw"),), is_error=False
)
HEADERS = payloads.BeforeProviderHeaders(headers={"a": "1", "b": "2"})


def _call(args: dict[str, Any]) -> payloads.ToolCalled:
    return payloads.ToolCalled(tool_name="bash", tool_call_id="1", input=args)


def _handlers(event: str, *bodies: str) -> str:
    """An extension with one handler for the event per body."""
    lines = ["seen = []", "def extension(api):"]
    for body in bodies:
        lines += [f" @api.on({event!r})", " async def handle(event, ctx):"]
        lines += [f"  {line}" for line in body.splitlines()]
    return "\n".join(lines)


async def _bench(folder: Path, event: str, *bodies: str) -> Bench:
    bench = Bench(folder)
    assert await bench.load(_handlers(event, *bodies)) == ()
    return bench


# ---------------------------------------------------------------- without a task


async def test_plain_handlers_are_called_at_once_and_those_that_wait_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    source = """
import os
def extension(api):
    def note(text):
        os.environ["SEEN_NOW"] = os.environ.get("SEEN_NOW", "") + text
    api.on("turn_start", lambda event, ctx: note("a"))
    api.on("turn_start", lambda event: None)
    api.on("turn_start", lambda event, ctx: 1 / 0)
    async def wait(event, ctx):
        note("b")
    api.on("turn_start", wait)
    api.on("turn_start", lambda event, ctx: note("c"))
"""
    assert await bench.load(source) == ()
    try:
        waits = bench.runner.emit_now(payloads.TurnStart(turn_index=0, timestamp=1))
        assert waits is not None and os.environ["SEEN_NOW"] == "a"
        await waits
        assert os.environ.pop("SEEN_NOW") == "abc"
    finally:
        os.environ.pop("SEEN_NOW", None)
    texts = [text for _, text in bench.told()]
    assert "must take (event, ctx)" in texts[0] and texts[1:] == ["division by zero"]


# ---------------------------------------------------------------- combining


@pytest.mark.parametrize(
    ("payload", "bodies", "answer"),
    [
        (SWITCH, ["return None"], None),
        (SWITCH, ["return {'cancel': True}", "1 / 0"], answers.SwitchAnswer(cancel=True)),
        (FORK, ["return {'skip_conversation_restore': True}", "return {}"], answers.ForkDecision()),
        (
            FORK,
            ["return {'cancel': False}", "return {'skip_conversation_restore': True}"],
            answers.ForkDecision(skip_conversation_restore=True),
        ),
        (COMPACT, ["return {'cancel': True}"], answers.CompactDecision(cancel=True)),
        (
            COMPACT,
            [
                "plan = event.preparation\nreturn {'compaction': {'summary': 's',"
                " 'first_kept_entry_id': plan.first_kept_entry_id,"
                " 'tokens_before': plan.tokens_before, 'details': {'by_me': 1}}}"
            ],
            answers.CompactDecision(
                compaction=CompactionBody(
                    summary="s",
                    first_kept_entry_id="e1",
                    tokens_before=9,
                    details={"by_me": 1},
                    from_hook=True,
                )
            ),
        ),
        (
            TREE,
            ["return {'summary': {'summary': 's'}, 'label': event.preparation.target_id}"],
            answers.TreeDecision(summary=answers.SummaryAnswer(summary="s"), label="t"),
        ),
        (BASH, ["return None", "return None"], None),
        (
            BASH,
            ["return {'result': {'output': 'x', 'exit_code': 7}}", "1 / 0"],
            answers.BashAnswer(output="x", exit_code=7),
        ),
    ],
)
async def test_verdicts(
    payload: payloads.Payload, bodies: list[str], answer: Any, tmp_path: Path
) -> None:
    bench = await _bench(tmp_path, payload.type, *bodies)
    assert await bench.runner.verdict(payload) == answer
    assert bench.reports == []


@pytest.mark.parametrize(
    ("payload", "bodies", "changed"),
    [
        (
            INPUT,
            [
                "return {'action': 'transform', 'text': event.text + '!'}",
                "return {'action': 'continue'}",
                "return {'action': 'transform', 'text': event.text.upper()}",
            ],
            {"text": "HI!"},
        ),
        (
            RESULT,
            [
                "return {'content': 'hidden', 'details': {'a_b': 1}}",
                "return {'is_error': True} if event.content[0].text == 'hidden' else None",
                "return {'usage': {'input': 3, 'cache_read': 4}}",
            ],
            {
                "content": (Text(text="hidden"),),
                "details": {"a_b": 1},
                "is_error": True,
                "usage": Usage(input=3, cache_read=4),
            },
        ),
        (
            HEADERS,
            ["return {'headers': {'a': None, 'X-My_Key': 'v'}}", "return {'headers': {'c': '3'}}"],
            {"headers": {"b": "2", "X-My_Key": "v", "c": "3"}},
        ),
        (
            payloads.BeforeProviderRequest(payload={"a": 1}),
            ["return {**event.payload, 'b': 2}", "return {**event.payload, 'c': 3}"],
            {"payload": {"a": 1, "b": 2, "c": 3}},
        ),
        (
            payloads.ContextWithSystem(system_prompt="s", messages=(ANSWER,)),
            ["return {'messages': event.messages[:0]}", "return {'system_prompt': 't'}"],
            {"system_prompt": "t", "messages": ()},
        ),
        (
            TURN_END,
            [
                "return {'entries': [{'type': 'custom', 'custom_type': 'k', 'data': {'a_b': 1}}]}",
                "return {'continue': True} if len(event.entries) == 1 else None",
                "return {'entries': [{'type': 'context_edit', 'target_id': 'e',"
                " 'replacement': None}]}",
            ],
            {
                "entries": (
                    CustomBody(custom_type="k", data={"a_b": 1}),
                    answers.ContextEditDraft(target_id="e", replacement=None),
                ),
                "continue_": True,
            },
        ),
        (
            SETTLE,
            ["return {'continue': True}", "return {'continue': False}"],
            {"continue_": False},
        ),
        (
            payloads.CacheWarmingDecision(action="stop"),
            ["return {'action': 'stop'}", "return {'action': 'warm'}"],
            {"action": "warm"},
        ),
    ],
)
async def test_transforms(
    payload: payloads.Payload, bodies: list[str], changed: dict[str, Any], tmp_path: Path
) -> None:
    bench = await _bench(tmp_path, payload.type, *bodies)
    assert await bench.runner.transform(payload) == structs.replace(payload, **changed)
    assert bench.reports == []


async def test_relative_resource_paths_belong_to_the_extension(tmp_path: Path) -> None:
    bodies = ["return {'skill_paths': ['skills']}", "return {'skill_paths': ['/abs']}"]
    bench = await _bench(tmp_path, "resources_discover", *bodies)
    payload = payloads.ResourcesDiscover(cwd="/", reason="startup")
    found = await bench.runner.transform(payload)
    assert found.skill_paths == (str(tmp_path / "skills"), "/abs")


async def test_input_that_is_handled_goes_no_further(tmp_path: Path) -> None:
    bench = await _bench(tmp_path, "input", "return {'action': 'handled'}", "1 / 0")
    assert await bench.runner.verdict(INPUT) == "handled"
    assert bench.reports == []


async def test_a_run_begins_with_what_handlers_add(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path,
        "before_agent_start",
        "return {'message': {'custom_type': 'a', 'content': 'x', 'display': True}}",
        "return {'message': {'custom_type': 'b', 'content': [{'type': 'text', 'text': 'y'}],"
        " 'display': False}, 'system_prompt': event.system_prompt + ' more'}",
        "return {'system_prompt_options': {'sections': {'my_own': 'z'}}}",
    )
    payload = payloads.BeforeAgentStart(
        prompt="p", system_prompt="base", system_prompt_options=bench.host.prompt_options
    )
    final = await bench.runner.transform(payload)
    assert [(one.custom_type, text_of(one.content)) for one in final.messages] == [
        ("a", "x"),
        ("b", "y"),
    ]
    assert (final.system_prompt, final.forced) == ("base more", True)
    assert final.system_prompt_options.sections == {"my_own": "z"}


async def test_a_message_may_be_replaced_but_not_by_one_of_another_role(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path,
        "message_end",
        "from msgspec import structs\n"
        "blocks = [{'type': 'text', 'text': event.message.content[0].text + ' two'}]\n"
        "return {'message': structs.replace(event.message, content=blocks)}",
        "return {'message': {'role': 'user', 'content': 'x', 'timestamp': 1}}",
        "return {'message': 'nonsense'}",
    )
    final = (await bench.runner.transform(payloads.MessageEnd(message=ANSWER))).message
    assert isinstance(final, AssistantMessage)
    assert final == structs.replace(ANSWER, content=(Text(text="one two"),))
    first, second = bench.told()
    assert first == (
        "message_end",
        "message_end handlers must return a message with the same role",
    )
    assert second[1].startswith("message: Expected `object`")


async def test_messages_that_a_context_handler_passes_on_stay_the_same_objects(
    tmp_path: Path,
) -> None:
    added = "{'role': 'user', 'content': 'new', 'timestamp': 2}"
    bench = await _bench(tmp_path, "context", f"return {{'messages': [*event.messages, {added}]}}")
    messages = (await bench.runner.transform(payloads.ContextBuilt(messages=(ANSWER,)))).messages
    assert messages[0] is ANSWER
    assert messages[1] == UserMessage(content="new", timestamp=2)


async def test_an_extension_may_answer_for_the_trust_in_a_project(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path,
        "project_trust",
        "return {'trusted': 'undecided'}",
        "return {'trusted': 'yes' if ctx.has_ui and str(ctx.cwd) == event.cwd else 'no',"
        " 'remember': True}",
        "return {'trusted': 'no'}",
    )
    context = TrustContext("rpc", Dialogs(None), tmp_path)
    state = await bench.runner.dispatch(payloads.ProjectTrust(cwd=str(tmp_path)), context)
    assert state.answer == answers.TrustDecision(trusted=True, remember=True)


# ---------------------------------------------------------------- tool calls


async def test_a_tool_call_goes_on_with_the_arguments_that_handlers_leave(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path,
        "tool_call",
        "return {'input': {**event.input, 'a_b': 2}}",
        "return {'input': {**event.input, 'c': event.input['a_b']}}",
    )
    answer = await bench.runner.verdict(_call({"x": 1}))
    assert answer == answers.ToolCallDecision(input={"x": 1, "a_b": 2, "c": 2})


async def test_the_first_block_of_a_tool_call_stands(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path, "tool_call", "return {'block': True, 'reason': 'no', 'terminate': True}", "1 / 0"
    )
    answer = await bench.runner.verdict(_call({}))
    assert (answer.block, answer.reason, answer.terminate) == (True, "no", True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise RuntimeError('gate broke')", "gate broke"),
        ("raise SystemExit(1)", "tried to exit the program (code 1)"),
        ("return 'yes'", "tool_call handlers must return a dict or None, not str"),
        ("return True", "tool_call handlers must return a dict or None, not bool"),
        ("return {'input': 3}", "input: Expected `object`, got `int`"),
        ("return {'block': 'yes'}", "block: Expected `bool`, got `str`"),
        ("return {'reason': 'no'}", 'tool_call: "reason" and "terminate" need "block"'),
        (
            "return {'blok': True}",
            "tool_call: unknown key 'blok' in the answer. Keys: input, block, reason, terminate",
        ),
    ],
)
async def test_a_failing_gate_blocks_the_call_and_is_reported(
    body: str, text: str, tmp_path: Path
) -> None:
    bench = await _bench(tmp_path, "tool_call", body)
    with pytest.raises(Failed) as failed:
        await bench.runner.verdict(_call({}))
    assert str(failed.value) == text
    assert bench.told() == [("tool_call", text)]


async def test_a_gate_with_the_wrong_parameters_is_reported_with_the_right_ones(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    await bench.load("def extension(api):\n api.on('tool_call', lambda event: None)")
    with pytest.raises(Failed, match=r"must take \(event, ctx\)"):
        await bench.runner.verdict(_call({}))


async def test_an_unknown_key_of_another_answer_is_reported_and_the_rest_applies(
    tmp_path: Path,
) -> None:
    bench = await _bench(tmp_path, "tool_result", "return {'content': 'new', 'isError': True}")
    final = await bench.runner.transform(RESULT)
    assert (text_of(final.content), final.is_error) == ("new", False)
    ((event, text),) = bench.told()
    assert event == "tool_result"
    assert text.startswith("tool_result: unknown key 'isError' in the answer.")


@pytest.mark.parametrize(
    "body",
    [
        "raise RuntimeError('x')",
        "return {}",
        "return {'result': 1}",
        "return {'result': {'output': ''}, 'blok': True}",
    ],
)
async def test_a_shell_command_fails_with_its_handler(body: str, tmp_path: Path) -> None:
    bench = await _bench(tmp_path, "user_bash", body)
    with pytest.raises(Failed) as failed:
        await bench.runner.verdict(BASH)
    assert bench.told() == [("user_bash", str(failed.value))]


# ---------------------------------------------------------------- order and failure

TELL = "def extension(api):\n api.on('agent_start', lambda e, c: c.ui.notify('{}'))"


async def test_handlers_run_in_load_order_then_in_order_of_registration(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    sent: list[UiRequest] = []
    bench.host.ui = Dialogs(HostDialogs(AnswerClock(), sent.append))
    late = "def extension(api):\n api.on('session_start', lambda e, c: " + (
        "[api.on('agent_start', lambda e, c: c.ui.notify('late')), None][1])\n"
        " api.on('agent_start', lambda e, c: c.ui.notify('first'))"
    )
    await bench.load(late, TELL.format("second"))
    await bench.runner.emit(payloads.SessionStart(reason="startup"))
    await bench.runner.emit(payloads.AgentStart())
    assert [request.message for request in sent] == ["first", "late", "second"]


async def test_a_failing_handler_is_reported_and_the_next_one_runs(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path,
        "turn_start",
        "raise RuntimeError('turn_start failed')",
        "raise SystemExit",
        "raise BaseException",
        "class Odd(Exception):\n def __str__(self): raise ValueError\nraise Odd",
        "import asyncio\nraise asyncio.CancelledError",
        "api.set_session_name('reached')",
    )
    await bench.runner.emit(payloads.TurnStart(turn_index=0, timestamp=1))
    assert bench.host.session.name == "reached"
    assert bench.told() == [
        ("turn_start", "turn_start failed"),
        ("turn_start", "tried to exit the program (code None)"),
        ("turn_start", "BaseException"),
        ("turn_start", "Odd"),
        ("turn_start", "cancelled itself"),
    ]
    assert {path for path, _, _ in bench.reports} == {str(tmp_path / "x0.py")}


async def test_a_failing_transform_is_passed_over(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path, "input", "1 / 0", "return {'action': 'shout'}", "return {'text': 'x'}"
    )
    assert await bench.runner.transform(INPUT) == INPUT
    assert bench.told() == [
        ("input", "division by zero"),
        ("input", 'input: unknown action "shout"'),
    ]


async def test_subscriptions_can_end_and_a_dispatch_under_way_goes_on(tmp_path: Path) -> None:
    source = """
def extension(api):
    ends = []
    def once(event, ctx):
        for end in ends: end()
        api.append_entry("once")
    def other(event, ctx): api.append_entry("other")
    ends += [api.on("agent_start", once), api.on("agent_start", other)]
"""
    bench = Bench(tmp_path)
    await bench.load(source)
    for _ in range(2):
        await bench.runner.emit(payloads.AgentStart())
    kinds = [entry.line.split(b'"customType":"')[1][:5] for entry in bench.host.session.entries()]
    assert kinds == [b'once"', b"other"]
    assert not bench.runner.wants("agent_start")


async def test_with_no_handler_nothing_is_wanted_and_nothing_changes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert not any(bench.runner.wants(name) for name in HOOKS)
    assert await bench.runner.verdict(_call({"a": 1})) is None
    assert await bench.runner.transform(RESULT) is RESULT
    assert await bench.runner.transform(INPUT) is INPUT


# ---------------------------------------------------------------- stopping

HANG = "seen.append(1)\nimport asyncio\nawait asyncio.Event().wait()"


@pytest.mark.parametrize(
    "body",
    [
        "await asyncio.Event().wait()",
        "try:\n await asyncio.Event().wait()\nexcept asyncio.CancelledError:\n pass",
        "try:\n await asyncio.Event().wait()\nexcept asyncio.CancelledError:\n 1 / 0",
    ],
    ids=["hangs", "swallows the cancellation", "fails when cancelled"],
)
async def test_an_abort_ends_a_hanging_handler(body: str, tmp_path: Path) -> None:
    bench = await _bench(tmp_path, "turn_start", "import asyncio\nctx.abort()\n" + body, "1 / 0")
    scope = Scope()

    async def abort_once_it_hangs() -> None:
        await bench.host.aborted.wait()
        scope.abort()

    async with asyncio.TaskGroup() as group:
        group.create_task(abort_once_it_hangs())
        with pytest.raises(Aborted):
            payload = payloads.TurnStart(turn_index=0, timestamp=1)
            await scope.run(bench.runner.emit(payload))
    assert bench.reports == []


async def test_a_time_limit_ends_a_handler_and_the_next_one_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limit=0.02)
    await bench.load(_handlers("agent_start", HANG, "api.set_session_name('reached')"))
    await bench.runner.emit(payloads.AgentStart())
    assert bench.told() == [("agent_start", "took longer than 20 ms")]
    assert bench.host.session.name == "reached"


async def test_a_timeout_inside_a_handler_is_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limit=5)
    body = "import asyncio\nasync with asyncio.timeout(0): await asyncio.Event().wait()"
    await bench.load(_handlers("agent_start", body))
    await bench.runner.emit(payloads.AgentStart())
    assert bench.told() == [("agent_start", "TimeoutError")]


async def test_the_time_limit_stands_still_while_a_dialog_is_open(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limit=0.2)
    sent: list[UiRequest] = []
    dialogs = HostDialogs(AnswerClock(), sent.append)
    bench.host.ui = Dialogs(dialogs)
    body = "if await ctx.ui.confirm('Sure?', 'x'): return {'block': True, 'reason': 'asked'}"
    await bench.load(_handlers("tool_call", body))

    other = Bench(tmp_path, limit=0.2)
    await other.load(_handlers("agent_start", HANG))

    async def answer_late() -> None:
        await other.runner.emit(payloads.AgentStart())
        assert other.told() == [("agent_start", "took longer than 200 ms")]
        dialogs.answer(UiAnswer(id=sent[0].id, confirmed=True))

    async with asyncio.TaskGroup() as group:
        group.create_task(answer_late())
        answer = await bench.runner.verdict(_call({}))
    assert answer.reason == "asked"


async def test_a_handler_in_a_thread_may_block_and_may_act(tmp_path: Path) -> None:
    source = """
import threading
def extension(api):
    @api.on("agent_start", thread=True)
    def slow(event, ctx):
        assert threading.current_thread() is not threading.main_thread()
        api.set_session_name("from a thread")
        ctx.wait(ctx.ui.confirm("a", "b"))
        raise RuntimeError("in a thread")
"""
    bench = Bench(tmp_path)
    await bench.load(source)
    await bench.runner.emit(payloads.AgentStart())
    assert bench.host.session.name == "from a thread"
    assert bench.told() == [("agent_start", "in a thread")]


async def test_a_forked_copy_does_not_go_on_as_the_agent(tmp_path: Path) -> None:
    source = """
import os, warnings
def extension(api):
    @api.on("agent_start")
    def fork(event, ctx):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child:
            api.set_session_name(str(child))
        else:
            raise RuntimeError("in the child")
"""
    bench = Bench(tmp_path)
    await bench.load(source)
    before = os.getpid()
    await bench.runner.emit(payloads.AgentStart())
    assert os.getpid() == before
    assert bench.host.session.name is not None
    _, status = await asyncio.to_thread(os.waitpid, int(bench.host.session.name), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bench.reports == []


def test_every_event_of_the_contract_has_a_hook() -> None:
    kinds = {name: hook.kind for name, hook in HOOKS.items()}
    assert len(kinds) == 39
    assert all(hook.payload.__struct_config__.tag == name for name, hook in HOOKS.items())
    assert {name for name, hook in HOOKS.items() if hook.blocks} == {"tool_call", "user_bash"}
    assert all(
        bool(hook.keys) == (hook.kind != "notify") or name == "before_provider_request"
        for name, hook in HOOKS.items()
    )
