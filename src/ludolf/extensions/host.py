"""`Host`: what an engine implements for extensions."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from ludolf.agent.scope import Scope
from ludolf.agent.tool import Tool
from ludolf.ai.messages import CustomMessage, Part, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.config.models.registry import ModelRegistry
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.payloads import PromptOptions
from ludolf.extensions.providers import Registration
from ludolf.protocol.events import CompactionResult
from ludolf.session.tree import Session

HostMode = Literal["tui", "rpc", "json", "print", "sdk"]
Delivery = Literal["steer", "followUp", "nextTurn"]


class Signal:
    """Abort signal of a run: read `aborted`, or await the abort."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def aborted(self) -> bool:
        return self._scope.aborted

    def __bool__(self) -> bool:
        return self.aborted

    def __await__(self) -> Generator[Any, None, Literal[True]]:
        return self._scope.until_aborted().__await__()


Setup = Callable[[Session], Awaitable[None] | None]
Then = Callable[[Any], Awaitable[None]]


class HostProviders(Protocol):
    """The providers that the extensions of a session register."""

    def add(self, provider: Registration) -> None:
        """Register the models of a provider, replacing earlier ones of that name.

        With a backend, its models use the API of that backend.

        Raises:
            ConfigError: the entry is incomplete.
        """

    def remove(self, name: str) -> None: ...

    async def refresh(
        self, providers: Sequence[str] | None = None, *, network: bool | None, force: bool = False
    ) -> dict[str, str]:
        """Fetch the model lists of these providers, by default of all.

        `network` None allows it unless the program is offline. Returns the errors by provider.
        """


class Host(Protocol):
    """The engine as extensions use it. All methods are called on the event loop.

    A CommandError propagates to the extension that called; from the two `send_…` methods it is
    reported as an `extension_error` of `<runtime>` instead.
    """

    # ------------------------------------------------------------ state

    @property
    def mode(self) -> HostMode: ...
    @property
    def ui(self) -> Dialogs: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def trusted(self) -> bool:
        """Return whether the project's configuration is in use."""

    @property
    def session(self) -> Session: ...
    @property
    def registry(self) -> ModelRegistry: ...
    @property
    def model(self) -> Model | None: ...
    @property
    def scoped_models(self) -> tuple[Model, ...]: ...
    @property
    def thinking_level(self) -> ThinkingLevel: ...
    @property
    def signal(self) -> Signal | None:
        """Return the abort signal of the active run; None when idle."""

    @property
    def is_idle(self) -> bool: ...
    @property
    def has_pending_messages(self) -> bool: ...
    @property
    def system_prompt(self) -> str: ...
    @property
    def prompt_options(self) -> PromptOptions: ...
    @property
    def commands(self) -> tuple[Any, ...]:
        """Return the items of `get_commands`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of child processes, without provider keys."""

    # ------------------------------------------------------------ the conversation

    def send_message(
        self, message: CustomMessage, *, trigger_turn: bool | None, deliver_as: Delivery | None
    ) -> None:
        """Add a custom message.

        nextTurn: hold it until the next prompt. During a run: queue it as steering or follow-up,
        or with trigger_turn=False append it at the end of the turn. When idle: start a run if
        trigger_turn, else append it and emit message_start and message_end.
        """

    def send_user_message(
        self,
        content: str | tuple[Part, ...],
        *,
        deliver_as: Literal["steer", "followUp"] | None,
        expand: bool,
    ) -> None:
        """Send a prompt with the source `extension`; slow work continues in the background.

        During a run it is refused without deliver_as. `expand` expands templates and skills.
        """

    def append_entry(self, custom_type: str, data: Any) -> str:
        """Store an entry that is not sent to models, emit `entry_appended`, return its id.

        `data` may be UNSET.
        """

    def set_session_name(self, name: str) -> None: ...

    # ------------------------------------------------------------ model and tools

    def set_model(self, model: Model) -> bool:
        """Select a model; returns False without credentials."""

    def set_thinking_level(self, level: str) -> None: ...
    async def request(self, model: Model) -> Request:
        """Return an empty request to a model, after refreshing its login if needed.

        Raises:
            ProviderError: the model has no provider or no key.
        """

    def provide_mcp_servers(self, servers: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the MCP servers of extensions.

        Raises:
            CommandError: an entry is invalid; nothing has changed then.
        """

    @property
    def providers(self) -> "HostProviders":
        """Return the providers of extensions."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Return all tools by name, built-in ones and those of extensions."""

    @property
    def active_tools(self) -> tuple[str, ...]: ...
    def set_active_tools(self, names: Sequence[str]) -> None:
        """Activate exactly these tools; unknown names are ignored."""

    def tools_changed(self, added: str) -> None:
        """Activate a tool that an extension registered after loading."""

    # ------------------------------------------------------------ stopping

    def abort(self) -> None: ...
    def shutdown(self) -> None:
        """Exit with code 0 after the current command is answered and the agent is idle."""

    async def compact(self, instructions: str | None) -> CompactionResult:
        """Compact the conversation.

        Raises:
            CommandError: the compaction was refused, failed or was cancelled.
        """

    # ------------------------------------------------------------ changes of session

    # Only commands may use these. They return False if a handler vetoed the change. `then` runs
    # in the new session: pass it to `Extensions.continue_with` once they are bound.

    async def wait_for_idle(self) -> None:
        """Return when no run is active or about to start."""

    async def new_session(self, parent: str | None, setup: Setup | None, then: Then | None) -> bool:
        """Start a new session; `setup` may fill it before its `session_start`."""

    async def switch_session(self, path: str, then: Then | None) -> bool: ...

    async def fork(
        self, entry_id: str, position: Literal["before", "at"], then: Then | None
    ) -> bool: ...

    async def navigate(
        self,
        target_id: str,
        *,
        summarize: bool,
        instructions: str | None,
        replace: bool,
        label: str | None,
    ) -> bool:
        """Continue from another entry of the tree.

        Raises:
            CommandError: a run is active, or the entry does not exist.
        """

    async def reload(self) -> None:
        """Load settings, resources and extensions again; the session stays."""
