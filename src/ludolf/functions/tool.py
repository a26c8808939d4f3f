"""Tools made from Python functions: schema, arguments, progress and result."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec
from msgspec import NODEFAULT, UNSET

from ludolf.agent import tool
from ludolf.agent.tool import ExecutionMode, Tool, ToolContext, ToolOutput
from ludolf.ai.messages import Usage
from ludolf.ai.sampling import GrammarSampling, Sampling, StrictSampling
from ludolf.functions.content import BadAnswer, read, read_parts
from ludolf.functions.isolation import Failed, call
from ludolf.functions.results import ToolError, ToolResult
from ludolf.functions.schema import (
    Field,
    docstring_parameters,
    docstring_summary,
    hints_of,
    object_schema,
)

INJECTED = ("ctx", "update", "call_id", "signal")
MOST_WAITING = 64


class ToolOptions(TypedDict, total=False):
    """Further options of `api.tool`."""

    prompt_snippet: str
    prompt_guidelines: list[str]
    # May be async.
    prepare_arguments: Callable[[dict[str, Any]], Any]
    strict: Literal["prefer", "require"]
    grammar: dict[Literal["openai_lark", "openai_regex"], str]
    # The tool changes nothing, so `approval: on-write` does not ask about it.
    read_only: bool


NO_OPTIONS: ToolOptions = {}


class Signature(msgspec.Struct, frozen=True):
    """Parameters of a function: those from the model, and the injected ones."""

    fields: tuple[Field, ...]
    injected: tuple[str, ...]
    takes_any: bool


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Tool that runs a function: async in the event loop, plain in a separate thread."""

    name: str
    label: str
    description: str
    parameters: Mapping[str, Any]
    alone: bool
    snippet: str | None
    guidelines: tuple[str, ...]
    function: Callable[..., Any]
    signature: Signature
    context: Any
    whole: bool
    preparation: Callable[[dict[str, Any]], Any] | None
    sampling: Sampling | None = None
    read_only: bool = False
    version: str = ""

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.preparation is None:
            return args
        try:
            return _prepared(await call(self.preparation, dict(args)))
        except Failed as error:
            raise tool.ToolFailure(str(error)) from error

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Call the function and return its output.

        Raises:
            ToolError: the function failed; its text is for the model.
        """
        arguments = self._arguments(args)
        result: Any = None
        failure: tool.ToolFailure | None = None
        async with PartialResults(ctx) as progress:
            try:
                result = await self._call(arguments, self._extra(ctx, progress))
            except tool.ToolFailure as error:
                failure = error  # raised only after its last update was emitted
        if failure is not None:
            raise failure
        return output_of(result, self.name)

    def _extra(self, ctx: ToolContext, progress: "PartialResults") -> dict[str, Any]:
        names = self.signature.injected
        extra = {"ctx": self.context, "update": progress.update, "call_id": ctx.call_id}
        if "signal" in names:
            extra["signal"] = self.context.signal
        return {name: extra[name] for name in names}

    async def _call(self, args: Mapping[str, Any], extra: Mapping[str, Any]) -> Any:
        function = self.function

        def work() -> Any:
            return function(args, **extra) if self.whole else function(**args, **extra)

        try:
            return await call(work, thread=not is_async(function))
        except Failed as failed:
            if isinstance(failed.__cause__, tool.ToolFailure):
                raise failed.__cause__ from None
            raise ToolError(str(failed)) from failed

    def _arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the model's arguments to the types of the function's parameters."""
        if self.whole or self.signature.takes_any:
            return dict(args)
        kinds = {field.name: field.kind for field in self.signature.fields}
        try:
            return {
                name: convert_value(kinds[name], value)
                for name, value in args.items()
                if name in kinds
            }
        except ValueError as error:
            raise ToolError(f'Validation failed for tool "{self.name}": {error}') from error


class PartialResults:
    """Emits partial results in order, all before the end of the tool."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        # Each result replaces the previous one, so the oldest may be dropped for a slow reader.
        self._waiting: deque[ToolOutput] = deque(maxlen=MOST_WAITING)
        self._group = asyncio.TaskGroup()
        self._emitting = False
        self._over = False

    async def __aenter__(self) -> "PartialResults":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._over = True
        try:
            await self._group.__aexit__(*error)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def update(self, partial: Any) -> None:
        """Emit a partial result, from any thread, until the tool ends."""
        output = output_of(partial, "update")
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            self._add(output)
        else:
            self._loop.call_soon_threadsafe(self._add, output)

    def _add(self, output: ToolOutput) -> None:
        if self._over:
            return
        self._waiting.append(output)
        if not self._emitting:
            self._emitting = True
            group = self._group
            group.create_task(self._emit())

    async def _emit(self) -> None:
        while self._waiting:
            await self._ctx.update(self._waiting.popleft())
        self._emitting = False


def make_tool(
    function: Callable[..., Any],
    context: Any = None,
    *,
    names: tuple[str | None, str | None, str | None] = (None, None, None),
    parameters: Mapping[str, Any] | None = None,
    execution: ExecutionMode = "parallel",
    options: ToolOptions = NO_OPTIONS,
) -> FunctionTool:
    """Build a tool from a function; `names` overrides its name, label and description.

    Raises:
        NoSchema: the type of a parameter has no JSON Schema.
        ValueError: an option is invalid.
    """
    if execution not in ("parallel", "sequential"):
        raise ValueError(f'execution must be "parallel" or "sequential", not {execution!r}')
    name = names[0] or function.__name__
    signature = read_signature(function, typed=parameters is None)
    if parameters is None:
        descriptions = docstring_parameters(function.__doc__)
        parameters = object_schema(list(signature.fields), descriptions)
    return FunctionTool(
        name=name,
        label=names[1] or name.replace("_", " ").capitalize(),
        description=names[2] or docstring_summary(function.__doc__) or name,
        parameters=parameters,
        alone=execution == "sequential",
        snippet=options.get("prompt_snippet"),
        guidelines=tuple(options.get("prompt_guidelines", ())),
        function=function,
        signature=signature,
        context=context,
        whole=_takes_whole(signature, parameters),
        preparation=options.get("prepare_arguments"),
        sampling=_sampling(options),
        read_only=options.get("read_only") is True,
    )


def read_signature(function: Callable[..., Any], *, typed: bool) -> Signature:
    """Return the parameters of a function.

    `ctx`, `update`, `call_id` and `signal` are injected if they are keyword-only or have no type
    hint; all others come from the model.
    """
    import inspect

    hints = hints_of(function) if typed else {}
    fields: list[Field] = []
    injected: list[str] = []
    takes_any = False
    for each in inspect.signature(function).parameters.values():
        keyword = each.kind is each.KEYWORD_ONLY
        if each.kind is each.VAR_KEYWORD:
            takes_any = True
        elif each.kind is each.VAR_POSITIONAL:
            raise ValueError(f"a tool cannot take *{each.name}")
        elif each.name in INJECTED and (keyword or each.annotation is each.empty):
            injected.append(each.name)
        else:
            default = NODEFAULT if each.default is each.empty else each.default
            fields.append(Field(each.name, hints.get(each.name, Any), default))
    return Signature(tuple(fields), tuple(injected), takes_any)


def output_of(result: Any, what: str) -> ToolOutput:
    """Convert a function's result: text, blocks, a ToolResult, or a dict with its fields.

    Raises:
        ToolError: the result is none of these.
    """
    if isinstance(result, ToolOutput):
        return result
    try:
        if isinstance(result, Mapping) and "content" in result:
            result = _from_dict(result)
        if not isinstance(result, ToolResult):
            result = ToolResult(_content(result))
        content = read_parts(_content(result.content), what)
    except BadAnswer as error:
        raise ToolError(str(error)) from error
    return ToolOutput(
        content=content, details=result.details, usage=result.usage, ends_run=result.terminate
    )


def is_async(function: Callable[..., Any]) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    )


# ---------------------------------------------------------------- private


def _prepared(arguments: Any) -> Mapping[str, Any]:
    try:
        return read(dict[str, Any], arguments, "prepare_arguments", rename=False)
    except BadAnswer as error:
        raise tool.ToolFailure(str(error)) from error


def _sampling(options: ToolOptions) -> Sampling | None:
    strict, grammar = options.get("strict"), options.get("grammar")
    if strict is not None and grammar is not None:
        raise ValueError("a tool is strict or has a grammar, not both")
    if grammar is not None:
        if not grammar or set(grammar) - {"openai_lark", "openai_regex"}:
            raise ValueError('grammar needs "openai_lark" or "openai_regex"')
        return GrammarSampling(variants=dict(grammar))
    if strict not in (None, "prefer", "require"):
        raise ValueError(f'strict must be "prefer" or "require", not {strict!r}')
    return None if strict is None else StrictSampling(strict=strict)


def _from_dict(result: Mapping[str, Any]) -> ToolResult:
    usage = result.get("usage")
    return ToolResult(
        result["content"],
        details=result.get("details", UNSET),
        usage=None if usage is None else read(Usage, usage, "usage"),
        terminate=bool(result.get("terminate")),
    )


def _content(value: Any) -> Any:
    """Return None as empty content, and numbers and plain data as JSON text."""
    if value is None:
        return ()
    if isinstance(value, str | list | tuple | msgspec.Struct):
        return value
    if isinstance(value, Mapping) and value.get("type") in ("text", "image"):
        return value
    if isinstance(value, bool | int | float | Mapping):
        try:
            return msgspec.json.encode(value).decode()
        except (TypeError, ValueError) as error:
            raise BadAnswer(f"the result cannot be encoded as JSON: {error}") from error
    raise BadAnswer(
        f"{type(value).__name__} is not a valid result; return text, blocks or a ToolResult"
    )


def _takes_whole(signature: Signature, parameters: Mapping[str, Any]) -> bool:
    """Return whether the function takes all arguments as one dict.

    That is the case if it has a single parameter that is not a property of the schema.
    """
    names = [field.name for field in signature.fields]
    properties = parameters.get("properties") or {}
    return len(names) == 1 and names[0] not in properties and not signature.takes_any


def convert_value(kind: Any, value: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=_decode)
    except msgspec.ValidationError:
        raise
    except TypeError:
        return value  # msgspec does not support the type: pass the JSON value unchanged


def _decode(kind: Any, value: Any) -> Any:
    """Convert types that msgspec does not support: paths and pydantic models."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    return kind(value)


def is_object_schema(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "object"


if TYPE_CHECKING:

    def _proof(one: FunctionTool) -> Tool:
        return one
