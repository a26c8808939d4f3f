"""A terminal and another client on one session of a shared server."""

import asyncio

from ludolf.client import RemoteClient
from tests.process.harness import Lab
from tests.process.script import Gate, answer, call, say
from tests.process.serving import running_server
from tests.process.tmux_stage import tmux_terminal

SECONDS = 60.0


async def test_prompts_and_answers_of_another_client_are_shown_with_its_name(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(
        answer(say("It is ", gate, "mine.")),
        answer(call("bash", {"command": "echo x"})),
        answer("All done."),
    )
    with running_server(lab) as server, tmux_terminal(lab) as terminal:
        terminal.start("--connect", server.address, "--approval", "on-command", "from here")
        await asyncio.to_thread(terminal.wait_for, "It is")
        async with RemoteClient(server.address, name="phone", timeout=SECONDS) as client:
            (found,) = await client.list()
            session = await client.attach(found.session)
            await asyncio.to_thread(terminal.wait_for, "also: phone")
            gate.open()
            await session.wait_for("agent_settled", SECONDS)
            await session.prompt("from the phone")
            asked = await session.wait_for("extension_ui_request", SECONDS)
            screen = await asyncio.to_thread(terminal.wait_for, "1. Approve")
            assert "phone:" in screen
            await session.extension_ui_response(asked["id"], value="Approve")
            screen = await asyncio.to_thread(terminal.wait_for, "All done.")
            assert "answered by phone" in screen
            assert "1. Approve" not in screen
            terminal.press("C-d")
            await session.wait_for("client_left", SECONDS)
            assert len(await client.list()) == 1


async def test_a_cut_connection_is_mended_and_nothing_is_printed_twice(lab: Lab) -> None:
    lab.server.add(answer("Before the cut."), answer("After the cut."))
    path = lab.agent / "run" / "s.sock"
    with tmux_terminal(lab) as terminal:
        with running_server(lab, path=path) as server:
            terminal.start("--connect", server.address, "one")
            await asyncio.to_thread(terminal.wait_for, "Before the cut.")
            await asyncio.to_thread(terminal.wait_for, "% of 200k")
            server.kill()
        with running_server(lab, path=path):
            terminal.type("two")
            terminal.press("Enter")
            await asyncio.to_thread(terminal.wait_for, "After the cut.")
            history = terminal.history()
    assert history.count("Before the cut.") == 1
    assert history.count("❯ one") == 1
    assert history.count("❯ two") == 1


async def test_a_terminal_that_attaches_sees_the_conversation_and_who_is_there(lab: Lab) -> None:
    lab.server.add(answer("What was said before."))
    with running_server(lab) as server, tmux_terminal(lab) as terminal:
        async with RemoteClient(server.address, name="phone", timeout=SECONDS) as client:
            session = await client.open(cwd=lab.work)
            await session.prompt_and_wait("Hi")
            terminal.start("attach", "--view", session.id, "--connect", server.address)
            screen = await asyncio.to_thread(terminal.wait_for, "also: phone")
            assert "What was said before." in screen
            terminal.type("may I?")
            terminal.press("Enter")
            await asyncio.to_thread(terminal.wait_for, "prompt needs the role control.")
            await asyncio.to_thread(terminal.wait_for, "> may I?")
