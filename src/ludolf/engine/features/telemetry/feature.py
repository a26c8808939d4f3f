"""Report runs as OpenTelemetry spans, metrics and log events."""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import structs

from ludolf.agent.events import MessageEnd, MessageUpdate, ToolEnd, ToolStart
from ludolf.ai.draft import Draft
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.provider import Provider, Request
from ludolf.base.trace_context import TraceContext, trace_context_of
from ludolf.config.settings.safety_settings import read_sandbox
from ludolf.engine.bundles import Bundles
from ludolf.engine.feature import ApprovalState, Feature, SessionMove
from ludolf.engine.features.telemetry.backend import TelemetryBackend
from ludolf.engine.features.telemetry.clock import SpanClock
from ludolf.engine.features.telemetry.items import (
    ApprovalNoted,
    FirstChunk,
    GateWaited,
    RequestEnded,
    RequestSent,
    RunStarted,
    SessionAction,
    SessionClosing,
    SessionNoted,
    TraceJoined,
)
from ludolf.engine.features.telemetry.watch import RequestWatch, WatchedProvider
from ludolf.engine.hub import Sink
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Event,
    ExtensionError,
    LimitReached,
    Warned,
)

if TYPE_CHECKING:
    from ludolf.engine.features.telemetry.recorder import RunRecorder

# Before the set-up is done, so many events are kept with their times.
MOST_EARLY = 10_000
_MALFORMED = "Warning: A malformed traceparent was ignored: {value!r}. Its form is {form}."
_FORM = "00-<32 hex digits>-<16 hex digits>-<2 hex digits>"
_OWN_WARNING = "Warning: Telemetry"
_ACTIONS: Mapping[str, SessionAction] = {"new": "new", "resume": "switched", "fork": "forked"}
_TAPPED: frozenset[type] = frozenset(
    (
        *(MessageEnd, ToolStart, ToolEnd, AutoRetryStart, AutoRetryEnd, CompactionStart),
        *(CompactionEnd, LimitReached, Warned, ExtensionError, AgentSettled),
    )
)


class EventTap(Sink):
    """Passes on the events that telemetry needs.

    Of the pieces of an answer that is only the first, so that all others cost nothing.
    """

    def __init__(self, take: Callable[[Event], None]) -> None:
        self._take = take
        self._wanted: set[type] = set(_TAPPED)

    def want_piece(self, wanted: bool) -> None:
        """Pass on pieces of an answer too, or not any more."""
        (self._wanted.add if wanted else self._wanted.discard)(MessageUpdate)

    def take(self, event: Event) -> None:
        if type(event) in self._wanted:
            self._take(event)


class Telemetry(Feature, RequestWatch):
    """One for each engine; subagents share the backend of their parent."""

    def __init__(self, bundles: Bundles, parent: "Telemetry | None" = None) -> None:
        self._bundles = bundles
        self._parent = parent
        self._backend: TelemetryBackend
        self._backend = TelemetryBackend(bundles) if parent is None else parent._backend
        self._clock = SpanClock()
        self._recorder: RunRecorder | None = None
        self._early: deque[tuple[Any, int]] = deque(maxlen=MOST_EARLY)
        self._keys = count(1)
        # The last request of a turn, until its message.
        self._turn: tuple[int, Draft] | None = None
        self._running = False
        # Of the next run: from the host, and of the program that calls the SDK.
        self._trace: TraceContext | None = None
        self._ambient: Any = None
        # Of prompts that carry none: that of `open`, or of the environment.
        options = bundles.workspace.options
        self._default_trace = self._checked(options.trace or trace_context_of(options.environ))
        self._tap = EventTap(self._take)
        self._detach = bundles.conversation.hub.attach(self._tap)

    # ------------------------------------------------------------ life

    def warm_up(self) -> None:
        self._begin()

    async def prepare_run(self) -> None:
        """Wait for the set-up, so that the host and tools learn the context of the first run."""
        self._begin()
        await self._backend.ready()
        self._catch_up()

    async def enter_session(self, move: SessionMove) -> None:
        if move.reason in _ACTIONS:
            self._note(SessionNoted(_ACTIONS[move.reason]))

    def for_subagent(self, bundles: Any) -> "Telemetry":
        return Telemetry(bundles, self)

    async def close(self) -> None:
        self._note(SessionClosing())
        self._detach()
        if self._parent is not None:
            return
        if self._recorder is not None:
            self._backend.door.call(self._count_session, -1)
        await self._backend.close()

    def _begin(self) -> None:
        if self._parent is None:
            self._backend.begin(self._be_ready)

    def _be_ready(self) -> None:
        self._backend.door.call(self._count_session, 1)
        self._catch_up()

    def _count_session(self, change: int) -> None:
        output = self._backend.output
        if output is not None:
            output.instruments.count_session(self._bundles.workspace.mode, change)

    def _catch_up(self) -> None:
        """Record what happened before the set-up was done, with the times of then."""
        if self._recorder is None and self._backend.output is not None:
            from ludolf.engine.features.telemetry.recorder import RunRecorder

            self._recorder = RunRecorder(self._backend.output)
        if self._recorder is not None or self._backend.is_off:
            while self._early:
                self._record(*self._early.popleft())

    # ------------------------------------------------------------ recording

    def _take(self, event: Event) -> None:
        if isinstance(event, Warned) and event.message.startswith(_OWN_WARNING):
            return
        if isinstance(event, MessageUpdate):
            self._start_answer()
            return
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._end_turn()
        self._note(event)
        if isinstance(event, AgentSettled):
            self._running = False

    def _note(self, item: Any) -> None:
        at = self._clock.now()
        if self._recorder is None and not self._backend.is_off:
            self._catch_up()
        if self._recorder is None and not self._backend.is_off:
            self._early.append((item, at))
        else:
            self._record(item, at)

    def _record(self, item: Any, at: int) -> None:
        if self._recorder is not None:
            self._backend.door.call(self._recorder.note, item, at)

    # ------------------------------------------------------------ trace context

    def join_trace(self, trace: TraceContext | None, *, starts: bool) -> None:
        trace = self._checked(trace)
        if starts:
            self._trace = trace
            self._ambient = self._current_context()
        elif trace is not None and self._running:
            self._note(TraceJoined(trace))
        elif trace is not None:
            self._trace = trace

    def _checked(self, trace: TraceContext | None) -> TraceContext | None:
        """Return a context that can be a parent; report one that cannot."""
        if trace is None or trace.is_valid:
            return trace
        text = _MALFORMED.format(value=trace.traceparent[:80], form=_FORM)
        self._bundles.conversation.hub.report(text)
        return None

    def _current_context(self) -> Any:
        """Return the context of the program that embeds the agent, with its current span."""
        library = sys.modules.get("opentelemetry.context")
        if library is None or self._bundles.workspace.mode != "sdk":
            return None
        return library.get_current()

    def start_trace(self) -> Mapping[str, str]:
        if not self._running:
            self._running = True
            self._clock.set()
            self._note(self._run())
            self._trace = self._ambient = None
        return self.trace_fields(None)

    def trace_fields(self, call_id: str | None) -> Mapping[str, str]:
        if self._recorder is None:
            return {}
        return self._backend.door.call(self._fields, call_id) or {}

    def _fields(self, call_id: str | None) -> Mapping[str, str]:
        from ludolf.engine.features.telemetry.context import fields_of

        assert self._recorder is not None
        context = self._recorder.context(call_id)
        return {} if context is None else fields_of(context)

    def _run(self) -> RunStarted:
        workspace, model = self._bundles.workspace, self._bundles.models.current
        origin, parent = workspace.origin, self._ambient
        if self._parent is not None and origin is not None:
            parent = self._parent._context_of(origin.call_id)
        trace = self._trace or (None if parent else self._default_trace)
        return RunStarted(
            session_id=self._bundles.conversation.session.id,
            provider=model.provider if model is not None else None,
            model=model.id if model is not None else None,
            trace=trace,
            ambient=parent,
            mode=workspace.mode,
            agent="ludolf" if origin is None else origin.agent,
            agent_id=None if origin is None else origin.id,
            sandbox=read_sandbox(workspace.files, workspace.options).mode,
        )

    def _context_of(self, call_id: str) -> Any:
        """Return the context of a call that starts subagents."""
        return self._recorder.context(call_id) if self._recorder is not None else None

    # ------------------------------------------------------------ requests

    def wrap_provider(self, provider: Provider) -> Provider:
        return WatchedProvider(provider, self)

    def send(self, request: Request, draft: Draft) -> tuple[Request, int | None]:
        key, session = next(self._keys), self._bundles.conversation.session
        is_turn = request.session_id == session.id
        if is_turn:
            self._turn = (key, draft)
            self._tap.want_piece(True)
        address, port = _place(request.access.base_url or request.model.base_url)
        self._note(
            RequestSent(
                key=key,
                provider=request.model.provider,
                model=request.model.id,
                address=address,
                port=port,
                level=request.thinking,
                system=request.system if is_turn else "",
                session_id=session.id,
                is_turn=is_turn,
            )
        )
        return self._with_context(key, request), None if is_turn else key

    def _with_context(self, key: int, request: Request) -> Request:
        """Add the trace context for the model's server, if the user asked for it."""
        if "models" not in self._bundles.workspace.settings.telemetry.propagate:
            return request
        fields = self._backend.door.call(self._request_fields, key)
        if not fields:
            return request
        access = request.access
        return structs.replace(request, access=access.replace(headers={**access.headers, **fields}))

    def _request_fields(self, key: int) -> Mapping[str, str]:
        from ludolf.engine.features.telemetry.context import fields_of

        context = self._recorder.request_context(key) if self._recorder is not None else None
        return {} if context is None else fields_of(context)

    def _start_answer(self) -> None:
        """The first piece of an answer has arrived; the others are not looked at."""
        self._tap.want_piece(False)
        if self._turn is not None:
            self._note(FirstChunk(self._turn[0]))

    def _end_turn(self) -> None:
        """Say why a request has failed, before the message that ends it."""
        self._tap.want_piece(False)
        turn, self._turn = self._turn, None
        if turn is not None and turn[1].failure is not None:
            self._note(_ended(turn[0], turn[1]))

    def end(self, key: int, draft: Draft, *, whole: bool) -> None:
        message = draft.finish() if whole else None
        self._note(_ended(key, draft, message))

    def on_gate_wait(self, provider: str, seconds: float) -> None:
        self._note(GateWaited(provider, seconds))

    # ------------------------------------------------------------ approvals

    def on_approval(self, call_id: str, tool: str, state: ApprovalState, seconds: float) -> None:
        self._note(ApprovalNoted(call_id, tool, state, seconds))


def _ended(key: int, draft: Draft, message: AssistantMessage | None = None) -> RequestEnded:
    error = draft.failure
    if error is None:
        return RequestEnded(key=key, kind=None if message else "aborted", message=message)
    return RequestEnded(key=key, kind=error.kind, status=error.status)


def _place(url: str) -> tuple[str | None, int | None]:
    """Return host and port of a server; nothing of its path, query or user."""
    try:
        parts = urlsplit(url)
        usual = {"https": 443, "http": 80}.get(parts.scheme)
        return parts.hostname, (parts.port or usual) if parts.hostname else None
    except ValueError:
        return None, None
