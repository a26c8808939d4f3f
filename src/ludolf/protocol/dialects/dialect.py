"""What a dialect is: how events and replies of the neutral core are written for one family."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ludolf.base import dumps
from ludolf.protocol.events import Event
from ludolf.protocol.replies import Frame, Reply

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

Render = Callable[[Any], Frame | None]


def line(record: Any) -> bytes:
    """A record or event as it leaves."""
    return dumps(record) + b"\n"


def _nowhere(entry_id: str) -> int:
    return 0


class ServerInfo(msgspec.Struct, frozen=True):
    """What a greeting may tell; `commands` is asked only by those that tell it.

    `tells_titles`: requests to name a window are passed on where a family keeps them back.
    `place_of`: the number of the line where the session's file holds an entry, from 0.
    `cwd`: the folder that the paths of tools begin in.
    """

    version: str
    commands: Callable[[], Any] = tuple
    tells_titles: bool = False
    place_of: Callable[[str], int] = _nowhere
    cwd: Callable[[], str] = str


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What hosts of a family expect beyond the words: defaults where nobody says otherwise.

    early_ack        a prompt is acknowledged before it has been looked at
    starts_when_idle a steering or follow-up message starts a run if none goes on
    queues_when_busy a prompt without `streamingBehavior` waits for the end of the run
    skips_empty      a prompt or shell command without text is passed over
    answers_slash    prompts such as `/model` are answered here, without any model
    ends_after_run   at the end of input the run goes on to its end
    opens_existing   a session file that does not exist is refused, not made
    todos            the todo tool is there, and reminds, unless the settings say otherwise
    tasks            the model may start agents in the background, likewise
    clears_todos     finished todos are taken off the list after a while
    prompt_results   every accepted prompt ends with a `prompt_result`
    forgets_modes    how many waiting messages are delivered is not written to the settings
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
    """Output only. A frame is one or more whole lines, as bytes or as pieces to be joined.

    There is one per connection, so it may remember what it said.
    """

    @property
    def name(self) -> str: ...
    @property
    def traits(self) -> Traits: ...

    def greeting(self, info: ServerInfo) -> Frame | None: ...
    def begun(self, command: str) -> None:
        """A command begins to act: told before anything that it causes."""

    def reply(self, reply: Reply) -> Frame | None: ...
    def event(self, event: Event) -> Frame | None: ...
    def ui(self, request: "UiRequest") -> Frame | None: ...
