"""File format of recorded model traffic: JSON Lines with a header, models and exchanges."""

import base64
import os
import stat
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.ai.errors import ErrorKind
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import ConfigError, Value, dumps, loads

VERSION = 1
# complete: read to its end. left: the program stopped reading early. aborted: the run was aborted.
# cut: the connection broke. no_answer: no response arrived.
RecordedEnd = Literal["complete", "left", "aborted", "cut", "no_answer"]


class RecordingHeader(Value, tag_field="type", tag="ludolf-recording"):
    """The first line. `model` and `thinking_level` are those at the start of the run."""

    version: int
    ludolf: str
    started_at: str
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None


class AskedModel(Value, tag_field="type", tag="model"):
    """A further model, written before its first exchange."""

    model: Model


class RecordedData(Value):
    """Bytes, as text if they are UTF-8. `ms` is the time since the request was sent."""

    ms: int = 0
    text: str | None = None
    base64: str | None = None

    @classmethod
    def of(cls, data: bytes, ms: int = 0) -> "RecordedData":
        try:
            return cls(ms=ms, text=data.decode())
        except UnicodeDecodeError:
            return cls(ms=ms, base64=base64.b64encode(data).decode())

    @property
    def raw(self) -> bytes:
        return self.text.encode() if self.text is not None else base64.b64decode(self.base64 or "")


class RecordedRequest(Value):
    """A recorded request: `body` if it was JSON, otherwise `data`."""

    method: str
    url: str
    headers: dict[str, str]
    body: Any = None
    data: RecordedData | None = None


class RecordedResponse(Value):
    status: int
    headers: dict[str, str]
    ms: int
    chunks: tuple[RecordedData, ...] = ()


class RecordedFailure(Value):
    text: str
    kind: ErrorKind


class Exchange(Value, kw_only=True, tag_field="type", tag="exchange"):
    """A request and its result; `number` counts requests in the order they were sent."""

    number: int
    started_at: str
    request: RecordedRequest
    answer: RecordedResponse | None = None
    end: RecordedEnd
    end_ms: int
    error: RecordedFailure | None = None


Line = RecordingHeader | AskedModel | Exchange


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A complete file; its exchanges are in the order of the requests."""

    path: Path
    header: RecordingHeader
    models: tuple[Model, ...]
    exchanges: tuple[Exchange, ...]


# ---------------------------------------------------------------- writing


class RecordingFile:
    """Appends complete lines to a new file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            ConfigError: the file is not empty, or cannot be created.
        """
        self.path = path
        try:
            self._descriptor = os.open(path, _NEW, 0o600)
            self._check_new()
        except OSError as error:
            raise ConfigError(f"Cannot record to {path}: {error.strerror}") from error

    def add(self, line: Line) -> None:
        """Append one line.

        Raises:
            OSError: it could not be written; nothing of it remains in the file.
        """
        before = os.fstat(self._descriptor).st_size
        rest = memoryview(dumps(line) + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _check_new(self) -> None:
        status = os.fstat(self._descriptor)
        if stat.S_ISREG(status.st_mode) and not status.st_size:
            os.fchmod(self._descriptor, 0o600)
            return
        self.close()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"Cannot record to {self.path}: it is not a regular file.")
        raise ConfigError(
            f"Cannot record to {self.path}: it exists and is not empty. "
            "Remove it, or name another file with --record."
        )


_NEW = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


# ---------------------------------------------------------------- reading


def read_recording(path: Path) -> Recording:
    """Read a recording.

    Raises:
        ConfigError: the file is missing, or is not a recording of a known version.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"Cannot replay {path}: {error.strerror}") from error
    # Text after the last line end was truncated during writing.
    items = [_read_line(path, at, line) for at, line in enumerate(lines[:-1], 1) if line.strip()]
    header = items[0] if items else None
    if not isinstance(header, RecordingHeader):
        raise ConfigError(f"Cannot replay {path}: it is not a recording made with --record.")
    models = [item.model for item in items if not isinstance(item, Exchange)]
    return Recording(
        path=path,
        header=header,
        # Each model once, starting with the initial one.
        models=tuple({model.key: model for model in models if model is not None}.values()),
        exchanges=tuple(
            sorted((i for i in items if isinstance(i, Exchange)), key=lambda one: one.number)
        ),
    )


def _read_line(path: Path, at: int, line: bytes) -> Line:
    try:
        value = loads(line)
        if isinstance(value, dict) and value.get("type") == "ludolf-recording":
            _check_version(path, value.get("version"))
        item: Line = msgspec.convert(value, Line)
        return item
    except (ValueError, msgspec.ValidationError) as error:
        what = "it is not a recording made with --record" if at == 1 else f"line {at}: {error}"
        raise ConfigError(f"Cannot replay {path}: {what}.") from error


def _check_version(path: Path, version: Any) -> None:
    if isinstance(version, int) and version > VERSION:
        raise ConfigError(
            f"Cannot replay {path}: it has format version {version}, this program reads up to "
            f"{VERSION}. Update ludolf, or record it again."
        )
