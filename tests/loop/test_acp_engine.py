"""An engine for an editor: what it asks about, modes of a session, files of the editor."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf import create_session
from ludolf.ai.builtin.scripted import Scripted, ScriptedReply
from ludolf.ai.messages import ToolResultMessage, text_of
from ludolf.base import CommandError
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.features.subagents.subagents import SubagentSpawner
from ludolf.engine.host.approvals import APPROVE, DENY
from ludolf.ext import Api
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest
from ludolf.sdk import ModelContext, ToolCall
from tests.loop.stage import call, calls, say

WRITE = call("write", "w", path="a.txt", content="text\n")
BASH = call("bash", "b", command="echo hello")
READ = call("read", "r", path="old.txt")


class Editor:
    """A host with one engine. It answers questions by `answer`, or leaves them open."""

    def __init__(self, engine: Engine, script: Scripted) -> None:
        self.engine = engine
        self.answer: Callable[[UiRequest], str | None] = lambda request: APPROVE
        self.questions: list[UiRequest] = []
        self.asked = asyncio.Event()
        self._script = script

    def send(self, request: UiRequest) -> None:
        self.questions.append(request)
        self.asked.set()
        value = self.answer(request)
        if value is not None:
            answer = UiAnswer(id=request.id, value=value)
            asyncio.get_running_loop().call_soon(self.engine.answer_dialog, answer)

    async def prompt(self) -> list[str]:
        """Run a prompt; the texts of the results that the model got."""
        await self.engine.prompting.prompt(PromptInput(text="Go"))
        await self.engine.settled()
        messages = self._script.requests[-1].messages
        return [text_of(one.content) for one in messages if isinstance(one, ToolResultMessage)]

    @property
    def asked_about(self) -> list[str | None]:
        return [request.tool_name for request in self.questions]


@asynccontextmanager
async def editor(root: Path, *replies: ScriptedReply, **more: Any) -> AsyncIterator[Editor]:
    work = root / "work"
    work.mkdir()
    (work / "old.txt").write_text("old\n")
    options = {"settings": {}, "default_approval": "on-write", **more}
    engine = build(
        Options(cwd=work, agent_dir=root / "agent", model="ludolf/scripted", **options),
        warn=lambda text: None,
    )
    script = Scripted((*replies, say("Done.")))
    engine.models.providers.register(script)
    made = Editor(engine, script)
    await engine.start("acp", made.send)
    try:
        yield made
    finally:
        await engine.close()


# ---------------------------------------------------------------- what is asked about


async def test_writing_and_commands_are_asked_about_by_default(tmp_path: Path) -> None:
    async with editor(tmp_path, calls(READ), calls(WRITE), calls(BASH)) as host:
        assert host.engine.approvals.mode == "ask"
        assert await host.prompt() == ["old\n", "Successfully wrote to a.txt", "hello\n"]
        assert host.asked_about == ["write", "bash"]
        question = host.questions[0]
        assert question.session_id == host.engine.session.id
        assert question.tool_call_id == "w"
        assert question.args == {"path": "a.txt", "content": "text\n"}
        assert (question.risk, question.timeout) == ("write", 300_000)


@pytest.mark.parametrize(
    ("approval", "mode", "asked"),
    [
        ({"mode": "never"}, "auto", []),
        ({"mode": "on-command"}, "default", ["bash"]),
        ({"timeoutMs": 1000}, "ask", ["write", "bash"]),
        ({"rules": [{"tool": "bash", "action": "allow"}]}, "default", ["write"]),
    ],
)
async def test_the_settings_of_the_user_replace_the_default(
    tmp_path: Path, approval: dict[str, Any], mode: str, asked: list[str]
) -> None:
    settings = {"approval": approval}
    async with editor(tmp_path, calls(WRITE), calls(BASH), settings=settings) as host:
        await host.prompt()
        assert host.asked_about == asked
        assert host.engine.approvals.mode == mode
        offered = host.engine.approvals.offered_modes
        assert ("default" in offered) == (mode == "default")


async def test_an_abort_withdraws_the_question(tmp_path: Path) -> None:
    async with editor(tmp_path, calls(WRITE)) as host:
        host.answer = lambda request: None
        await host.engine.prompting.prompt(PromptInput(text="Go"))
        await host.asked.wait()
        await host.engine.abort()
        question, withdrawn = host.questions
        assert (withdrawn.method, withdrawn.target_id) == ("cancel", question.id)


# ---------------------------------------------------------------- modes of a session


async def test_the_mode_of_a_session_can_be_changed(tmp_path: Path) -> None:
    replies = [calls(WRITE), say("Done."), calls(BASH), calls(WRITE), calls(READ), say("Done.")]
    async with editor(tmp_path, *replies, calls(WRITE)) as host:
        approvals = host.engine.approvals
        approvals.set_mode("auto")
        assert await host.prompt() == ["Successfully wrote to a.txt"]
        approvals.set_mode("read-only")
        bash, write, read = (await host.prompt())[1:]
        assert bash.startswith("Not run: this session is read-only, and bash may change something.")
        assert write.startswith("Not run: this session is read-only")
        assert read == "old\n"
        assert host.questions == []
        approvals.set_mode("ask")
        host.answer = lambda request: DENY
        assert (await host.prompt())[-1].startswith("Not run: the user denied this call of write.")
        with pytest.raises(CommandError, match=r'"default"\. Valid values: ask, auto, read-only$'):
            approvals.set_mode("default")


async def test_a_session_can_return_to_rules_and_never_loses_what_they_deny(
    tmp_path: Path,
) -> None:
    rules = [{"tool": "bash", "action": "deny"}, {"tool": "write", "action": "allow"}]
    replies = [calls(BASH), calls(WRITE), say("Done."), calls(BASH), calls(WRITE)]
    settings = {"approval": {"rules": rules}}
    async with editor(tmp_path, *replies, settings=settings) as host:
        host.engine.approvals.set_mode("auto")
        denied, written = await host.prompt()
        assert denied == "Not run: a rule of the user forbids this call of bash."
        assert written == "Successfully wrote to a.txt"
        host.engine.approvals.set_mode("default")
        assert (await host.prompt())[2:] == [denied, written]
        assert host.questions == []


async def test_calls_that_wait_behind_a_question_obey_a_new_mode(tmp_path: Path) -> None:
    other = call("write", "w2", path="b.txt", content="text\n")
    async with editor(tmp_path, calls(WRITE, other)) as host:

        def answer(request: UiRequest) -> str:
            host.engine.approvals.set_mode("read-only")
            return APPROVE

        host.answer = answer
        first, second = await host.prompt()
        assert first == "Successfully wrote to a.txt"
        assert second.startswith("Not run: this session is read-only")
        assert host.asked_about == ["write"]


async def test_an_engine_without_safety_settings_gets_modes_when_they_are_used(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path, calls(WRITE), default_approval=None) as host:
        assert host.engine.approvals.mode == "auto"
        host.engine.approvals.set_mode("ask")
        await host.prompt()
        assert host.asked_about == ["write"]


# ---------------------------------------------------------------- subagents and extensions


class Buffers:
    """An editor with one text that is not saved."""

    async def read(self, path: Path) -> str | None:
        return "not saved\n"

    async def write(self, path: Path, text: str) -> bool:
        return False


async def test_subagents_share_the_mode_and_the_files_of_their_parent(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old\n")
    results: list[str] = []
    agents: list[str | None] = []

    async def speak(context: ModelContext) -> AsyncIterator[str | ToolCall]:
        if "yield" not in [tool.name for tool in context.tools]:
            if len(context.messages) > 1:
                yield "waiting"
            else:
                tasks = [{"name": "Ada", "task": "Change it"}]
                yield ToolCall(id="t", name="task", arguments={"tasks": tasks})
            return
        results[:] = [text_of(m.content) for m in context.messages if m.role == "toolResult"]
        script = [
            ToolCall(id="r", name="read", arguments={"path": "old.txt"}),
            ToolCall(id="w", name="write", arguments={"path": "a.txt", "content": "x"}),
            ToolCall(id="w", name="write", arguments={"path": "b.txt", "content": "x"}),
            ToolCall(id="y", name="yield", arguments={"result": {"data": "done"}}),
        ]
        yield script[min(len(results), 3)]

    settings = {"task": {"enabled": True}, "approval": {"mode": "on-write"}}
    agent_dir = tmp_path / "agent"
    options: Any = {"model": speak, "settings": settings, "cwd": tmp_path, "agent_dir": agent_dir}

    def answer(request: UiRequest) -> str:
        spawner = session.engine.features.find(SubagentSpawner)
        assert spawner is not None
        agent = spawner.registry.of_session(request.session_id or "")
        agents.append(None if agent is None else agent.task.id)
        session.engine.approvals.set_mode("read-only")
        return APPROVE

    async with create_session(**options, on_dialog=answer) as session:
        session.engine.toolset.files = Buffers()
        await session.prompt("Delegate")
        await session.engine.settled()
    assert agents == ["Ada"]
    assert results[0] == "not saved\n"
    assert results[1] == "Successfully wrote to a.txt"
    assert results[2].startswith("Not run: this session is read-only")


async def test_extensions_see_a_host_with_dialogs(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def extension(pi: Api) -> None:
        pi.on("session_start", lambda event, ctx: seen.append((ctx.mode, ctx.has_ui)))

    async with editor(tmp_path, factories=(extension,)):
        assert seen == [("rpc", True)]
