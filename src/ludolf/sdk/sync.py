"""Blocking SDK session for scripts and notebooks without asyncio.

>>> from ludolf import sync
>>> with sync.create_session(model="ludolf/offline") as session:
...     print(session.prompt("read a.txt").text)
Here is a.txt:
```
hi
```
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from ludolf.ai.messages import Image, Message, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base.loop_thread import LoopThread
from ludolf.extensions.session_view import SessionView
from ludolf.protocol.answer import Answer
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.results import BashResult, Limits, Moved
from ludolf.sdk.history import FilePath
from ludolf.sdk.options import SessionOptions
from ludolf.sdk.run import Run, SessionEvent
from ludolf.sdk.session import AgentSession
from ludolf.session.finder import SessionRecord
from ludolf.session.stats import SessionStats
from ludolf.session.views import ForkMessage

T = TypeVar("T")


def create_session(**options: Unpack[SessionOptions]) -> "BlockingSession":
    """Create a session for `with`; takes the options of `ludolf.create_session`."""
    return BlockingSession(**options)


class BlockingHistory:
    """The blocking form of `SessionHistory`: each method raises and returns the same."""

    _session: AgentSession

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    @property
    def history(self) -> SessionView:
        """Return the entries of the conversation with all its branches, for reading while idle."""
        return self._session.history

    @property
    def name(self) -> str | None:
        return self._session.name

    def new_session(self, *, parent: FilePath | None = None) -> bool:
        """Start a new conversation; returns False if an extension refused."""
        return self._wait(self._session.new_session(parent=parent))

    def switch_session(self, path: FilePath) -> bool:
        """Continue the conversation of a session file; returns False if an extension refused."""
        return self._wait(self._session.switch_session(path))

    def get_fork_messages(self) -> tuple[ForkMessage, ...]:
        """Return the user messages that `fork` can start before: `entry_id` and `text`."""
        return self._wait(_called(self._session.get_fork_messages))

    def fork(self, entry_id: str) -> str | None:
        """Start a conversation with everything before a user message; returns its text."""
        return self._wait(self._session.fork(entry_id))

    def clone(self) -> bool:
        """Continue in a copy of the conversation; returns False if an extension refused."""
        return self._wait(self._session.clone())

    def navigate_tree(
        self,
        entry_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        label: str | None = None,
    ) -> Moved:
        """Continue at another entry of the conversation, on a new branch."""
        return self._wait(
            self._session.navigate_tree(
                entry_id, summarize=summarize, instructions=instructions, label=label
            )
        )

    def list_sessions(self, *, everywhere: bool = False) -> tuple[SessionRecord, ...]:
        """Return the stored sessions of the folder, or of all folders, the last used first."""
        return self._wait(_called(lambda: self._session.list_sessions(everywhere=everywhere)))

    def set_session_name(self, name: str) -> None:
        """Name this session."""
        self._wait(_called(lambda: self._session.set_session_name(name)))

    def rename_session(self, path: FilePath, name: str) -> None:
        """Name a stored session."""
        self._wait(_called(lambda: self._session.rename_session(path, name)))

    def delete_session(self, path: FilePath) -> Path:
        """Move a session file to the trash folder; returns its new path."""
        return self._wait(_called(lambda: self._session.delete_session(path)))

    def export_html(self, path: FilePath | None = None, *, overwrite: bool = False) -> Path:
        """Write the conversation as an HTML page; returns its path."""
        return self._wait(self._session.export_html(path, overwrite=overwrite))


class BlockingSession(BlockingHistory):
    """Run an `AgentSession` in a thread with a separate event loop.

    It therefore works inside a program that already runs a loop, such as a notebook.
    """

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        self._session = _InnerSession(**options)
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Start the session; raises the same errors as `AgentSession.open`."""
        self._thread = LoopThread()
        try:
            self._wait(self._session.open())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Abort the run, save the session and release all resources. A second call does nothing."""
        if self._thread is not None:
            try:
                self._wait(self._session.close())
            finally:
                self._stop()

    def prompt(self, text: str, *, images: Sequence[Image] = ()) -> Answer:
        """Send a prompt and wait for the answer. Ctrl-C aborts the run.

        >>> with create_session(model="ludolf/offline") as session:
        ...     answer = session.prompt("read a.txt")
        >>> [message.role for message in answer.messages], answer.stop_reason
        (['user', 'assistant', 'toolResult', 'assistant'], 'stop')

        Raises:
            PromptFailed: the model could not answer.
            CommandError: the prompt was refused.
        """
        return self._wait(_finished(self._session.prompt(text, images=images)))

    def stream(self, text: str, *, images: Sequence[Image] = ()) -> Iterator[SessionEvent]:
        """Send a prompt and yield its events; leaving the loop early aborts the run.

        >>> with create_session(model="ludolf/offline") as session:
        ...     for event in session.stream("read a.txt"):
        ...         if type(event).__name__ == "ToolStart":
        ...             print(event.tool_name, event.args["path"])
        read a.txt
        """
        return self._pull(self._session.prompt(text, images=images).__aiter__())

    def stream_text(self, text: str, *, images: Sequence[Image] = ()) -> Iterator[str]:
        """Send a prompt and yield the text of the answer as it arrives.

        >>> with create_session(model="ludolf/offline") as session:
        ...     "".join(session.stream_text("hello"))
        'Hello! I am the offline demo model of Ludolf...'
        """
        return self._pull(self._session.prompt(text, images=images).text())

    def ask(self, text: str, returns: type[T], *, images: Sequence[Image] = ()) -> T:
        """Send a prompt and return a value of a type; raises the same errors as `AgentSession.ask`.

        >>> async def oracle(context):
        ...     yield "[1, 1, 2, 3, 5]"
        >>> with create_session(model=oracle) as session:
        ...     sum(session.ask("Give five numbers of Fibonacci's", list[int]))
        12
        """
        return self._wait(self._session.ask(text, returns, images=images))

    def steer(self, text: str) -> None:
        """Queue a message for the running agent, from another thread."""
        self._wait(self._session.steer(text))

    def follow_up(self, text: str) -> None:
        """Queue a message that the agent handles when its current work is done."""
        self._wait(self._session.follow_up(text))

    def abort(self) -> None:
        """Abort the run, from another thread."""
        self._wait(self._session.abort())

    def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation with a summary."""
        return self._wait(self._session.compact(instructions))

    def bash(self, command: str, *, exclude_from_context: bool = False) -> BashResult:
        """Run a shell command in the working folder and wait for it.

        >>> with create_session(model="ludolf/offline") as session:
        ...     session.bash("cat a.txt").output
        'hi\\n'
        """
        return self._wait(self._session.bash(command, exclude_from_context=exclude_from_context))

    def abort_bash(self) -> None:
        """End the commands of `bash`, from another thread; each returns as cancelled."""
        self._wait(_called(self._session.abort_bash))

    def set_limits(
        self,
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
    ) -> Limits:
        """Replace the limits of each prompt; a limit that is left out does not apply."""
        return self._wait(
            _called(
                lambda: self._session.set_limits(
                    max_turns=max_turns, max_tokens=max_tokens, max_cost=max_cost
                )
            )
        )

    def set_model(self, model: str) -> Model:
        return self._wait(self._session.set_model(model))

    def set_thinking(self, level: ThinkingLevel) -> None:
        self._wait(_called(lambda: self._session.set_thinking(level)))

    @property
    def messages(self) -> tuple[Message, ...]:
        return self._wait(_called(lambda: self._session.messages))

    @property
    def model(self) -> Model | None:
        return self._session.model

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def path(self) -> Path | None:
        return self._session.path

    @property
    def running(self) -> bool:
        return self._session.running

    def stats(self) -> SessionStats:
        return self._wait(_called(self._session.stats))

    # ------------------------------------------------------------ private

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            self._session.engine  # noqa: B018 - raises if the session is not open
            raise AssertionError
        return self._thread.wait(work)

    def _pull(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        self._session.engine  # noqa: B018 - raises if the session is not open
        assert self._thread is not None
        return self._thread.pull(source)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()


class _InnerSession(AgentSession):
    _opening = "Use `with`, or call open()."


async def _finished(run: Run) -> Answer:
    return await run


async def _called(function: Callable[[], T]) -> T:
    return function()
