"""`ludolf attach`: a list of the sessions of all servers, and the frames of one."""

import signal

from ludolf.base import dumps, loads
from ludolf.client import RemoteClient
from tests.process.forks import ForkedProgram
from tests.process.harness import WAIT_SECONDS, Lab, types
from tests.process.script import answer
from tests.process.serving import running_server


async def test_sessions_of_all_servers_are_listed(lab: Lab) -> None:
    with running_server(lab) as one, running_server(lab, "other") as other:
        async with RemoteClient(one.address) as first, RemoteClient(other.address) as second:
            here = await first.open(cwd=lab.work, options={"name": "the \x1b[31mfirst"})
            there = await second.open(cwd=lab.root)
            done = lab.run("attach")
            only = lab.run("attach", "--connect", other.address)
    head, *rows = done.stdout.decode().splitlines()
    assert head.split() == ["id", "state", "clients", "folder", "name"]
    assert sorted(row.split()[0] for row in rows) == sorted((here.id, there.id))
    (mine,) = (row for row in rows if row.startswith(here.id))
    assert mine.split()[1:3] == ["idle", "1"]
    assert mine.endswith("the first")
    assert here.id not in only.stdout.decode()


async def test_frames_are_lines_and_lines_are_commands(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    with running_server(lab) as server:
        async with RemoteClient(server.address) as client:
            session = await client.open(cwd=lab.work)
            await session.prompt_and_wait("Hi")
            done = lab.run("attach", session.id, stdin=b'{"id":1,"type":"get_state"}')
            view = ("attach", "--view", session.id[:30])
            command = dumps({"id": 2, "type": "prompt", "message": "No"})
            refused = lab.run(*view, stdin=command)
    attached, state = (loads(line) for line in done.stdout.splitlines()[-2:])
    assert (done.code, types([attached, state])) == (0, ["response attach", "response get_state"])
    assert state["data"]["messageCount"] == 2
    reply = loads(refused.stdout.splitlines()[-1])
    assert (refused.code, reply["id"], reply["code"]) == (0, 2, "view_only")


async def test_ctrl_c_detaches(lab: Lab) -> None:
    with running_server(lab) as server:
        async with RemoteClient(server.address) as client:
            session = await client.open(cwd=lab.work)
            program = ForkedProgram(["attach", session.id], str(lab.work), lab.env)
            with program:
                assert program.stdout is not None
                assert loads(program.stdout.readline())["command"] == "attach"
                program.send_signal(signal.SIGINT)
                assert program.wait(WAIT_SECONDS) == 0
            await session.wait_for("client_left", WAIT_SECONDS)


async def test_a_session_that_is_not_there_is_named(lab: Lab) -> None:
    assert "No server runs. Start one with `ludolf serve`" in lab.run("attach").stderr
    with running_server(lab) as server:
        assert "No session is loaded" in lab.run("attach").stderr
        done = lab.run("attach", "ffff")
        assert (done.code, done.stdout) == (1, b"")
        assert 'No session begins with "ffff". `ludolf attach` lists them.' in done.stderr
        async with RemoteClient(server.address) as client:
            ids = [(await client.open(cwd=lab.work)).id for _ in range(2)]
            done = lab.run("attach", ids[0][:4])
    assert 'sessions begin with "' in done.stderr
