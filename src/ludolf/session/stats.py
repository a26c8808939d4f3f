"""Counts, tokens and cost of a whole session, over all its branches."""

from typing import Any, TypeVar

import msgspec

from ludolf.ai.messages import AssistantMessage, Usage
from ludolf.ai.usage import add_usage
from ludolf.base import Value
from ludolf.session.context import ContextView, has_known_usage, view_tokens
from ludolf.session.entries import Entry, fields, role_of, text_field
from ludolf.session.tree import Session

T = TypeVar("T")
OTHER_WORK = "tools and summaries"


class TokenTotals(Value):
    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int


class ContextUsage(Value):
    """Use of the context window; unknown from a compaction to the next successful answer."""

    tokens: int | None
    context_window: int
    percent: float | None


class SessionStats(Value, kw_only=True):
    session_file: str | None = None
    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: TokenTotals
    cost: float
    context_usage: ContextUsage | None = None


class Spent(msgspec.Struct):
    """Tokens and cost in dollars, of one model or in total."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0

    def add(self, usage: Usage) -> None:
        self.input += usage.input
        self.output += usage.output
        self.cache_read += usage.cache_read
        self.cache_write += usage.cache_write
        self.cost += usage.cost.total


class Spending:
    """Tokens and cost in total and by model."""

    def __init__(self) -> None:
        self.total = Spent()
        self.by_model: dict[str, Usage] = {}

    def add(self, key: str, usage: Usage | None) -> None:
        """Count the usage of an entry under the key of a model or `OTHER_WORK`."""
        if usage is not None:
            self.total.add(usage)
            known = self.by_model.get(key)
            self.by_model[key] = usage if known is None else add_usage(known, usage)

    def add_answer(self, answer: "AssistantMessage | _Counted") -> None:
        """Count the usage of an answer under the model that answered."""
        key = f"{answer.provider}/{answer.response_model or answer.model}"
        self.add(key, answer.usage)

    def add_body(self, body: dict[str, Any], usage: Usage | None) -> None:
        """Count an entry that stores only the usage of a model."""
        key = f"{text_field(body, 'provider')}/{text_field(body, 'model')}"
        self.add(key, usage)


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


class _Counted(msgspec.Struct, rename="camel", gc=False):
    """The fields of a message that are counted; others are not decoded."""

    content: list[_Kind] | str | None = None
    usage: Usage | None = None
    provider: str = ""
    model: str = ""
    response_model: str | None = None


_counted = msgspec.json.Decoder(_Counted)


class Tally:
    """Incremental totals of a session, over all its branches."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._seen = 0
        self._roles: dict[str, int] = {}
        self._tool_calls = 0
        self._spending = Spending()

    def stats(self, context_window: int | None = None) -> SessionStats:
        """Return the current totals; `context_usage` is missing without a context window."""
        self._catch_up()
        spent, roles = self._spending.total, self._roles
        path = self.session.path
        return SessionStats(
            session_file=str(path) if path is not None else None,
            session_id=self.session.id,
            user_messages=roles.get("user", 0),
            assistant_messages=roles.get("assistant", 0),
            tool_calls=self._tool_calls,
            tool_results=roles.get("toolResult", 0),
            total_messages=sum(roles.values()),
            tokens=_totals(spent),
            cost=spent.cost,
            context_usage=context_usage(self.session.context, context_window),
        )

    def by_model(self) -> dict[str, Usage]:
        """Return tokens and cost by model; summaries are counted under `OTHER_WORK`."""
        self._catch_up()
        return self._spending.by_model

    def _catch_up(self) -> None:
        entries = self.session.entries()
        for index in range(self._seen, len(entries)):
            self._count(entries[index])
        self._seen = len(entries)

    def _count(self, entry: Entry) -> None:
        match entry.type:
            case "message" | "custom_message":
                self._count_message(entry)
            case "compaction" | "branch_summary":
                self._spending.add(OTHER_WORK, _usage_in(fields(entry)))
            case "usage":
                body = fields(entry)
                self._spending.add_body(body, _usage_in(body))

    def _count_message(self, entry: Entry) -> None:
        role = role_of(entry)
        if role == "system":
            return
        self._roles[role] = self._roles.get(role, 0) + 1
        if role not in ("assistant", "toolResult"):
            return
        counted = _read_counted(entry)
        if role == "toolResult":
            self._spending.add(OTHER_WORK, counted.usage)
            return
        self._spending.add_answer(counted)
        if isinstance(counted.content, list):
            self._tool_calls += sum(1 for block in counted.content if block.type == "toolCall")


def context_usage(view: ContextView, context_window: int | None) -> ContextUsage | None:
    """Return the use of the context window; None if its size is unknown."""
    if not context_window:
        return None
    if not has_known_usage(view):
        return ContextUsage(tokens=None, context_window=context_window, percent=None)
    tokens = view_tokens(view)
    percent = tokens / context_window * 100
    return ContextUsage(tokens=tokens, context_window=context_window, percent=percent)


def _totals(spent: Spent) -> TokenTotals:
    return TokenTotals(
        input=spent.input,
        output=spent.output,
        cache_read=spent.cache_read,
        cache_write=spent.cache_write,
        total=spent.input + spent.output + spent.cache_read + spent.cache_write,
    )


def _read_counted(entry: Entry) -> _Counted:
    try:
        return _counted.decode(entry.message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _convert(fields(entry).get("message"), _Counted) or _Counted()


def _usage_in(body: dict[str, Any]) -> Usage | None:
    return _convert(body.get("usage"), Usage)


def _convert(value: Any, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None
