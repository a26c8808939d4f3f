"""Read from a session file how far an interrupted item came."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.agent.tool import ToolFailure
from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    OpaqueMessage,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ludolf.base import CommandError
from ludolf.fleet.results import ItemUsage
from ludolf.functions.final_answer import TOOL, AnswerTool
from ludolf.session.finder import newest
from ludolf.session.stats import SessionStats, Tally
from ludolf.session.tree import Session, open_session


class SessionEnd(msgspec.Struct, kw_only=True):
    """The last answer of a session. `is_final`: nothing is left for the model to do."""

    path: Path
    is_final: bool
    text: str
    value: Any
    model: str | None
    check_rounds: int


class Spendings(msgspec.Struct):
    """Sums over sessions."""

    usage: ItemUsage
    turns: int
    tokens: int


def last_session(folder: Path) -> Path | None:
    """Return the last session of an item that has a message."""
    return newest(folder) if folder.is_dir() else None


async def read_end(path: Path, tool: AnswerTool[Any] | None, check_text: str) -> SessionEnd | None:
    """Return how a session ended; None if the file is not a session.

    `tool` takes the value of a structured answer. `check_text` begins the messages that report a
    failed check.
    """
    session = _opened(path)
    if session is None:
        return None
    messages = [each for each in session.context.messages() if _counts(each)]
    last = messages[-1] if messages else None
    value = await _value(tool, messages) if tool is not None else UNSET
    answers = [each for each in messages if isinstance(each, AssistantMessage)]
    said = (text_of(each.content) for each in messages if isinstance(each, UserMessage))
    return SessionEnd(
        path=path,
        is_final=_is_answer(last) if tool is None else value is not UNSET,
        text=text_of(answers[-1].content) if answers else "",
        value=value,
        model=f"{answers[-1].provider}/{answers[-1].model}" if answers else None,
        check_rounds=sum(text.startswith(check_text) for text in said),
    )


def _opened(path: Path) -> Session | None:
    try:
        return open_session(path, "/", lambda text: None, write=False)
    except (OSError, CommandError):
        return None


def _counts(message: Message | OpaqueMessage) -> bool:
    return not isinstance(message, BashExecutionMessage | OpaqueMessage)


def _is_answer(message: Message | OpaqueMessage | None) -> bool:
    if not isinstance(message, AssistantMessage) or message.tool_calls:
        return False
    return message.stop_reason in ("stop", "length")


async def _value(tool: AnswerTool[Any], messages: list[Message | OpaqueMessage]) -> Any:
    """Return the value of the last run, as the model gave it by the tool or as text."""
    last = messages[-1] if messages else None
    if isinstance(last, ToolResultMessage) and last.tool_name == TOOL and not last.is_error:
        calls = (
            call
            for each in messages
            if isinstance(each, AssistantMessage)
            for call in each.tool_calls
            if call.id == last.tool_call_id
        )
        call = next(calls, None)
        if call is not None and isinstance(call.arguments, dict):
            return await _taken(tool, call.arguments)
    elif isinstance(last, AssistantMessage) and _is_answer(last):
        tool.take_text(text_of(last.content))
        return tool.value if tool.given else UNSET
    return UNSET


async def _taken(tool: AnswerTool[Any], arguments: dict[str, Any]) -> Any:
    try:
        await tool.execute(arguments, None)  # type: ignore[arg-type]  # it uses no context
    except ToolFailure:
        return UNSET
    return tool.value


def spendings(folder: Path, current: SessionStats | None) -> Spendings:
    """Return the sums over all sessions of an item; `current` is the one that is still open."""
    sums = Spendings(ItemUsage(), 0, 0)
    open_file = current.session_file if current is not None else None
    # With --via the open one is elsewhere, and the folder has a copy of it.
    name = Path(open_file).name if open_file is not None else ""
    for path in folder.glob("*.jsonl"):
        session = _opened(path) if path.name != name else None
        if session is not None:
            _add(sums, Tally(session).stats(None))
    if current is not None:
        _add(sums, current)
    return sums


def _add(sums: Spendings, stats: SessionStats) -> None:
    tokens, old = stats.tokens, sums.usage
    sums.usage = ItemUsage(
        input=old.input + tokens.input,
        output=old.output + tokens.output,
        cache_read=old.cache_read + tokens.cache_read,
        cache_write=old.cache_write + tokens.cache_write,
        cost=old.cost + stats.cost,
    )
    sums.turns += stats.assistant_messages
    sums.tokens += tokens.total
