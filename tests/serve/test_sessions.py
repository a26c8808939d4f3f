"""Sessions of a server."""

from pathlib import Path

from tests.loop.stage import say
from tests.serve.service import numbers, service


async def test_a_session_is_opened_and_its_frames_are_numbered(tmp_path: Path) -> None:
    async with service(tmp_path, say("Hello."), say("Again.")) as s:
        client = await s.join("a")
        opened = await client.open()
        assert (opened["mode"], opened["role"]) == ("snapshot", "control")
        assert opened["cursor"].endswith("-0")
        frames = await client.run("hi", session=opened["session"])
        assert frames[0]["session"] == opened["session"]
        assert numbers(frames) == list(range(1, len(frames)))
