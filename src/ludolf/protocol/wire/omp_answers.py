"""Answers to commands in the dialects of oh-my-pi and xcsh that differ from pi."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import UnsetType, field

from ludolf.ai.messages import OpaqueMessage, ThinkingLevel
from ludolf.base import Value
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.results import BashResult, CycledModel, HandedOver, State, TodoPhase
from ludolf.protocol.wire.answers import ANSWERS, Conversation, ConversationPage, Models
from ludolf.protocol.wire.omp_messages import OmpMessage, OmpModel
from ludolf.protocol.wire.stored import OpenKind
from ludolf.session.stats import ContextUsage, SessionStats, TokenTotals

if TYPE_CHECKING:
    OmpStoredMessage = Any
else:

    class OmpStoredMessage(metaclass=OpenKind):
        """A message of a session file, which other programs may have written."""

        known: ClassVar[Any] = OmpMessage
        label: ClassVar[str] = "role"
        other: ClassVar[type] = OpaqueMessage


class Invoked(Value):
    """Present if the prompt was a command of the program, so that the agent did not run."""

    agent_invoked: bool


class DumpedTool(Value):
    name: str
    description: str
    parameters: dict[str, Any]


class ContextFill(ContextUsage):
    """Size of the context; an estimate before the first request."""

    tokens: int
    percent: float


class FullState(State, kw_only=True):
    """The state with todos, tools, system prompt and context."""

    model: OmpModel | None
    pending_message_count: int = field(name="queuedMessageCount")
    interrupt_mode: Literal["immediate", "wait"]
    todo_phases: tuple[TodoPhase, ...]
    fast_mode_enabled: bool
    fast_mode_active: bool
    tokens_per_second: float | None
    dump_tools: tuple[DumpedTool, ...]
    context_usage: ContextFill | None
    is_settled: bool
    has_pending_async_work: bool


class OmpState(FullState, kw_only=True):
    system_prompt: tuple[str, ...]


class XcshState(FullState, kw_only=True):
    system_prompt: str


class OmpConversation(Conversation):
    messages: tuple[OmpStoredMessage, ...]


class OmpConversationPage(ConversationPage, kw_only=True):
    messages: tuple[OmpStoredMessage, ...]


class OmpModels(Models):
    models: tuple[OmpModel, ...]


class OmpCycledModel(CycledModel):
    model: OmpModel
    thinking_level: ThinkingLevel
    is_scoped: bool


class OmpCompaction(CompactionResult, kw_only=True):
    short_summary: str
    details: Any


class OmpBashResult(BashResult, kw_only=True):
    """Sizes of the whole output and of the shown part; `artifactId` names the whole output."""

    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    elided_lines: int | None = None
    elided_bytes: int | None = None
    artifact_id: str | None = None
    working_dir: str


class OmpTokens(TokenTotals):
    reasoning: int


class OmpStats(SessionStats, kw_only=True):
    tokens: OmpTokens
    context_usage: ContextFill | None
    premium_requests: int


_PROMPTS = (name for name, spec in COMMANDS.items() if spec.is_prompt)
OMP_ANSWERS: dict[str, Any] = {
    **ANSWERS,
    **dict.fromkeys(_PROMPTS, Invoked | UnsetType),
    "get_state": OmpState,
    "get_messages": OmpConversation,
    "get_messages_page": OmpConversationPage,
    "set_model": OmpModel,
    "cycle_model": OmpCycledModel | None,
    "get_available_models": OmpModels,
    "compact": OmpCompaction,
    "bash": OmpBashResult,
    "get_session_stats": OmpStats,
    "handoff": HandedOver | None,
}
XCSH_ANSWERS: dict[str, Any] = {**OMP_ANSWERS, "get_state": XcshState}
