"""Built-in default model: no network and no key; it follows rules and makes real tool calls.

It answers a documented table of requests (`offline_requests`); otherwise it describes itself.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import TYPE_CHECKING

from ludolf.ai.builtin.models import OFFLINE_API
from ludolf.ai.builtin.offline_plan import Move, make_plan, next_move, rounds
from ludolf.ai.builtin.offline_texts import NO_REQUEST, TOO_LONG
from ludolf.ai.builtin.scripted import PlaybackBlock, PlaybackPace, play
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Message,
    OpaqueMessage,
    Text,
    Thinking,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.ai.provider import Provider, Request
from ludolf.base import dumps

API = OFFLINE_API
_MOST_TURNS = 20
_MOST_READS = 60
PAUSE = 0.003
_WORD = re.compile(r"\s*\S+\s*?|\s+")
_IMAGE_CHARACTERS = 4_800
_CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.S)
_USER_LINE = re.compile(r"^\[User\]: (.*)$", re.M)


def make(transport: Transport) -> Provider:
    return Offline()


class Offline:
    """Provider of the offline model. It derives its answer from the messages alone.

    The turn counter is a safeguard: a hook that removes messages could make it repeat its work.
    """

    api = API
    abort_text = "Request was aborted"

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._current: tuple[int, str] = (0, "")
        self._turns = 0

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        yield ()
        size = _size_of_request(request)
        draft.count(_usage(size, 0))
        pieces = self._answer(request)
        async for events in play(pieces, draft, _pace(pieces, self._pause)):
            yield events
        draft.count(_usage(size, sum(len(piece.body) for piece in pieces)))
        draft.stopped("toolUse" if draft.has_tool_calls else "stop")

    def _answer(self, request: Request) -> tuple[PlaybackBlock, ...]:
        index, user = _last_user(request.messages)
        if user is None:
            return (PlaybackBlock(text=NO_REQUEST),)
        text = text_of(user.content, "\n")
        if summary := _summary(text):
            return (PlaybackBlock(text=summary),)
        steps = make_plan(text, request.cwd)
        done = rounds(request.messages[index + 1 :])
        move = next_move(steps, done, frozenset(tool.name for tool in request.tools))
        move = self._guard((user.timestamp, text), move)
        think = request.thinking != "off" or any(step.aloud for step in steps)
        thoughts = (PlaybackBlock(thinking=_thoughts(text, len(done), move)),) if think else ()
        return (*thoughts, *_text(user, move), *_calls(move, len(request.messages)))

    def _guard(self, current: tuple[int, str], move: Move) -> Move:
        if current != self._current or not move.calls:
            self._current, self._turns = current, 0
        self._turns += 1
        if self._turns > _MOST_TURNS:
            return Move(text=TOO_LONG, plan="I have begun too often.")
        return move


def _last_user(
    messages: Sequence[Message | OpaqueMessage],
) -> tuple[int, UserMessage | None]:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage):
            return index, message
    return 0, None


# ---------------------------------------------------------------- the answer


def _text(user: UserMessage, move: Move) -> tuple[PlaybackBlock, ...]:
    images = sum(isinstance(part, Image) for part in user.content)
    note = ""
    if images and not move.calls:
        note = f"\n\nYou sent {images} image{'s' if images > 1 else ''}; I cannot see pictures."
    return (PlaybackBlock(text=move.text + note),)


def _calls(move: Move, place: int) -> tuple[PlaybackBlock, ...]:
    return tuple(
        PlaybackBlock(tool=name, args=args, id=f"offline_{place}_{number}")
        for number, (name, args) in enumerate(move.calls, 1)
    )


def _thoughts(text: str, turns: int, move: Move) -> str:
    if turns:
        return f"The results of turn {turns} are here. {move.plan}"
    request = " ".join(text.split())
    request = request if len(request) <= 120 else request[:120] + "..."
    return f'I was asked: "{request}". I work by fixed rules, not by understanding. {move.plan}'


def _summary(text: str) -> str:
    """Answer a summary request with the list of the user's requests."""
    conversation = _CONVERSATION.search(text)
    if conversation is None:
        return ""
    requests = [line[:200] for line in _USER_LINE.findall(conversation.group(1))]
    lines = "\n".join(f"- {line}" for line in requests[-20:]) or "- (nothing)"
    return (
        f"## Goal\n{requests[-1] if requests else '(unknown)'}\n\n"
        f"## Progress\nThe user asked, in this order:\n{lines}\n\n"
        "## Critical Context\nWritten by the offline demo model, which lists requests only."
    )


# ---------------------------------------------------------------- pace and size


def _pace(pieces: Sequence[PlaybackBlock], pause: float) -> PlaybackPace:
    """Return a pace of one word per event, with a bounded total duration."""
    events = sum(len(_words(piece.body)) + 2 for piece in pieces)
    return PlaybackPace(cut=_words, per_read=1 + events // _MOST_READS, pause=pause)


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _usage(sent: int, answered: int) -> Usage:
    tokens_in, tokens_out = -(-sent // 4), -(-answered // 4)
    return Usage(input=tokens_in, output=tokens_out, total_tokens=tokens_in + tokens_out)


def _size_of_request(request: Request) -> int:
    tools = sum(len(tool.name) + len(tool.description) for tool in request.tools)
    return len(request.system) + tools + sum(map(_size, request.messages))


def _size(message: Message | OpaqueMessage) -> int:
    match message:
        case UserMessage() | ToolResultMessage():
            if isinstance(message.content, str):
                return len(message.content)
            return sum(
                _IMAGE_CHARACTERS if isinstance(part, Image) else len(part.text)
                for part in message.content
            )
        case AssistantMessage():
            return sum(map(_block_size, message.content))
        case OpaqueMessage():
            return 0
    return len(dumps(message))


def _block_size(block: object) -> int:
    match block:
        case Text():
            return len(block.text)
        case Thinking():
            return len(block.thinking)
    return len(dumps(block))


if TYPE_CHECKING:
    _proof: Provider = Offline()
