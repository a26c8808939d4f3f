"""What some hosts want to see at a glance: the whole state, with tools, prompt and context."""

from typing import Any

import msgspec

from ludolf.base import dumps
from ludolf.engine.engine import Engine
from ludolf.session.estimate import request_tokens, view_tokens


def state(engine: Engine) -> Any:
    """The answer to `get_state`; with todos once there have been any, and with waiting agents."""
    common = engine.state()
    more: dict[str, Any] = {}
    if engine.has_todos:
        more["todoPhases"] = msgspec.to_builtins(engine.todos.phases)
    if _has_subagents(engine):
        more["hasPendingAsyncWork"] = True
    if engine.models.wants_fast:
        more |= {"fastModeEnabled": True, "fastModeActive": engine.models.is_fast}
    return {**msgspec.to_builtins(common), **more} if more else common


def is_settled(engine: Engine) -> bool:
    """Whether nothing goes on, nothing waits, and nothing will begin by itself."""
    return engine.is_settled and not engine.conversation.queue.said()


def _has_subagents(engine: Engine) -> bool:
    return engine.features.will_wake()


def full_state(engine: Engine) -> dict[str, Any]:
    """What `get_state` tells beyond the common fields."""
    specs = engine.toolset.specs()
    return {
        "interruptMode": "immediate" if engine.conversation.queue.interrupts else "wait",
        "todoPhases": msgspec.to_builtins(engine.todos.phases),
        "fastModeEnabled": engine.models.wants_fast,
        "tokensPerSecond": None,
        "fastModeActive": engine.models.is_fast,
        "systemPrompt": engine.resources.system_prompt(),
        "dumpTools": [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in specs
        ],
        "contextUsage": context_fill(engine),
        "isSettled": is_settled(engine),
        "hasPendingAsyncWork": _has_subagents(engine),
    }


def overhead_tokens(engine: Engine) -> int:
    """About how many tokens each request spends before the first message."""
    tools = [[spec.name, spec.description, spec.parameters] for spec in engine.toolset.specs()]
    return (len(engine.resources.system_prompt()) + len(dumps(tools))) // 4


def context_fill(engine: Engine) -> dict[str, Any] | None:
    """How full the context is, by the last request; where none counts, by estimate."""
    model = engine.models.current
    if model is None or not model.context_window:
        return None
    view = engine.session.context
    tokens = request_tokens(view)
    if tokens is None:
        tokens = overhead_tokens(engine) + view_tokens(view)
    window = model.context_window
    return {"tokens": tokens, "contextWindow": window, "percent": 100 * tokens / window}
