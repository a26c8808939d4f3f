"""Features: optional behaviour of an engine, plugged into its run loop.

The engine calls the active features in order before something happens, and in reverse order after
it, as layers around the work. A feature overrides the methods that it needs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET

from ludolf.agent.events import MessageUpdate, TurnEnd
from ludolf.agent.io import Outcome, QueuedMessage, QueueKind, RunEnd
from ludolf.agent.tool import Deny, Tool, Walls
from ludolf.ai.messages import (
    CustomMessage,
    Message,
    OpaqueMessage,
    Part,
    ThinkingLevel,
    ToolCall,
    UserMessage,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider
from ludolf.base import LudolfError
from ludolf.base.project_files import IsHidden
from ludolf.protocol.events import CompactionEnd, CompactionReason, Event
from ludolf.protocol.results import BashResult
from ludolf.session.entries import BranchSummaryBody, CompactionBody, Entry

if TYPE_CHECKING:
    from ludolf.base.trace_context import TraceContext
    from ludolf.functions.final_answer import AnswerTool
    from ludolf.protocol.commands import UiAnswer
    from ludolf.protocol.ui import UiRequest
    from ludolf.session.compaction import Preparation

History = tuple[Message | OpaqueMessage, ...]
WhenBusy = Literal["steer", "followUp"]
PromptSource = Literal["rpc", "extension"]
ApprovalState = Literal["asked", "allowed", "denied"]
SessionReason = Literal["startup", "reload", "new", "resume", "fork"]
F = TypeVar("F", bound="Feature")
T = TypeVar("T")
# Returns False if the request cannot be shown.
Send = Callable[["UiRequest"], bool | None]


class HostForms(Protocol):
    """A host that shows whole forms and opens addresses, instead of one dialog for each field.

    Both return the action of the user: accept, decline or cancel; None if the host cannot.
    """

    async def fill_form(
        self, message: str, schema: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any]] | None:
        """Show a form by its schema; return the action and the values by name."""

    async def visit_address(self, message: str, url: str) -> str | None:
        """Ask the user to open an address."""


class Vetoed(LudolfError):
    """A feature refused a change."""


class PromptInput(msgspec.Struct, frozen=True, kw_only=True):
    """A user's input before it becomes a message; `attachments` are kept as they came.

    With an `answer_tool`, the input starts a run that ends with a value for this tool. `trace` is
    the span of the host that sent the input.
    """

    text: str
    extra: tuple[Part, ...] = ()
    attachments: Any = UNSET
    when_busy: WhenBusy | None = None
    source: PromptSource = "rpc"
    expand: bool = True
    answer_tool: "AnswerTool[Any] | None" = None
    trace: "TraceContext | None" = None


class TreeMove(msgspec.Struct, frozen=True, kw_only=True):
    """A requested move to another entry of the session tree."""

    target_id: str
    summarize: bool = False
    instructions: str | None = None
    replace: bool = False
    label: str | None = None


class SessionMove(msgspec.Struct, frozen=True, kw_only=True):
    """A change of session. `then` is a callback of an extension for the new session."""

    reason: SessionReason
    previous: Path | None = None
    then: Any = None


class Feature:
    """The base of all features; every method has a default that changes nothing."""

    # ------------------------------------------------------------ events

    async def before_event(self, event: Event) -> None:
        """Called before an event that is awaited is recorded and sent."""

    def after_event(self, event: Event) -> None:
        """Called after an event that was posted without waiting."""

    def on_update(self, update: MessageUpdate) -> None:
        """Called for every piece of an answer; a StreamCut ends the answer."""

    async def flush_updates(self) -> None:
        """Called after a burst of pieces."""

    # ------------------------------------------------------------ prompts

    def handles_input(self, text: str) -> bool:
        """Return whether `before_input` has something to do for an input with this text."""
        return False

    async def before_input(self, prompt: PromptInput) -> PromptInput | None:
        """Return the input to continue with, or None if it was handled."""
        return prompt

    def prepares_runs(self) -> bool:
        """Return whether `before_run` has something to do."""
        return False

    async def before_run(self, message: UserMessage) -> tuple[CustomMessage, ...]:
        """Return messages that go with a prompt which starts a run."""
        return ()

    def on_prompt(self) -> None:
        """Called when a prompt of the user starts a run."""

    async def prepare_run(self) -> None:
        """Called at the start of every run, before its first event."""

    def opening_messages(self) -> tuple[CustomMessage, ...]:
        """Return messages that open the next run of the same prompt."""
        return ()

    # ------------------------------------------------------------ turns

    async def before_request(self, system: str, messages: History) -> tuple[str, History]:
        """Return the system prompt and the messages of one request."""
        return system, messages

    def wrap_provider(self, provider: Provider) -> Provider:
        return provider

    async def finish_message(self, message: Message) -> Message:
        """Return the message to store."""
        return message

    async def before_tool(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any]
    ) -> Mapping[str, Any] | Deny:
        """Return the arguments to run a call with, or a block."""
        return args

    async def after_tool(self, call: ToolCall, outcome: Outcome) -> Outcome:
        return outcome

    async def before_turn_end(self, event: TurnEnd) -> None:
        """Called before `turn_end` is sent."""

    def pending(self, kind: QueueKind) -> int:
        """Return how many messages of the feature are due in this line."""
        return 0

    def take(self, kind: QueueKind) -> QueuedMessage:
        """Return one due message."""
        raise NotImplementedError

    # ------------------------------------------------------------ ends of runs

    def will_rerun(self) -> bool:
        """Return whether the answer that just ended is tried again."""
        return False

    def rerun(self) -> None:
        """Prepare another attempt, after `will_rerun` returned True."""

    def continues(self, end: RunEnd) -> bool:
        """Return whether another turn follows a run that would end the prompt."""
        return False

    async def before_settle(self, outcome: str) -> bool:
        """Return whether one more turn follows; `outcome` is completed, aborted or error."""
        return False

    def will_wake(self) -> bool:
        """Return whether the feature will start a run later without a prompt."""
        return False

    def on_idle(self) -> bool:
        """Called when a run has ended; True if the feature will start another one."""
        return False

    def on_handoff_end(self) -> None:
        """Called when the document of a handoff has been written, or failed."""

    # ------------------------------------------------------------ history

    async def before_switch(self, reason: Literal["new", "resume"], target: str | None) -> None:
        """Raises:
        Vetoed: the session must not be replaced.
        """

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> None:
        """Raises:
        Vetoed: the session must not be copied.
        """

    async def before_compact(
        self,
        prepared: "Preparation",
        reason: CompactionReason,
        instructions: str | None,
        *,
        will_retry: bool,
    ) -> CompactionBody | None:
        """Return the entry if the feature made the summary.

        Raises:
            Vetoed: the session must not be compacted.
        """
        return None

    async def after_compact(self, end: CompactionEnd) -> None:
        """Called when a compaction has ended."""

    async def before_tree(
        self, move: TreeMove, leaf: str | None
    ) -> tuple[TreeMove, BranchSummaryBody | None]:
        """Return the move to make, and a summary if the feature made one.

        Raises:
            Vetoed: the move must not happen.
        """
        return move, None

    async def after_tree(
        self, old_leaf: str | None, summary: Entry | None, *, by_feature: bool
    ) -> None:
        """Called after a move in the tree."""

    async def leave_session(self, reason: str, target: str | None) -> None:
        """Called before the session is replaced, reloaded or closed."""

    async def enter_session(self, move: SessionMove) -> None:
        """Called when another session has been opened, or the same one reloaded."""

    # ------------------------------------------------------------ tools and commands

    def tools(self) -> Mapping[str, Tool]:
        return {}

    def commands(self) -> tuple[Any, ...]:
        """Return the items of `get_commands`."""
        return ()

    def is_command(self, text: str) -> bool:
        """Return whether a text calls a command of the feature."""
        return False

    async def run_command(self, text: str) -> None:
        """Run the command that a text calls."""

    async def complete_command(self, name: str, prefix: str) -> tuple[Any, ...] | None:
        """Return completions of a command's arguments; None if the command offers none."""
        return None

    def shortcuts(self) -> tuple[Any, ...]:
        """Return the items of `get_shortcuts`."""
        return ()

    async def run_shortcut(self, key: str) -> bool:
        """Run the function of a key; False if the feature has none."""
        return False

    async def run_bash(self, command: str, *, exclude: bool) -> BashResult | None:
        """Return the result of a host's shell command if the feature ran it."""
        return None

    def after_command(self) -> None:
        """Called after a shell command of the host has ended."""

    def walls(self, cwd: Path) -> Walls | None:
        """Return the limits of file access and commands, if the feature sets some."""
        return None

    def hides(self, cwd: Path) -> IsHidden | None:
        """Return a test for paths that must not be read, if the feature hides some."""
        return None

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        """Return the folders that sandboxed commands can write to; nothing without a sandbox."""
        return ()

    def output_folder(self) -> Path | None:
        """Return the folder for the output of commands, if the feature sets one."""
        return None

    def check_folder(self, cwd: Path, file: Path | None) -> None:
        """Raises:
        CommandError: a session must not work in this folder; `file` is that of the session.
        """

    def guard_code(self) -> None:
        """Protect the files that extensions have imported.

        Raises:
            ConfigError: they cannot be protected.
        """

    def prompt_sections(self, tools: Iterable[str]) -> Mapping[str, str]:
        """Return sections of the system prompt, given the names of the active tools."""
        return {}

    # ------------------------------------------------------------ traces

    def join_trace(self, trace: "TraceContext | None", *, starts: bool) -> None:
        """Called with the trace context of each input; `starts` if the input starts a run."""

    def start_trace(self) -> Mapping[str, str]:
        """Called before `agent_start` is sent; return the fields of its trace context."""
        return {}

    def trace_fields(self, call_id: str | None) -> Mapping[str, str]:
        """Return `traceparent` and `tracestate` of a tool call, or of the run."""
        return {}

    def on_approval(self, call_id: str, tool: str, state: ApprovalState, seconds: float) -> None:
        """Called when the user is asked about a call, and again with the decision."""

    def on_gate_wait(self, provider: str, seconds: float) -> None:
        """Called when a request has waited at a gate, before it is sent."""

    # ------------------------------------------------------------ models

    def on_model(
        self, model: Model, previous: Model | None, source: Literal["set", "cycle"]
    ) -> None:
        """Called when another model was selected."""

    def on_level(self, level: ThinkingLevel, previous: ThinkingLevel) -> None:
        """Called when the thinking level changed."""

    async def after_login(self, provider: str) -> None:
        """Called when the stored credential of a provider was replaced or removed."""

    # ------------------------------------------------------------ life

    def connect(self, send: "Send | None") -> None:
        """Called when the host can be asked; `send` shows a dialog, None if there are none."""

    def use_forms(self, forms: HostForms | None) -> None:
        """Called with `connect`: the host shows whole forms, None if it does not."""

    async def start(self) -> None:
        """Called once, when the event loop runs.

        Raises:
            ConfigError: the program must not start.
        """

    def warm_up(self) -> None:
        """Called once, shortly after the first replies: prepare what the first prompt needs."""

    def abort(self) -> None:
        """Called when the running prompt is aborted."""

    async def quiet(self) -> None:
        """Return when the feature will not start a run; see `will_wake`."""

    def answer_dialog(self, answer: "UiAnswer") -> None:
        """Called with every answer of the host's user to a dialog."""

    def open_dialogs(self) -> "Iterable[UiRequest]":
        """Return the dialogs of the feature that have no answer yet."""
        return ()

    def disconnect(self) -> None:
        """Called when the host is gone."""

    def reload(self) -> None:
        """Called when settings and files are to be read again."""

    def for_subagent(self, bundles: Any) -> "Feature | None":
        """Return the feature that the engine of a subagent gets in the place of this one."""
        return None

    async def close(self) -> None:
        """End what the feature runs."""


_HOOKS = tuple(name for name in vars(Feature) if not name.startswith("_"))


class Features:
    """The active features of an engine, from the outermost to the innermost.

    `hooks` maps the name of each hook to the features that override it, so that a hook that no
    feature uses costs nothing. Hooks that several components call have a method here.
    """

    def __init__(self) -> None:
        self._items: tuple[Feature, ...] = ()
        self.hooks: dict[str, tuple[Feature, ...]] = dict.fromkeys(_HOOKS, ())

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._items)

    def add(self, feature: Feature, *, outermost: bool = False) -> None:
        self._items = (feature, *self._items) if outermost else (*self._items, feature)
        self.hooks = {name: tuple(self._overriding(name)) for name in _HOOKS}

    def _overriding(self, name: str) -> Iterator[Feature]:
        default = getattr(Feature, name)
        return (item for item in self._items if getattr(type(item), name) is not default)

    def find(self, kind: type[F]) -> F | None:
        """Return the active feature of this class."""
        return next((item for item in self._items if isinstance(item, kind)), None)

    @property
    def inner_first(self) -> Iterator[Feature]:
        return reversed(self._items)

    # ------------------------------------------------------------ prompts

    async def before_input(self, prompt: PromptInput) -> PromptInput | None:
        for feature in self.hooks["before_input"]:
            changed = await feature.before_input(prompt)
            if changed is None:
                return None
            prompt = changed
        return prompt

    async def before_run(self, message: UserMessage) -> tuple[CustomMessage, ...]:
        added: list[CustomMessage] = []
        for feature in self.hooks["before_run"]:
            added += await feature.before_run(message)
        return tuple(added)

    # ------------------------------------------------------------ turns

    async def before_tool(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any]
    ) -> Mapping[str, Any] | Deny:
        for feature in self.hooks["before_tool"]:
            verdict = await feature.before_tool(call, tool, args)
            if isinstance(verdict, Deny):
                return verdict
            args = verdict
        return args

    def pending(self, kind: QueueKind) -> int:
        return sum(feature.pending(kind) for feature in self.hooks["pending"])

    def take(self, kind: QueueKind) -> QueuedMessage | None:
        """Return one due message, or None if no feature has one."""
        for feature in self.hooks["take"]:
            if feature.pending(kind):
                return feature.take(kind)
        return None

    # ------------------------------------------------------------ ends of runs

    def will_rerun(self) -> bool:
        return any(feature.will_rerun() for feature in self.hooks["will_rerun"])

    def will_wake(self) -> bool:
        return any(feature.will_wake() for feature in self.hooks["will_wake"])

    # ------------------------------------------------------------ traces

    def join_trace(self, trace: "TraceContext | None", *, starts: bool) -> None:
        for feature in self.hooks["join_trace"]:
            feature.join_trace(trace, starts=starts)

    def trace_fields(self, call_id: str | None) -> Mapping[str, str]:
        fields: dict[str, str] = {}
        for feature in self.hooks["trace_fields"]:
            fields |= feature.trace_fields(call_id)
        return fields

    # ------------------------------------------------------------ tools and commands

    def tools(self) -> dict[str, Tool]:
        return {
            name: tool for feature in self.hooks["tools"] for name, tool in feature.tools().items()
        }

    def command_owner(self, text: str) -> Feature | None:
        """Return the feature whose command a text calls."""
        owners = (each for each in self.hooks["is_command"] if each.is_command(text))
        return next(owners, None)

    async def run_bash(self, command: str, *, exclude: bool) -> BashResult | None:
        for feature in self.hooks["run_bash"]:
            result = await feature.run_bash(command, exclude=exclude)
            if result is not None:
                return result
        return None

    def walls(self, cwd: Path) -> Walls | None:
        return _first(feature.walls(cwd) for feature in self.hooks["walls"])

    def hides(self, cwd: Path) -> IsHidden | None:
        return _first(feature.hides(cwd) for feature in self.hooks["hides"])

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        return tuple(path for feature in self.hooks["writable"] for path in feature.writable(cwd))

    def output_folder(self) -> Path | None:
        return _first(feature.output_folder() for feature in self.hooks["output_folder"])

    def check_folder(self, cwd: Path, file: Path | None) -> None:
        for feature in self.hooks["check_folder"]:
            feature.check_folder(cwd, file)

    def guard_code(self) -> None:
        for feature in self.hooks["guard_code"]:
            feature.guard_code()


def _first(answers: Iterable[T | None]) -> T | None:
    return next((answer for answer in answers if answer is not None), None)
