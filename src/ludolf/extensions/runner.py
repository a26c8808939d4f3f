"""Call handlers of extensions, in load order, then in order of registration."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import structs

from ludolf.extensions.hooks import HOOKS, Hook
from ludolf.extensions.merge import Dispatch
from ludolf.extensions.payloads import Payload
from ludolf.functions.content import BadAnswer
from ludolf.functions.isolation import Failed, call, call_now

P = TypeVar("P", bound=Payload)


class ReportError(Protocol):
    """Reports an error with the text of the `extension_error`; `cause` is the failure of code."""

    def __call__(
        self, path: str, event: str, text: str, cause: Failed | None = None, /
    ) -> None: ...


# Timeout of a handler in seconds: one value, or a value per event name.
Limit = float | Mapping[str, float] | None


class HookHandler(msgspec.Struct, frozen=True, eq=False):
    """A function that an extension registered for an event. Handlers of lower `place` run first."""

    event: str
    function: Callable[..., Any]
    path: Path
    context: Any
    place: int = 0
    thread: bool = False


class GateFailed(Failed):
    """Raised when a handler of a blocking event failed, which denies the action.

    `raised`: its own code raised the error, so the text is that of its author.
    """

    def __init__(self, text: str, path: Path, *, raised: bool) -> None:
        super().__init__(text)
        self.path = path
        self.raised = raised


class HookRunner:
    """The handlers of all extensions; `limit` is their timeout.

    Handlers run inside the caller's task: code that can be aborted calls from within a scope.
    """

    def __init__(self, report: ReportError, *, limit: Limit = None) -> None:
        self.report = report
        self.limit = limit
        self._handlers: dict[str, tuple[HookHandler, ...]] = {}

    def wants(self, name: str) -> bool:
        """Return whether the event has handlers; check this before building its payload."""
        return name in self._handlers

    def add(self, handler: HookHandler) -> Callable[[], None]:
        """Add a handler; returns the function that removes it. Active dispatches are unaffected."""
        name = handler.event
        both = (*self._handlers.get(name, ()), handler)
        self._handlers[name] = tuple(sorted(both, key=lambda one: one.place))

        def remove() -> None:
            left = tuple(one for one in self._handlers.get(name, ()) if one is not handler)
            self._set(name, left)

        return remove

    def remove_all(self, place: int) -> None:
        """Remove the handlers of one extension."""
        for name, handlers in tuple(self._handlers.items()):
            self._set(name, tuple(one for one in handlers if one.place != place))

    async def emit(self, payload: Payload) -> None:
        """Call every handler; answers are ignored, errors are reported."""
        await self.dispatch(payload)

    def emit_now(self, payload: Payload) -> Coroutine[Any, Any, None] | None:
        """Call the handlers of a notification like `emit`, without a task for plain functions.

        Returns the work that is left if a handler waits for something; the caller awaits it.
        """
        hook = HOOKS[payload.type]
        handlers = self._handlers.get(hook.name, ())
        for number, handler in enumerate(handlers):
            if handler.thread:
                return self._emit_rest(payload, handlers[number:])
            try:
                result = call_now(handler.function, payload, handler.context)
            except Failed as error:
                self._report(handler, hook, _explained(handler.function, hook, error))
                continue
            if result is not None and isinstance(result, Awaitable):
                waiting = structs.replace(handler, function=lambda *_, begun=result: begun)
                return self._emit_rest(payload, (waiting, *handlers[number + 1 :]))
        return None

    async def _emit_rest(self, payload: Payload, handlers: Iterable[HookHandler]) -> None:
        await self._call_all(Dispatch(payload), handlers, None)

    async def transform(self, payload: P) -> P:
        """Return the payload after all handlers; errors are reported and skipped."""
        state = await self.dispatch(payload)
        final: P = state.payload
        return final

    async def verdict(self, payload: Payload) -> Any:
        """Return the combined answer, or None if no handler answered.

        Raises:
            GateFailed: a handler of a blocking event (tool_call, user_bash) failed. The error is
                also reported.
        """
        return (await self.dispatch(payload)).answer

    async def dispatch(self, payload: Payload, context: Any = None) -> Dispatch:
        """Call the handlers in order; `context` replaces theirs.

        Raises:
            GateFailed: as in `verdict`.
        """
        state = Dispatch(payload)
        await self._call_all(state, self._handlers.get(payload.type, ()), context)
        return state

    async def _call_all(
        self, state: Dispatch, handlers: Iterable[HookHandler], context: Any
    ) -> None:
        hook = HOOKS[state.payload.type]
        for handler in handlers:
            try:
                await self._ask(handler, hook, state, context)
            except (Failed, BadAnswer) as error:
                self._report(handler, hook, error)
                if hook.blocks:
                    raised = isinstance(error, Failed)
                    raise GateFailed(str(error), handler.path, raised=raised) from error
            if state.final:
                break

    def _report(self, handler: HookHandler, hook: Hook, error: Failed | BadAnswer) -> None:
        cause = error if isinstance(error, Failed) else None
        self.report(str(handler.path), hook.name, str(error), cause)

    async def _ask(self, handler: HookHandler, hook: Hook, state: Dispatch, context: Any) -> None:
        ctx = handler.context if context is None else context
        limit = self.limit.get(hook.name) if isinstance(self.limit, Mapping) else self.limit
        try:
            answer = await call(
                handler.function, state.payload, ctx, thread=handler.thread, limit=limit
            )
        except Failed as error:
            raise _explained(handler.function, hook, error) from error.__cause__
        if answer is None or hook.kind == "notify":
            return
        if hook.rule is None:
            state.change(payload=answer)
        elif isinstance(answer, Mapping):
            hook.rule(state, self._known(answer, hook, handler), handler.path)
        else:
            kind = type(answer).__name__
            raise BadAnswer(f"{hook.name} handlers must return a dict or None, not {kind}")

    def _known(
        self, answer: Mapping[Any, Any], hook: Hook, handler: HookHandler
    ) -> Mapping[str, Any]:
        """Return the keys of an answer that the event has; report others, or refuse them."""
        unknown = [key for key in answer if key not in hook.keys]
        if not unknown:
            return answer
        names = ", ".join(map(repr, unknown))
        text = f"{hook.name}: unknown key {names} in the answer. Keys: {', '.join(hook.keys)}"
        if hook.blocks:
            raise BadAnswer(text)
        self.report(str(handler.path), hook.name, text)
        return {key: value for key, value in answer.items() if key in hook.keys}

    def _set(self, name: str, handlers: tuple[HookHandler, ...]) -> None:
        if handlers:
            self._handlers[name] = handlers
        else:
            self._handlers.pop(name, None)


def _explained(function: Callable[..., Any], hook: Hook, error: Failed) -> Failed | BadAnswer:
    """Return the error, or one that explains it if the function cannot take event and context."""
    if not isinstance(error.__cause__, TypeError):
        return error
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return BadAnswer(f"{hook.name} handlers must take (event, ctx): {error}")
    except ValueError:
        pass  # a function of native code has no signature to check
    return error
