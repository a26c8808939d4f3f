"""The client of a server against a scripted one: cuts, restarts, refusals."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.client import (
    ClientError,
    NotAdmitted,
    OutcomeUnknown,
    Refused,
    RemoteClient,
    Resynced,
    RunInterrupted,
    ServerClosed,
    ServerUnreachable,
    SessionGone,
)
from ludolf.client.events import Record
from tests.serve.peer import Peer
from tests.serve.relay import CuttingRelay

FAST = {"first_delay": 0.001, "longest_delay": 0.01}


def remote(path: Path, **options: object) -> RemoteClient:
    return RemoteClient(f"unix:{path}", **{**FAST, **options})  # type: ignore[arg-type]


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    async with Peer(tmp_path / "peer") as found, asyncio.timeout(60):
        yield found


async def until_settled(records: AsyncIterator[Record], times: int = 1) -> list[Record]:
    found: list[Record] = []
    async for record in records:
        found.append(record)
        times -= record["type"] == "agent_settled"
        if not times:
            break
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_cuts_at_random_places_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    async with (
        asyncio.timeout(60),
        Peer(tmp_path / "peer", pieces=40) as peer,
        CuttingRelay(tmp_path / "relay", peer.path, seed=seed, life=(1, 1500)) as relay,
    ):
        async with remote(tmp_path / "relay") as client:
            relay.most = 60
            relay.cut()
            session = await client.open(cwd=tmp_path)
            texts = [f"prompt {number}" for number in range(8)]
            reading = asyncio.ensure_future(until_settled(session.events(), len(texts)))
            for text in texts:
                await session.prompt(text)
            records = await reading
        assert relay.cuts >= 10
        assert [each for each in peer.done if each != "open"] == texts
        for text in texts:
            ticks = [each["number"] for each in records if each.get("text") == text]
            assert ticks == list(range(40))
        assert not any(each["type"] == "resync" for each in records)


async def test_a_prompt_is_awaited_across_cuts_and_snapshots(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        Peer(tmp_path / "peer", ring=3, pieces=200) as peer,
        CuttingRelay(tmp_path / "relay", peer.path, seed=1, life=(200, 900)) as relay,
    ):
        async with remote(tmp_path / "relay") as client:
            session = await client.open(cwd=tmp_path)
            relay.most = 30
            relay.cut()
            answers = [(await session.prompt_and_wait(f"go {each}")).text for each in range(5)]
        assert answers == [f"Re: go {each}" for each in range(5)]
        assert peer.done == ["open", *(f"go {each}" for each in range(5))]


async def test_missed_frames_that_are_gone_become_a_snapshot(peer: Peer, tmp_path: Path) -> None:
    peer.ring = 2
    async with remote(peer.path) as client:
        session = await client.open(cwd=tmp_path)
        events = session.typed_events()
        for each in peer.sessions.values():
            each.clients.clear()  # frames are emitted while the client does not get them
        await session.prompt("hello")
        await peer.settled("s0")
        peer.cut()
        event = await anext(events)
    assert isinstance(event, Resynced)
    assert isinstance(event.snapshot.entries, tuple)
    assert len(event.snapshot.entries) == 2
    assert session.snapshot.leaf_id == "e1"


async def test_unread_events_are_replaced_by_a_snapshot(peer: Peer, tmp_path: Path) -> None:
    async with remote(peer.path, unread_bytes=1000) as client:
        session = await client.open(cwd=tmp_path)
        await session.prompt("hello")
        await peer.settled("s0")
        await client.ping()
        assert isinstance(await anext(session.typed_events()), Resynced)


async def test_a_prompt_that_a_restarted_server_has_not_stored_is_sent_again(
    peer: Peer, tmp_path: Path
) -> None:
    async with remote(peer.path) as client:
        session = await client.open(cwd=tmp_path)
        await session.prompt_and_wait("first")
        peer.dies_at = "prompt"
        assert (await session.prompt_and_wait("second")).text == "Re: second"
    assert peer.done == ["open", "first", "second"]


async def test_a_prompt_that_is_stored_is_not_sent_again_after_a_restart(
    peer: Peer, tmp_path: Path
) -> None:
    async with remote(peer.path) as client:
        session = await client.open(cwd=tmp_path)
        stored = peer.sessions["s0"]
        peer.dies_at = "prompt"
        stored.store({"role": "user", "content": "hello", "timestamp": 1})
        stored.running = True  # as if the server had died right after it stored the message
        with pytest.raises(RunInterrupted, match="The prompt is stored"):
            await session.prompt_and_wait("hello")
    assert peer.done == ["open"]


@pytest.mark.parametrize("stored", ["something else", "/template"])
async def test_a_prompt_whose_fate_is_unknown_is_an_error(
    peer: Peer, tmp_path: Path, stored: str
) -> None:
    async with remote(peer.path) as client:
        session = await client.open(cwd=tmp_path)
        if not stored.startswith("/"):
            peer.sessions["s0"].store({"role": "user", "content": stored, "timestamp": 1})
        peer.dies_at = "prompt"
        text = stored if stored.startswith("/") else "hello"
        with pytest.raises(OutcomeUnknown, match="prompt: the server restarted before it replied"):
            await session.prompt(text)
        peer.dies_at = "bash"
        with pytest.raises(OutcomeUnknown, match="bash"):
            await session.bash("date")
        assert peer.done == ["open"]


async def test_dialogs_of_a_snapshot_are_handed_to_the_function_once(
    peer: Peer, tmp_path: Path
) -> None:
    seen: list[str] = []

    async def agree(request: object) -> bool:
        seen.append(request.id)  # type: ignore[attr-defined]
        return True

    async with remote(peer.path, on_dialog=agree) as client:
        session = await client.open(cwd=tmp_path)
        kept = peer.sessions["s0"]
        question = {"type": "extension_ui_request", "id": "d1", "method": "confirm", "title": "?"}
        kept.dialogs.append(question)
        kept.epoch = "other"  # so that the client gets snapshots
        for _ in range(3):
            peer.cut()
            await session.request("get_state")
            await client.ping()
    assert seen == ["d1"]
    assert {(each["id"], each["confirmed"]) for each in kept.answers} == {("d1", True)}


async def test_a_session_that_the_server_lost_ends_with_an_error(
    peer: Peer, tmp_path: Path
) -> None:
    async with remote(peer.path) as client:
        session = await client.open(cwd=tmp_path)
        del peer.sessions["s0"]
        peer.cut()
        with pytest.raises(SessionGone, match="Unknown session: s0"):
            await session.wait_for("agent_start", 30)
        with pytest.raises(SessionGone):
            await session.request("get_state")


async def test_frames_without_sense_harm_nothing(peer: Peer, tmp_path: Path) -> None:
    junk: tuple[Any, ...] = (
        None,
        True,
        -1,
        "x",
        [],
        {},
        [[]],
        {"entries": 1, "cursor": 2, "leafId": 3},
    )
    async with remote(peer.path) as client:
        session = await client.open(cwd=tmp_path)
        reading = asyncio.ensure_future(session.collect("agent_settled", 30))
        kinds = ("response", "resync", "message_end", "session_moved", "extension_ui_request")
        frames = [
            {"type": kind, "session": name, "id": each, "data": each, "message": each, "seq": each}
            for kind in (*kinds, "host_tool_call", "server_closing", None, 7)
            for each in junk
            for name in ("s0", each)
        ]
        for connection in peer.connections:
            for frame in frames:
                connection.send(frame)
            connection.writer.write(b'\xff\n[]\n{"a":\n\n' + b"[" * 100_000 + b"\n")
        assert not (await session.request("get_state"))["data"]
        await session.prompt("hello")
        assert (await reading)[-1]["type"] == "agent_settled"


async def test_a_server_that_is_not_there_is_named_with_the_way_to_start_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(ServerUnreachable, match=r"unix:.*nothing.*Start one with `ludolf serve"):
        await remote(tmp_path / "nothing").connect()


async def test_a_client_without_patience_gives_up(peer: Peer, tmp_path: Path) -> None:
    async with remote(peer.path, patience=0.0) as client:
        session = await client.open(cwd=tmp_path)
        peer.path.unlink()
        peer.cut()
        with pytest.raises(SessionGone, match="No server answers"):
            await session.wait_for("agent_start", 30)
        with pytest.raises(ServerUnreachable):
            await client.ping()


async def test_a_wrong_token_is_refused(peer: Peer) -> None:
    peer.token = "secret"
    with pytest.raises(NotAdmitted, match="refused hello"):
        await remote(peer.path, token="other").connect()
    async with remote(peer.path, token="secret") as client:
        await client.ping()
        with pytest.raises(Refused, match="Unknown session: nothing"):
            await client.attach("nothing")


async def test_after_its_end_a_client_says_so(peer: Peer, tmp_path: Path) -> None:
    client = remote(peer.path)
    await client.connect()
    session = await client.open(cwd=tmp_path)
    await client.aclose()
    assert [each async for each in session.events()] == []
    with pytest.raises(ServerClosed, match="The client is closed"):
        await session.prompt("hello")


def test_addresses_and_options_are_checked() -> None:
    for address in ("tcp:1", "unix:", "ws://", "http://localhost", "ws://h:port", "ws://h?token=1"):
        with pytest.raises(ClientError, match="Invalid address"):
            RemoteClient(address)
    assert str(RemoteClient("ws://localhost:80").address) == "ws://localhost:80/ws"
    assert RemoteClient("wss://[::1]:1/a").address.is_loopback
    with pytest.raises(ClientError, match="Unknown option: colour"):
        RemoteClient("unix:/x", colour=1)  # type: ignore[call-arg]
