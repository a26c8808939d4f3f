"""AWS binary event stream: frames with checksums, and the events of Bedrock."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.sse import MAX_EVENT_BYTES

# ---------------------------------------------------------------- frames

_PRELUDE = struct.Struct(">III")
_WORD = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_LEAST = _PRELUDE.size + _WORD.size
_TEXT = 7
_VARIABLE = (6, _TEXT)
# Sizes of the header value types with a fixed size: booleans, numbers, timestamp, UUID.
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class EventStreamMessage(msgspec.Struct, frozen=True):
    """One message of the stream, with its text headers."""

    headers: Mapping[str, str]
    payload: bytes


class FrameParser:
    """Parses frames from chunks that are split anywhere; verifies both checksums of each."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.has_event = False

    def feed(self, chunk: bytes) -> Iterator[EventStreamMessage]:
        """Yield the frames that this chunk completes.

        Raises:
            ProviderError: the bytes are not an event stream.
        """
        self._rest += chunk
        while len(self._rest) >= _PRELUDE.size:
            size, header_size, checksum = _PRELUDE.unpack_from(self._rest)
            if zlib.crc32(self._rest[:8]) != checksum:
                raise _garbage("the checksum of its head is wrong")
            if size > MAX_EVENT_BYTES or size < _LEAST + header_size:
                raise _garbage(f"it claims {size} bytes")
            if len(self._rest) < size:
                return
            data = bytes(self._rest[:size])
            del self._rest[:size]
            self.has_event = True
            yield _read(data, header_size)

    def close(self) -> Iterator[EventStreamMessage]:
        """Check the end of the stream.

        Raises:
            ProviderError: the stream ended inside a frame.
        """
        if self._rest:
            raise ProviderError("Bedrock stream ended before the end of an event", kind="network")
        yield from ()


def _read(whole: bytes, header_size: int) -> EventStreamMessage:
    if zlib.crc32(whole[:-4]) != _WORD.unpack_from(whole, len(whole) - 4)[0]:
        raise _garbage("its checksum is wrong")
    start = _PRELUDE.size + header_size
    try:
        headers = _headers(whole[_PRELUDE.size : start])
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise _garbage("its headers cannot be read") from error
    return EventStreamMessage(headers, whole[start:-4])


@lru_cache(64)
def _headers(data: bytes) -> Mapping[str, str]:
    """Parse headers; cached, because a stream repeats the same few thousands of times."""
    return MappingProxyType(dict(_texts(data)))


def _texts(data: bytes) -> Iterator[tuple[str, str]]:
    offset = 0
    while offset < len(data):
        value = offset + 1 + data[offset]
        name, kind = data[offset + 1 : value].decode(), data[value]
        value += 1
        if kind in _VARIABLE:
            size = _LENGTH.unpack_from(data, value)[0]
            value += _LENGTH.size
        else:
            size = _FIXED[kind]
        offset = value + size
        if offset > len(data):
            raise IndexError(name)
        if kind == _TEXT:
            yield name, data[value:offset].decode()


def _garbage(why: str) -> ProviderError:
    return ProviderError(f"An event of the answer cannot be read: {why}", kind="garbled")


# ---------------------------------------------------------------- events


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of the events that are used; others are ignored."""


class ConverseToolStart(_Wire, frozen=True):
    tool_use_id: str = ""
    name: str = ""


class _Start(_Wire, frozen=True):
    tool_use: ConverseToolStart | None = None


class ConverseBlockStart(_Wire, frozen=True):
    content_block_index: int = 0
    start: _Start | None = None


class ToolDelta(_Wire, frozen=True):
    input: str | None = None


class Reasoning(_Wire, frozen=True):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class Delta(_Wire, frozen=True):
    text: str | None = None
    tool_use: ToolDelta | None = None
    reasoning_content: Reasoning | None = None


class ConverseBlockDelta(_Wire, frozen=True):
    content_block_index: int = 0
    delta: Delta = Delta()


class ConverseBlockStop(_Wire, frozen=True):
    content_block_index: int = 0


class ConverseMessageStop(_Wire, frozen=True):
    stop_reason: str | None = None


class CacheDetail(_Wire, frozen=True):
    ttl: str | None = None
    input_tokens: int | None = None


class ConverseUsage(_Wire, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    cache_details: list[CacheDetail] | None = None


class Metadata(_Wire, frozen=True):
    usage: ConverseUsage | None = None


class Complaint(_Wire, frozen=True):
    """Message of an exception."""

    message: str | None = None
