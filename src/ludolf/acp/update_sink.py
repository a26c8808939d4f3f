"""Send the events of an engine to the client as updates."""

import asyncio
from collections.abc import Callable

from ludolf.agent.events import MessageUpdate
from ludolf.engine.hub import Sink
from ludolf.protocol.acp.updates import UpdateWriter
from ludolf.protocol.events import Event, McpServerChanged, Warned
from ludolf.rpc.stdio import Stdio

# How the text of a chunk begins and ends in its frame.
_TEXT_BEGINS, _TEXT_ENDS = b'"content":{"type":"text","text":"', b'"}}}}\n'
_MOST_HELD = 64 * 1024
HOLD_SECONDS = 0.05


class UpdateSink(Sink):
    """Pieces of a text are merged while the client lags.

    `commands_changed` is called when an MCP server may offer other prompts.
    """

    def __init__(
        self, writer: UpdateWriter, stdio: Stdio, commands_changed: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._stdio = stdio
        self._commands_changed = commands_changed
        self._progress_timer: asyncio.TimerHandle | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        # The head of the frame that is held, and its texts.
        self._head = b""
        self._texts: list[bytes] = []
        self._held = 0
        # Warnings that the client has got.
        self.warned: set[str] = set()

    def take(self, event: Event) -> None:
        frames = self._writer.frames(event)
        if self._stdio.unsent_bytes and type(event) is MessageUpdate and len(frames) == 1:
            self._hold(frames[0])
            return
        if self._texts:
            self._release()
        for frame in frames:
            self._stdio.send(frame)
        if isinstance(event, Warned):
            self.warned.add(event.message)
        elif isinstance(event, McpServerChanged):
            self._commands_changed()
        if self._progress_timer is None and self._writer.due is not None:
            self._wait(self._writer.due)

    def has_room(self) -> bool:
        return self._stdio.has_room()

    async def room(self) -> None:
        await self._stdio.room()

    def unread_bytes(self) -> int:
        return self._stdio.unsent_bytes

    async def all_read(self) -> None:
        await self._stdio.all_sent()

    def close(self) -> None:
        self._release()
        if self._progress_timer is not None:
            self._progress_timer.cancel()

    # ------------------------------------------------------------ text, while the client lags

    def _hold(self, frame: bytes) -> None:
        """Hold a piece of text; one of another message or kind sends what is held."""
        at = frame.find(_TEXT_BEGINS)
        if at < 0 or not frame.endswith(_TEXT_ENDS):
            self._release()
            self._stdio.send(frame)
            return
        head = frame[: at + len(_TEXT_BEGINS)]
        if head != self._head or self._held > _MOST_HELD:
            self._release()
            self._head = head
        text = frame[len(head) : -len(_TEXT_ENDS)]
        self._texts.append(text)
        self._held += len(text)
        if self._hold_timer is None:
            loop = asyncio.get_running_loop()
            self._hold_timer = loop.call_later(HOLD_SECONDS, self._release)

    def _release(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        if self._texts:
            self._stdio.send(b"".join((self._head, *self._texts, _TEXT_ENDS)))
        self._head, self._texts, self._held = b"", [], 0

    # ------------------------------------------------------------ progress of commands

    def _wait(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        self._progress_timer = loop.call_later(max(0.0, due - loop.time()), self._flush)

    def _flush(self) -> None:
        self._progress_timer = None
        for frame in self._writer.flush():
            self._stdio.send(frame)
        if self._writer.due is not None:
            self._wait(self._writer.due)
