"""Turn events of the engine into `session/update` notifications of the Agent Client Protocol."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.events import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart
from ludolf.ai.messages import (
    AssistantMessage,
    CustomMessage,
    Part,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.base import dumps, short_id
from ludolf.protocol.acp.call_sources import NO_SOURCES, TODO_TOOLS, CallSources
from ludolf.protocol.acp.content import content_blocks, session_title, text_block
from ludolf.protocol.acp.structs import (
    AvailableCommand,
    ClientCapabilities,
    ConfigOption,
    NoticeSeverity,
)
from ludolf.protocol.events import (
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Event,
    ExtensionError,
    LimitReached,
    SessionInfoChanged,
    SummaryRetryScheduled,
    Warned,
)
from ludolf.protocol.host_events import (
    CommandOutput,
    SessionInfoUpdate,
    StreamRuleHit,
    TodoAutoClear,
)
from ludolf.protocol.subagent_events import SubagentEvent, SubagentLifecycle

if TYPE_CHECKING:
    from ludolf.protocol.acp.call_updates import CallUpdates

Frames = Sequence[bytes]
NO_FRAMES: Frames = ()
MESSAGE, THOUGHT, USER_MESSAGE = "agent_message_chunk", "agent_thought_chunk", "user_message_chunk"
_TAIL = b'"}}}}\n'
_TEXT_START = b'"content":{"type":"text","text":"'
_NOTICE_TITLE = 200
_PLAN_STATUS = {
    "pending": "pending",
    "blocked": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}


class UpdateWriter:
    """Writes the notifications of one session; each frame is one line with its newline.

    `cost` is what the session has cost so far, in US dollars. `title` is its name or the start of
    its first prompt. A resumed session sets both before the first event.
    """

    def __init__(
        self,
        session_id: str,
        cwd: Path,
        client: ClientCapabilities,
        context_window: Callable[[], int],
        sources: CallSources = NO_SOURCES,
    ) -> None:
        self._client = client
        self._context_window = context_window
        self._head = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            % dumps(session_id)
        )
        self._cwd = cwd
        self._sources = sources
        self._calls: CallUpdates | None = None
        self.cost = 0.0
        self.title = ""
        self._compaction = ""
        self._plan: list[dict[str, str]] = []
        self._spoken: set[int] = set()
        self._text_head = self._thought_head = b""
        self._name_message(short_id())
        self._table = self._make_table()

    def _make_table(self) -> dict[type, Callable[[Any], Iterable[bytes]]]:
        return {
            MessageUpdate: self._piece,
            MessageStart: self._message_start,
            MessageEnd: self._message_end,
            ToolStart: lambda event: self.calls.start(event),
            ToolUpdate: lambda event: self.calls.progress(event),
            ToolEnd: self._tool_end,
            AgentEnd: lambda event: self._fail_open(),
            SubagentEvent: self._of_agent,
            SubagentLifecycle: self._agent_changed,
            TodoAutoClear: self._todos_cleared,
            CommandOutput: lambda event: (self.message(event.text),),
            SessionInfoChanged: lambda event: (self.info(event.name or ""),),
            SessionInfoUpdate: lambda event: (self.info(event.title or ""),),
            CompactionStart: self._compaction_start,
            CompactionEnd: self._compaction_end,
            AutoRetryStart: self._retry,
            SummaryRetryScheduled: self._retry,
            LimitReached: self._limit,
            ExtensionError: self._extension_error,
            Warned: lambda event: (self.notice("warning", event.message),),
            StreamRuleHit: self._rule_hit,
        }

    def frames(self, event: Event) -> Frames:
        """Return the notifications for an event; nothing if the client needs none."""
        if type(event) is MessageUpdate:
            piece = event.event
            if type(piece) is BlockDelta:
                if piece.kind == "toolcall":
                    return NO_FRAMES
                self._spoken.add(piece.index)
                head = self._text_head if piece.kind == "text" else self._thought_head
                return (head + piece.escaped + _TAIL,)
        render = self._table.get(type(event))
        return NO_FRAMES if render is None else tuple(render(event))

    # ------------------------------------------------------------ single notifications

    def frame(self, update: dict[str, Any]) -> bytes:
        """Return a notification with this update."""
        return self._head + dumps(update) + b"}}\n"

    def chunk(self, kind: str, block: dict[str, Any], message_id: str) -> bytes:
        return self.frame({"sessionUpdate": kind, "messageId": message_id, "content": block})

    def message(self, text: str) -> bytes:
        """Return a message of the agent that no model wrote, such as the output of a command."""
        return self.chunk(MESSAGE, text_block(text), short_id())

    def notice(self, level: NoticeSeverity, text: str) -> bytes:
        """Return a notice; without that capability, an error as message and others as thought."""
        if not self._client.notices:
            kind = MESSAGE if level == "error" else THOUGHT
            return self.chunk(kind, text_block(f"{text}\n"), short_id())
        title, _, rest = text.strip().partition("\n")
        if len(title) > _NOTICE_TITLE:
            title, rest = f"{title[: _NOTICE_TITLE - 1]}…", text.strip()
        update = {"sessionUpdate": "notice", "severity": level, "title": title or level}
        return self.frame({**update, "description": rest.strip()} if rest.strip() else update)

    def commands(self, items: Sequence[AvailableCommand]) -> bytes:
        update = {"sessionUpdate": "available_commands_update", "availableCommands": items}
        return self.frame(update)

    def config_options(self, options: Sequence[ConfigOption]) -> bytes:
        return self.frame({"sessionUpdate": "config_option_update", "configOptions": options})

    def mode(self, id: str) -> bytes:
        return self.frame({"sessionUpdate": "current_mode_update", "currentModeId": id})

    def info(self, title: str) -> bytes:
        """Return the title of the session; an empty one removes it."""
        self.title = title
        return self.frame({"sessionUpdate": "session_info_update", "title": title or None})

    def plan(self, phases: Any) -> bytes | None:
        """Return the todo list from the details of the todo tool; None if it has another shape."""
        if not isinstance(phases, list | tuple):
            return None
        tasks = [task for phase in phases for task in _tasks(phase)]
        self._plan = [entry for task in tasks if (entry := _plan_entry(task)) is not None]
        return self.frame({"sessionUpdate": "plan", "entries": self._plan})

    def usage(self, usage: Usage) -> bytes | None:
        """Add the cost of an answer; return how full the context is, None without counts."""
        self.cost += usage.cost.total
        return self._context_use(usage.context) if usage.context else None

    def parts(self, kind: str, parts: Sequence[Part], message_id: str) -> Iterator[bytes]:
        """Return a whole message as chunks."""
        return (self.chunk(kind, block, message_id) for block in content_blocks(parts))

    def compacted(self, compaction_id: str, summary: str) -> bytes:
        """Return a compaction that succeeded, live or in a loaded session."""
        if not self._client.compaction:
            text = f"Earlier messages were replaced by this summary:\n\n{summary}\n"
            return self.chunk(THOUGHT, text_block(text), compaction_id)
        update = {"compactionId": compaction_id, "status": "completed"}
        blocks = [text_block(summary)] if summary else []
        return self.frame({"sessionUpdate": "compaction_update", **update, "summary": blocks})

    # ------------------------------------------------------------ calls and progress

    @property
    def calls(self) -> "CallUpdates":
        """The tool calls, whose code is loaded with the first of them."""
        if self._calls is None:
            from ludolf.protocol.acp.call_updates import CallUpdates

            self._calls = CallUpdates(self.frame, self._cwd, self._client, self._sources)
        return self._calls

    def tool_call_id(self, call_id: str, *, of_agent: bool = False) -> str:
        """Return the id under which the client knows a call that has not ended."""
        return self.calls.shown_id(call_id, of_agent=of_agent)

    def running(self, call_id: str, *, of_agent: bool = False) -> Frames:
        """Return the update of a call that waited for approval and runs now."""
        return tuple(self.calls.running(call_id, of_agent=of_agent))

    @property
    def due(self) -> float | None:
        """Return the time of the clock at which `flush` has frames; None if no progress waits."""
        return None if self._calls is None else self._calls.due

    def flush(self) -> Frames:
        """Return progress that was held back to limit the rate."""
        return NO_FRAMES if self._calls is None else tuple(self._calls.flush())

    # ------------------------------------------------------------ messages

    def _name_message(self, message_id: str) -> None:
        heads = [
            self._head
            + b'{"sessionUpdate":"%b","messageId":%b,' % (kind.encode(), dumps(message_id))
            + _TEXT_START
            for kind in (MESSAGE, THOUGHT)
        ]
        self._text_head, self._thought_head = heads
        self._message_id = message_id
        self._spoken.clear()

    def _message_start(self, event: MessageStart) -> Frames:
        if isinstance(event.message, AssistantMessage):
            self._name_message(short_id())
            if self._calls is not None:
                self._calls.answer_begins()
        return NO_FRAMES

    def _piece(self, event: MessageUpdate) -> Iterable[bytes]:
        piece = event.event
        if isinstance(piece, BlockStart):
            if piece.kind == "toolcall":
                return self.calls.begin(piece.index, piece.call_id, piece.tool_name)
        elif isinstance(piece, BlockEnd):
            return self._block_end(piece)
        return NO_FRAMES

    def _block_end(self, piece: BlockEnd) -> Iterable[bytes]:
        match piece.block:
            case ToolCall() as call:
                return self.calls.complete(piece.index, call)
            case Text(text=text) if text and piece.index not in self._spoken:
                return (self.chunk(MESSAGE, text_block(text), self._message_id),)
            case Thinking(thinking=text) if text and piece.index not in self._spoken:
                return (self.chunk(THOUGHT, text_block(text), self._message_id),)
        return NO_FRAMES

    def _message_end(self, event: MessageEnd) -> Iterator[bytes]:
        match event.message:
            case AssistantMessage() as message:
                if message.failed and self._calls is not None:
                    yield from self._calls.answer_failed()
                usage = self.usage(message.usage)
                if usage is not None:
                    yield usage
            case UserMessage() as message if not self.title:
                title = session_title(text_of(message.parts))
                if title:
                    yield self.info(title)
            case CustomMessage(display=True) as message:
                yield from self.parts(MESSAGE, parts_of(message.content), short_id())

    # ------------------------------------------------------------ tools, todos and subagents

    def _tool_end(self, event: ToolEnd) -> Iterator[bytes]:
        yield from self.calls.end(event)
        details = event.result.details
        if event.tool_name in TODO_TOOLS and isinstance(details, dict):
            plan = self.plan(details.get("phases"))
            if plan is not None:
                yield plan

    def _todos_cleared(self, event: TodoAutoClear) -> Frames:
        self._plan = [entry for entry in self._plan if entry["status"] != "completed"]
        return (self.frame({"sessionUpdate": "plan", "entries": self._plan}),)

    def _of_agent(self, event: SubagentEvent) -> Iterable[bytes]:
        agent, inner = event.payload.id, event.payload.event
        match inner:
            case ToolStart():
                return self.calls.start(inner, agent)
            case ToolUpdate():
                return self.calls.progress(inner, agent)
            case ToolEnd():
                return self.calls.end(inner, agent)
        return NO_FRAMES

    def _agent_changed(self, event: SubagentLifecycle) -> Iterable[bytes]:
        ended = event.payload.status != "started"
        return self._fail_open(event.payload.id) if ended else NO_FRAMES

    def _fail_open(self, agent: str = "") -> Iterable[bytes]:
        return NO_FRAMES if self._calls is None else self._calls.fail_open(agent)

    # ------------------------------------------------------------ around a run

    def _compaction_start(self, event: CompactionStart) -> Frames:
        self._compaction = short_id()
        if not self._client.compaction:
            return (self.notice("info", "The conversation is being compacted."),)
        update = {"compactionId": self._compaction, "status": "in_progress"}
        return (self.frame({"sessionUpdate": "compaction_update", **update}),)

    def _compaction_end(self, event: CompactionEnd) -> Iterator[bytes]:
        name, self._compaction = self._compaction or short_id(), ""
        result = event.result
        if not self._client.compaction:
            yield self._compaction_notice(event)
        elif result is not None:
            yield self.compacted(name, result.summary)
        else:
            status = "cancelled" if event.aborted else "failed"
            update = {"compactionId": name, "status": status, "error": event.error_message}
            yield self.frame({"sessionUpdate": "compaction_update", **update})
        if result is not None:
            self.cost += result.usage.cost.total if result.usage else 0
            if result.estimated_tokens_after is not None:
                yield self._context_use(result.estimated_tokens_after)

    def _context_use(self, used: int) -> bytes:
        cost = {"amount": self.cost, "currency": "USD"}
        update = {"sessionUpdate": "usage_update", "used": used}
        return self.frame({**update, "size": max(0, self._context_window()), "cost": cost})

    def _compaction_notice(self, event: CompactionEnd) -> bytes:
        if event.result is not None:
            tokens = f"{event.result.tokens_before:,} tokens"
            return self.notice("info", f"The conversation was compacted; it had {tokens}.")
        if event.aborted:
            return self.notice("info", "The compaction of the conversation was cancelled.")
        reason = event.error_message or "no reason is known"
        return self.notice("error", f"The conversation could not be compacted: {reason}")

    def _retry(self, event: AutoRetryStart | SummaryRetryScheduled) -> Frames:
        wait = f"{event.delay_ms / 1000:g} s"
        attempt = f"attempt {event.attempt} of {event.max_attempts}"
        text = f"The model request failed; {attempt} follows in {wait}.\n{event.error_message}"
        return (self.notice("warning", text),)

    def _limit(self, event: LimitReached) -> Frames:
        used, maximum = f"{event.used:,g}", f"{event.maximum:,g}"
        text = f"The limit of {event.limit} is reached ({used} of {maximum}): the run ends."
        return (self.notice("warning", text),)

    def _extension_error(self, event: ExtensionError) -> Frames:
        where = f"The extension {event.extension_path} failed in {event.event}"
        return (self.notice("error", f"{where}: {event.error}"),)

    def _rule_hit(self, event: StreamRuleHit) -> Frames:
        names = ", ".join(str(rule.get("name", "")) for rule in event.rules)
        return (self.notice("info", f"The answer was stopped by a rule: {names}"),)


def parts_of(content: str | tuple[Part, ...]) -> tuple[Part, ...]:
    return (Text(text=content),) if isinstance(content, str) else content


def _tasks(phase: Any) -> Sequence[Any]:
    tasks = phase.get("tasks") if isinstance(phase, dict) else None
    return tasks if isinstance(tasks, list | tuple) else ()


def _plan_entry(task: Any) -> dict[str, str] | None:
    """Return a todo as the entry of a plan; None if it was dropped."""
    if not isinstance(task, dict) or not isinstance(task.get("content"), str):
        return None
    status = _PLAN_STATUS.get(str(task.get("status")))
    if status is None:
        return None
    return {"content": task["content"], "priority": "medium", "status": status}


def merge_chunks(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join adjacent text chunks of one message, for a client that reads slowly."""
    waiting: list[bytes] = []
    head = b""
    for frame in frames:
        at = frame.find(_TEXT_START)
        is_chunk = at > 0 and frame.endswith(_TAIL) and b'_chunk","messageId":' in frame[:at]
        start = frame[: at + len(_TEXT_START)] if is_chunk else b""
        if waiting and start != head:
            yield _joined(head, waiting)
            waiting = []
        if not is_chunk:
            yield frame
            continue
        head = start
        waiting.append(frame[len(start) : -len(_TAIL)])
    if waiting:
        yield _joined(head, waiting)


def _joined(head: bytes, texts: Sequence[bytes]) -> bytes:
    return b"".join((head, *texts, _TAIL))
