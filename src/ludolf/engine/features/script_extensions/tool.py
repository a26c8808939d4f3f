"""A tool that a script extension registered."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.tool import (
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
)
from ludolf.ai.messages import text_of
from ludolf.ai.strict_schema import Sampling
from ludolf.base import dumps
from ludolf.engine.features.script_extensions.link import ScriptError, ScriptLink
from ludolf.functions.results import ToolError
from ludolf.functions.tool import PartialResults, output_of

# Seconds that an aborted tool has for its own result.
LAST_WORDS_SECONDS = 0.25


class ScriptTool:
    """Runs `execute` of a tool in the host process. `definition` has the names of pi."""

    read_only = False
    version = ""

    def __init__(
        self,
        link: ScriptLink,
        extension: int,
        definition: Mapping[str, Any],
        *,
        last_words: float = LAST_WORDS_SECONDS,
    ) -> None:
        self._link = link
        self._extension = extension
        self._last_words = last_words
        self.name = str(definition.get("name", ""))
        self.label = str(definition.get("label") or self.name)
        self.description = str(definition.get("description") or "")
        self.parameters: Mapping[str, Any] = definition.get("parameters") or {"type": "object"}
        self.alone = definition.get("executionMode") == "sequential"
        snippet = definition.get("promptSnippet")
        self.snippet = snippet if isinstance(snippet, str) else None
        self.guidelines = tuple(map(str, definition.get("promptGuidelines") or ()))
        self.sampling = _sampling(definition.get("constrainedSampling"))
        self._prepares = definition.get("prepares") is True

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._prepare(args) if self._prepares else args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Run the tool.

        Raises:
            ToolFailure: it failed; the text is that of its error.
        """
        asked = {"ext": self._extension, "name": self.name, "id": ctx.call_id, "args": args}
        result: Any = None
        failure: ToolFailure | None = None
        async with PartialResults(ctx) as progress:
            try:
                result = await self._run(dumps(asked), progress)
            except ScriptError as error:
                failure = ToolError(str(error))
        if failure is not None:
            raise failure
        return output_of(result, self.name)

    async def _prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = {"ext": self._extension, "name": self.name, "args": args}
        try:
            prepared = await self._link.call("prepare", asked)
        except ScriptError as error:
            raise ToolFailure(str(error)) from error
        if not isinstance(prepared, dict):
            raise ToolFailure(f"prepareArguments of {self.name} must return an object")
        return prepared

    async def _run(self, asked: bytes, progress: PartialResults) -> Any:
        number, pending = self._link.begin("tool", asked, _shown(progress))
        try:
            await asyncio.wait((pending,))  # cancelling this does not cancel the result
            return pending.result()
        except asyncio.CancelledError:
            self._link.cancel(number)
            raise asyncio.CancelledError(*await self._last_text(pending)) from None
        finally:
            self._link.forget(number)

    async def _last_text(self, pending: "asyncio.Future[Any]") -> tuple[str, ...]:
        """Return the text with which an aborted tool ends in time, if it does."""
        await asyncio.wait((pending,), timeout=self._last_words)
        if not pending.done() or pending.cancelled():
            return ()
        error = pending.exception()
        if error is not None:
            return (str(error),)
        try:
            text = text_of(output_of(pending.result(), self.name).content)
        except ToolFailure:
            return ()
        return (text,) if text else ()


def _shown(progress: PartialResults) -> Any:
    def show(partial: Any) -> None:
        try:
            progress.update(partial)
        except ToolFailure:
            return  # not a result: nothing to show

    return show


def _sampling(given: Any) -> Sampling | None:
    """Read pi's `constrainedSampling`; None for a form that is not known."""
    if given is None:
        return None
    try:
        read: Sampling = msgspec.convert(given, Sampling)
    except msgspec.ValidationError:
        return None
    return read


if TYPE_CHECKING:

    def _proof(tool: ScriptTool) -> Tool:
        return tool
