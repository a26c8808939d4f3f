"""Turn the events of one session into spans, metrics and log events."""

import re
from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context

from ludolf.agent.events import MessageEnd, ToolEnd, ToolStart
from ludolf.ai.errors import kind_of
from ludolf.ai.messages import NO_USAGE, AssistantMessage, Text, UserMessage, text_of
from ludolf.ai.usage import add_usage
from ludolf.base import dumps
from ludolf.engine.features.telemetry.content import ContentRules
from ludolf.engine.features.telemetry.context import parent_of, span_context_of
from ludolf.engine.features.telemetry.genai import (
    AgentSpan,
    ChatSpan,
    GenAiSpans,
    PlainSpan,
    ToolSpan,
)
from ludolf.engine.features.telemetry.instruments import EventLog, Instruments
from ludolf.engine.features.telemetry.items import (
    ApprovalNoted,
    FirstChunk,
    GateWaited,
    RequestEnded,
    RequestSent,
    RunStarted,
    SessionClosing,
    SessionNoted,
    TraceJoined,
)
from ludolf.engine.features.telemetry.providers import TelemetryProviders
from ludolf.engine.toolset import MCP_PREFIX, ON_DEMAND
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    ExtensionError,
    LimitReached,
    Warned,
)

BUILTIN = frozenset(("read", "bash", "edit", "write", "grep", "find", "ls", *ON_DEMAND))
_EXIT_CODE = re.compile(r"Command exited with code (-?\d+)\s*\Z")
# Contexts of calls that start subagents stay known so long, since those may start later.
_MOST_TASKS = 1024


class TelemetryOutput:
    """What recorders write to: spans, instruments and log events of the same providers."""

    def __init__(self, providers: TelemetryProviders, content: ContentRules) -> None:
        self.spans = GenAiSpans(providers, content.place)
        self.instruments = Instruments(providers)
        self.log = EventLog(providers)
        self.content = content


class _Run:
    """The prompt under way, with the sums of its answers."""

    def __init__(self, started: RunStarted, span: AgentSpan) -> None:
        self.started = started
        self.span = span
        self.turns = 0
        self.prompt_length = 0
        self.usage = NO_USAGE
        self.last: AssistantMessage | None = None
        self.kind: str | None = None
        self.limit: str | None = None


class _Chat:
    """A request under way; `kind` is that of its error."""

    def __init__(self, request: RequestSent, span: ChatSpan) -> None:
        self.request = request
        self.span = span
        self.kind: str | None = None


class RunRecorder:
    """Events come in order, each with its time in nanoseconds; `note` is the way in.

    Every span that was started is ended exactly once, children before their parents.
    """

    def __init__(self, output: TelemetryOutput) -> None:
        self._output = output
        self._run: _Run | None = None
        self._chats: dict[int, _Chat] = {}
        self._turn: _Chat | None = None
        self._tools: dict[str, ToolSpan] = {}
        self._tasks: dict[str, Context] = {}
        self._compaction: PlainSpan | None = None
        self._compacted = False
        self._attempt = 1
        self._retry_at: int | None = None
        self._gate_seconds = 0.0
        # The session whose system prompt has been reported.
        self._instructed: str | None = None
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            RunStarted: self._start_run,
            RequestSent: self._send_request,
            FirstChunk: self._start_answer,
            RequestEnded: self._end_request,
            ApprovalNoted: self._note_approval,
            GateWaited: self._note_gate,
            TraceJoined: self._join,
            SessionNoted: self._note_session,
            SessionClosing: self._close,
            MessageEnd: self._end_message,
            ToolStart: self._start_tool,
            ToolEnd: self._end_tool,
            AutoRetryStart: self._start_retry,
            AutoRetryEnd: self._end_retry,
            CompactionStart: self._start_compaction,
            CompactionEnd: self._end_compaction,
            LimitReached: self._reach_limit,
            Warned: self._warn,
            ExtensionError: self._note_extension,
            AgentSettled: self._settle,
        }

    def note(self, item: Any, at: int) -> None:
        """Record one event or item that happened at this time."""
        self._handlers[type(item)](item, at)

    # ------------------------------------------------------------ contexts

    @property
    def is_running(self) -> bool:
        return self._run is not None

    def context(self, call_id: str | None = None) -> Context | None:
        """Return the context of the run, or of one of its calls; None if there is none."""
        if call_id is not None:
            tool = self._tools.get(call_id)
            return tool.context if tool is not None else self._tasks.get(call_id)
        return self._run.span.context if self._run is not None else None

    def request_context(self, key: int) -> Context | None:
        """Return the context of a request under way."""
        chat = self._chats.get(key)
        return chat.span.context if chat is not None else None

    def _here(self) -> Context:
        """Return the context of what is not part of a turn."""
        if self._compaction is not None:
            return self._compaction.context
        return self._in_run()

    def _in_run(self) -> Context:
        return self._run.span.context if self._run is not None else Context()

    # ------------------------------------------------------------ runs

    def _start_run(self, item: RunStarted, at: int) -> None:
        if self._run is not None:
            return
        trace, parent = item.trace, item.ambient or Context()
        is_linked = trace is not None and trace.linked
        links = [span_context_of(trace)] if trace is not None and is_linked else []
        if trace is not None and not is_linked:
            parent = parent_of(trace)
        span = self._output.spans.agent(item, at, parent, links)
        span.attributes["ludolf.mode"] = item.mode
        if trace is not None and trace.item:
            span.attributes["ludolf.item.id"] = trace.item
        self._run = _Run(item, span)
        self._output.instruments.count_run(item.mode, 1)

    def _join(self, item: TraceJoined, at: int) -> None:
        if self._run is not None:
            self._run.span.link(span_context_of(item.trace))

    def _settle(self, item: AgentSettled, at: int) -> None:
        run = self._run
        if run is None:
            return
        self._end_children(at)
        last, attributes = run.last, run.span.attributes
        reason = last.stop_reason if last is not None else None
        attributes["ludolf.turns"] = run.turns
        attributes["ludolf.cost.usd"] = run.usage.cost.total
        attributes["ludolf.prompt.length"] = run.prompt_length
        if reason is not None:
            attributes["ludolf.stop_reason"] = reason
        if run.limit is not None:
            attributes["ludolf.limit"] = run.limit
        if reason == "aborted" or reason is None:
            attributes["ludolf.aborted"] = True
        run.span.use(run.usage)
        self._run = None
        run.span.end(at, (run.kind or "error") if reason == "error" else None)
        self._output.instruments.count_run(run.started.mode, -1)

    def _end_children(self, at: int) -> None:
        """End what an abort or a failure left open."""
        for call_id in reversed(list(self._tools)):
            tool = self._tools.pop(call_id)
            tool.attributes["ludolf.aborted"] = True
            tool.end(at)
        for chat in reversed(list(self._chats.values())):
            self._finish(chat, None, at)
        if self._compaction is not None:
            self._compaction.attributes["ludolf.aborted"] = True
            self._compaction.end(at)
            self._compaction = None

    def _close(self, item: SessionClosing, at: int) -> None:
        self._settle(AgentSettled(), at)
        self._end_children(at)

    # ------------------------------------------------------------ requests

    def _send_request(self, item: RequestSent, at: int) -> None:
        if item.is_turn and self._turn is not None:
            # A gate sends a request again that the server refused; it has no message of its own.
            self._turn.kind = "rate_limit"
            self._finish(self._turn, None, at)
        parent = self._in_run() if item.is_turn else self._here()
        span = self._output.spans.chat(item, at, parent)
        chat = self._chats[item.key] = _Chat(item, span)
        if not item.is_turn:
            return
        self._turn = chat
        span.attributes["ludolf.attempt"] = self._attempt
        if self._retry_at is not None:
            span.attributes["ludolf.wait.retry"] = (at - self._retry_at) / 1e9
            self._retry_at = None
        if self._gate_seconds:
            span.attributes["ludolf.wait.gate"] = self._gate_seconds
            self._gate_seconds = 0.0
        if self._compacted:
            span.mark_compacted()
            self._compacted = False
        self._instruct(item, span)

    def _instruct(self, item: RequestSent, span: ChatSpan) -> None:
        """Report the system prompt, once for each session."""
        if item.session_id is None or item.session_id == self._instructed or not item.system:
            return
        from hashlib import sha256

        self._instructed = item.session_id
        digest = sha256(item.system.encode("utf-8", "replace")).hexdigest()
        span.attributes["ludolf.system_prompt.sha256"] = digest
        span.instruct(self._output.content.instructions(item.system))

    def _start_answer(self, item: FirstChunk, at: int) -> None:
        chat = self._chats.get(item.key)
        if chat is not None:
            chat.span.start_answer(at)

    def _end_request(self, item: RequestEnded, at: int) -> None:
        chat = self._chats.get(item.key)
        if chat is None:
            return
        chat.kind = item.kind
        if item.status is not None:
            chat.span.set_status(item.status)
        if not chat.request.is_turn:
            self._finish(chat, item.message, at)

    def _end_message(self, item: MessageEnd, at: int) -> None:
        message, run = item.message, self._run
        if isinstance(message, UserMessage) and run is not None:
            run.prompt_length += sum(len(p.text) for p in message.parts if isinstance(p, Text))
            run.span.ask(self._output.content.prompt(message))
        if not isinstance(message, AssistantMessage):
            return
        if run is not None:
            run.last = message
            run.kind = _kind(message, self._turn.kind if self._turn is not None else None)
        if self._turn is not None:
            if run is not None:
                run.turns += 1
            self._finish(self._turn, message, at)

    def _finish(self, chat: _Chat, message: AssistantMessage | None, at: int) -> None:
        """End a request; without a message as a failed or aborted one."""
        self._chats.pop(chat.request.key, None)
        if self._turn is chat:
            self._turn = None
        span, kind = chat.span, chat.kind
        if message is not None:
            kind = _kind(message, kind)
            self._answer(chat, message)
        elif kind is None:
            kind = "aborted"
        if kind == "aborted":
            span.attributes["ludolf.aborted"] = True
        span.end(at, None if kind == "aborted" else kind)

    def _answer(self, chat: _Chat, message: AssistantMessage) -> None:
        span, request = chat.span, chat.request
        span.use(message.usage)
        span.answer(
            message.response_id, message.response_model or message.model, message.stop_reason
        )
        span.attributes["ludolf.cost.usd"] = message.usage.cost.total
        span.attributes["ludolf.answer.length"] = len(text_of(message.content))
        span.say(self._output.content.answer(message))
        if self._run is not None:
            self._run.usage = add_usage(self._run.usage, message.usage)
        cost = message.usage.cost.total
        self._output.instruments.add_cost(request.provider, request.model, cost)

    # ------------------------------------------------------------ retries and limits

    def _start_retry(self, item: AutoRetryStart, at: int) -> None:
        kind = (self._run.kind if self._run is not None else None) or kind_of(item.error_message)
        self._attempt, self._retry_at = item.attempt + 1, at
        self._output.instruments.count_retry(kind)
        facts = {
            "error.type": kind,
            "ludolf.attempt": item.attempt,
            "ludolf.delay_ms": item.delay_ms,
        }
        self._emit("ludolf.retry", at, facts, warns=True)

    def _end_retry(self, item: AutoRetryEnd, at: int) -> None:
        self._attempt, self._retry_at = 1, None

    def _reach_limit(self, item: LimitReached, at: int) -> None:
        if self._run is not None:
            self._run.limit = item.limit
        self._output.instruments.count_limit(item.limit)
        facts = {
            "ludolf.limit": item.limit,
            "ludolf.used": item.used,
            "ludolf.maximum": item.maximum,
        }
        self._emit("ludolf.limit_reached", at, facts, warns=True)

    def _note_gate(self, item: GateWaited, at: int) -> None:
        self._gate_seconds += item.seconds
        self._output.instruments.wait_at_gate(item.provider, item.seconds)

    # ------------------------------------------------------------ tools

    def _start_tool(self, item: ToolStart, at: int) -> None:
        name = item.tool_name
        kind = "builtin" if name in BUILTIN else "custom"
        kind = "mcp" if name.startswith(MCP_PREFIX) else kind
        span = self._output.spans.tool(name, item.tool_call_id, at, self._in_run(), kind=kind)
        if item.tool_call_id in self._tools:  # a model may use an id twice
            self._tools.pop(item.tool_call_id).end(at)
        self._tools[item.tool_call_id] = span
        if name == "task":
            self._tasks[item.tool_call_id] = span.context
            if len(self._tasks) > _MOST_TASKS:
                del self._tasks[next(iter(self._tasks))]
        span.attributes["ludolf.tool.arguments_bytes"] = len(dumps(item.args))
        span.give(self._output.content.arguments(item.args))
        if self._run is not None:
            span.attributes["ludolf.sandbox"] = self._run.started.sandbox

    def _end_tool(self, item: ToolEnd, at: int) -> None:
        span = self._tools.pop(item.tool_call_id, None)
        if span is None:
            return
        content, details = item.result.content, item.result.details
        text = text_of(content)
        span.attributes["ludolf.tool.output_bytes"] = len(text.encode("utf-8", "replace"))
        if isinstance(details, dict) and details.get("truncation"):
            span.attributes["ludolf.tool.truncated"] = True
        if item.tool_name == "bash":
            found = _EXIT_CODE.search(text) if item.is_error else None
            if found is not None or not item.is_error:
                span.attributes["ludolf.tool.exit_code"] = int(found[1]) if found else 0
        span.take(self._output.content.result(content))
        is_aborted = item.is_error and _is_abort(text)
        if is_aborted:
            span.attributes["ludolf.aborted"] = True
        span.end(at, "tool_error" if item.is_error and not is_aborted else None)

    def _note_approval(self, item: ApprovalNoted, at: int) -> None:
        span = self._tools.get(item.call_id)
        if span is not None:
            span.attributes["ludolf.approval"] = item.state
            if item.seconds:
                span.attributes["ludolf.wait.approval"] = item.seconds
        if item.state != "asked":
            facts = {"ludolf.approval": item.state, "ludolf.wait.approval": item.seconds}
            self._emit("ludolf.approval", at, facts)

    # ------------------------------------------------------------ the session

    def _start_compaction(self, item: CompactionStart, at: int) -> None:
        if self._compaction is None:
            self._compaction = self._output.spans.plain("compact", at, self._in_run())
            self._compaction.attributes["ludolf.compaction.reason"] = item.reason

    def _end_compaction(self, item: CompactionEnd, at: int) -> None:
        span, result = self._compaction, item.result
        if span is None:
            return
        self._compaction = None
        if result is not None:
            self._compacted = True
            span.attributes["ludolf.compaction.tokens_before"] = result.tokens_before
            if result.estimated_tokens_after is not None:
                span.attributes["ludolf.compaction.tokens_after"] = result.estimated_tokens_after
        if item.aborted:
            span.attributes["ludolf.aborted"] = True
        failed = result is None and not item.aborted
        span.end(at, "compaction_failed" if failed else None)
        if result is not None:
            self._note_session(SessionNoted("compacted"), at)

    def _note_session(self, item: SessionNoted, at: int) -> None:
        self._emit("ludolf.session", at, {"ludolf.session.action": item.action})

    def _warn(self, item: Warned, at: int) -> None:
        self._emit("ludolf.warning", at, self._message(item.message), warns=True)

    def _note_extension(self, item: ExtensionError, at: int) -> None:
        facts = {"ludolf.extension.event": item.event, **self._message(item.error)}
        self._emit("ludolf.extension_error", at, facts)

    def _message(self, text: str) -> dict[str, Any]:
        """Return the length of a text, and the text itself if content is exported."""
        content = self._output.content
        shown = {"ludolf.message": content.text(text)} if content.any else {}
        return {"ludolf.message.length": len(text), **shown}

    def _emit(self, name: str, at: int, facts: dict[str, Any], *, warns: bool = False) -> None:
        self._output.log.emit(name, at, self._here(), facts, warns=warns)


def _kind(message: AssistantMessage, known: str | None) -> str | None:
    """Return the kind of error of an answer; None if it did not fail."""
    if message.stop_reason == "aborted":
        return "aborted"
    if message.stop_reason != "error":
        return None
    return known or kind_of(message.error_message or "")


def _is_abort(text: str) -> bool:
    from ludolf.agent.batch import ABORTED

    return text == ABORTED or text.endswith("Command aborted")
