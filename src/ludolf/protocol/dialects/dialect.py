"""The protocol of a dialect: it writes events and replies of the core for one family of hosts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ludolf.protocol.events import Event
from ludolf.protocol.framing import Frame, Reply

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

Render = Callable[[Any], Frame | None]


def _nowhere(entry_id: str) -> int:
    return 0


class ServerInfo(msgspec.Struct, frozen=True):
    """Data for a greeting; `commands` is called only by dialects that list them.

    `tells_titles`: requests to set a window title are passed on where a family drops them.
    `place_of`: the number of the line of an entry in the session file, from 0.
    `cwd`: the folder that relative paths of tools start from.
    """

    version: str
    commands: Callable[[], Any] = tuple
    tells_titles: bool = False
    place_of: Callable[[str], int] = _nowhere
    cwd: Callable[[], str] = str


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviour that hosts of a family expect, unless the settings say otherwise.

    early_ack        a prompt is acknowledged before it has been checked
    starts_when_idle a steering or follow-up message starts a run if the agent is idle
    queues_when_busy a prompt without `streamingBehavior` waits for the end of the run
    skips_empty      a prompt or shell command without text is ignored
    answers_slash    prompts such as `/model` are answered without a model
    ends_after_run   at the end of input the run continues to its end
    opens_existing   a session file that does not exist is refused, not created
    todos            the todo tool and its reminders are on
    tasks            the model may start subagents
    clears_todos     finished todos are removed from the list after a while
    prompt_results   every accepted prompt ends with a `prompt_result`
    forgets_modes    the modes of the queues are not written to the settings
    max_frame        no line is longer than this many bytes
    """

    early_ack: bool = False
    starts_when_idle: bool = False
    queues_when_busy: bool = False
    skips_empty: bool = False
    answers_slash: bool = False
    ends_after_run: bool = False
    opens_existing: bool = False
    todos: bool = False
    tasks: bool = False
    clears_todos: bool = False
    prompt_results: bool = False
    forgets_modes: bool = False
    max_frame: int | None = None
    interrupt_mode: Literal["immediate", "wait"] = "wait"


class Dialect(Protocol):
    """Writes the output. A frame is one or more whole lines, as bytes or as pieces to be joined.

    There is one per connection, so it may keep state.
    """

    @property
    def name(self) -> str: ...
    @property
    def traits(self) -> Traits: ...

    def greeting(self, info: ServerInfo) -> Frame | None: ...
    def begun(self, command: str) -> None:
        """Note that a command starts, before any event that it causes."""

    def reply(self, reply: Reply) -> Frame | None: ...
    def event(self, event: Event) -> Frame | None: ...
    def ui(self, request: "UiRequest") -> Frame | None: ...
