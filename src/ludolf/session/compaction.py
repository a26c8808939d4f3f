"""Choose the entries to summarise and to keep, for compaction and branch summaries."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

import msgspec

from ludolf.ai.messages import AssistantMessage, Message, OpaqueMessage
from ludolf.session.context import CompactionSettings, ContextView, entry_tokens, view_tokens
from ludolf.session.entries import Entry, fields, message_of, role_of, text_field
from ludolf.session.summary_text import FileLists

TOO_SMALL = "Nothing to compact (session too small)"
ALREADY = "Already compacted"
NO_BRANCH = "No content to summarize"

_TURN_STARTS = ("user", "bashExecution", "custom", "branchSummary")
_CAN_BE_FIRST = (*_TURN_STARTS, "assistant")


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a compaction. `prefix` is not empty if the cut splits a turn."""

    first_kept_id: str
    history: tuple[Message, ...]
    prefix: tuple[Message, ...]
    previous_summary: str | None
    tokens_before: int
    files: FileLists

    @property
    def split(self) -> bool:
        return bool(self.prefix)


class BranchPreparation(msgspec.Struct, frozen=True, kw_only=True):
    messages: tuple[Message, ...]
    files: FileLists


def prepare(
    path: Sequence[Entry], settings: CompactionSettings, omitted: AbstractSet[str] = frozenset()
) -> Preparation | str:
    """Plan the compaction of a path, or return the reason why it cannot be compacted."""
    if path and path[-1].type == "compaction":
        return ALREADY
    work = _Work(path, omitted)
    cut = work.find_cut(settings.keep_recent_tokens)
    if cut is None:
        return TOO_SMALL
    turn = work.turn_start(cut)
    history = work.messages(work.start, cut if turn is None else turn)
    prefix = () if turn is None else work.messages(turn, cut)
    if not history and not prefix:
        return TOO_SMALL
    view = ContextView()
    view.follow(path, omitted)
    previous = () if work.previous is None else (work.previous,)
    return Preparation(
        first_kept_id=path[work.pull_back(cut)].id,
        history=history,
        prefix=prefix,
        previous_summary=work.previous_summary,
        tokens_before=view_tokens(view),
        files=collect_files((*history, *prefix), previous),
    )


def summary_limit(settings: CompactionSettings, model_limit: int, *, prefix: bool = False) -> int:
    """Return the token limit for the answer to a summary request."""
    share = 0.5 if prefix else 0.8
    return max(1, min(int(share * settings.reserve_tokens), model_limit))


def collect_files(messages: Iterable[Message], summaries: Iterable[Entry] = ()) -> FileLists:
    """Return the files of read, write and edit calls and of earlier summaries."""
    read: set[str] = set()
    changed: set[str] = set()
    for summary in summaries:
        _add_listed(summary, read, changed)
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            name = call.arguments.get("path")
            if isinstance(name, str) and call.name in ("read", "write", "edit"):
                (read if call.name == "read" else changed).add(name)
    return FileLists(
        read_files=tuple(sorted(read - changed)), modified_files=tuple(sorted(changed))
    )


def prepare_branch(
    old_path: Sequence[Entry],
    new_path: Sequence[Entry],
    budget: int,
    omitted: AbstractSet[str] = frozenset(),
) -> BranchPreparation | str:
    """Return the messages to summarise when the leaf moves from one path to another.

    They are the newest entries that fit the token budget, without tool results.
    """
    same = (old.id == new.id for old, new in zip(old_path, new_path, strict=False))
    left = old_path[sum(takewhile(bool, same)) :]
    taken = _fitting(left, budget, omitted)
    if not taken:
        return NO_BRANCH
    summaries = (entry for entry in left if entry.type == "branch_summary")
    files = collect_files(_told(left, omitted), summaries)
    return BranchPreparation(messages=tuple(_told(taken, omitted)), files=files)


class _Work:
    """The range of a path to compact: from the first entry that the last compaction kept."""

    def __init__(self, path: Sequence[Entry], omitted: AbstractSet[str]) -> None:
        self.path = path
        self.omitted = _left_out(path, omitted)
        last = max((i for i, entry in enumerate(path) if entry.type == "compaction"), default=-1)
        self.previous = path[last] if last >= 0 else None
        self.previous_summary: str | None = None
        self.start = 0
        if self.previous is not None:
            body = fields(self.previous)
            self.previous_summary = text_field(body, "summary") or None
            first = text_field(body, "firstKeptEntryId")
            self.start = next((i for i in range(last) if path[i].id == first), last + 1)

    def find_cut(self, keep: int) -> int | None:
        """Return the index of the first entry to keep unchanged; None if nothing is kept."""
        firsts = [i for i in self._range() if self._role(i) in _CAN_BE_FIRST]
        if not firsts:
            return None
        reached = self._walk_back(keep)
        if reached is None:
            return firsts[0]
        cut = next((i for i in firsts if i >= reached), firsts[-1])
        return self._past_failed_input(cut, reached)

    def turn_start(self, cut: int) -> int | None:
        """Return the start of the turn that the cut splits; None if it splits no turn."""
        if self._role(cut) in _TURN_STARTS:
            return None
        before = range(cut - 1, self.start - 1, -1)
        return next((i for i in before if self._role(i) in _TURN_STARTS), None)

    def pull_back(self, cut: int) -> int:
        """Move the cut before entries without a message, such as a model change."""
        while cut > self.start and not self._role(cut - 1):
            if self.path[cut - 1].type == "compaction":
                break
            cut -= 1
        return cut

    def messages(self, start: int, end: int) -> tuple[Message, ...]:
        # The previous summary is a separate part of the request, not a message of the history.
        past = (entry for entry in self.path[start:end] if entry.type != "compaction")
        return tuple(_told(past, self.omitted))

    def _range(self) -> range:
        return range(self.start, len(self.path))

    def _role(self, index: int) -> str:
        entry = self.path[index]
        if entry.type == "compaction" or entry.id in self.omitted:
            return ""
        role = role_of(entry)
        return "" if role == "system" else role

    def _walk_back(self, keep: int) -> int | None:
        total = 0
        for index in reversed(self._range()):
            if self._role(index):
                total += entry_tokens(self.path[index])
                if total >= keep:
                    return index
        return None

    def _past_failed_input(self, cut: int, reached: int) -> int:
        # The input exceeds the budget and only a failed attempt follows: keeping it does not help.
        later = range(cut + 1, len(self.path))
        if cut != reached or any(self._role(i) for i in later):
            return cut
        failed = (i for i in later if role_of(self.path[i]) == "assistant")
        return next(failed, cut)


def _left_out(path: Sequence[Entry], omitted: AbstractSet[str]) -> AbstractSet[str]:
    """Return the ids of omitted entries and of those that an edit in the file removes."""
    removed: dict[str, bool] = {}
    for entry in path:
        if entry.type == "context_edit":
            body = fields(entry)
            removed[text_field(body, "targetId")] = body.get("replacement") is None
    return omitted | {target for target, gone in removed.items() if gone}


def _told(entries: Iterable[Entry], omitted: AbstractSet[str]) -> Iterable[Message]:
    for entry in entries:
        if entry.id in omitted or role_of(entry) in ("", "system"):
            continue
        message = message_of(entry)
        if not isinstance(message, OpaqueMessage):
            yield message


def _fitting(left: Sequence[Entry], budget: int, omitted: AbstractSet[str]) -> list[Entry]:
    taken: list[Entry] = []
    total = 0
    for entry in reversed(left):
        if entry.id in omitted or role_of(entry) in ("", "system", "toolResult"):
            continue
        tokens = entry_tokens(entry)
        if total + tokens > budget:
            # A summary covers many entries: it may exceed the budget if some budget is left.
            if entry.type in ("compaction", "branch_summary") and total < 0.9 * budget:
                taken.append(entry)
            break
        taken.append(entry)
        total += tokens
    taken.reverse()
    return taken


def _add_listed(entry: Entry, read: set[str], changed: set[str]) -> None:
    """Add the files of a summary, unless an extension wrote it: its details have another form."""
    body = fields(entry)
    details = body.get("details")
    if body.get("fromHook") or not isinstance(details, dict):
        return
    for name, target in (("readFiles", read), ("modifiedFiles", changed)):
        listed = details.get(name)
        if isinstance(listed, list):
            target.update(item for item in listed if isinstance(item, str))
