"""Values that a driver sends to its workers, whatever carries them."""

from typing import Any

import msgspec

from ludolf.base import Value
from ludolf.fleet.workspace import WorkspaceKind


class ItemLimits(Value, kw_only=True):
    """Limits of one item: model answers, tokens, US dollars, seconds of one attempt."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = 3600.0


class FleetSetup(Value, kw_only=True):
    """Everything that is the same for all items.

    `choices` are the options of a session by their names in camelCase; with a key, so this value
    never enters a file. `name` begins the names of containers. `schema` is that of `value`.
    """

    start: str
    out: str
    name: str
    choices: dict[str, Any] = msgspec.field(default_factory=dict)
    limits: ItemLimits = ItemLimits()
    kind: WorkspaceKind | None = None
    via: str | None = None
    via_end: str | None = None
    schema: dict[str, Any] | None = None
    check: str | None = None
    check_rounds: int = 0
    offline: bool = False
    telemetry: bool | None = None


class ItemOrder(Value, kw_only=True):
    """One attempt at an item; `folder` is the name of its folders.

    `traceparent` is the span of the batch, if telemetry is on.
    """

    id: str
    folder: str
    item: dict[str, Any]
    prompt: str
    attempt: int
    traceparent: str | None = None


class ItemProgress(Value, kw_only=True):
    """The state of a running item; `tool` is the last one that it used."""

    id: str
    turns: int
    cost: float
    tool: str = ""
