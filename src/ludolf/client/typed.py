"""Typed commands, prompts and events, on top of the records of an exchange."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import UnsetType

from ludolf.ai.messages import Image
from ludolf.client.answering import answer_to
from ludolf.client.base import AsyncSender, Params, SendingMethod
from ludolf.client.commands import (
    AgentCommands,
    ExtensionCommands,
    McpCommands,
    ModelCommands,
    ProgramCommands,
    PromptCommands,
    SessionCommands,
)
from ludolf.client.errors import ClientError, OddAnswer
from ludolf.client.events import EventReader, TypedEvent
from ludolf.client.exchange import RecordExchange
from ludolf.client.prompt_messages import PromptMessages
from ludolf.client.running import PromptRun
from ludolf.protocol.answer import Answer
from ludolf.protocol.commands import COMMANDS, Disposition
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.answers import Accepted
from ludolf.protocol.wire.frames import MessageUpdate
from ludolf.protocol.wire.pieces import TextDelta
from ludolf.protocol.wire.stored import read_open

TIMEOUT = 30.0
R = TypeVar("R")


class TypedExchange(
    PromptCommands,
    ModelCommands,
    SessionCommands,
    ProgramCommands,
    AgentCommands,
    ExtensionCommands,
    McpCommands,
    AsyncSender,
    RecordExchange,
):
    """Prompts to their end and events as values; each command has a method with its name."""

    _reader: EventReader
    _timeout: float | None
    _given_up: PromptRun | None = None

    # ------------------------------------------------------------ prompts to their end

    async def prompt_and_wait(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        output_schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a prompt and wait until the agent is idle. A cancelled wait aborts the run.

        With `output_schema`, a JSON Schema, `structured` of the answer is a value that fits it.

        Raises:
            PromptFailed: the model could not answer, or not as the schema says.
            Refused: the prompt was not accepted.
            NoAnswer: it took longer than `timeout` seconds.
            ProgramEnded: the program died.
        """
        stream = self.stream(text, images=images, output_schema=output_schema)
        told = PromptMessages(is_structured=output_schema is not None)
        async with self._limit(timeout, "end of the prompt"), aclosing(stream) as events:
            async for event in events:
                told.add(event)
        return told.answer()

    async def stream(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        output_schema: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[TypedEvent, None]:
        """Send a prompt and yield events until the agent is idle.

        A loop that is left early aborts the run. Earlier unread events are dropped. With
        `output_schema`, one of the events is a `StructuredOutput`.

        Raises:
            Refused: the prompt was not accepted.
            ProgramEnded: the program died.
        """
        if self._waiting:
            raise ClientError("Another task reads the events: send prompt() and read them there.")
        if self._given_up is not None:
            await self._given_up.drain()
        self._given_up = run = PromptRun(self)
        try:
            pictures = {"images": list(images)} if images else {}
            schema = {} if output_schema is None else {"outputSchema": output_schema}
            await run.begin({"message": text, **pictures, **schema})
            while (record := await run.next()) is not None:
                yield self._reader.read(record)
        finally:
            if run.is_over:
                self._given_up = None
            else:
                await run.give_up()

    async def stream_text(
        self, text: str, *, images: Sequence[Image] = ()
    ) -> AsyncGenerator[str, None]:
        """Send a prompt and yield the text of the answer; raises as `prompt_and_wait` does."""
        told = PromptMessages()
        async with aclosing(self.stream(text, images=images)) as events:
            async for event in events:
                told.add(event)
                if isinstance(event, MessageUpdate) and isinstance(event.piece, TextDelta):
                    yield event.piece.delta
        told.answer()

    # ------------------------------------------------------------ events

    async def typed_events(self) -> AsyncGenerator[TypedEvent, None]:
        """All events as values, without a time limit, until the program ends."""
        async with aclosing(self.events()) as records:
            async for record in records:
                yield self._reader.read(record)

    async def answer_dialog(self, request: UiRequest, value: str | bool | None) -> None:
        """Answer a dialog that came as an event: the option, the text, or yes and no; None
        dismisses it."""
        await self.send("extension_ui_response", id=request.id, **answer_to(request, value))

    # ------------------------------------------------------------ private

    async def _perform(self, method: SendingMethod[Any, R], params: Params) -> R:
        return method.result(await self._answer(method.name, params), params)

    async def _answer(self, command: str, params: Params) -> Any:
        """Return the answer to a command, as the struct that its dialect has for it."""
        given = {_camel(name): value for name, value in params.items() if value is not None}
        if "error" in params:
            given["isError"] = params["error"] is not None
        spec = COMMANDS[command]
        if spec.unanswered:
            await self.send(command, **given)
            return None
        answers = self.wire.answers
        if not answers:
            raise ClientError(f"{self.wire.name} answers no command: use send({command!r})")
        timeout = None if spec.is_slow else self._timeout
        data = await self.ask(command, timeout, **given)
        kind = answers.get(command)
        if kind is None or (data is None and spec.is_prompt):
            return None
        try:
            answer = msgspec.convert(data, _present(kind), dec_hook=read_open)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise OddAnswer(f"{command}: {error}; use ask({command!r})") from error
        return _disposition(answer) if spec.is_prompt else answer


def _present(kind: Any) -> Any:
    """The type of an answer that is there, where it may also be missing altogether."""
    members = get_args(kind)
    return members[0] if UnsetType in members else kind


def _disposition(answer: Any) -> Disposition | None:
    if isinstance(answer, Accepted):
        return answer.disposition
    return None if answer is None or answer.agent_invoked else "handled"


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.title() for word in more)
