"""Provider that plays a script, for tests, demonstrations and hosts that need fixed answers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import structs

from ludolf.ai.builtin.models import SCRIPTED_API
from ludolf.ai.draft import BlockStart, Draft, StreamEvent
from ludolf.ai.errors import ErrorKind, ProviderError, kind_of
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import StopReason, Usage, UserMessage, text_of
from ludolf.ai.provider import Provider, Request
from ludolf.base import ConfigError, Value, as_text, dumps, expand_user, loads, user_dir


class PlaybackBlock(Value, forbid_unknown_fields=True):
    """One block of an answer: exactly one of text, thinking and tool is set.

    `raw` replaces `args` if the arguments must not be the JSON of an object.
    """

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    tool: str | None = None
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    raw: str | None = None
    id: str = ""
    delay_ms: float = 0

    def __post_init__(self) -> None:
        values = [item for item in (self.text, self.thinking, self.tool) if item is not None]
        if len(values) != 1:
            raise ValueError("a block needs exactly one of text, thinking and tool")

    @property
    def body(self) -> str:
        """Return the streamed text of the block."""
        if self.tool is not None:
            return dumps(self.args).decode() if self.raw is None else self.raw
        return self.text or self.thinking or ""


class PlaybackPace(msgspec.Struct, frozen=True, kw_only=True):
    """How a block is split: characters per delta, events per read, seconds between reads."""

    cut: Callable[[str], list[str]]
    per_read: int = 1
    pause: float = 0.0


async def play(
    pieces: Iterable[PlaybackBlock], draft: Draft, pace: PlaybackPace
) -> AsyncGenerator[Iterable[StreamEvent]]:
    """Stream the pieces; each read is an iterator that changes the draft as it is consumed."""
    for piece in pieces:
        if piece.delay_ms:
            await asyncio.sleep(piece.delay_ms / 1000)
        deltas = pace.cut(piece.body)
        events = _block(piece, deltas, draft)
        for _ in range(0, len(deltas) + 2, pace.per_read):
            yield islice(events, pace.per_read)
            await asyncio.sleep(pace.pause)


def characters(size: int) -> Callable[[str], list[str]]:
    """Return a function that splits a text into pieces of `size` characters."""
    return lambda text: [text[at : at + size] for at in range(0, len(text), size)]


def _block(piece: PlaybackBlock, deltas: list[str], draft: Draft) -> Iterator[StreamEvent]:
    start = _start(piece, draft)
    yield start
    grow = draft.tool_args if piece.tool is not None else draft.text
    for delta in deltas:
        yield grow(start.index, delta)
    if piece.signature is not None:
        draft.sign(start.index, piece.signature)
    yield draft.end(start.index)


def _start(piece: PlaybackBlock, draft: Draft) -> BlockStart:
    if piece.tool is not None:
        return draft.start_tool(piece.id, piece.tool)
    if piece.thinking is not None:
        return draft.start_thinking()
    return draft.start_text()


API = SCRIPTED_API
VARIABLE = "LUDOLF_SCRIPT"
_STATUSES: tuple[tuple[int, ErrorKind], ...] = (
    (401, "auth"),
    (403, "auth"),
    (408, "timeout"),
    (413, "overflow"),
    (429, "rate_limit"),
)


class ScriptedFailure(Value, forbid_unknown_fields=True):
    """How a reply fails; the kind follows from the status, or else from the text."""

    text: str
    status: int | None = None
    kind: ErrorKind | None = None
    retry_after: float | None = None

    def as_error(self) -> ProviderError:
        kind = self.kind or _kind_of_status(self.status) or kind_of(self.text)
        error = ProviderError(self.text, kind=kind, retry_after=self.retry_after)
        error.status = self.status
        return error


class ScriptedUsage(Value, forbid_unknown_fields=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class ScriptedReply(Value, forbid_unknown_fields=True):
    """One answer of a script; `text` is short for a content of one text block.

    With `match`, the reply applies only to requests whose last user text contains it. `hang` keeps
    the answer open after its content until it is aborted.
    """

    text: str | None = None
    content: tuple[PlaybackBlock, ...] = ()
    match: str | None = None
    chunk: int = 16
    per_read: int = 1
    delay_ms: float = 0
    pause_ms: float = 0
    usage: ScriptedUsage = ScriptedUsage()
    stop: Literal["stop", "length", "toolUse"] | None = None
    error: ScriptedFailure | str | None = None
    hang: bool = False

    def __post_init__(self) -> None:
        if self.chunk < 1 or self.per_read < 1:
            raise ValueError("chunk and perRead must be 1 or more")

    @property
    def pieces(self) -> tuple[PlaybackBlock, ...]:
        return self.content if self.text is None else (PlaybackBlock(text=self.text), *self.content)


def make(transport: Transport) -> Provider:
    """Make the provider; the environment variable LUDOLF_SCRIPT names the script file."""
    return Scripted()


class Script(msgspec.Struct, frozen=True):
    """A script file. `strict`: a request without a reply fails instead of being answered."""

    replies: tuple[ScriptedReply, ...]
    strict: bool = False


class Scripted:
    """Plays its replies in order, each once; without replies it reads the script file first.

    A reply is a `ScriptedReply`, or its text.

    A request that no reply is left for gets an answer that says so; with `strict` it fails, so
    that a test does not pass by accident. `requests` records the requests, for tests.
    """

    api = API
    abort_text = "Request was aborted"

    def __init__(
        self, replies: Sequence[ScriptedReply | str] | None = None, *, strict: bool = False
    ) -> None:
        given = [replies] if isinstance(replies, str) else replies
        self._left = None if given is None else [_as_reply(reply) for reply in given]
        self._strict = strict
        self._calls = 0
        self.requests: list[Request] = []

    def add(self, *replies: ScriptedReply | str) -> None:
        """Append to the script."""
        self._left = [*(self._left or ()), *map(_as_reply, replies)]

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        self.requests.append(request)
        if self._left is None:
            environ = request.environ
            path = request.access.environment.get(VARIABLE) or environ.get(VARIABLE, "")
            script = load_script(expand_user(path, user_dir(environ)))
            self._left, self._strict = list(script.replies), self._strict or script.strict
        reply = self._next(_last_user_text(request))
        await asyncio.sleep(reply.delay_ms / 1000)
        if reply.error is not None and not reply.pieces:
            raise _as_error(reply.error)
        yield ()
        draft.count(_usage(reply.usage))
        pace = PlaybackPace(
            cut=characters(reply.chunk), per_read=reply.per_read, pause=reply.pause_ms / 1000
        )
        async for events in play(self._with_ids(reply.pieces), draft, pace):
            yield events
        if reply.hang:
            await asyncio.get_running_loop().create_future()
        if reply.error is not None:
            raise _as_error(reply.error)
        reason: StopReason = reply.stop or ("toolUse" if draft.has_tool_calls else "stop")
        draft.stopped(reason, reason)

    def _next(self, text: str) -> ScriptedReply:
        left = self._left or []
        for place, reply in enumerate(left):
            if reply.match is None or reply.match in text:
                return left.pop(place)
        rest = f" Replies left for other requests: {len(left)}." if left else ""
        over = f"The script has no reply left for this request.{rest}"
        if self._strict:
            raise ProviderError(over, kind="bad_request")
        return ScriptedReply(text=over)

    def _with_ids(self, pieces: Iterable[PlaybackBlock]) -> Iterable[PlaybackBlock]:
        for piece in pieces:
            if piece.tool is None or piece.id:
                yield piece
            else:
                self._calls += 1
                yield structs.replace(piece, id=f"call_{self._calls}")


# ---------------------------------------------------------------- the file


def load_script(path: str) -> Script:
    """Read a script: a JSON list, an object with `replies` and `strict`, or one reply per line.

    Raises:
        ProviderError: the file is missing or is not a script; the text names the line.
    """
    if not path:
        raise ProviderError(
            f"The model ludolf/scripted plays a script: set {VARIABLE} to the path of its file.",
            kind="bad_request",
        )
    try:
        text = as_text(Path(path).read_bytes())
    except OSError as error:
        raise _bad_script(path, error.strerror or str(error)) from error
    try:
        items, strict = _items(text)
    except ValueError as error:
        raise _bad_script(path, str(error)) from error
    return Script(tuple(_reply(path, place, item) for place, item in items), strict)


def _items(text: str) -> tuple[list[tuple[str, Any]], bool]:
    """Return the replies with their places, and whether the script is strict."""
    try:
        value = loads(text)
    except ValueError:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2:
            raise
        return [(f"line {number}", loads(line)) for number, line in lines], False
    strict: Any = False
    if isinstance(value, dict) and "replies" in value:
        unknown = set(value) - {"replies", "strict"}
        if unknown:
            raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
        value, strict = value["replies"], value.get("strict", False)
        if not isinstance(strict, bool):
            raise ValueError("strict must be true or false")
    elif isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise ValueError("expected a list of replies")
    return [(f"reply {number}", item) for number, item in enumerate(value, 1)], strict


def _reply(path: str, place: str, item: Any) -> ScriptedReply:
    try:
        return msgspec.convert(item, ScriptedReply)
    except msgspec.ValidationError as error:
        raise _bad_script(path, f"{place}: {error}") from error


def _bad_script(path: str, reason: str) -> ProviderError:
    return ProviderError(f"The script {path} cannot be played: {reason}", kind="bad_request")


# ---------------------------------------------------------------- small parts


def _last_user_text(request: Request) -> str:
    for message in reversed(request.messages):
        if isinstance(message, UserMessage):
            return text_of(message.content, "\n")
    return ""


def _usage(tokens: ScriptedUsage) -> Usage:
    total = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
    return Usage(total_tokens=total, **structs.asdict(tokens))


def _as_reply(reply: ScriptedReply | str) -> ScriptedReply:
    if isinstance(reply, ScriptedReply):
        return reply
    if isinstance(reply, str):
        return ScriptedReply(text=reply)
    raise ConfigError(
        f"A reply of a script is a ScriptedReply or a text, not {type(reply).__name__}."
    )


def _as_error(error: ScriptedFailure | str) -> ProviderError:
    return (ScriptedFailure(text=error) if isinstance(error, str) else error).as_error()


def _kind_of_status(status: int | None) -> ErrorKind | None:
    if status is None or status == 400:
        return None
    return "overloaded" if status >= 500 else dict(_STATUSES).get(status, "bad_request")


if TYPE_CHECKING:
    _proof: Provider = Scripted()
