"""Stream rules: interrupt an answer that matches a pattern, show the rule, and ask again.

A match is reported once. Text is checked as it streams; arguments also when they are complete,
before the tool runs.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from ludolf.agent.events import MessageUpdate
from ludolf.agent.io import Outcome, QueueKind, StreamCut
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockKind, Draft
from ludolf.ai.messages import CustomMessage, Text, Thinking, ToolCall
from ludolf.base import now_ms
from ludolf.config.resources.linear_pattern import Budget, Exhausted, LinearPattern, Scan
from ludolf.config.resources.rules import (
    RuleTarget,
    StreamRule,
    find_rule_files,
    load_stream_rules,
)
from ludolf.config.resources.sources import LoadedItems
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Feature
from ludolf.protocol.host_events import RULE_MATCHED, StreamRuleHit
from ludolf.session.entries import CustomMessageBody

# A pattern that is not searched in linear time sees this much of what came before a piece; all of
# it when the block is whole.
WINDOW = 8192
# Steps for all rules of a project that is not trusted, for one answer; less than a second.
STEPS = 2_000_000


class RuleSearch:
    """Made for one answer, whose blocks arrive in pieces."""

    def __init__(self) -> None:
        self.is_exhausted = False
        self._budget = Budget(STEPS)
        self._piece = ""
        self._seen: dict[int, str] = {}
        self._scans: dict[tuple[str, int], list[Scan]] = {}

    def add(self, event: BlockDelta) -> None:
        """Take a piece of a block; ask `in_stream` for each rule afterwards."""
        self._piece = event.delta
        self._seen[event.index] = self._seen.get(event.index, "")[-WINDOW:] + event.delta

    def in_stream(self, rule: StreamRule, index: int) -> bool:
        """Whether a block matches a rule so far; each piece must be asked about once."""
        key = (rule.name, index)
        if key not in self._scans:
            self._scans[key] = _scans(rule)
        return self._has_match(rule, self._scans[key], self._piece, self._seen[index])

    def in_text(self, rule: StreamRule, text: str) -> bool:
        """Whether a whole text matches a rule."""
        return self._has_match(rule, _scans(rule), text, text)

    def _has_match(self, rule: StreamRule, scans: list[Scan], piece: str, text: str) -> bool:
        if not rule.trusted and self.is_exhausted:
            return False
        budget = None if rule.trusted else self._budget
        try:
            found = [scan.feed(piece, budget) for scan in scans]
        except Exhausted:
            self.is_exhausted = True
            return False
        wild = (each for each in rule.patterns if not isinstance(each, LinearPattern))
        return any(found) or any(pattern.search(text) for pattern in wild)


def _scans(rule: StreamRule) -> list[Scan]:
    return [each.scan() for each in rule.patterns if isinstance(each, LinearPattern)]


INJECTION = "ttsr-injection"
# Each interruption costs a request to the model.
MOST_INTERRUPTIONS = 8
INTERRUPTED_OFTEN = (
    f"Rules have interrupted this prompt {MOST_INTERRUPTIONS} times. They are not applied again "
    "before the next prompt."
)
SEARCHED_LONG = (
    "The patterns of the project's rules take too long to search. Those rules are not applied to "
    "the rest of this answer; trust the project to lift the limit."
)
_KINDS: dict[BlockKind, str] = {"text": "text", "thinking": "thinking", "toolcall": "tool"}


class StreamRules(Component, Feature):
    """The rules of one engine, and which of them the session has seen."""

    def __init__(self, bundles: Bundles) -> None:
        super().__init__(bundles)
        self._rules: tuple[StreamRule, ...] | None = None
        self._fired: dict[tuple[str, str], int] = {}
        self._draft: Draft | None = None
        self._search: RuleSearch | None = None
        self._interruptions = 0
        self._was_slow = False
        self._cut: tuple[StreamRule, ...] = ()
        self._due: list[StreamRule] = []
        self._remarks: dict[str, list[StreamRule]] = {}

    def for_subagent(self, bundles: Any) -> "StreamRules":
        return StreamRules(bundles)

    def reload(self) -> None:
        self._rules = None

    def on_prompt(self) -> None:
        self._interruptions = 0

    async def prepare_run(self) -> None:
        """Read the rule files; in a thread if there are any."""
        settings, home = self.workspace.settings.ttsr, self.workspace.home
        if self._rules is not None:
            return
        if not settings.enabled:
            self._rules = ()
            return
        files = find_rule_files(home, self.features.hides(home.cwd))
        trusted, disabled = self.workspace.files.trusted, settings.disabled_rules
        work = partial(load_stream_rules, home, disabled, trusted=trusted, files=files)
        self._use(await asyncio.to_thread(work) if files.items else work())

    def on_update(self, update: MessageUpdate) -> None:
        """Check a piece of an answer.

        Raises:
            StreamCut: it breaks a rule that interrupts.
        """
        if not self._rules:
            return
        search = self._search
        if search is None or self._draft is not update.draft:
            self._draft, search = update.draft, RuleSearch()
            self._search = search
        if self._interruptions >= MOST_INTERRUPTIONS:
            return
        if isinstance(update.event, BlockDelta):
            search.add(update.event)
        hits = [rule for rule in self._rules if self._breaks(rule, update, search)]
        if search.is_exhausted and not self._was_slow:
            self._was_slow = True
            self.conversation.hub.report(SEARCHED_LONG)
        if hits:
            self._hit(hits, update)

    # ------------------------------------------------------------ after a hit

    def will_rerun(self) -> bool:
        return bool(self._cut)

    def rerun(self) -> None:
        """Remove the interrupted answer from the context and add the rules."""
        session = self.conversation.session
        if self.workspace.settings.ttsr.context_mode == "discard" and session.leaf is not None:
            session.omit(session.leaf)
        rules, self._cut = self._cut, ()
        session.append(CustomMessageBody(**self._injection(rules)))

    def opening_messages(self) -> tuple[CustomMessage, ...]:
        """Return the rules that were broken without an interruption, as one message."""
        rules, self._due = self._due, []
        if not rules:
            return ()
        return (CustomMessage(**self._injection(rules), timestamp=now_ms()),)

    def _injection(self, rules: Sequence[StreamRule]) -> dict[str, Any]:
        """Return the fields of the message that shows rules to the model."""
        return {
            "custom_type": INJECTION,
            "content": self._text(rules, "system-interrupt"),
            "display": False,
            "details": {"rules": [rule.name for rule in rules]},
        }

    def pending(self, kind: QueueKind) -> int:
        return int(kind == "steering" and bool(self._due))

    def take(self, kind: QueueKind) -> CustomMessage:
        return self.opening_messages()[0]

    async def after_tool(self, call: ToolCall, outcome: Outcome) -> Outcome:
        """Put the rules that a call broke before its result."""
        rules = self._remarks.pop(call.id, None)
        if rules is None:
            return outcome
        note, output = Text(text=self._text(rules, "system-reminder")), outcome.output
        return Outcome(output.replace(content=(note, *output.content)), outcome.is_error)

    # ------------------------------------------------------------ private

    def _use(self, found: LoadedItems[StreamRule]) -> None:
        for text in found.warnings:
            self.workspace.warn(f"Warning: {text}")
        self._rules = found.items
        self._was_slow = False

    def _breaks(self, rule: StreamRule, update: MessageUpdate, search: RuleSearch) -> bool:
        event = update.event
        kind = _KINDS[event.kind]
        places = [place for place in rule.places if place.kind == kind]
        if not places or not self._may_fire(rule):
            return False
        if isinstance(event, BlockDelta):
            return _in_stream(rule, places, update, search)
        return isinstance(event, BlockEnd) and _in_whole(rule, places, event, search)

    def _may_fire(self, rule: StreamRule) -> bool:
        last = self._fired.get((self.conversation.session.id, rule.name))
        if last is None:
            return True
        chosen = self.workspace.settings.ttsr
        return chosen.repeat_mode == "after-gap" and self._length() - last >= chosen.repeat_gap

    def _length(self) -> int:
        return len(self.conversation.session.context.entries)

    def _hit(self, rules: list[StreamRule], update: MessageUpdate) -> None:
        for rule in rules:
            self._fired[(self.conversation.session.id, rule.name)] = self._length()
        in_tool = update.event.kind == "toolcall"
        cutting = tuple(rule for rule in rules if self._cuts(rule, in_tool=in_tool))
        if cutting or in_tool:
            records = tuple(_record(rule) for rule in (cutting or rules))
            self.conversation.hub.post(StreamRuleHit(rules=records))
        rest = [rule for rule in rules if rule not in cutting]
        if cutting or (rest and not in_tool):
            self._interruptions += 1
            if self._interruptions == MOST_INTERRUPTIONS:
                self.conversation.hub.report(INTERRUPTED_OFTEN)
        if in_tool and rest:
            block = update.draft.snapshot().content[update.event.index]
            assert isinstance(block, ToolCall)
            self._remarks.setdefault(block.id, []).extend(rest)
        else:
            self._due += rest
        if cutting:
            self._cut = cutting
            names = ", ".join(rule.name for rule in cutting)
            raise StreamCut(f"{RULE_MATCHED}{'s' if len(cutting) > 1 else ''}: {names}")

    def _cuts(self, rule: StreamRule, *, in_tool: bool) -> bool:
        mode = rule.interrupt or self.workspace.settings.ttsr.interrupt_mode
        return mode in ("always", "tool-only" if in_tool else "prose-only")

    def _text(self, rules: Sequence[StreamRule], tag: str) -> str:
        return "\n".join(
            f'<{tag} reason="rule_violation" rule="{rule.name}" path="{self._shown(rule)}">\n'
            f"The response was interrupted because it violated this rule. Follow it from now on:\n"
            f"{rule.content}\n</{tag}>"
            for rule in rules
        )

    def _shown(self, rule: StreamRule) -> str:
        cwd = self.workspace.home.cwd
        inside = rule.path.is_relative_to(cwd)
        return (rule.path.relative_to(cwd) if inside else rule.path).as_posix()


def _in_stream(
    rule: StreamRule, places: list[RuleTarget], update: MessageUpdate, search: RuleSearch
) -> bool:
    """Of files nothing is known before the arguments are whole."""
    plain = [place for place in places if place.glob is None]
    if not plain or not search.in_stream(rule, update.event.index):
        return False
    if plain[0].kind != "tool" or any(place.tool is None for place in plain):
        return True
    block = update.draft.snapshot().content[update.event.index]
    return isinstance(block, ToolCall) and any(place.tool == block.name for place in plain)


def _in_whole(
    rule: StreamRule, places: list[RuleTarget], event: BlockEnd, search: RuleSearch
) -> bool:
    block = event.block
    if isinstance(block, Text):
        return search.in_text(rule, block.text)
    if isinstance(block, Thinking):
        return search.in_text(rule, block.thinking)
    args = block.arguments if isinstance(block.arguments, dict) else {}
    path = str(args.get("path") or args.get("file_path") or "")
    for place in places:
        if place.tool not in (None, block.name):
            continue
        if place.glob is not None and not _is_file(path, place.glob):
            continue
        return not rule.patterns or search.in_text(rule, "\n".join(_strings(block.arguments)))
    return False


def _is_file(path: str, glob: str) -> bool:
    from fnmatch import fnmatchcase

    return bool(path) and (fnmatchcase(path, glob) or fnmatchcase(path.rpartition("/")[2], glob))


def _strings(value: Any) -> list[str]:
    """All texts in the arguments of a call, as the tool will see them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return []


def _record(rule: StreamRule) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": rule.name,
        "path": str(rule.path),
        "content": rule.content,
        "alwaysApply": False,
        "description": rule.description,
        "condition": list(rule.condition),
        "scope": list(rule.scope),
    }
    if rule.interrupt is not None:
        record["interruptMode"] = rule.interrupt
    source = {"provider": "native", "providerName": "Ludolf", "path": str(rule.path)}
    return {**record, "_source": {**source, "level": rule.level}}
