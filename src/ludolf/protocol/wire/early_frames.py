"""Frames of the dialect of early pi, which answers no command."""

from ludolf.agent import events as run
from ludolf.agent.tool import ToolOutput
from ludolf.ai.messages import AssistantMessage, BashExecutionMessage
from ludolf.base import Value
from ludolf.protocol import events as around
from ludolf.protocol.subagent_events import AgentWaiting
from ludolf.protocol.wire.frames import COMMON, Chunk, Header, MessageUpdate, Replaced, frames
from ludolf.protocol.wire.omp_frames import Never
from ludolf.protocol.wire.pieces import WholePiece


class EarlyAgentEnd(run.AgentEnd, kw_only=True):
    """The end of a prompt, with the messages of its last run."""

    will_retry: Never = False


class EarlyUpdate(MessageUpdate):
    """The piece with the whole answer so far, twice."""

    assistant_message_event: WholePiece
    message: AssistantMessage


class EarlyToolEnd(run.ToolEnd):
    """The result of a failed call is its text."""

    result: ToolOutput | str  # type: ignore[assignment]  # as above


class EarlyCompaction(Value, tag_field="type", tag="compaction"):
    """The older part of the conversation was replaced by a summary; `auto`: not by command."""

    timestamp: str
    summary: str
    first_kept_entry_index: int
    tokens_before: int
    auto: bool = False


class EarlyBashMessage(BashExecutionMessage, kw_only=True):
    """The exit code is null where the command was aborted."""

    exit_code: int | None


class BashEnd(Value, tag_field="type", tag="bash_end"):
    """A shell command that the host ran has ended."""

    message: EarlyBashMessage


class EarlyError(Value, tag_field="type", tag="error"):
    """An error, perhaps of a command; the command is not named."""

    error: str


EARLY: Replaced = {
    **COMMON,
    **dict.fromkeys(around.ONLY_PI),
    run.AgentEnd: EarlyAgentEnd,
    around.AgentSettled: None,
    AgentWaiting: None,
    run.MessageUpdate: EarlyUpdate,
    run.ToolUpdate: None,
    run.ToolEnd: EarlyToolEnd,
    run.QueueUpdate: None,
    around.AutoRetryStart: None,
    around.AutoRetryEnd: None,
    around.CompactionStart: None,
    around.CompactionEnd: EarlyCompaction,
    around.ThinkingLevelChanged: None,
    around.ExtensionError: EarlyError,
    around.Warned: None,
    around.ContextFilesUsed: None,
}
EARLY_FRAMES = frames(EARLY, BashEnd, Chunk, Header)
