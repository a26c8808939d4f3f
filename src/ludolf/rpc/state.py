"""The answer to `get_state`, with the fields that only some dialects write."""

from typing import Any

import msgspec

from ludolf.base import dumps
from ludolf.engine.engine import Engine
from ludolf.protocol.results import State
from ludolf.session.context import request_tokens, view_tokens


def state(engine: Engine) -> State:
    """Return the answer to `get_state`; todos, subagents and fast mode only if they are in use."""
    state = engine.state()
    if engine.has_todos:
        state = state.replace(todo_phases=engine.todos.phases)
    if engine.features.will_wake():
        state = state.replace(has_pending_async_work=True)
    if engine.models.wants_fast:
        state = state.replace(fast_mode_enabled=True, fast_mode_active=engine.models.is_fast)
    return state


def is_settled(engine: Engine) -> bool:
    """Whether nothing runs or is queued, and nothing will start without a command."""
    return engine.is_settled and not engine.conversation.queue.said()


def full_state(engine: Engine) -> dict[str, Any]:
    """Return the fields of `get_state` that only some dialects write."""
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
        "hasPendingAsyncWork": engine.features.will_wake(),
    }


def overhead_tokens(engine: Engine) -> int:
    """About how many tokens each request spends before the first message."""
    tools = [[spec.name, spec.description, spec.parameters] for spec in engine.toolset.specs()]
    return (len(engine.resources.system_prompt()) + len(dumps(tools))) // 4


def context_fill(engine: Engine) -> dict[str, Any] | None:
    """Return the size of the context by the last request, else by estimate; None if unknown."""
    model = engine.models.current
    if model is None or not model.context_window:
        return None
    view = engine.session.context
    tokens = request_tokens(view)
    if tokens is None:
        tokens = overhead_tokens(engine) + view_tokens(view)
    window = model.context_window
    return {"tokens": tokens, "contextWindow": window, "percent": 100 * tokens / window}
