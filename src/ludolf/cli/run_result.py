"""The result of print mode: one JSON object, or the structured value alone."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ludolf.agent.events import MessageEnd
from ludolf.ai.messages import AssistantMessage, StopReason, Usage
from ludolf.base import ConfigError, LudolfError, Value, dumps, loads
from ludolf.engine.engine import Engine
from ludolf.engine.hub import Sink
from ludolf.protocol.answer import answer_of
from ludolf.protocol.events import Event, StructuredOutput

if TYPE_CHECKING:
    from ludolf.functions.final_answer import AnswerTool

_MAX_FILE_BYTES = 1 << 20


class SessionPlace(Value):
    """`file` is absent if the session is not stored."""

    id: str
    file: str | None = None


class PrintedResult(Value, tag_field="type", tag="result"):
    """What `--output-format json` prints: the last answer, and the sums over all prompts.

    `cost` is in US dollars. `turns` counts the answers of the model. `structured` is there with
    `--output-schema`, unless `error` says why it is missing.
    """

    text: str
    usage: Usage
    cost: float
    session: SessionPlace
    model: str | None
    stop_reason: StopReason | None
    turns: int
    duration_ms: int
    structured: Any = UNSET
    error: str | None = None


class RunRecord(Sink):
    """Event sink that collects what the result reports."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._answers: list[AssistantMessage] = []
        self.output: StructuredOutput | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._answers.append(event.message)
        elif isinstance(event, StructuredOutput):
            self.output = event

    def result(self, engine: Engine, error: str | None) -> PrintedResult:
        answer, session, model = answer_of(self._answers), engine.session, engine.models.current
        return PrintedResult(
            text=answer.text,
            usage=answer.usage,
            cost=answer.usage.cost.total,
            session=SessionPlace(id=session.id, file=str(session.path) if session.path else None),
            model=model.key if model else None,
            stop_reason=answer.stop_reason,
            turns=len(self._answers),
            duration_ms=round((time.monotonic() - self._began) * 1000),
            structured=self.output.value if self.output else UNSET,
            error=error,
        )


def early_failure(error: LudolfError) -> bytes:
    """Return the JSON object for an error before the run."""
    return dumps({"type": "result", "error": str(error)}) + b"\n"


def read_answer_tool(cwd: Path, name: str) -> "AnswerTool[Any]":
    """Return the tool for answers that fit the schema in a file.

    Raises:
        ConfigError: the file cannot be read, or is not a JSON Schema.
    """
    from ludolf.engine.features.structured_answers import answer_tool_for

    try:
        with (cwd / os.path.expanduser(name)).open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"--output-schema {name}: {error.strerror}") from error
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigError(f"--output-schema {name}: the file is larger than 1 MiB.")
    try:
        schema = loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--output-schema {name}: this is not JSON: {error}") from error
    try:
        return answer_tool_for(schema)
    except LudolfError as error:
        raise ConfigError(f"--output-schema {name}: {error}") from error
