"""Commands of the model in terminals of the client, by the setting `acp.terminal`."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from ludolf.acp.link import ClientLink
from ludolf.acp.terminals import ClientTerminals
from ludolf.agent.scope import Tasks
from ludolf.agent.tool import TerminalFailure
from ludolf.ai.builtin.scripted import ScriptedReply
from ludolf.ai.messages import ToolResultMessage, text_of
from ludolf.protocol.acp.structs import ClientCapabilities
from ludolf.tools.sandbox.guard import NoSandbox
from ludolf.tools.sandbox.policy import Ground
from ludolf.tools.sandbox.sandbox import Sandbox
from tests.acp_frames import check_model
from tests.loop.acp_client import AcpClient, Refusal, acp, silent
from tests.loop.laws import Record
from tests.loop.stage import call, calls, say

CLIENT: dict[str, Any] = {"acp": {"terminal": "client"}, "approval": {"mode": "never"}}
OFFERED = {"terminal": True, "session": {"notices": {}}}


class TerminalHost:
    """Serves `terminal/*` by real processes, and notes what it was asked for."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.created: list[Record] = []
        self.asked: list[str] = []
        self.output: list[bytes] = []
        self.begun = asyncio.Event()
        self._processes: list[asyncio.Future[asyncio.subprocess.Process]] = []
        self._ended: list[asyncio.Future[int]] = []

    def serve(self, client: AcpClient) -> None:
        methods: dict[str, Callable[[Record], Any]] = {
            "create": self._create,
            "wait_for_exit": self._wait,
            "output": self._output,
            "kill": self._kill,
            "release": self._release,
        }
        for name, method in methods.items():
            client.answers.setdefault(f"terminal/{name}", self._noting(name, method))

    def _noting(self, name: str, method: Callable[[Record], Any]) -> Callable[[Record], Any]:
        def answer(params: Record) -> Any:
            self.asked.append(name)
            return method(params)

        return answer

    def _create(self, params: Record) -> Record:
        check_model(schema.CreateTerminalRequest, params)
        number = len(self.created)
        self.created.append(params)
        self.output.append(b"")
        self._processes.append(asyncio.get_running_loop().create_future())
        self._ended.append(self.tasks.start(self._run(number, params)))
        return {"terminalId": f"term-{number}"}

    async def _run(self, number: int, params: Record) -> int:
        variables = {one["name"]: one["value"] for one in params["env"]}
        process = await asyncio.create_subprocess_exec(
            params["command"],
            *params["args"],
            cwd=params["cwd"],
            env={**os.environ, **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes[number].set_result(process)
        assert process.stdout is not None
        while chunk := await process.stdout.read(65536):
            self.output[number] = self.output[number] + chunk
            self.begun.set()
        return await process.wait()

    def _wait(self, params: Record) -> asyncio.Future[Record]:
        return self.tasks.start(self._exit(_number(params)))

    async def _exit(self, number: int) -> Record:
        await asyncio.wait((self._ended[number],))
        code = self._ended[number].result()
        name = signal.Signals(-code).name if code < 0 else None
        return {"exitCode": None if code < 0 else code, "signal": name}

    def _output(self, params: Record) -> Record:
        limit = self.created[_number(params)]["outputByteLimit"]
        whole = self.output[_number(params)].replace(b"\n", b"\r\n")
        return {"output": whole[-limit:].decode(), "truncated": len(whole) > limit}

    def _kill(self, params: Record) -> Record:
        process = self._processes[_number(params)]
        if process.done():
            with suppress(ProcessLookupError):
                os.killpg(process.result().pid, signal.SIGKILL)
        return {}

    def _release(self, params: Record) -> Record:
        return self._kill(params)

    async def ended(self, number: int = 0) -> int:
        """Wait until a command has ended; its code."""
        await asyncio.wait((self._ended[number],))
        return self._ended[number].result()


def _number(params: Record) -> int:
    return int(params["terminalId"].removeprefix("term-"))


@asynccontextmanager
async def hosting(
    root: Path, *replies: ScriptedReply, settings: dict[str, Any] | None = None
) -> AsyncIterator[tuple[AcpClient, TerminalHost, str]]:
    host = TerminalHost()
    async with acp(root, *replies, settings=CLIENT if settings is None else settings) as client:
        host.serve(client)
        await client.initialize(OFFERED)
        yield client, host, await client.new()
    await host.tasks.close()


def bash(command: str, **more: Any) -> ScriptedReply:
    return calls(call("bash", "c1", command=command, **more))


def results(client: AcpClient) -> list[str]:
    messages = client.script.requests[-1].messages
    return [text_of(one.content) for one in messages if isinstance(one, ToolResultMessage)]


def contents(client: AcpClient) -> list[Any]:
    return [one["content"] for one in client.updates("tool_call_update") if "content" in one]


def notices(client: AcpClient) -> list[str]:
    return [f"{one['title']} {one.get('description', '')}" for one in client.updates("notice")]


async def test_a_command_runs_in_a_terminal_of_the_client_and_the_model_gets_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    command = 'echo "one [$ANTHROPIC_API_KEY] $PI_CODING_AGENT $PAGER"; echo two >&2; pwd'
    async with hosting(tmp_path, bash(command), say("done")) as (client, host, session):
        assert await client.prompt(session, "Go") == "end_turn"
        assert results(client) == [f"one [] true cat\ntwo\n{client.work}\n"]
        created = host.created[0]
        assert created["sessionId"] == session and created["args"] == ["-c", command]
        assert all(one["value"] != "sk-hidden" for one in created["env"])
        assert contents(client) == [[{"type": "terminal", "terminalId": "term-0"}]]
        assert client.statuses()[-1] == "completed"
        assert host.asked == ["create", "wait_for_exit", "output", "release"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo bad; exit 3", "bad\n\n\nCommand exited with code 3"),
        ("kill -TERM $$", "(no output)\n\n[Killed by SIGTERM]\n\nCommand exited with code 143"),
    ],
)
async def test_a_command_that_fails_has_the_same_text_as_one_of_our_own(
    tmp_path: Path, command: str, text: str
) -> None:
    for name, settings in (("client", CLIENT), ("own", {"approval": {"mode": "never"}})):
        (tmp_path / name).mkdir()
        run = hosting(tmp_path / name, bash(command), say("done"), settings=settings)
        async with run as (client, host, session):
            await client.prompt(session, "Go")
            assert results(client) == [text]
            assert client.statuses()[-1] == "failed"
            assert host.asked[-1:] == (["release"] if name == "client" else [])
            if name == "client":
                cause = {"type": "text", "text": text.rpartition("\n")[2]}
                assert contents(client)[-1] == [
                    {"type": "terminal", "terminalId": "term-0"},
                    {"type": "content", "content": cause},
                ]


async def test_the_terminal_of_the_client_replaces_the_one_that_we_would_fill(
    tmp_path: Path,
) -> None:
    host = TerminalHost()
    async with acp(tmp_path, bash("echo once"), say("done"), settings=CLIENT) as client:
        host.serve(client)
        await client.initialize({**OFFERED, "_meta": {"terminal_output": True}})
        await client.prompt(await client.new(), "Go")
        assert contents(client) == [[{"type": "terminal", "terminalId": "term-0"}]]
        assert all("_meta" not in one for one in client.updates("tool_call_update"))
    await host.tasks.close()


async def test_commands_of_background_agents_run_in_terminals_too(tmp_path: Path) -> None:
    replies = (
        calls(call("task", "t1", tasks=[{"name": "Ada", "task": "Change it"}]), match="Go"),
        say("waiting", match="Go"),
        calls(call("bash", "c1", command="echo hers"), match="assignment"),
        calls(call("yield", "y1", result={"data": "done"}), match="assignment"),
        say("all done"),
    )
    settings = {**CLIENT, "task": {"enabled": True}}
    async with hosting(tmp_path, *replies, settings=settings) as (client, host, session):
        assert await client.prompt(session, "Go") == "end_turn"
        assert [one["sessionId"] for one in host.created] == [session]
        shown = [one for one in client.updates("tool_call_update") if "term-0" in str(one)]
        assert [one["_meta"] for one in shown] == [{"ludolf/agent": "Ada"}]
        assert host.asked[-1] == "release"


async def test_long_output_is_cut_and_saved_as_that_of_our_own_commands(tmp_path: Path) -> None:
    async with hosting(tmp_path, bash("seq 5000"), say("done")) as (client, _, session):
        await client.prompt(session, "Go")
        (text,) = results(client)
        head, _, path = text.partition("[Showing lines 3001-5000 of 5000. Full output: ")
        assert head.startswith("3001\n") and path
        assert Path(path.removesuffix("]")).read_text().split() == [*map(str, range(1, 5001))]
        Path(path.removesuffix("]")).unlink()


async def test_output_that_the_client_did_not_keep_is_mentioned(tmp_path: Path) -> None:
    async with hosting(tmp_path, bash("true"), say("done")) as (client, _, session):
        client.answers["terminal/output"] = lambda _: {"output": "end", "truncated": True}
        await client.prompt(session, "Go")
        assert results(client) == [
            "[The terminal of the client kept only the end of the output]\nend"
        ]


async def test_a_cancelled_command_is_killed_and_its_terminal_released(tmp_path: Path) -> None:
    command = "echo begun; sleep 1000"
    async with hosting(tmp_path, bash(command), say("done")) as (client, host, session):
        number = client.say(session, "Go")
        await client.asked("terminal/wait_for_exit")
        await host.begun.wait()
        client.notify("session/cancel", sessionId=session)
        assert (await client.response(number))["result"]["stopReason"] == "cancelled"
        assert await host.ended() == -signal.SIGKILL
        assert host.asked[2:] == ["kill", "output", "release"]
        assert client.statuses()[-1] == "failed"
        await client.prompt(session, "Again")
        assert results(client) == ["begun\n\n\nCommand aborted"]


async def test_a_terminal_that_is_created_after_the_cancellation_is_released(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path, bash("true"), say("done")) as (client, host, session):
        late: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        client.answers["terminal/create"] = lambda _: late
        number = client.say(session, "Go")
        await client.asked("terminal/create")
        client.notify("session/cancel", sessionId=session)
        assert (await client.response(number))["result"]["stopReason"] == "cancelled"
        client.answers |= {"terminal/kill": lambda _: {}, "terminal/release": lambda _: {}}
        late.set_result({"terminalId": "late"})
        released = await client.asked("terminal/release")
        assert released["params"] == {"sessionId": session, "terminalId": "late"}
        assert host.created == []


async def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    reply = bash("sleep 1000", timeout=0.2)
    async with hosting(tmp_path, reply, say("done")) as (client, host, session):
        await client.prompt(session, "Go")
        assert results(client) == ["Command timed out after 0.2 seconds"]
        assert await host.ended() == -signal.SIGKILL
        assert host.asked == ["create", "wait_for_exit", "kill", "output", "release"]


async def test_a_command_is_killed_with_its_session(tmp_path: Path) -> None:
    async with hosting(tmp_path, bash("sleep 1000"), say("done")) as (client, host, session):
        client.say(session, "Go")
        await client.asked("terminal/wait_for_exit")
        await client.ask("session/close", sessionId=session)
        await client.asked("terminal/release")
        assert await host.ended() == -signal.SIGKILL


async def test_the_end_of_input_releases_terminals_too(tmp_path: Path) -> None:
    async with hosting(tmp_path, bash("sleep 1000"), say("done")) as (client, host, session):
        client.say(session, "Go")
        await client.asked("terminal/wait_for_exit")
        client.end()
        await client.asked("terminal/release")
        assert await host.ended() == -signal.SIGKILL


@pytest.mark.parametrize("answer", [Refusal("no terminals today"), {}, {"terminalId": 7}, None])
async def test_a_client_that_starts_no_terminal_is_reported_once_and_we_run_the_command(
    tmp_path: Path, answer: Any
) -> None:
    twice = (bash("echo a"), bash("echo b"), say("done"))
    async with hosting(tmp_path, *twice) as (client, host, session):
        client.answers["terminal/create"] = lambda _: answer
        await client.prompt(session, "Go")
        assert results(client) == ["a\n", "b\n"]
        (notice,) = notices(client)
        assert "terminal/create" in notice
        assert host.asked == []


async def test_errors_after_the_start_do_not_run_the_command_again(tmp_path: Path) -> None:
    replies = (bash("echo x >> ran"), bash("echo x >> ran"), say("done"))
    async with hosting(tmp_path, *replies) as (client, host, session):
        client.answers["terminal/output"] = lambda _: Refusal("lost it")
        client.answers["terminal/wait_for_exit"] = lambda params: (
            Refusal("who?") if params["terminalId"] == "term-1" else {"exitCode": 0}
        )
        await client.prompt(session, "Go")
        unread = "[The output was not read from the terminal of the client: lost it]"
        failed = "The terminal of the client failed in terminal/wait_for_exit: who?"
        assert results(client) == [unread, f"{unread}\n\n{failed}"]
        assert len(host.created) == 2 and host.asked.count("release") == 2


async def test_a_client_that_does_not_answer_is_asked_only_once(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        client.answers["terminal/create"] = silent
        link = ClientLink(ClientCapabilities(), client.server._peer, client._stdio, set())  # type: ignore[arg-type]
        reports: list[str] = []
        terminals = ClientTerminals("s", link, reports.append, seconds=0.01)
        with pytest.raises(TerminalFailure, match=r"did not answer terminal/create within 0\.01"):
            await terminals.open(("true",), tmp_path, {})
        assert await terminals.open(("true",), tmp_path, {}) is None
        assert len(client.requests("terminal/create")) == len(reports) == 1


async def test_commands_in_the_sandbox_never_leave_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    ground = Ground(
        environ=os.environ,
        mode="workspace",
        network=True,
        home=tmp_path / "h",
        agent=tmp_path / "agent",
    )
    try:
        Sandbox(ground, tmp_path / "work").close()
    except NoSandbox as error:
        pytest.skip(str(error))
    settings = {**CLIENT, "sandbox": {"mode": "workspace"}}
    replies = (bash("echo in"), bash("echo still"), say("done"))
    async with hosting(tmp_path, *replies, settings=settings) as (client, host, session):
        await client.prompt(session, "Go")
        assert host.asked == []
        assert results(client) == ["in\n", "still\n"]
        assert len([one for one in notices(client) if "sandbox holds" in one]) == 1


@pytest.mark.parametrize(
    ("settings", "offered"),
    [({"approval": {"mode": "never"}}, OFFERED), (CLIENT, {})],
)
async def test_without_the_setting_or_the_offer_we_run_commands(
    tmp_path: Path, settings: dict[str, Any], offered: Record
) -> None:
    async with acp(tmp_path, bash("echo own"), say("done"), settings=settings) as client:
        await client.initialize(offered)
        await client.prompt(await client.new(), "Go")
        assert results(client) == ["own\n"]
        assert client.requests("terminal/create") == []


async def test_a_project_cannot_choose_the_terminals(tmp_path: Path) -> None:
    async with acp(tmp_path, bash("echo own"), say("done")) as client:
        (client.work / ".pi").mkdir()
        (client.work / ".pi" / "settings.json").write_text('{"acp": {"terminal": "client"}}')
        await client.initialize(OFFERED)
        await client.prompt(await client.new(_meta={"ludolf/trust": True}), "Go")
        assert client.requests("terminal/create") == []
