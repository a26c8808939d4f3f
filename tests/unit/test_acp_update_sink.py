"""Updates for a client that lags: pieces of a text are merged, all else keeps its place."""

import asyncio
from pathlib import Path
from typing import cast

from ludolf.acp.update_sink import UpdateSink
from ludolf.agent.events import MessageEnd, MessageStart, MessageUpdate
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.draft import Draft
from ludolf.protocol.acp.structs import ClientCapabilities
from ludolf.protocol.acp.updates import UpdateWriter
from ludolf.rpc.stdio import Stdio
from tests.acp_frames import updates_in


class Pipe:
    """A pipe whose reader lags or not."""

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self.frames: list[bytes] = []
        self.sent = asyncio.Event()

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.sent.set()

    def texts(self) -> list[str]:
        updates = updates_in(self.frames)
        return [one["content"]["text"] for one in updates if "content" in one]


def _sink(pipe: Pipe) -> UpdateSink:
    writer = UpdateWriter("s1", Path("/work"), ClientCapabilities(), lambda: 1000)
    return UpdateSink(writer, cast(Stdio, pipe), lambda: None)


async def test_pieces_are_merged_while_the_client_lags() -> None:
    pipe = Pipe()
    sink = _sink(pipe)
    draft = Draft(scripted_model())
    sink.take(MessageStart(message=draft.finish()))
    sink.take(MessageUpdate(draft.start_text(), draft))
    sink.take(MessageUpdate(draft.text(0, "first "), draft))
    pipe.unsent_bytes = 1
    for piece in ("second ", 'with "quotes" ', "third"):
        sink.take(MessageUpdate(draft.text(0, piece), draft))
    assert pipe.texts() == ["first "]
    sink.take(MessageEnd(message=draft.finish("stop")))
    assert pipe.texts() == ["first ", 'second with "quotes" third']


async def test_text_that_is_held_is_sent_after_a_moment() -> None:
    pipe = Pipe()
    sink = _sink(pipe)
    draft = Draft(scripted_model())
    sink.take(MessageUpdate(draft.start_text(), draft))
    pipe.unsent_bytes = 1
    sink.take(MessageUpdate(draft.text(0, "late"), draft))
    async with asyncio.timeout(15):
        await pipe.sent.wait()
    assert pipe.texts() == ["late"]
