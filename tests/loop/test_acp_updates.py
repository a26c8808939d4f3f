"""Updates of the Agent Client Protocol for whole runs of the engine, with the real tools."""

from pathlib import Path
from typing import Any

from ludolf.engine.hub import Sink
from ludolf.protocol.acp.call_sources import CallSources
from ludolf.protocol.acp.history import replay
from ludolf.protocol.acp.structs import ClientCapabilities
from ludolf.protocol.acp.updates import UpdateWriter
from ludolf.protocol.events import Event
from tests.acp_frames import updates_in
from tests.loop.stage import Stage, call, calls, say, stage

STATUSES = ["pending", "in_progress", "completed"]
Update = dict[str, Any]


class UpdateSink(Sink):
    """A sink of the engine that collects checked updates."""

    def __init__(self, s: Stage, client: ClientCapabilities) -> None:
        cwd = s.engine.workspace.home.cwd
        self.writer = UpdateWriter(
            "s1", cwd, client, lambda: 1000, CallSources(read=_content, clock=lambda: 0.0)
        )
        self.updates: list[Update] = []
        s.engine.conversation.hub.attach(self)

    def take(self, event: Event) -> None:
        self.updates += updates_in(self.writer.frames(event))

    def has_room(self) -> bool:
        return True

    async def room(self) -> None:
        """There is always room."""


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _calls(updates: list[Update]) -> dict[str, list[Update]]:
    found: dict[str, list[Update]] = {}
    for update in updates:
        if "toolCallId" in update:
            found.setdefault(update["toolCallId"], []).append(update)
    return found


def _last(updates: list[Update], key: str) -> Any:
    return next(update[key] for update in reversed(updates) if key in update)


async def test_a_run_and_its_replay_show_the_same_calls(tmp_path: Path) -> None:
    edit = {"path": "a.txt", "edits": [{"oldText": "two", "newText": "TWO"}]}
    replies = (
        calls(call("write", "call_0", path="a.txt", content="one\ntwo\n")),
        calls(call("edit", "call_0", **edit)),
        calls(
            call("bash", "call_0", command="cat a.txt; exit 3"),
            call("read", "call_1", path="a.txt"),
        ),
        say("done"),
    )
    async with stage(tmp_path, *replies) as s:
        sink = UpdateSink(s, ClientCapabilities())
        await s.run("please")
        live, path = _calls(sink.updates), s.engine.session.path_to_leaf()
    place = str(s.root / "work" / "a.txt")
    written, edited, ran, read = live.values()
    for updates in (written, edited, read):
        assert [each["status"] for each in updates if "status" in each] == STATUSES
    assert [each["status"] for each in ran if "status" in each] == [*STATUSES[:2], "failed"]
    diff = {"type": "diff", "path": place, "oldText": None, "newText": "one\ntwo\n"}
    assert _last(written, "content") == [diff]
    assert _last(edited, "content") == [{**diff, "oldText": "one\ntwo\n", "newText": "one\nTWO\n"}]
    assert _last(edited, "locations") == [{"path": place, "line": 2}]
    assert _last(ran, "content")[0]["content"]["text"].startswith("one\nTWO\n")

    writer = UpdateWriter("s1", s.root / "work", ClientCapabilities(), lambda: 1000)
    again = updates_in(replay(path, writer))
    ends = [
        [(_last(updates, "status"), _last(updates, "content")) for updates in shown.values()]
        for shown in (live, _calls(again))
    ]
    assert ends[0] == ends[1]
    assert writer.title == "please" == sink.writer.title


async def test_an_abort_ends_a_running_command_as_failed(tmp_path: Path) -> None:
    client = ClientCapabilities(terminal_output=True)
    async with stage(tmp_path, calls(call("bash", "c", command="echo up; sleep 60"))) as s:
        sink = UpdateSink(s, client)
        await s.data("prompt", message="go")
        await s.until(lambda r: bool(r.get("partialResult", {}).get("content")))
        await s.ask("abort")
        await s.settled()
    assert _last(sink.updates, "status") == "failed"
    metas = [update["_meta"] for update in sink.updates if "_meta" in update]
    data = "".join(meta["terminal_output"]["data"] for meta in metas if "terminal_output" in meta)
    assert data == "up\n\n\nCommand aborted"
    assert metas[-1]["terminal_exit"]["exit_code"] is None
