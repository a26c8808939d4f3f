"""What a recorder is given besides events: requests, approvals, and the start of a run."""

from typing import Any, Literal

import msgspec

from ludolf.ai.messages import AssistantMessage
from ludolf.base.trace_context import TraceContext
from ludolf.engine.feature import ApprovalState

SessionAction = Literal["new", "switched", "forked", "compacted"]


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """`ambient` is the OpenTelemetry context of the program that sent the prompt, if any."""

    session_id: str
    provider: str | None = None
    model: str | None = None
    trace: TraceContext | None = None
    ambient: Any = None
    mode: str = "rpc"
    agent: str = "ludolf"
    agent_id: str | None = None
    sandbox: str = "off"


class RequestSent(msgspec.Struct, frozen=True, kw_only=True):
    """`key` identifies the request. The end of a turn's request is that of its message."""

    key: int
    provider: str
    model: str
    address: str | None = None
    port: int | None = None
    level: str = "off"
    system: str = ""
    session_id: str | None = None
    is_turn: bool = True


class FirstChunk(msgspec.Struct, frozen=True):
    key: int


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is that of the error, `aborted`, or None; `message` only for other requests."""

    key: int
    kind: str | None = None
    status: int | None = None
    message: AssistantMessage | None = None


class ApprovalNoted(msgspec.Struct, frozen=True):
    call_id: str
    tool: str
    state: ApprovalState
    seconds: float


class GateWaited(msgspec.Struct, frozen=True):
    """A request of this provider waited at the gate before it was sent."""

    provider: str
    seconds: float


class TraceJoined(msgspec.Struct, frozen=True):
    """A message with a context of its own joined the running prompt."""

    trace: TraceContext


class SessionNoted(msgspec.Struct, frozen=True):
    action: SessionAction


class SessionClosing(msgspec.Struct, frozen=True):
    """Nothing follows."""
