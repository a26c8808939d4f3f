"""The typed commands of both clients, in groups by subject."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from ludolf.agent.io import QueueMode
from ludolf.ai.messages import Image, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.client.base import command, notice
from ludolf.protocol.commands import Disposition
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.results import (
    BashResult,
    CommandCompletion,
    CycledModel,
    HandedOver,
    Limits,
    LoginMethod,
    LoginProvider,
    McpServerStatus,
    McpToolExposure,
    McpToolStatus,
    Moved,
    OpenedSession,
    ShortcutItem,
    State,
    TodoPhase,
)
from ludolf.protocol.subagent_events import Level, Snapshot
from ludolf.protocol.wire import answers
from ludolf.protocol.wire.commands import (
    Attachment,
    HostTool,
    HostToolContent,
    HostUriScheme,
    InterruptMode,
    PhaseInput,
)
from ludolf.protocol.wire.stored import StoredMessage
from ludolf.session.finder import SessionRecord
from ludolf.session.stats import SessionStats
from ludolf.session.views import ForkMessage


class TraceFields(TypedDict, total=False):
    """W3C trace context: the span of the caller becomes the parent of the run."""

    traceparent: str | None
    tracestate: str | None
    baggage: str | None


class PromptCommands:
    """Commands about prompts. Each method sends the command of its name."""

    @command
    def prompt(
        self,
        answer: Disposition | None,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        attachments: Sequence[Attachment] | None = None,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        **trace: Unpack[TraceFields],
    ) -> Disposition | None:
        """Send a prompt; returns when it is accepted, not when the run ends.

        Returns None if the program does not report a disposition. `streaming_behavior` chooses
        the queue if the agent runs. `output_schema` is a JSON Schema: the event
        `StructuredOutput` has a value that fits it. `traceparent`, `tracestate` and `baggage`
        name the span of the caller, for a program with telemetry.

        Raises:
            Refused: the agent runs, no model or no key is available, or the schema is unusable.
        """
        return answer

    @command
    def abort_and_prompt(
        self,
        answer: Disposition | None,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        attachments: Sequence[Attachment] | None = None,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        **trace: Unpack[TraceFields],
    ) -> Disposition | None:
        """Abort the run and send a prompt in one step; raises as `prompt` does."""
        return answer

    @command
    def steer(
        self,
        answer: Disposition | None,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        **trace: Unpack[TraceFields],
    ) -> Disposition | None:
        """Queue a steering message; the running agent gets it before its next request."""
        return answer

    @command
    def follow_up(
        self,
        answer: Disposition | None,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        **trace: Unpack[TraceFields],
    ) -> Disposition | None:
        """Say something that the agent turns to when it is done."""
        return answer

    @command
    def abort(self, answer: None) -> None:
        """Stop the run with all its tools; returns when it has come to rest."""

    @command
    def clear_queue(self, answer: answers.Queued) -> answers.Queued:
        """Remove the queued messages; returns their texts."""
        return answer

    @command
    def set_steering_mode(self, answer: None, mode: QueueMode) -> None:
        """How many steering messages are delivered at once."""

    @command
    def set_follow_up_mode(self, answer: None, mode: QueueMode) -> None:
        """How many follow-ups are delivered at once."""

    @command
    def set_interrupt_mode(self, answer: None, mode: InterruptMode) -> None:
        """Whether calls that have not begun are skipped for a steering message."""

    @command
    def bash(
        self, answer: BashResult, command: str, *, exclude_from_context: bool = False
    ) -> BashResult:
        """Run a shell command of the user; returns when it has ended."""
        return answer

    @command
    def abort_bash(self, answer: None) -> None:
        """Stop the shell commands of `bash`."""

    @command
    def compact(
        self, answer: CompactionResult, custom_instructions: str | None = None
    ) -> CompactionResult:
        """Replace the older part of the conversation by a summary.

        Raises:
            Refused: there is nothing to compact, or it failed.
        """
        return answer

    @command
    def set_auto_compaction(self, answer: None, enabled: bool) -> None:
        """Choose whether to compact automatically when the context is nearly full."""

    @command
    def set_auto_retry(self, answer: None, enabled: bool) -> None:
        """Choose whether requests with a temporary error are retried."""

    @command
    def abort_retry(self, answer: None) -> None:
        """End a wait for another attempt, and with it the prompt."""


class ModelCommands:
    """Commands about models and state. Each method sends the command of its name."""

    @command
    def get_state(self, answer: State) -> State:
        """Return the model, the session, and whether the agent runs."""
        return answer

    @command
    def get_session_stats(self, answer: SessionStats) -> SessionStats:
        """Counts, tokens and cost of the whole session."""
        return answer

    @command
    def get_last_assistant_text(self, answer: answers.LastText) -> str | None:
        """The text of the last answer; None before the first."""
        return answer.text

    @command
    def get_available_models(self, answer: answers.Models) -> tuple[Model, ...]:
        """The models that have a usable key."""
        return answer.models

    @command
    def set_model(self, answer: Model, provider: str, model_id: str) -> Model:
        """Choose a model.

        Raises:
            Refused: the model does not exist, or its provider has no key.
        """
        return answer

    @command
    def cycle_model(self, answer: CycledModel | None) -> CycledModel | None:
        """Choose the next model; None if there is only one."""
        return answer

    @command
    def get_available_thinking_levels(self, answer: answers.Levels) -> tuple[ThinkingLevel, ...]:
        """The levels of the model."""
        return answer.levels

    @command
    def set_thinking_level(self, answer: None, level: ThinkingLevel) -> None:
        """A level that the model does not have becomes the next that it has."""

    @command
    def cycle_thinking_level(self, answer: answers.CycledLevel | None) -> ThinkingLevel | None:
        """Choose the next level; None if the model has only one."""
        return None if answer is None else answer.level

    @command
    def set_fast_mode(self, answer: answers.FastMode, enabled: bool) -> answers.FastMode:
        """Whether answers are to come sooner, at a higher price.

        Raises:
            Refused: the server of the current model does not sell that.
        """
        return answer

    @command
    def get_login_providers(self, answer: answers.LoginProviders) -> tuple[LoginProvider, ...]:
        """Whom one can log in to, and how."""
        return answer.providers

    @command
    def login(
        self,
        answer: answers.LoggedIn,
        provider_id: str,
        *,
        method: LoginMethod | None = None,
        api_key: str | None = None,
        domain: str | None = None,
    ) -> None:
        """Store a key, or let the user log in: dialogs and `open_url` requests follow.

        Raises:
            Refused: the provider is unknown, or the login failed or was cancelled.
        """

    @command
    def logout(self, answer: answers.LoggedOut, provider_id: str) -> bool:
        """Remove the stored credentials of a provider; returns whether there were any."""
        return answer.removed

    @command
    def get_auth_status(self, answer: answers.AuthStatuses) -> tuple[answers.AuthStatus, ...]:
        """Return the source of the credentials of each provider; no field is secret."""
        return answer.providers


class SessionCommands:
    """Where the conversation stands and where it is kept. Each method sends the command of its
    name. A change of session first ends what runs; `cancelled` says that an extension refused it.
    """

    @command
    def get_messages(self, answer: answers.Conversation) -> tuple[StoredMessage, ...]:
        """The conversation as the model sees it, oldest first."""
        return answer.messages

    @command
    def get_messages_page(
        self, answer: answers.ConversationPage, cursor: str | None = None, limit: int | None = None
    ) -> answers.ConversationPage:
        """The same a page at a time.

        Raises:
            Refused: the cursor is stale, or the agent runs (see `code`).
        """
        return answer

    @command
    def new_session(
        self, answer: answers.SessionChange, parent_session: str | None = None
    ) -> answers.SessionChange:
        """Begin a new conversation."""
        return answer

    @command
    def switch_session(
        self, answer: answers.SessionChange, session_path: str
    ) -> answers.SessionChange:
        """Open a stored session.

        Raises:
            Refused: the file is not a session.
        """
        return answer

    @command
    def fork(self, answer: answers.Forked, entry_id: str) -> answers.Forked:
        """A new session with all before a message of the user's; returns its text."""
        return answer

    @command
    def branch(self, answer: answers.Forked, entry_id: str) -> answers.Forked:
        """Another name for `fork`."""
        return answer

    @command
    def clone(self, answer: answers.SessionChange) -> answers.SessionChange:
        """A new session with the same conversation."""
        return answer

    @command
    def get_fork_messages(self, answer: answers.ForkMessages) -> tuple[ForkMessage, ...]:
        """The messages that a fork can begin before."""
        return answer.messages

    @command
    def get_branch_messages(self, answer: answers.ForkMessages) -> tuple[ForkMessage, ...]:
        """Another name for `get_fork_messages`."""
        return answer.messages

    @command
    def get_entries(
        self,
        answer: answers.Entries,
        since: str | None = None,
        *,
        before: str | None = None,
        limit: int | None = None,
    ) -> answers.Entries:
        """Return the entries after one, in the order of the file.

        With `before` or `limit`: the last `limit` (100) entries from the root to the leaf that
        stand before that one; `more` is true if older ones exist.
        """
        return answer

    @command
    def get_tree(self, answer: answers.Tree) -> answers.Tree:
        """The entries as a tree. Of a very long conversation `get_entries` is to be preferred."""
        return answer

    @command
    def navigate_tree(
        self,
        answer: Moved,
        target_id: str,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Moved:
        """Move to another entry of the tree, optionally with a summary of the abandoned branch."""
        return answer

    @command
    def open_session(self, answer: OpenedSession, session_dir: str) -> OpenedSession:
        """Go on with the newest conversation of a folder, or begin one there.

        Raises:
            Refused: sessions are not stored.
        """
        return answer

    @command
    def handoff(
        self, answer: HandedOver | None, custom_instructions: str | None = None
    ) -> HandedOver | None:
        """Continue in a new session that begins with a summary written by the model.

        Raises:
            Refused: the agent runs, there is nothing to hand over, or the model failed.
        """
        return answer

    @command
    def set_session_name(self, answer: None, name: str) -> None:
        """Name this session."""

    @command
    def list_sessions(
        self, answer: answers.Sessions, *, all: bool = False
    ) -> tuple[SessionRecord, ...]:
        """Stored sessions of this folder, or of all; the last used first."""
        return answer.sessions

    @command
    def rename_session(self, answer: None, session_path: str, name: str) -> None:
        """Name a stored one."""

    @command
    def delete_session(self, answer: answers.Trashed, session_path: str) -> str:
        """Move a session's file to the trash; returns where it is now."""
        return answer.moved_to

    @command
    def export_html(self, answer: answers.Exported, output_path: str | None = None) -> str:
        """Write the conversation as one page; returns its path."""
        return answer.path


class ProgramCommands:
    """Commands about the program and the host. Each method sends the command of its name."""

    @command
    def get_capabilities(self, answer: answers.Capabilities) -> answers.Capabilities:
        """Its version, its commands, its events."""
        return answer

    @command
    def get_commands(self, answer: answers.CommandList) -> tuple[answers.CommandItem, ...]:
        """Return the commands that a prompt may call with `/`."""
        return answer.commands

    @command
    def get_available_commands(
        self, answer: answers.CommandList
    ) -> tuple[answers.CommandItem, ...]:
        """The same with those of the program itself."""
        return answer.commands

    @command
    def find_files(
        self, answer: answers.FoundFiles, query: str = "", *, limit: int = 20
    ) -> tuple[answers.FileMatch, ...]:
        """Return files and folders whose path matches a few letters, the best first."""
        return answer.files

    @command
    def get_integrations(self, answer: answers.Integrations) -> answers.Integrations:
        """Whether the model can be asked, as far as is known."""
        return answer

    @command
    def set_limits(
        self,
        answer: Limits,
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
    ) -> Limits:
        """Set the limits of each prompt; a missing limit does not apply."""
        return answer

    @command
    def reload(self, answer: None) -> None:
        """Read settings, models, skills, templates, context files and extensions again."""

    @command
    def set_project_trust(self, answer: None, trusted: bool, *, remember: bool = True) -> None:
        """Trust or distrust the code and settings of the project."""

    @command
    def set_todos(
        self, answer: answers.Todos, phases: Sequence[PhaseInput]
    ) -> tuple[TodoPhase, ...]:
        """Replace the plan of the session; returns it made whole."""
        return answer.todo_phases

    @command
    def set_event_filter(
        self,
        answer: answers.EventFilter,
        events: Sequence[str] | None = None,
        usage: Literal["all", "changes"] | None = None,
    ) -> tuple[str, ...] | None:
        """Send only events of these types; None is all. Returns the new filter.

        With `usage="changes"`, updates of an answer have a `usage` only if it is another one.
        """
        return answer.events

    @command
    def set_prompt_results(self, answer: None, enabled: bool) -> None:
        """Whether each accepted prompt ends with a `prompt_result`."""

    @command
    def negotiate_protocol(
        self, answer: answers.Negotiated, protocol_version: Literal[1, 2]
    ) -> int:
        """Keep lines short: by cutting texts (1), or by chunks (2) that the client joins."""
        return answer.protocol_version

    @command
    def set_locale(self, answer: None, locale: str) -> None:
        """Accepted for hosts of other programs; has no effect."""

    # ------------------------------------------------------------ tools and documents of the host

    @command
    def set_host_tools(
        self, answer: answers.HostToolNames, tools: Sequence[HostTool]
    ) -> tuple[str, ...]:
        """Register these tools of the host, in place of earlier ones; calls come as `HostToolCall`.

        The option `tools` of the client is easier: it takes functions.
        """
        return answer.tool_names

    @notice
    def host_tool_update(self, id: str, partial_result: HostToolContent) -> None:
        """The result of a call so far."""

    @notice
    def host_tool_result(self, id: str, result: HostToolContent, *, is_error: bool = False) -> None:
        """The result of a call; with `is_error` its texts are the error."""

    @command
    def set_host_uri_schemes(
        self, answer: answers.HostUriSchemes, schemes: Sequence[HostUriScheme]
    ) -> tuple[str, ...]:
        """Register the URI schemes of the host's documents; requests come as `HostUriRequest`."""
        return answer.schemes

    @notice
    def host_uri_result(
        self,
        id: str,
        content: str | None = None,
        *,
        content_type: str | None = None,
        notes: Sequence[str] | None = None,
        immutable: bool | None = None,
        error: str | None = None,
    ) -> None:
        """Answer a request for a document: its content, or the error; nothing after a write."""

    @notice
    def extension_ui_response(
        self,
        id: str,
        *,
        value: str | None = None,
        confirmed: bool | None = None,
        cancelled: bool = False,
    ) -> None:
        """The user's answer to a dialog, under the id of its request."""


class ExtensionCommands:
    """What extensions offer to hosts. Each method sends the command of its name."""

    @command
    def complete_command(
        self, answer: answers.CommandCompletions | None, name: str, prefix: str = ""
    ) -> tuple[CommandCompletion, ...] | None:
        """Complete the arguments of a command; None if the command offers no completions."""
        return answer.items if answer is not None else None

    @command
    def get_shortcuts(self, answer: answers.Shortcuts) -> tuple[ShortcutItem, ...]:
        """Return the keys that extensions have registered, for hosts with a keyboard."""
        return answer.shortcuts

    @command
    def run_shortcut(self, answer: None, key: str) -> None:
        """Run the function of an extension's key."""


class McpCommands:
    """Commands about MCP servers. Each method sends the command of its name."""

    @command
    def get_mcp_servers(self, answer: answers.McpServers) -> tuple[McpServerStatus, ...]:
        """Return the configured MCP servers and their states."""
        return answer.servers

    @command
    def get_mcp_tools(self, answer: answers.McpTools, name: str) -> tuple[McpToolStatus, ...]:
        """Return the tools of an MCP server."""
        return answer.tools

    @command
    def set_mcp_server(
        self,
        answer: answers.McpServerAnswer,
        name: str,
        *,
        enabled: bool | None = None,
        exposure: McpToolExposure | None = None,
        save: bool = False,
    ) -> McpServerStatus:
        """Change an MCP server for this session; `save` also changes the user's mcp.json."""
        return answer.server

    @command
    def set_mcp_servers(
        self, answer: answers.McpServers, servers: Mapping[str, Any]
    ) -> tuple[McpServerStatus, ...]:
        """Provide MCP servers, in place of earlier ones of the host, in the form of mcp.json."""
        return answer.servers

    @command
    def mcp_reconnect(
        self, answer: answers.McpServers, name: str | None = None
    ) -> tuple[McpServerStatus, ...]:
        """Start a server again; without a name, all that run, failed or need a login."""
        return answer.servers

    @command
    def mcp_login(self, answer: answers.McpServerAnswer, name: str) -> McpServerStatus:
        """Log in to an MCP server; the dialogs of the login come as `UiRequest`."""
        return answer.server

    @command
    def mcp_logout(self, answer: answers.McpLoggedOut, name: str) -> bool:
        """Remove the stored login of an MCP server; False if there was none."""
        return answer.removed


class AgentCommands:
    """Commands about subagents. Each method sends the command of its name."""

    @command
    def set_subagent_subscription(self, answer: answers.Subscription, level: Level) -> Level:
        """Choose which events of subagents are sent."""
        return answer.level

    @command
    def get_subagents(self, answer: answers.Subagents) -> tuple[Snapshot, ...]:
        """Return the running subagents."""
        return answer.subagents

    @command
    def get_subagent_messages(
        self,
        answer: answers.Transcript,
        subagent_id: str | None = None,
        *,
        session_file: str | None = None,
        from_byte: int | None = None,
    ) -> answers.Transcript:
        """Return the session file of a subagent from a byte on; pass its id or its file."""
        return answer

    @command
    def cancel_subagent(self, answer: answers.CancelledSubagent, subagent_id: str) -> bool:
        """Cancel a subagent; False if it does not run."""
        return answer.cancelled

    @command
    def steer_subagent(self, answer: None, subagent_id: str, message: str) -> None:
        """Send a message to a subagent; it gets the message before its next request."""
