"""What some hosts want to see at a glance: the whole state, with tools, prompt and context."""

from typing import Any

import msgspec

from ludolf.base import dumps
from ludolf.engine.engine import Engine
from ludolf.session.estimate import request_tokens, view_tokens


def state(engine: Engine) -> Any:
    """The answer to `get_state`; with the todos once there have been any."""
    common = engine.state()
    if not engine.parts.todos.was_used:
        return common
    phases = engine.parts.todos.phases
    return {**msgspec.to_builtins(common), "todoPhases": msgspec.to_builtins(phases)}


def full_state(engine: Engine) -> dict[str, Any]:
    """What `get_state` tells beyond the common fields."""
    parts = engine.parts
    specs = parts.toolbox.specs()
    return {
        "interruptMode": "immediate" if parts.queue.interrupts else "wait",
        "todoPhases": msgspec.to_builtins(parts.todos.phases),
        "fastModeEnabled": False,
        "tokensPerSecond": None,
        "fastModeActive": False,
        "systemPrompt": parts.resources.system_prompt(),
        "dumpTools": [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in specs
        ],
        "contextUsage": context_fill(engine),
        "isSettled": not engine.runner.running,
        "hasPendingAsyncWork": False,
    }


def overhead_tokens(engine: Engine) -> int:
    """About how many tokens each request spends before the first message."""
    parts = engine.parts
    tools = [[spec.name, spec.description, spec.parameters] for spec in parts.toolbox.specs()]
    return (len(parts.resources.system_prompt()) + len(dumps(tools))) // 4


def context_fill(engine: Engine) -> dict[str, Any] | None:
    """How full the context is, by the last request; where none counts, by estimate."""
    model = engine.models.current
    if model is None or not model.context_window:
        return None
    view = engine.parts.session.context
    tokens = request_tokens(view)
    if tokens is None:
        tokens = overhead_tokens(engine) + view_tokens(view)
    window = model.context_window
    return {"tokens": tokens, "contextWindow": window, "percent": 100 * tokens / window}
