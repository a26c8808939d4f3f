"""Answers that fit a JSON Schema: a tool for one prompt, reminders, the event with the value."""

from functools import partial
from typing import Any

from ludolf.agent.events import TurnEnd
from ludolf.agent.io import QueuedMessage, QueueKind
from ludolf.agent.tool import ToolFailure
from ludolf.ai.messages import AssistantMessage, CustomMessage, ToolResultMessage, text_of
from ludolf.base import CommandError, dumps, now_ms
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Feature
from ludolf.functions.final_answer import ASK, REMIND, TOOL, AnswerTool
from ludolf.mcp.schema_limits import is_cheap_to_apply, is_deeper
from ludolf.protocol.events import StructuredOutput
from ludolf.tools.schema import check_value, schema_validator

SOURCE = "structured-output"
MOST_REMINDERS = 2
# Calls with arguments that do not fit, after which the tool is withdrawn.
MOST_REJECTED = 5
_MAX_SCHEMA_BYTES = 64 * 1024
_MAX_LEVELS = 64
_LONGEST_QUOTE = 1000
_CONFLICT = (
    f"A tool with the name {TOOL} exists already, so the model cannot return a structured answer. "
    "Remove or rename it."
)


def answer_tool_for(schema: Any) -> AnswerTool[Any]:
    """Return the tool that takes an answer which fits a JSON Schema.

    Raises:
        CommandError: the schema cannot be used; the text says why.
    """
    if not isinstance(schema, dict):
        raise _unusable("it is not a JSON object")
    try:
        if is_deeper(schema, _MAX_LEVELS):
            raise _unusable(f"it is nested deeper than {_MAX_LEVELS} levels")
        if len(dumps(schema)) > _MAX_SCHEMA_BYTES:
            raise _unusable(f"it is larger than {_MAX_SCHEMA_BYTES // 1024} KiB")
        if not is_cheap_to_apply(schema):
            raise _unusable("its references stand for too many schemas")
        tool = AnswerTool(schema, partial(check_value, schema_validator(TOOL, schema)))
        schema_validator(TOOL, tool.parameters)
    except ToolFailure as error:
        raise _unusable(str(error.__cause__).partition("\n")[0]) from error
    except UnicodeEncodeError as error:
        raise _unusable("it contains half of a surrogate pair") from error
    return tool


def _unusable(reason: str) -> CommandError:
    return CommandError(f"The output schema cannot be used: {reason}.", code="invalid_parameter")


def structured_answers(bundles: Bundles) -> "StructuredAnswers":
    """Return the feature of an engine; it is added at its first use."""
    found = bundles.features.find(StructuredAnswers)
    if found is None:
        found = StructuredAnswers(bundles)
        bundles.features.add(found)
    return found


class StructuredAnswers(Component, Feature):
    """Active from the start of a prompt with a schema to the end of its run."""

    def __init__(self, bundles: Bundles) -> None:
        super().__init__(bundles)
        self._tool: AnswerTool[Any] | None = None
        self._reminders = 0
        self._rejected = 0
        self._is_due = False
        self._reason = ""

    def check_name(self) -> None:
        """Raises:
        CommandError: another tool has the name of the tool for answers.
        """
        if self.toolset.source_of(TOOL) not in (None, SOURCE):
            raise CommandError(_CONFLICT)

    def begin(self, tool: AnswerTool[Any]) -> CustomMessage:
        """Offer the tool in the run that starts now; returns the message that asks for the call."""
        self._finish()
        self._tool = tool
        self._reminders = self._rejected = 0
        self._is_due, self._reason = False, "The run ended before the model answered."
        self.toolset.provide(SOURCE, [tool], inherited=False)
        return _message(ASK)

    # ------------------------------------------------------------ turns

    async def before_turn_end(self, event: TurnEnd) -> None:
        if self._tool is None:
            return
        message = event.message
        assert isinstance(message, AssistantMessage)
        for result in event.tool_results:
            self._note(result)
        text = text_of(message.content)
        if message.failed:
            self._reason = message.error_message or "The run was aborted."
        elif not event.tool_results:
            self._tool.take_text(text)
            if not self._rejected:
                self._reason = f"The model did not call {TOOL}. It answered: {_quote(text)}"
        is_silent = not message.failed and not event.tool_results and not self._tool.given
        self._is_due = is_silent and self._reminders < MOST_REMINDERS

    def pending(self, kind: QueueKind) -> int:
        is_last = not len(self.conversation.queue) and not self.features.will_wake()
        return int(kind == "follow_up" and self._is_due and is_last)

    def take(self, kind: QueueKind) -> QueuedMessage:
        self._is_due = False
        self._reminders += 1
        return _message(REMIND)

    def on_idle(self) -> bool:
        is_open = self._tool is not None and not self._tool.given
        if not (is_open and self.features.will_wake()):
            self._finish()
        return False

    # ------------------------------------------------------------ private

    def _note(self, result: ToolResultMessage) -> None:
        """Count a rejected call; too many of them withdraw the tool."""
        if result.tool_name != TOOL or not result.is_error:
            return
        self._rejected += 1
        self._reason = f"The answer of the model does not fit: {_quote(text_of(result.content))}"
        if self._rejected >= MOST_REJECTED:
            self._reminders = MOST_REMINDERS
            self.toolset.remove_source(SOURCE)

    def _finish(self) -> None:
        """Withdraw the tool and report the value, or why there is none."""
        tool, self._tool = self._tool, None
        if tool is None:
            return
        self._is_due = False
        self.toolset.remove_source(SOURCE)
        given = StructuredOutput(value=tool.value) if tool.given else None
        self.conversation.hub.post(given or StructuredOutput(error=self._reason))


def _message(text: str) -> CustomMessage:
    return CustomMessage(custom_type=SOURCE, content=text, display=False, timestamp=now_ms())


def _quote(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
