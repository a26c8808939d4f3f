"""What an engine must offer so that extensions can act; and the user interface they may use."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ludolf.agent.scope import Scope
from ludolf.agent.tool import Tool
from ludolf.ai.messages import CustomMessage, Part, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, Request
from ludolf.base import Value
from ludolf.config.models.models_file import ProviderEntry
from ludolf.config.models.registry import ModelRegistry
from ludolf.protocol.events import CompactionResult
from ludolf.session.stats import ContextUsage
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.extensions.payloads import PromptOptions

Mode = Literal["tui", "rpc", "json", "print", "sdk"]
Delivery = Literal["steer", "followUp", "nextTurn"]
Level = Literal["info", "warning", "error"]
Placement = Literal["aboveEditor", "belowEditor"]


class Signal:
    """Whether the run it belongs to was aborted. Can be asked (`aborted`) and awaited."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def aborted(self) -> bool:
        return self._scope.aborted

    def __bool__(self) -> bool:
        return self.aborted

    def __await__(self) -> Generator[Any, None, Literal[True]]:
        return self._scope.until_aborted().__await__()


class Change(Value):
    """How a change of session ended; `text` is that of the message that was gone back to."""

    cancelled: bool
    text: str | None = None
    summary_entry_id: str | None = None


class NavigateOptions(Value):
    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


Setup = Callable[[Session], Awaitable[None] | None]
Then = Callable[[Any], Awaitable[None]]


class SessionChanges(Protocol):
    """Replacing or moving about in the session. Only commands may ask for it.

    `then` is for the new session: give it to `Extensions.continue_with` once they are bound there.
    """

    async def wait_for_idle(self) -> None:
        """Return when no run goes on and none is about to start."""

    async def new(self, parent: str | None, setup: Setup | None, then: Then | None) -> Change:
        """Start a new session; `setup` may fill it before its `session_start`."""

    async def switch(self, path: str, then: Then | None) -> Change: ...

    async def fork(
        self, entry_id: str, position: Literal["before", "at"], then: Then | None
    ) -> Change: ...

    async def navigate(self, target_id: str, options: NavigateOptions) -> Change:
        """Raises:
        CommandError: something runs, or there is no such entry.
        """

    async def reload(self) -> None:
        """Load settings, resources and extensions again; the session stays."""


class Host(Protocol):
    """The engine as extensions use it. All of it is called on the event loop.

    A CommandError raised here reaches the extension that called, with its text; from the two
    `send_…` it is reported as an `extension_error` of `<runtime>` instead.
    """

    # ------------------------------------------------------------ facts

    @property
    def mode(self) -> Mode: ...
    @property
    def ui(self) -> "Ui": ...
    @property
    def cwd(self) -> Path: ...
    @property
    def trusted(self) -> bool:
        """Whether the project's own configuration is in use."""

    @property
    def session(self) -> Session: ...
    @property
    def sessions(self) -> SessionChanges: ...
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
        """That of the active run; None when idle."""

    @property
    def is_idle(self) -> bool: ...
    @property
    def has_pending_messages(self) -> bool: ...

    @property
    def context_usage(self) -> ContextUsage | None: ...
    @property
    def system_prompt(self) -> str: ...
    @property
    def prompt_options(self) -> "PromptOptions": ...
    @property
    def commands(self) -> tuple[Any, ...]:
        """The items of `get_commands`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment for child processes, keys of providers taken out."""

    # ------------------------------------------------------------ the conversation

    def send_message(
        self, message: CustomMessage, *, trigger_turn: bool | None, deliver_as: Delivery | None
    ) -> None:
        """nextTurn: keep it for the next prompt. Running: queue it as steering (or follow-up), or
        with trigger_turn=False append it at the turn's end. Idle: start a run if trigger_turn,
        else append it, telling message_start and message_end."""

    def send_user_message(
        self,
        content: str | tuple[Part, ...],
        *,
        deliver_as: Literal["steer", "followUp"] | None,
        expand: bool,
    ) -> None:
        """Like a prompt with source `extension`; while running without deliver_as it is refused.
        `expand` replaces templates and skills. Work that takes time goes on by itself."""

    def append_entry(self, custom_type: str, data: Any) -> str:
        """Store an entry that no model sees, tell `entry_appended`, and return its id. `data` may
        be UNSET."""

    def set_session_name(self, name: str) -> None: ...
    def set_label(self, entry_id: str, label: str | None) -> None: ...

    # ------------------------------------------------------------ model and tools

    def set_model(self, model: Model) -> bool:
        """False without credentials."""

    def set_thinking_level(self, level: str) -> None: ...
    async def request(self, model: Model) -> Request:
        """A request to a model that says nothing yet, once its login is fresh.

        Raises:
            ProviderError: no provider or no key for it.
        """

    def register_provider(self, name: str, entry: ProviderEntry, backend: Provider | None) -> None:
        """Make a provider's models known, over earlier ones of that name. With a backend, its
        models speak `backend.api`.

        Raises:
            ConfigError: the entry is incomplete.
        """

    def unregister_provider(self, name: str) -> None: ...
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name, built-in ones and those of extensions."""

    def active_tools(self) -> tuple[str, ...]: ...
    def set_active_tools(self, names: Sequence[str]) -> None:
        """Unknown names are ignored."""

    def tools_changed(self, added: str) -> None:
        """An extension has registered a tool after loading; it becomes active at once."""

    # ------------------------------------------------------------ stopping

    def abort(self) -> None: ...
    def shutdown(self) -> None:
        """End the program with code 0 once the present command is answered and the run settled."""

    async def compact(self, instructions: str | None) -> CompactionResult:
        """Raises:
        CommandError: refused, failed or cancelled.
        """


class EarlyHost(msgspec.Struct, frozen=True):
    """What there is before a session: enough to ask whether the project is trusted."""

    mode: Mode
    ui: "Ui"
    cwd: Path


class Ui(Protocol):
    """The user, through whatever shows the agent. `timeout` is in milliseconds.

    Without an answer in time, when cancelled, or with nobody there: `confirm` gives False, the
    others None. Cancelling the await withdraws the dialog.
    """

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None
    ) -> str | None: ...

    async def confirm(self, title: str, message: str, *, timeout: float | None = None) -> bool: ...

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None
    ) -> str | None: ...

    async def editor(
        self, title: str, prefill: str | None = None, *, timeout: float | None = None
    ) -> str | None: ...

    def notify(self, message: str, level: Level | None = None) -> None: ...
    def set_status(self, key: str, text: str | None) -> None:
        """A short text that stays; None clears it."""

    def set_widget(
        self, key: str, lines: Sequence[str] | None, *, placement: Placement | None = None
    ) -> None:
        """Lines by the editor; None clears them."""

    def set_title(self, title: str) -> None: ...
    def set_editor_text(self, text: str) -> None: ...
    def paste_to_editor(self, text: str) -> None: ...
