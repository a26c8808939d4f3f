"""Built-in default model: no network and no key; it follows rules and makes real tool calls.

It answers a documented table of requests (`offline_requests`); otherwise it describes itself.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from ludolf.ai.builtin.models import OFFLINE_API
from ludolf.ai.builtin.offline_requests import (
    MARK,
    NO_REQUEST,
    TABLE,
    TOO_LONG,
    UNKNOWN,
    OfflineStep,
    Outcomes,
    StepCall,
    StepOutcome,
    Words,
    polite_off,
    read_files,
    resolve,
    say,
    together,
)
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
from ludolf.base.patterns import lazy_pattern

MOST_STEPS = 8
PAUSE = 0.003
_MOST_TURNS = 20
_MOST_READS = 60
_WORD = lazy_pattern(r"\s*\S+\s*?|\s+")
_IMAGE_CHARACTERS = 4_800
_CONVERSATION = lazy_pattern(r"<conversation>(.*)</conversation>", re.S)
_USER_LINE = lazy_pattern(r"^\[User\]: (.*)$", re.M)


def make(transport: Transport) -> Provider:
    return Offline()


class Offline:
    """Provider of the offline model. It derives its answer from the messages alone.

    The turn counter is a safeguard: a hook that removes messages could make it repeat its work.
    """

    api = OFFLINE_API
    abort_text = "Request was aborted"

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._current: tuple[int, str] = (0, "")
        self._turns = 0

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        yield ()
        tools = sum(len(tool.name) + len(tool.description) for tool in request.tools)
        size = len(request.system) + tools + _size(request.messages)
        draft.count(_usage(size, 0))
        pieces = self._answer(request)
        # One word per event, with a bounded total duration.
        events = sum(len(_words(piece.body)) + 2 for piece in pieces)
        pace = PlaybackPace(cut=_words, per_read=1 + events // _MOST_READS, pause=self._pause)
        async for read in play(pieces, draft, pace):
            yield read
        draft.count(_usage(size, sum(len(piece.body) for piece in pieces)))
        draft.stopped("toolUse" if draft.has_tool_calls else "stop")

    def _answer(self, request: Request) -> list[PlaybackBlock]:
        places = [i for i, item in enumerate(request.messages) if isinstance(item, UserMessage)]
        user = request.messages[places[-1]] if places else None
        if not isinstance(user, UserMessage):
            return [PlaybackBlock(text=NO_REQUEST)]
        text = text_of(user.content, "\n")
        if summary := _summary(text):
            return [PlaybackBlock(text=summary)]
        steps = make_plan(text, request.cwd)
        done = _rounds(request.messages[places[-1] + 1 :])
        move = _next_move(steps, done, frozenset(tool.name for tool in request.tools))
        move = self._guard((user.timestamp, text), move)
        pieces = [PlaybackBlock(text=move.text + ("" if move.calls else _about_images(user)))]
        if request.thinking != "off" or any(step.aloud for step in steps):
            pieces.insert(0, PlaybackBlock(thinking=_thoughts(text, len(done), move)))
        for number, (name, args) in enumerate(move.calls, 1):
            call_id = f"offline_{len(request.messages)}_{number}"
            pieces.append(PlaybackBlock(tool=name, args=args, id=call_id))
        return pieces

    def _guard(self, current: tuple[int, str], move: "Move") -> "Move":
        if current != self._current or not move.calls:
            self._current, self._turns = current, 0
        self._turns += 1
        if self._turns > _MOST_TURNS:
            return Move(text=TOO_LONG, plan="I have begun too often.")
        return move


def _about_images(user: UserMessage) -> str:
    images = sum(isinstance(part, Image) for part in user.content)
    noun = "image" if images == 1 else "images"
    return f"\n\nYou sent {images} {noun}; I cannot see pictures." if images else ""


def _thoughts(text: str, turns: int, move: "Move") -> str:
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


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _usage(sent: int, answered: int) -> Usage:
    tokens_in, tokens_out = -(-sent // 4), -(-answered // 4)
    return Usage(input=tokens_in, output=tokens_out, total_tokens=tokens_in + tokens_out)


def _size(item: object) -> int:
    """Return the number of characters of a message or a part of one."""
    match item:
        case str():
            return len(item)
        case tuple():
            return sum(map(_size, item))
        case UserMessage() | ToolResultMessage() | AssistantMessage():
            return _size(item.content)
        case Image():
            return _IMAGE_CHARACTERS
        case Text():
            return len(item.text)
        case Thinking():
            return len(item.thinking)
        case OpaqueMessage():
            return 0
    return len(dumps(item))


# ---------------------------------------------------------------- the plan

_LONGEST = 4_000
_MOST_BREAKS = 40
_STRONG = lazy_pattern(r"\s*[,;.]?\s+(?:and\s+)?then,?\s+|\s*;\s*|\s*\n\s*", re.I)
_WEAK = lazy_pattern(r",?\s+and\s+(?:also\s+)?|[,.]\s+", re.I)
_AFTER_QUOTE = lazy_pattern(rf"(?<={MARK})(?:{_WEAK.pattern})", re.I)
_MORE = f"I do at most {MOST_STEPS} steps at once; please ask again for the rest."


def make_plan(text: str, cwd: str) -> list[OfflineStep]:
    """Return the steps of a request; one step with an explanation if no pattern matches."""
    words = Words(text)
    steps = _Planner(words, cwd).steps(words.text) if len(words.text) <= _LONGEST else None
    return [say("say what I am", UNKNOWN)] if steps is None else steps


class _Planner:
    """Splits a request into parts that each match a row of the table."""

    def __init__(self, words: Words, cwd: str) -> None:
        self._words = words
        self._cwd = cwd
        self._plans: dict[tuple[str, int], list[OfflineStep] | None] = {}
        self._single: dict[str, OfflineStep | None] = {}

    def steps(self, text: str, before: int = 0) -> list[OfflineStep] | None:
        """Return the steps of a text that follows `before` other steps."""
        if before == MOST_STEPS:
            return [say("say that there is more", _MORE)]
        key = (text, before)
        if key not in self._plans:
            self._plans[key] = self._read(text, before)
        return self._plans[key]

    def _read(self, text: str, before: int) -> list[OfflineStep] | None:
        cut = self._cut(text, _STRONG, before) or self._cut(text, _AFTER_QUOTE, before)
        if cut:
            return cut
        whole = self._one(text)
        # Text to write may contain "and": only quotes or "then" end it.
        if whole is not None and any(call.job in ("write", "edit") for call in whole.calls):
            return [whole]
        return self._cut(text, _WEAK, before) or (None if whole is None else [whole])

    def _cut(self, text: str, where: re.Pattern[str], before: int) -> list[OfflineStep] | None:
        for match in islice(where.finditer(text), _MOST_BREAKS):
            first = self._one(text[: match.start()])
            rest = self.steps(text[match.end() :], before + 1) if first else None
            if first and rest:
                at_once = where is not _STRONG and first.only_looks and rest[0].only_looks
                return [together(first, rest[0]), *rest[1:]] if at_once else [first, *rest]
        return None

    def _one(self, text: str) -> OfflineStep | None:
        if text not in self._single:
            plain = polite_off(text)
            fitting = (step for row in TABLE for step in row.fit(self._words, plain, self._cwd))
            self._single[text] = next(fitting, None)
        return self._single[text]


# ---------------------------------------------------------------- the next turn

_NO_RESULT = StepOutcome("No result came back.", failed=True)


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The next turn: text, then tool calls. Without calls the request is complete."""

    text: str
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    plan: str


def _rounds(messages: Sequence[Message | OpaqueMessage]) -> list[list[StepOutcome]]:
    """Return the outcomes of each message with tool calls, in call order."""
    results = {
        message.tool_call_id: StepOutcome(
            text_of(message.content, "\n"),
            failed=message.is_error,
            images=sum(isinstance(part, Image) for part in message.content),
        )
        for message in messages
        if isinstance(message, ToolResultMessage)
    }
    return [
        [results.get(call.id, _NO_RESULT) for call in message.tool_calls]
        for message in messages
        if isinstance(message, AssistantMessage) and not message.failed and message.tool_calls
    ]


def _next_move(
    steps: Sequence[OfflineStep], done: list[list[StepOutcome]], tools: frozenset[str]
) -> Move:
    """Return the first calls of the plan that were not made yet, or else the answer.

    Every earlier turn consumes one stage of the plan, so that the iteration always ends.
    """
    reports: list[str] = []
    turns = iter(done)
    for number, step in enumerate(steps):
        later = steps[number + 1 :]
        seen: list[StepOutcome] = []
        for calls in _stages(step, seen):
            outcomes = next(turns, None)
            if outcomes is None:
                return _call(step, calls, later, tools, reports)
            # Another model may have made the turn, with more or fewer calls.
            seen += [*outcomes, *[_NO_RESULT] * len(calls)][: len(calls)]
        reports.append(step.report(seen))
        if any(outcome.failed for outcome in seen) and not step.patient:
            reports += _not_done(later)
            break
    return Move(text="\n\n".join(reports), plan="Only the answer is left.")


def _stages(step: OfflineStep, seen: Outcomes) -> Iterator[tuple[StepCall, ...]]:
    if step.calls:
        yield step.calls
    if step.more and (more := step.more(seen)):
        yield more


def _call(
    step: OfflineStep,
    calls: tuple[StepCall, ...],
    later: Sequence[OfflineStep],
    tools: frozenset[str],
    reports: list[str],
) -> Move:
    tool_calls = tuple(resolved for call in calls if (resolved := resolve(call, tools)) is not None)
    if len(tool_calls) < len(calls):
        missing = " or ".join(sorted({call.job for call in calls} - tools))
        sorry = f"I cannot {step.title}: no tool for it is active (I would need {missing})."
        text = "\n\n".join([*reports, sorry, *_not_done(later)])
        return Move(text=text, plan="No active tool can do this, so I say so.")
    now = step.title if calls is step.calls else read_files([c.args["path"] for c in calls]).title
    plan = "; then ".join([now, *(item.title for item in later), "report"])
    return Move(text=f"I will {now}.", calls=tool_calls, plan=f"The plan: {plan}.")


def _not_done(steps: Sequence[OfflineStep]) -> list[str]:
    titles = "; ".join(step.title for step in steps)
    return [f"I stopped there. Not done: {titles}."] if titles else []


if TYPE_CHECKING:
    _proof: Provider = Offline()
