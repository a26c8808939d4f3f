"""Leave the token usage out of updates of an answer while it does not change."""

from ludolf.protocol.framing import Frame

_START = b'{"type":"message_start"'
_UPDATE = b'{"type":"message_update"'
# The form of a piece alone, and the last part of the form with the whole message.
_ALONE, _AFTER_ALONE = _UPDATE + b',"usage":', b',"assistantMessageEvent":'
_WHOLE, _AFTER_WHOLE = b'},"usage":', b',"messageId":'


class UsageChanges:
    """Remembers the usage in the last update of the current message."""

    def __init__(self) -> None:
        self._last = b""

    def reduce(self, frame: Frame) -> Frame:
        """Return the frame without the usage that the update before it had."""
        if not isinstance(frame, bytes):
            return self._reduce_whole(frame) if frame[0].startswith(_UPDATE) else frame
        if frame.find(b"\n") == len(frame) - 1:
            return self._reduce_line(frame)
        return b"".join(map(self._reduce_line, frame.splitlines(keepends=True)))

    def _reduce_line(self, line: bytes) -> bytes:
        if line.startswith(_START):
            self._last = b""
        if not line.startswith(_ALONE):
            return line
        end = line.index(_AFTER_ALONE)
        return _UPDATE + line[end:] if self._is_known(line[len(_ALONE) : end]) else line

    def _reduce_whole(self, pieces: list[bytes]) -> list[bytes]:
        last = pieces[-1]
        if not last.startswith(_WHOLE):
            return pieces
        end = last.rfind(_AFTER_WHOLE) if _AFTER_WHOLE in last else len(last) - 2
        return (
            [*pieces[:-1], b"}" + last[end:]] if self._is_known(last[len(_WHOLE) : end]) else pieces
        )

    def _is_known(self, usage: bytes) -> bool:
        known, self._last = self._last == usage, usage
        return known
