"""Frames and answers of the dialect `pi-0.79`: those of `pi` without what pi 0.79 does not have."""

from typing import Any, Literal

from ludolf.agent import events as run
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.models import Model
from ludolf.base import Value
from ludolf.protocol import events as around
from ludolf.protocol.dialects.pi_079 import UNSPOKEN
from ludolf.protocol.results import State
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.answers import ANSWERS, SourceInfo
from ludolf.protocol.wire.frames import (
    COMMON,
    Chunk,
    FailedCompactionEnd,
    Header,
    MessageUpdate,
    Replaced,
    frames,
)
from ludolf.protocol.wire.pieces import WholePiece

ExactLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


class ExactUpdate(MessageUpdate):
    """The piece with the whole answer so far, twice."""

    assistant_message_event: WholePiece
    message: AssistantMessage


class ExactState(State, kw_only=True):
    """`model` has the id `unknown` when none is selected."""

    model: Model
    thinking_level: ExactLevel


class ExactCycledModel(Value):
    """`isScoped`: chosen among those of `--models`."""

    model: Model
    thinking_level: ExactLevel
    is_scoped: bool


class ExactLevels(Value):
    levels: tuple[ExactLevel, ...]


class ExactCycledLevel(Value):
    level: ExactLevel


class ExactLastText(Value):
    """`text` is missing before the first answer."""

    text: str | None = None


class ExactForked(Value, kw_only=True):
    """`text` is the message that the new session ends before; missing if it was cancelled."""

    cancelled: bool
    text: str | None = None


class ExactCommandItem(Value, kw_only=True):
    """A command that a prompt may call with `/`."""

    name: str
    description: str | None = None
    source: Literal["extension", "prompt", "skill"]
    source_info: SourceInfo


class ExactCommandList(Value):
    commands: tuple[ExactCommandItem, ...]


EXACT: Replaced = {
    **COMMON,
    run.MessageUpdate: ExactUpdate,
    around.CompactionEnd: FailedCompactionEnd,
    **dict.fromkeys(UNSPOKEN),
}
EXACT_FRAMES = frames(EXACT, UiRequest, Chunk, Header)
EXACT_ANSWERS: dict[str, Any] = {
    **ANSWERS,
    **dict.fromkeys(("prompt", "steer", "follow_up", "abort_and_prompt")),
    "get_state": ExactState,
    "cycle_model": ExactCycledModel | None,
    "get_available_thinking_levels": ExactLevels,
    "cycle_thinking_level": ExactCycledLevel | None,
    "get_last_assistant_text": ExactLastText,
    "get_commands": ExactCommandList,
    "fork": ExactForked,
}
