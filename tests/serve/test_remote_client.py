"""The client of a server against a real one, also through a relay that cuts connections."""

import asyncio
from pathlib import Path

import pytest

from ludolf.client import MessageUpdate, RemoteClient, Resynced, SessionGone, TextDelta, UiRequest
from ludolf.serve.options import RingLimits
from tests.process.extending import lay
from tests.process.harness import Lab
from tests.process.script import Gate, answer, call
from tests.serve.hall import serving
from tests.serve.relay import CuttingRelay

SECONDS = 30.0
ASKING = """
def extension(api):
    @api.command("ask")
    async def ask(args, ctx):
        said = await ctx.ui.confirm("Go on?", "May I?")
        ctx.ui.notify(f"The user said {said}")
"""


def remote(path: Path, **options: object) -> RemoteClient:
    given = {"first_delay": 0.001, "longest_delay": 0.02, "timeout": SECONDS, **options}
    return RemoteClient(f"unix:{path}", **given)  # type: ignore[arg-type]


async def test_a_prompt_with_a_schema_returns_a_value(lab: Lab, tmp_path: Path) -> None:
    lab.server.add(answer(call("final_answer", {"value": [1, 2]})))
    async with serving(lab, tmp_path / "s"), remote(tmp_path / "s") as client:
        session = await client.open(cwd=lab.work)
        found = await session.prompt_and_wait("Count", output_schema={"type": "array"})
        assert found.structured == [1, 2]


async def test_a_session_is_opened_prompted_listed_and_left(lab: Lab, tmp_path: Path) -> None:
    lab.server.add(answer("Hello there."), answer("Again."))
    async with serving(lab, tmp_path / "s") as server, remote(tmp_path / "s") as client:
        session = await client.open(cwd=lab.work)
        assert (await session.prompt_and_wait("Hi")).text == "Hello there."
        texts = [piece async for piece in session.stream_text("More")]
        assert "".join(texts) == "Again."
        assert (await session.get_state()).message_count == 4
        (summary,) = await client.list()
        assert (summary.session, summary.state, summary.cwd) == (session.id, "idle", str(lab.work))
        (seat,) = await client.clients(session)
        assert (seat.role, seat.behind) == ("control", 0)
        await session.detach()
        assert [each async for each in session.events()] == []
        with pytest.raises(SessionGone, match="detached"):
            await session.get_state()
        assert len(server.slots) == 1
        again = await client.attach(session.id)
        assert len(again.snapshot.entries or ()) >= 4
        await client.close(again)
        assert len(server.slots) == 0


@pytest.mark.parametrize("seed", range(3))
async def test_cuts_at_random_places_lose_and_double_nothing(
    lab: Lab, tmp_path: Path, seed: int
) -> None:
    prompts = [f"prompt {number}" for number in range(6)]
    lab.server.add(*(answer("word " * 60 + text, size=5) for text in prompts))
    async with (
        serving(lab, tmp_path / "s"),
        CuttingRelay(tmp_path / "r", tmp_path / "s", seed=seed, life=(1, 4000)) as relay,
        remote(tmp_path / "r") as client,
    ):
        relay.most = 40
        relay.cut()
        session = await client.open(cwd=lab.work)
        told: list[str] = []
        for text in prompts:
            deltas: list[str] = []
            async for event in session.stream(text):
                assert not isinstance(event, Resynced)
                if isinstance(event, MessageUpdate) and isinstance(event.piece, TextDelta):
                    deltas.append(event.piece.delta)
            told.append("".join(deltas))
        assert relay.cuts > 5
        assert told == ["word " * 60 + text for text in prompts]
        assert len((await session.get_entries()).entries) >= 12
    assert len(lab.server.requests) == len(prompts)


async def test_a_client_that_is_too_far_behind_gets_a_snapshot_and_the_whole_answer(
    lab: Lab, tmp_path: Path
) -> None:
    lab.server.add(*(answer("word " * 200 + str(number), size=5) for number in range(3)))
    async with (
        serving(lab, tmp_path / "s", ring=RingLimits(size=1000, frames=3)),
        CuttingRelay(tmp_path / "r", tmp_path / "s", seed=5, life=(2000, 9000)) as relay,
        remote(tmp_path / "r") as client,
    ):
        session = await client.open(cwd=lab.work)
        relay.most = 30
        relay.cut()
        answers = [(await session.prompt_and_wait(f"go {each}")).text for each in range(3)]
    assert answers == ["word " * 200 + str(number) for number in range(3)]
    assert len(lab.server.requests) == 3


async def test_tools_and_dialogs_of_the_client_are_answered_across_cuts(
    lab: Lab, tmp_path: Path
) -> None:
    lay(lab, ASKING)
    lab.server.add(answer(call("add", {"a": 2, "b": 3})), answer("Five."))
    entered, leave = asyncio.Event(), asyncio.Event()
    asked: list[str] = []

    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        entered.set()
        await leave.wait()
        return str(a + b)

    async def agree(request: UiRequest) -> bool:
        asked.append(request.id)
        relay.cut()
        return True

    async with (
        serving(lab, tmp_path / "s"),
        CuttingRelay(tmp_path / "r", tmp_path / "s", seed=5, life=(1, 2)) as relay,
        remote(tmp_path / "r", tools=[add], on_dialog=agree) as client,
    ):
        session = await client.open(cwd=lab.work)
        reading = asyncio.ensure_future(session.prompt_and_wait("add"))
        await entered.wait()
        relay.cut()
        await session.get_state()
        leave.set()
        assert (await reading).text == "Five."
        await session.prompt("/ask")
        notice = await session.wait_for(lambda record: record.get("method") == "notify", SECONDS)
        assert notice["message"] == "The user said True"
    assert len(asked) == 1
    assert '"5"' in str(lab.server.requests[1].body).replace("'", '"')


async def test_a_tool_of_the_client_may_report_often_before_its_result(
    lab: Lab, tmp_path: Path
) -> None:
    lab.server.add(answer(call("look", {})), answer("Done."))
    async with serving(lab, tmp_path / "s"), remote(tmp_path / "s") as client:
        session = await client.open(cwd=lab.work)
        tool = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
        await session.ask("set_host_tools", SECONDS, tools=[tool])
        await session.prompt("Look")
        asked = await session.wait_for("host_tool_call", SECONDS)
        for text in ("one", "two"):
            partial = {"content": [{"type": "text", "text": text}]}
            await session.send("host_tool_update", id=asked["id"], partialResult=partial)
            shown = await session.wait_for("tool_execution_update", SECONDS)
            assert shown["partialResult"]["content"] == partial["content"]
        await session.send("host_tool_result", id=asked["id"], result=partial)
        await session.wait_for("agent_settled", SECONDS)
        assert await session.get_last_assistant_text() == "Done."


async def test_another_server_on_the_same_files_continues_the_session(
    lab: Lab, tmp_path: Path
) -> None:
    gate = Gate()
    lab.server.add(answer("One."), answer(gate, "Never."), answer("Three."))
    path = tmp_path / "s"
    async with serving(lab, path) as first, remote(path) as client:
        session = await client.open(cwd=lab.work)
        await session.prompt_and_wait("one")
        boot = client.boot
        await session.prompt("two")
        await session.wait_for("turn_start", SECONDS)
        await first.close(0)
        path.unlink(missing_ok=True)
        async with serving(lab, tmp_path / "t"):
            (tmp_path / "t").rename(path)
            record = await session.wait_for("resync", SECONDS)
            assert client.boot != boot
            assert record["data"]["session"] == session.id
            gate.open()
            assert (await session.prompt_and_wait("three")).text == "Three."
