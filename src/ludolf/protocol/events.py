"""Events around a run: retries, compaction, session and model changes, shell output."""

from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET

from ludolf.agent.events import AgentEvent
from ludolf.ai.messages import Usage
from ludolf.base import Value
from ludolf.protocol.host_events import HostEvent
from ludolf.protocol.results import McpServerStatus
from ludolf.protocol.subagent_events import SubagentNews

CompactionReason = Literal["manual", "threshold", "overflow"]
SummarySource = Literal["compaction", "branchSummary", "handoff"]


class AgentSettled(Value, tag_field="type", tag="agent_settled"):
    """Nothing automatic will follow; always the last event of a prompt."""


class AutoRetryStart(Value, tag_field="type", tag="auto_retry_start"):
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Value, tag_field="type", tag="auto_retry_end"):
    success: bool
    attempt: int
    final_error: str | None = None


class CompactionResult(Value):
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    estimated_tokens_after: int | None = None
    usage: Usage | None = None
    details: Any = UNSET


class CompactionStart(Value, tag_field="type", tag="compaction_start"):
    reason: CompactionReason


class CompactionEnd(Value, tag_field="type", tag="compaction_end"):
    """`result` is null unless the compaction succeeded."""

    reason: CompactionReason
    result: CompactionResult | None
    aborted: bool
    will_retry: bool
    error_message: str | None = None


class SummaryRetryScheduled(Value, tag_field="type", tag="summarization_retry_scheduled"):
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class SummaryRetryStart(Value, tag_field="type", tag="summarization_retry_attempt_start"):
    source: SummarySource
    reason: CompactionReason | None = None


class SummaryRetryFinished(Value, tag_field="type", tag="summarization_retry_finished"):
    pass


class SessionInfoChanged(Value, tag_field="type", tag="session_info_changed"):
    name: str | None = None


class ThinkingLevelChanged(Value, tag_field="type", tag="thinking_level_changed"):
    level: str


class EntryStored(Value, tag_field="type", tag="entry_appended"):
    entry: msgspec.Raw


class ShellOutput(Value, kw_only=True, tag_field="type", tag="bash_execution_update"):
    """Output of a shell command that the host runs; `id` is that of the host's command."""

    id: msgspec.Raw | None = None
    delta: str


class LimitReached(Value, tag_field="type", tag="limit_reached"):
    """A limit of the prompt is used up: the run ends after this turn. Comes before its AgentEnd."""

    limit: Literal["turns", "tokens", "cost"]
    used: float
    maximum: float


class ExtensionError(Value, tag_field="type", tag="extension_error"):
    extension_path: str
    event: str
    error: str


class Warned(Value, tag_field="type", tag="warning"):
    """A warning: something failed that does not stop the program."""

    message: str


class ContextFilesUsed(Value, tag_field="type", tag="context_files"):
    """The files that the model gets as instructions; sent at first use and after each change."""

    paths: tuple[str, ...]


class McpServerChanged(Value, tag_field="type", tag="mcp_server"):
    """The state of an MCP server changed."""

    server: McpServerStatus


class StructuredOutput(Value, tag_field="type", tag="structured_output"):
    """The answer to a prompt with `outputSchema`: a value that fits it, or why there is none.

    Comes once, after the last AgentEnd of the prompt and before its AgentSettled.
    """

    value: Any = UNSET
    error: str | None = None


LifecycleEvent = (
    AgentSettled
    | AutoRetryStart
    | AutoRetryEnd
    | CompactionStart
    | CompactionEnd
    | SummaryRetryScheduled
    | SummaryRetryStart
    | SummaryRetryFinished
    | SessionInfoChanged
    | ThinkingLevelChanged
    | EntryStored
    | ShellOutput
    | LimitReached
    | ExtensionError
    | Warned
    | ContextFilesUsed
    | McpServerChanged
    | StructuredOutput
)
Event = AgentEvent | LifecycleEvent | HostEvent | SubagentNews
# Events that other families than pi do not have.
ONLY_PI: tuple[type[Value], ...] = (
    SummaryRetryScheduled,
    SummaryRetryStart,
    SummaryRetryFinished,
    SessionInfoChanged,
    EntryStored,
    ShellOutput,
    McpServerChanged,
    StructuredOutput,
)
_SPOKEN: tuple[type[msgspec.Struct], ...] = (
    *get_args(AgentEvent),
    *get_args(LifecycleEvent),
    *get_args(HostEvent),
    *get_args(SubagentNews),
)
EVENT_NAMES: tuple[str, ...] = tuple(
    sorted({str(kind.__struct_config__.tag or "message_update") for kind in _SPOKEN})
)
