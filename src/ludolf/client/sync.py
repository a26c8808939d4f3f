"""The same client for scripts and notebooks that do not use asyncio: every call waits.

from ludolf.client import sync

with sync.Client() as client:
    print(client.prompt_and_wait("What is in this folder?").text)
"""

from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack

from ludolf.ai.messages import Image
from ludolf.base.loop_thread import LoopThread
from ludolf.client import client
from ludolf.client.base import BlockingSender, Params, SendingMethod
from ludolf.client.commands import (
    AgentCommands,
    ExtensionCommands,
    McpCommands,
    ModelCommands,
    ProgramCommands,
    PromptCommands,
    SessionCommands,
)
from ludolf.client.errors import ClientError
from ludolf.client.events import Record, TypedEvent
from ludolf.client.exchange import SECONDS, Match
from ludolf.client.options import ClientOptions
from ludolf.protocol.answer import Answer
from ludolf.protocol.ui import UiRequest

T = TypeVar("T")


class Client(
    PromptCommands,
    ModelCommands,
    SessionCommands,
    ProgramCommands,
    AgentCommands,
    ExtensionCommands,
    McpCommands,
    BlockingSender,
):
    """Runs a `ludolf.client.Client` in a thread with an event loop of its own, so that it works
    inside a program that has one too, such as a notebook.

    Ctrl-C while `prompt_and_wait` waits aborts the run. Other threads may call it at any time.
    """

    def __init__(self, *arguments: str, **options: Unpack[ClientOptions]) -> None:
        self._client = client.Client(*arguments, **options)
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._end(self._client.close if kind is None else self._client.kill)

    def open(self) -> None:
        """Start the program; raises as `ludolf.client.Client.open` does."""
        if self._thread is not None:
            raise ClientError("The client is open already.")
        self._thread = LoopThread()
        try:
            self._wait(self._client.open())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Let the program finish, else kill it. A second call does nothing."""
        self._end(self._client.close)

    # ------------------------------------------------------------ prompts to their end

    def prompt_and_wait(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        output_schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Ask, and wait until the agent has come to rest.

        With `output_schema`, a JSON Schema, `structured` of the answer is a value that fits it.

        Raises:
            PromptFailed: the model could not answer, or not as the schema says.
            Refused: the prompt was not accepted.
            NoAnswer: it took longer than `timeout` seconds.
            ProgramEnded: the program died.
        """
        return self._wait(
            self._client.prompt_and_wait(
                text, images=images, output_schema=output_schema, timeout=timeout
            )
        )

    def stream(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        output_schema: Mapping[str, Any] | None = None,
    ) -> Iterator[TypedEvent]:
        """Send a prompt and yield events; leaving the loop early aborts the run."""
        return self._pull(self._client.stream(text, images=images, output_schema=output_schema))

    def stream_text(self, text: str, *, images: Sequence[Image] = ()) -> Iterator[str]:
        """Ask, and yield the text of the answer as it comes."""
        return self._pull(self._client.stream_text(text, images=images))

    # ------------------------------------------------------------ events

    def typed_events(self) -> Iterator[TypedEvent]:
        """All events as values, until the program ends."""
        return self._pull(self._client.typed_events())

    def wait_for(self, match: Match, timeout: float | None = SECONDS) -> Record:
        """The next event that has the type, or fits, as a record; others are dropped."""
        return self._wait(self._client.wait_for(match, timeout))

    def answer_dialog(self, request: UiRequest, value: str | bool | None) -> None:
        """Answer a dialog that came as an event."""
        self._wait(self._client.answer_dialog(request, value))

    # ------------------------------------------------------------ commands as records

    def send(self, command: str, /, **params: Any) -> Any:
        """Send a command and return its id."""
        return self._wait(self._client.send(command, **params))

    def ask(self, command: str, /, timeout: float | None = SECONDS, **params: Any) -> Any:
        """The `data` of a command's reply.

        Raises:
            Refused: the command failed.
        """
        return self._wait(self._client.ask(command, timeout, **params))

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._client.process.pid

    # ------------------------------------------------------------ private

    def _perform(self, method: SendingMethod[Any, T], params: Params) -> T:
        return self._wait(self._client._perform(method, params))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise ClientError("The client is not open: use `with`, or call open().")
        return self._thread.wait(work)

    def _pull(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        if self._thread is None:
            raise ClientError("The client is not open: use `with`, or call open().")
        return self._thread.pull(source)

    def _end(self, end: Any) -> None:
        if self._thread is not None:
            try:
                self._wait(end())
            finally:
                self._stop()

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
