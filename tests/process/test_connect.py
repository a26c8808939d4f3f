"""`--mode rpc --connect`: a host of RPC mode gets the same frames from a session of a server."""

import re
import signal
import sys
from collections.abc import Iterator

import pytest

from ludolf.base import loads
from ludolf.client import ProgramEnded, Record
from tests.process.harness import WAIT_SECONDS, Lab, messages, text_of, types
from tests.process.script import Gate, answer, bash
from tests.process.serving import RunningServer, running_server

# Ids and times, which differ between two runs.
_DIFFERENT = re.compile(
    rb'[0-9a-f]{8}-[0-9a-f-]{27}|\b1\d{12}\b|\d{4}-\d\d-\d\dT[\d:.-]+Z|"entryId":"[0-9a-f]+"'
)


@pytest.fixture
def server(lab: Lab) -> Iterator[RunningServer]:
    with running_server(lab) as found:
        yield found


async def talk(lab: Lab, *arguments: str) -> list[bytes]:
    """A session with most kinds of frames; returns them without ids and times."""
    gate = Gate()
    lab.server.add(
        answer("Look.", bash("echo hi", "call_1")),
        answer("It says hi."),
        answer("Begun. ", gate, "Never."),
    )
    lab.lines.clear()
    async with lab.client("--no-session", *arguments) as client:
        await client.request("get_state")
        await client.ask("prompt", message="Go")
        await client.collect(client.wire.end)
        await client.request("nothing", id=[1])
        await client.request("set_model", provider="no", modelId="none")
        await client.request("bash", command="echo there")
        await client.request("set_thinking_level", level="low")
        await client.ask("prompt", message="Wait")
        await client.wait_for(lambda record: types([record]) == ["text_delta"])
        await client.request("abort")
        await client.collect(client.wire.end)
        await client.request("get_messages")
    return [_DIFFERENT.sub(b"X", line) for line in lab.lines]


@pytest.mark.parametrize("dialect", ["pi", "pi-delta", "pi-0.79"])
async def test_the_frames_are_those_of_a_program_of_its_own(
    lab: Lab, server: RunningServer, dialect: str
) -> None:
    alone = await talk(lab, "--rpc-dialect", dialect)
    connected = await talk(lab, "--rpc-dialect", dialect, "--connect", server.address)
    assert connected == alone


async def test_sessions_are_new_continued_or_named(lab: Lab, server: RunningServer) -> None:
    lab.server.add(answer("One."), answer("Two."), answer("Three."))
    connect = {"LUDOLF_CONNECT": server.address}
    async with lab.client("--name", "mine", **connect) as client:
        await client.prompt_and_collect("one")
        first = await client.ask("get_state")
    async with lab.client("--continue", **connect) as client:
        await client.prompt_and_collect("two")
        state = await client.ask("get_state")
    assert (state["sessionId"], state["sessionName"]) == (first["sessionId"], "mine")
    async with lab.client("--session", first["sessionFile"], **connect) as client:
        await client.prompt_and_collect("three")
        assert (await client.ask("get_state"))["messageCount"] == 6
    assert len(lab.sessions) == 1


async def test_the_session_has_the_environment_and_the_options_of_the_caller(
    lab: Lab, server: RunningServer
) -> None:
    arguments = ("--model", "chat/large", "--no-session")
    env = {"LUDOLF_CONNECT": server.address, "MY_WORD": "sesame"}
    async with lab.client(*arguments, **env) as client:
        done = await client.ask("bash", command='echo "$MY_WORD$LUDOLF_CONNECT"; pwd')
        state = await client.ask("get_state")
    assert done["output"].split() == ["sesame", str(lab.work)]
    assert state["model"]["provider"] == "chat"
    assert state.get("sessionFile") is None


def test_the_end_of_input_detaches_after_all_replies(lab: Lab, server: RunningServer) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Done."))
    lines = (
        b'{"id":1,"type":"bash","command":"sleep 0.1; echo late"}\n'
        b'{"id":2,"type":"prompt","message":"Go"}\n{"id":3,"type":"get_state"}'
    )
    done = lab.run("--mode", "rpc", "--connect", server.address, stdin=lines)
    assert (done.code, done.stderr) == (0, "")
    replies = {each["id"]: each for each in done.records if each["type"] == "response"}
    assert sorted(replies) == [1, 2, 3]
    assert replies[1]["data"]["output"] == "late\n"
    session = replies[3]["data"]["sessionId"]
    gate.open()
    follow = lab.popen("--connect", server.address, "--session", session)
    with follow:
        assert follow.stdin is not None
        assert follow.stdout is not None
        while True:
            follow.stdin.write(b'{"type":"get_state"}\n')
            frames: list[Record] = []
            while not frames or frames[-1]["type"] != "response":
                frames.append(loads(follow.stdout.readline()))
            if not frames[-1]["data"]["isStreaming"]:
                break
        follow.stdin.close()
        assert follow.wait(WAIT_SECONDS) == 0
    said = [each for each in messages(lab.entries) if each["role"] == "assistant"]
    assert [text_of(each) for each in said] == ["Done."]


def test_the_end_of_input_can_abort_the_run(lab: Lab, server: RunningServer) -> None:
    lab.server.add(answer(Gate(), "Never."))
    words = ("--mode", "rpc", "--connect", server.address, "--on-eof", "abort")
    done = lab.run(*words, stdin=b'{"id":1,"type":"prompt","message":"Go"}\n')
    assert done.code == 0
    assert "agent_settled" in types(done.records)
    assert lab.entries[-1]["message"]["stopReason"] == "aborted"


async def test_a_lost_server_ends_the_program(lab: Lab, server: RunningServer) -> None:
    async with lab.client("--connect", server.address) as client:
        await client.ask("get_state")
        server.kill()
        with pytest.raises(ProgramEnded, match="The server closed the connection") as caught:
            await client.wait_for("agent_start")
    assert caught.value.code == 1


async def test_a_signal_ends_the_program_and_not_the_session(
    lab: Lab, server: RunningServer
) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Done."))
    async with lab.client("--connect", server.address) as client:
        await client.ask("prompt", message="Go")
        session = (await client.ask("get_state"))["sessionId"]
        client.process.send_signal(signal.SIGTERM)
        with pytest.raises(ProgramEnded) as caught:
            await client.wait_for("agent_settled")
    assert caught.value.code == 143
    async with lab.client("--connect", server.address, "--session", session) as client:
        assert (await client.ask("get_state"))["isStreaming"]
        gate.open()
        await client.wait_for("agent_settled")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--model", "no/such"), 'Error: Model "no/such" not found'),
        (("--session", "ffff"), "Error: Unknown session: ffff. list shows them."),
        (("@file",), "Error: @file arguments are not supported in RPC mode"),
        (("--on-eof", "stay"), 'Error: Invalid value "stay" of --on-eof'),
    ],
)
def test_what_the_server_refuses_is_an_error_of_the_program(
    lab: Lab, server: RunningServer, words: tuple[str, ...], text: str
) -> None:
    done = lab.run("--mode", "rpc", "--connect", server.address, *words)
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith(text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--mode", "rpc", "--connect", "unix:/none"), "Error: No server answers at unix:/none: "),
        (("--mode", "rpc", "--connect", "tcp:1"), 'Error: Invalid address "tcp:1". Use unix:PATH'),
        (
            ("--connect", "unix:/none", "-p", "hi"),
            "Error: --connect needs a terminal or --mode rpc",
        ),
        (("--mode", "rpc", "--on-eof", "abort"), "Error: --on-eof needs --connect"),
    ],
)
def test_without_a_server_the_error_says_what_to_do(
    lab: Lab, words: tuple[str, ...], text: str
) -> None:
    done = lab.run(*words)
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith(text)


def test_the_engine_is_not_loaded(lab: Lab, server: RunningServer) -> None:
    program = (sys.executable, "-X", "importtime", "-m", "ludolf")
    words = ("--mode", "rpc", "--connect", server.address, "--no-session")
    done = lab.run(*words, program=program, stdin=b'{"type":"get_state"}\n')
    assert [each["success"] for each in done.records] == [True]
    loaded = re.findall(r"\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "ludolf.cli.connect" in loaded
    rooms = ("engine", "client", "session", "tools", "extensions", "serve", "mcp", "page")
    unwanted = ("aiohttp", *(f"ludolf.{room}" for room in rooms))
    assert [name for name in loaded if name.startswith(unwanted)] == []
