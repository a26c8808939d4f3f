"""Plan the steps of a request, and choose the next step from the results so far."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from ludolf.ai.builtin.offline_requests import TABLE
from ludolf.ai.builtin.offline_steps import (
    OfflineStep,
    Outcomes,
    StepCall,
    StepOutcome,
    read_files,
    resolve,
    say,
    together,
)
from ludolf.ai.builtin.offline_texts import UNKNOWN
from ludolf.ai.builtin.offline_vocabulary import MARK, Words, polite_off
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Message,
    OpaqueMessage,
    ToolResultMessage,
    text_of,
)

MOST_STEPS = 8
_LONGEST = 4_000
_MOST_BREAKS = 40
_STRONG = re.compile(r"\s*[,;.]?\s+(?:and\s+)?then,?\s+|\s*;\s*|\s*\n\s*", re.I)
_WEAK = re.compile(r",?\s+and\s+(?:also\s+)?|[,.]\s+", re.I)
_AFTER_QUOTE = re.compile(rf"(?<={MARK})(?:{_WEAK.pattern})", re.I)


def make_plan(text: str, cwd: str) -> tuple[OfflineStep, ...]:
    """Return the steps of a request; one step with an explanation if no pattern matches."""
    words = Words(text)
    steps = _Reader(words, cwd).steps(words.text) if len(words.text) <= _LONGEST else None
    return (say("say what I am", UNKNOWN),) if steps is None else tuple(steps)


def _more() -> OfflineStep:
    note = f"I do at most {MOST_STEPS} steps at once; please ask again for the rest."
    return say("say that there is more", note)


class _Reader:
    """Splits a request into parts that each match a row of the table."""

    def __init__(self, words: Words, cwd: str) -> None:
        self._words = words
        self._cwd = cwd
        self._plans: dict[tuple[str, int], list[OfflineStep] | None] = {}
        self._single: dict[str, OfflineStep | None] = {}

    def steps(self, text: str, before: int = 0) -> list[OfflineStep] | None:
        """Return the steps of a text that follows `before` other steps."""
        if before == MOST_STEPS:
            return [_more()]
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
                return _join(first, rest, at_once=where is not _STRONG)
        return None

    def _one(self, text: str) -> OfflineStep | None:
        if text not in self._single:
            self._single[text] = next(self._fitting(polite_off(text)), None)
        return self._single[text]

    def _fitting(self, text: str) -> Iterator[OfflineStep]:
        for row in TABLE:
            yield from row.fit(self._words, text, self._cwd)


def _join(first: OfflineStep, rest: list[OfflineStep], *, at_once: bool) -> list[OfflineStep]:
    if at_once and first.only_looks and rest[0].only_looks:
        return [together(first, rest[0]), *rest[1:]]
    return [first, *rest]


# ---------------------------------------------------------------- what to do now


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The next turn: text, then tool calls. Without calls the request is complete."""

    text: str
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    plan: str


def rounds(messages: Sequence[Message | OpaqueMessage]) -> list[list[StepOutcome]]:
    """Return the outcomes of each message with tool calls, in call order."""
    results = {
        message.tool_call_id: message
        for message in messages
        if isinstance(message, ToolResultMessage)
    }
    return [
        [_outcome(results.get(call.id)) for call in message.tool_calls]
        for message in messages
        if isinstance(message, AssistantMessage) and not message.failed and message.tool_calls
    ]


def _outcome(message: ToolResultMessage | None) -> StepOutcome:
    if message is None:
        return StepOutcome("No result came back.", failed=True)
    images = sum(isinstance(part, Image) for part in message.content)
    return StepOutcome(text_of(message.content, "\n"), failed=message.is_error, images=images)


def next_move(
    steps: Sequence[OfflineStep], done: Sequence[list[StepOutcome]], tools: frozenset[str]
) -> Move:
    """Return the first calls of the plan that were not made yet, or else the answer.

    Every earlier turn consumes one stage of the plan, so that the iteration always ends.
    """
    reports: list[str] = []
    left = list(done)
    for number, step in enumerate(steps):
        seen: list[StepOutcome] = []
        for calls in _stages(step, seen):
            if not left:
                return _call(step, calls, steps[number + 1 :], tools, reports)
            seen += _fit(left.pop(0), len(calls))
        reports.append(step.report(seen))
        if any(outcome.failed for outcome in seen) and not step.patient:
            reports += _not_done(steps[number + 1 :])
            break
    return Move(text="\n\n".join(reports), plan="Only the answer is left.")


def _stages(step: OfflineStep, seen: Outcomes) -> Iterator[tuple[StepCall, ...]]:
    if step.calls:
        yield step.calls
    more = step.more(seen) if step.more else ()
    if more:
        yield more


def _fit(outcomes: list[StepOutcome], count: int) -> list[StepOutcome]:
    """Return exactly `count` outcomes, even if another model made the turn."""
    missing = [StepOutcome("No result came back.", failed=True)] * (count - len(outcomes))
    return [*outcomes[:count], *missing]


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
    if not steps:
        return []
    return [f"I stopped there. Not done: {'; '.join(step.title for step in steps)}."]
