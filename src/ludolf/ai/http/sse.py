"""Parser for server-sent events."""

from collections.abc import Iterator

from ludolf.ai.errors import ProviderError

MAX_EVENT_BYTES = 16 << 20
_PING_SIZE = 64


class SseParser:
    """Parses server-sent events: LF, CR or CRLF, comments, multi-line data, any chunks."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._rest: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._after_cr = False
        self.has_event = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of each event that this chunk completes."""
        if b"\r" in chunk or self._after_cr:
            chunk = self._plain_newlines(chunk)
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._keep(chunk)
            return
        text = b"".join((*self._rest, chunk[:cut]))
        self._rest, self._size = [], 0
        self._keep(chunk[cut + 1 :])
        for line in text.split(b"\n"):
            if not line:
                if self._data:
                    yield self._flush()
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"\xef\xbb\xbfdata:"):
                self._data.append(line[8:].strip())

    def close(self) -> Iterator[bytes]:
        """Yield the last event if the stream ended without its blank line."""
        yield from self.feed(b"\n\n")

    def _flush(self) -> bytes:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        if len(data) > _PING_SIZE or not _is_ping(data):
            self.has_event = True
        return data

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._rest.append(piece)
        self._size += len(piece)
        if self._size > self._max_event_bytes:
            raise ProviderError(
                f"One event of the answer is larger than {self._max_event_bytes >> 20} MiB",
                kind="bad_request",
            )

    def _plain_newlines(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _is_ping(data: bytes) -> bool:
    """Return whether an event is only a keep-alive."""
    return b'"ping"' in data or b'"keepalive"' in data
