"""Several clients on one session: roles, dialogs, host tools, repeated commands, limits."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import CommandError, dumps
from ludolf.serve.options import ClientLimits, RingLimits
from tests.loop.stage import call, calls, say, text_of, texts
from tests.serve.service import Client, Record, Service, numbers, service

ALWAYS = {"approval": {"mode": "always"}}


async def _pair(s: Service, **fields: Any) -> tuple[Client, Client, str]:
    """Two clients on one new session."""
    first, second = await s.join("first"), await s.join("second")
    session = (await first.open())["session"]
    await second.data("attach", session=session, **fields)
    return first, second, session


async def _dialog(client: Client, title: str = "", since: int = 0) -> Record:
    return await client.until(
        lambda each: (
            each["type"] == "extension_ui_request"
            and each["method"] in ("select", "input", "confirm")
            and each["title"].startswith(title)
        ),
        since,
    )


def _cancels(client: Client) -> list[tuple[str, str | None]]:
    shown = client.of_type("extension_ui_request")
    return [(each["targetId"], each.get("by")) for each in shown if each["method"] == "cancel"]


async def _behind(client: Client) -> None:
    """Wait until the client has read everything that was sent so far."""
    await client.data("ping")
    await client.data("get_state")


# ---------------------------------------------------------------- roles


async def test_a_viewer_sees_everything_and_changes_nothing(tmp_path: Path) -> None:
    async with service(tmp_path, say("Fine.")) as s:
        first, second, session = await _pair(s, role="view")
        text, code = await second.refusal("prompt", message="no")
        assert (text, code) == ("prompt needs the role control.", "view_only")
        assert (await second.refusal("bash", command="true"))[1] == "view_only"
        assert (await second.refusal("new_session"))[1] == "view_only"
        assert (await second.refusal("close", session=session))[1] == "view_only"
        assert (await second.data("get_state"))["sessionId"] == session
        await first.run("hi")
        await second.until("agent_settled")
        assert texts(second.frames, "assistant") == ["Fine."]


async def test_clients_are_announced_and_listed(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first, second, session = await _pair(s, role="view")
        joined = await first.until("client_joined")
        assert joined == {
            "session": session,
            "type": "client_joined",
            "client": "second",
            "name": None,
            "role": "view",
        }
        found = (await first.data("clients"))["clients"]
        assert [(each["client"], each["role"]) for each in found] == [
            ("first", "control"),
            ("second", "view"),
        ]
        second.cut()
        left = await first.until("client_left")
        assert (left["client"], "seq" in left) == ("second", False)
        third = await s.join("third")
        await third.data("attach", session=session)
        await third.data("detach")
        assert (await third.refusal("detach", session=session))[0] == f"Not attached to: {session}"
        assert (await third.refusal("get_state"))[0] == "Name a session, or open one first."
        await first.until(lambda each: each.get("client") == "third" and "role" not in each)


# ---------------------------------------------------------------- dialogs


async def test_the_first_answer_that_fits_decides_a_dialog(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first, second, _ = await _pair(s)
        first.send("prompt", message="/choose")
        asked = await _dialog(first)
        assert (await _dialog(second))["id"] == asked["id"]
        assert (await first.data("list"))["sessions"][0]["state"] == "waiting"
        second.send("extension_ui_response", id=asked["id"], value="green")
        second.send("extension_ui_response", id=asked["id"], value="blue")
        first.send("extension_ui_response", id=asked["id"], value="red")
        await first.until(lambda each: each.get("command") == "prompt")
        await _behind(second)
        assert s.asking.answers == ["blue"]
        assert _cancels(first) == _cancels(second) == [(asked["id"], "second")]


async def test_a_viewer_cannot_answer_a_dialog(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first, second, _ = await _pair(s, role="view")
        first.send("prompt", message="/ask")
        asked = await _dialog(second)
        second.send("extension_ui_response", id=asked["id"], value="me")
        await _behind(second)
        assert s.asking.answers == []
        first.send("extension_ui_response", id=asked["id"], value="you")
        await first.until(lambda each: each.get("command") == "prompt")
        assert s.asking.answers == ["you"]


async def test_the_time_for_an_answer_stands_still_while_no_controller_is_there(
    tmp_path: Path,
) -> None:
    async with service(tmp_path) as s:
        first, second, session = await _pair(s, role="view")
        first.send("prompt", message="/choose 1")
        first.cut()  # before the dialog is shown: with the viewer alone, its millisecond is long
        asked = await _dialog(second)
        await _behind(second)
        assert s.asking.answers == []
        await first.connect().hello()
        back = await first.data("attach", session=session)
        assert [each["id"] for each in back["underway"]["dialogs"]] == [asked["id"]]
        await s.holds(lambda: s.asking.answers == [None])


async def test_an_approval_waits_for_a_client_that_comes_back(tmp_path: Path) -> None:
    replies = (calls(call("echo", "c1", name="x")), say("Done."))
    async with service(tmp_path, *replies, settings=dict(ALWAYS)) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        first.send("prompt", message="go")
        asked = await _dialog(first)
        first.cut()
        await first.connect().hello()
        back = await first.data("attach", session=session, cursor=f"none-{asked['seq']}")
        (dialog,) = back["underway"]["dialogs"]
        assert (dialog["id"], dialog["toolName"]) == (asked["id"], "echo")
        assert [each["toolCallId"] for each in back["underway"]["tools"]] == ["c1"]
        first.send("extension_ui_response", id=dialog["id"], value=dialog["options"][0])
        await first.until("agent_settled")
        assert texts(first.frames, "toolResult") == ["x"]


async def test_a_host_of_rpc_mode_sees_the_dialogs_that_were_open_before_it(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        first.send("prompt", message="/ask")
        asked = await _dialog(first)
        host = await s.join("host", dialect="pi", bare=True)
        await host.data("attach", session=session)
        assert (await _dialog(host))["id"] == asked["id"]
        host.send("extension_ui_response", id=asked["id"], value="host")
        await first.until(lambda each: each.get("command") == "prompt")
        assert s.asking.answers == ["host"]
        assert _cancels(first) == [(asked["id"], "host")]


# ---------------------------------------------------------------- host tools

_TOOL = {"name": "peek", "description": "Look.", "parameters": {"type": "object"}}


async def _peeking(s: Service) -> tuple[Client, Client, str, Record]:
    first, second, session = await _pair(s)
    await second.data("set_host_tools", tools=[_TOOL])
    await first.data("prompt", message="go")
    called = await second.until("host_tool_call")
    assert "seq" not in called
    return first, second, session, called


async def test_calls_of_a_host_tool_wait_for_the_client_that_provides_it(tmp_path: Path) -> None:
    async with service(tmp_path, calls(call("peek", "c1")), say("Done.")) as s:
        first, second, session, called = await _peeking(s)
        cursor = f"{s.slot(session).log.epoch}-{numbers(second.frames)[-1]}"
        second.cut()
        await first.until("client_left")
        since = len(second.frames)
        await second.connect().hello()
        await second.data("attach", session=session, cursor=cursor)
        again = await second.until("host_tool_call", since)
        assert again["id"] == called["id"]
        kinds = [each["type"] for each in second.frames[since:]]
        assert kinds.index("host_tool_call") > 1  # after the replies to hello and attach
        result = {"content": [{"type": "text", "text": "seen"}]}
        for word in ("so far", "so far more"):
            partial = {"content": [{"type": "text", "text": word}]}
            second.send("host_tool_update", id=called["id"], partialResult=partial)
        second.send("host_tool_result", id=called["id"], result=result)
        await first.until("agent_settled")
        assert texts(first.frames, "toolResult") == ["seen"]
        updates = first.of_type("tool_execution_update")
        assert [text_of(each["partialResult"]) for each in updates] == ["so far", "so far more"]
        assert first.of_type("host_tool_call") == []


async def test_a_host_tool_fails_if_its_client_does_not_come_back(tmp_path: Path) -> None:
    limits = ClientLimits(away_seconds=0.01)
    async with service(tmp_path, calls(call("peek", "c1")), say("Done."), limits=limits) as s:
        first, second, _, _ = await _peeking(s)
        second.cut()
        await first.until("agent_settled")
        assert texts(first.frames, "toolResult") == ['Host tool "peek": its host has left']


async def test_clients_that_provide_nothing_leave_nothing_behind(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        slot = s.slot(session)
        hub = slot.engine.conversation.hub
        sinks = len(hub._sinks)
        for number in range(20):
            dialect = ("omp", "pi", "pi-delta")[number % 3]
            other = await s.join(f"other {number}", dialect=dialect)
            await other.ask("get_state", session=session)
            await other.data("attach", session=session)
            other.cut()
            unnamed = s.client().connect()
            await unnamed.data("get_state", session=session)
            unnamed.cut()
        assert len(hub._sinks) == sinks
        assert list(slot._hosts) == ["first"]
        assert len(s.server.connections) == 1
        assert sum(not seat.is_known for seat in s.server._seats.values()) == 0


async def test_of_many_clients_that_have_left_the_last_ones_are_remembered(tmp_path: Path) -> None:
    async with service(tmp_path, limits=ClientLimits(away_clients=3)) as s:
        for number in range(5):
            (await s.join(f"client {number}")).cut()
        back = [s.client(f"client {number}").connect() for number in range(5)]
        known = [(await client.hello())["data"]["known"] for client in back]
        assert known == [False, False, True, True, True]


async def test_a_client_that_has_left_is_forgotten_if_its_replies_are_too_large(
    tmp_path: Path,
) -> None:
    async with service(tmp_path, limits=ClientLimits(away_bytes=100)) as s:
        for name in ("large", "small"):
            client = await s.join(name)
            await client.ask("open" if name == "large" else "ping")
            client.cut()
        back = [s.client(name).connect() for name in ("large", "small")]
        assert [(await client.hello())["data"]["known"] for client in back] == [False, True]


# ---------------------------------------------------------------- what each client chooses


async def test_prompt_results_and_filters_belong_to_one_client(tmp_path: Path) -> None:
    async with service(tmp_path, say("One."), say("Two.")) as s:
        first, second, _ = await _pair(s)
        await second.data("set_prompt_results", enabled=True)
        await first.data("set_event_filter", events=["agent_settled"])
        await second.run("by second", id="p1")
        await first.run("by first")
        await _behind(second)
        assert [each["id"] for each in second.of_type("prompt_result")] == ["p1"]
        kinds = {each["type"] for each in first.frames if "seq" in each}
        assert kinds == {"agent_settled"}
        assert first.of_type("prompt_result") == []
        assert texts(second.frames, "assistant") == ["One.", "Two."]


async def test_only_the_client_that_asked_gets_changes_of_the_usage_alone(tmp_path: Path) -> None:
    async with service(tmp_path, say("One two three four.", chunk=4)) as s:
        first, second, _ = await _pair(s)
        await second.data("set_event_filter", usage="changes")
        await first.run("Go")
        await _behind(second)
        updates = [each.of_type("message_update") for each in (first, second)]
        assert [each["assistantMessageEvent"] for each in updates[0]] == [
            each["assistantMessageEvent"] for each in updates[1]
        ]
        assert all("usage" in each for each in updates[0])
        assert ["usage" in each for each in updates[1]] == [True] + [False] * (len(updates[1]) - 1)
        assert all(each["seq"] for each in second.frames if each["type"] == "message_update")


async def test_each_client_is_served_in_its_dialect(tmp_path: Path) -> None:
    async with service(tmp_path, say("Hello there.", chunk=3)) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        others = [
            await s.join("pi", dialect="pi"),
            await s.join("omp", dialect="omp"),
            await s.join("bare", bare=True),
            await s.join("bare omp", dialect="omp", bare=True),
        ]
        for other in others:
            await other.data("attach", session=session)
        await others[3].data("prompt", message="hi", id="p1")
        await first.until("agent_settled")
        for other in others:
            await other.until("agent_settled" if "omp" not in other.dialect else "agent_end")
            assert texts(other.frames, "assistant") == ["Hello there."]
            envelope = {"session" in each for each in other.frames if each["type"] != "response"}
            assert envelope == {not other.bare}
        result = await others[3].until("prompt_result")
        assert result["id"] == "p1"
        kinds = [each["type"] for each in others[3].frames]
        assert kinds.index("agent_end") < kinds.index("prompt_result")
        assert others[1].of_type("prompt_result") == []


# ---------------------------------------------------------------- at most once


async def test_a_repeated_command_is_done_once(tmp_path: Path) -> None:
    async with service(tmp_path, say("One."), say("Two.")) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        await first.data("prompt", message="go", id="p")
        await first.until("agent_settled")
        first.cut()
        welcome = (await first.connect().hello())["data"]
        assert welcome["known"] is True
        back = await first.ask("prompt", message="go", id="p", session=session)
        assert (back["success"], back["repeated"]) == (True, True)
        assert back["data"] == {"disposition": "started"}
        stored = (await first.data("get_messages", session=session))["messages"]
        assert [text_of(each) for each in stored] == ["go", "One."]
        for _ in range(2):  # null is not an id
            first.feed(dumps({"type": "get_state", "id": None, "session": session}))
        await _replies(first, "get_state", 2)


async def _replies(client: Client, command: str, count: int) -> list[Record]:
    def found() -> list[Record]:
        return [each for each in client.of_type("response") if each["command"] == command]

    await client.until(lambda _: len(found()) >= count)
    return found()


async def test_the_reply_to_a_pending_command_follows_the_client(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        ready = tmp_path / "ready"
        first.send("bash", id="b", command=f"until [ -e {ready} ]; do sleep 0.01; done; echo out")
        assert (await first.data("list"))["sessions"][0]["state"] == "running"
        first.cut()
        await first.connect().hello()
        back = await first.data("attach", session=session)
        assert back["underway"]["bash"] == [{"id": "b"}]
        first.send("bash", id="b", session=session, command="echo no")
        ready.touch()
        reply = await first.until(lambda each: each.get("command") == "bash")
        assert (reply["data"]["output"], "repeated" in reply) == ("out\n", False)
        update = await first.until("bash_execution_update")
        assert first.frames.index(update) < first.frames.index(reply)
        again = await first.ask("bash", id="b", command="echo no")
        assert (again["data"]["output"], again["repeated"]) == ("out\n", True)
        assert "bash" not in (await first.data("attach", session=session))["underway"]


@pytest.mark.parametrize("is_late", [False, True])
async def test_an_open_that_lost_its_connection_is_answered_when_it_is_asked_again(
    tmp_path: Path, is_late: bool
) -> None:
    async with service(tmp_path) as s:
        first = await s.join("first")
        first.pauses = True
        first.send("open", id="o", cwd=str(s.work))
        if is_late:
            await s.holds(lambda: bool(first.wire))
        first.cut()
        first.pauses = False
        await first.connect().hello()
        reply = await first.ask("open", id="o", cwd=str(s.work))
        assert reply["success"]
        session = reply["data"]["session"]
        assert (await first.data("attach", session=session))["session"] == session
        assert len(s.server.slots) == 1


async def test_only_the_last_replies_are_kept(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first = await s.join("first")
        await first.open()
        for number in range(300):
            first.send("get_state", id=f"g{number}")
        await first.until(lambda each: each.get("id") == "g299")
        assert (await first.ask("get_state", id="g299"))["repeated"] is True
        assert "repeated" not in await first.ask("get_state", id="g1")


async def test_a_reply_that_is_too_long_to_be_kept_is_not_made_again(tmp_path: Path) -> None:
    async with service(tmp_path, say("x" * 1_100_000, chunk=1_100_000)) as s:
        first = await s.join("first")
        await first.open()
        await first.run("go")
        await first.data("get_messages", id="m")
        again = await first.ask("get_messages", id="m")
        assert (again["success"], again["repeated"]) == (False, True)
        assert again["error"].startswith("The reply to this command is not kept any more.")


# ---------------------------------------------------------------- connections and limits


async def test_a_client_that_connects_again_replaces_its_connection(tmp_path: Path) -> None:
    async with service(tmp_path, say("Hello.")) as s:
        old = await s.join("same")
        session = (await old.open())["session"]
        new = await s.join("same")
        await new.data("attach", session=session)
        assert await old.closed() == 4409
        await new.run("hi")
        assert texts(new.frames, "assistant") == ["Hello."]
        assert texts(old.frames, "assistant") == []
        assert numbers(new.frames) == list(range(1, len(numbers(new.frames)) + 1))
        assert len((await new.data("clients"))["clients"]) == 1


async def test_a_second_hello_leaves_the_first_name_behind(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first = await s.join("one")
        session = (await first.open())["session"]
        await first.hello(client="two")
        await first.data("attach", session=session)
        found = (await first.data("clients"))["clients"]
        assert [each["client"] for each in found] == ["two"]


async def test_limits_refuse_with_the_code_full(tmp_path: Path) -> None:
    limits = ClientLimits(clients=3, per_session=2)
    async with service(tmp_path, limits=limits) as s:
        _, _, session = await _pair(s)
        third = await s.join("third")
        text, code = await third.refusal("attach", session=session)
        assert (text, code) == ("Too many clients on this session: 2.", "full")
        with pytest.raises(CommandError, match="Too many clients: 3 are connected") as caught:
            s.server.connect(remote=False, trusted=True)
        assert caught.value.code == "full"
        third.cut()
        await s.join("fourth")


async def test_no_more_is_read_from_a_client_with_too_many_commands(tmp_path: Path) -> None:
    async with service(tmp_path, limits=ClientLimits(in_flight=4)) as s:
        first = await s.join("first")
        await first.open()
        assert first.connection is not None
        for _ in range(20):  # neither broken lines nor answers without a reply count
            first.feed(b"{", b'{"type":"nonsense"}', b'{"type":"host_tool_result","id":"x"}')
            first.feed(b'{"type":"extension_ui_response","id":"x"}')
        async with asyncio.timeout(30):
            await first.connection.readable()
        for _ in range(4):
            first.send("prompt", message="/ask")
        waiting = s.tasks.start(first.connection.readable())
        await _dialog(first)
        assert not waiting.done()
        dialogs = s.slot(first.connection.current or "").engine.open_dialogs
        while dialogs():
            first.send("extension_ui_response", id=dialogs()[0].id, cancelled=True)
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await waiting


async def test_a_client_that_reads_nothing_delays_no_other(tmp_path: Path) -> None:
    limits = ClientLimits(unsent=100_000)
    ring = RingLimits(size=100_000)
    answers = [say("long answer " * 1_000, chunk=500) for _ in range(10)]
    async with service(tmp_path, *answers, limits=limits, ring=ring) as s:
        first, second, session = await _pair(s)
        stuck = s.client("stuck")
        stuck.connection = s.server.connect(remote=True, trusted=True)
        stuck.send("hello", client="stuck", dialect="pi")
        stuck.send("attach", session=session)
        for number in range(10):
            await first.run(f"go {number}")
        await _behind(second)
        assert len(texts(first.frames, "assistant")) == 10
        assert stuck.connection.unsent < 2_000_000
        assert stuck.connection.close_code == 4408


async def test_a_run_waits_for_a_client_that_asks_for_it(tmp_path: Path) -> None:
    answer = say("word " * 60_000, chunk=1_000)
    async with service(tmp_path, answer, say("Next.")) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        slow = s.client("slow")
        slow.connection = s.server.connect(remote=False, trusted=True)
        slow.send("hello", client="slow", dialect="pi")
        slow.send("attach", session=session, wait=True)
        await s.holds(lambda: len(s.slot(session).attachments) == 2)
        await first.data("prompt", message="go")
        attachment = s.slot(session).attachments[1]
        await s.holds(lambda: not attachment.has_room())
        running = s.slot(session).engine.runner
        for _ in range(50):
            await asyncio.sleep(0)
        assert running.running
        assert attachment.unsent < 3 << 20
        slow.connection.lost()
        await first.until("agent_settled")
        assert await first.run("next")


async def test_a_run_does_not_wait_for_a_client_that_was_detached(tmp_path: Path) -> None:
    async with service(tmp_path, say("word " * 60_000, chunk=1_000)) as s:
        first = await s.join("first")
        session = (await first.open(wait=True))["session"]
        first.pauses = True
        assert first._reading is not None
        first.send("prompt", message="go")
        slot = s.slot(session)
        await s.holds(lambda: slot.log.last > 5)
        first._reading.cancel()
        await s.holds(lambda: not slot.attachments[0].has_room())
        first.send("detach", session=session)
        await s.holds(lambda: not slot.engine.runner.running)


async def test_a_viewer_that_speaks_as_in_rpc_mode_changes_nothing(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        viewer = await s.join("viewer", dialect="pi", bare=True)
        await viewer.data("attach", session=session, role="view")
        assert (await viewer.refusal("prompt", message="no"))[0] == "prompt needs the role control."
        assert (await viewer.refusal("ping"))[0] == "Unknown command: ping"
        other = await s.join("other", dialect="pi", bare=True)
        await other.data("attach", session=session)
        assert "Other clients control this session." in (await other.refusal("new_session"))[0]
        assert (await viewer.data("get_state"))["sessionId"] == session


async def test_a_remote_client_that_is_silent_is_disconnected(tmp_path: Path) -> None:
    limits = ClientLimits(silence_seconds=0.01)
    async with service(tmp_path, limits=limits, unload_seconds=0.04) as s:
        near = await s.join("near")
        session = (await near.open())["session"]
        far = s.client("far").connect(remote=True)
        far.send("attach", session=session)
        assert await far.closed() == 1000
        assert [each["client"] for each in (await near.data("clients"))["clients"]] == ["near"]


async def test_a_client_whose_frames_had_to_go_gets_a_snapshot_and_continues(
    tmp_path: Path,
) -> None:
    answers = [say("a rather long answer " * 50) for _ in range(3)]
    async with service(tmp_path, *answers, all_rings=30_000) as s:
        first, busy = await s.join("first"), await s.join("busy")
        quiet = (await first.open())["session"]
        await first.run("one")
        last = numbers(first.frames)[-1]
        cursor = f"{s.slot(quiet).log.epoch}-{last - 5}"
        replay = await first.data("attach", session=quiet, cursor=cursor)
        assert (replay["mode"], replay["replayed"]) == ("replay", 5)
        await busy.open()
        await busy.run("two")  # takes all the room that the rings of the server have
        assert (await first.data("attach", session=quiet, cursor=cursor))["mode"] == "snapshot"
        since = len(first.frames)
        await first.run("three")
        assert numbers(first.frames[since:])[0] == last + 1


async def test_commands_behind_a_move_are_meant_for_the_new_session(tmp_path: Path) -> None:
    async with service(tmp_path, say("One."), say("Two.")) as s:
        first = await s.join("first")
        session = (await first.open())["session"]
        await first.run("one")
        first.send("new_session")
        await first.data("set_session_name", name="New")
        moved = await first.until("session_moved")
        assert moved["to"] != session
        state = await first.data("get_state")
        assert (state["sessionId"], state["sessionName"]) == (moved["to"], "New")
        await first.run("two")
        assert texts(first.frames, "assistant") == ["One.", "Two."]
