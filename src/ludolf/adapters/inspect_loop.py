"""One conversation in Inspect: its messages, its model as a provider, its tools."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from inspect_ai.agent import AgentState
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ModelOutput,
    execute_tools,
)
from inspect_ai.model import Model as InspectModel
from inspect_ai.tool import Tool as InspectTool
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolDef, ToolError, ToolInfo

from ludolf.adapters.inspect_messages import (
    draft_events,
    from_content,
    to_content,
    to_inspect,
    to_parameters,
    to_tool_info,
)
from ludolf.agent.tool import Tool, ToolContext, ToolDefaults, ToolFailure, ToolOutput
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.history import HistoryAdapter, ModelMessage
from ludolf.ai.messages import AssistantMessage, ToolResultMessage
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import Provider, Request, ToolSpec
from ludolf.base import LudolfError

API = "inspect"
# For models whose size Inspect does not know; they report themselves when it is exceeded.
_UNKNOWN_WINDOW = 1_000_000
_MAX_TOKENS = 32_000


class EvalConversation:
    """Messages of the agent's state, as Inspect created them, and what ended the conversation.

    `failure` is an exception of Inspect, such as an exceeded limit, that the agent must raise
    unchanged: the loop of Ludolf would turn it into an error result or a failed answer.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._adapter = HistoryAdapter()
        self._known: dict[int, tuple[ModelMessage, ChatMessage]] = {}
        self._answers: dict[str, ChatMessageAssistant] = {}
        self._results: dict[str, ChatMessage] = {}
        self._system: ChatMessageSystem | None = None
        # The message that the next user message of the session stands for.
        self.prompt: ChatMessage | None = None
        self.failure: Exception | None = None

    def remember(self, message: ModelMessage, original: ChatMessage) -> None:
        """Use a message of Inspect wherever the message of Ludolf occurs."""
        self._known[id(message)] = (message, original)

    def messages(self, request: Request) -> list[ChatMessage]:
        """Return the messages of a request and make them the messages of the state."""
        if self._system is None or self._system.content != request.system:
            self._system = ChatMessageSystem(content=request.system)
        adapted = self._adapter.adapt(request.messages, request.model)
        messages = [self._system, *map(self._original, adapted)]
        self._state.messages = messages
        return messages

    def answered(self, output: ModelOutput) -> None:
        """Add an answer to the state."""
        message = output.message
        if message.id:
            self._answers[message.id] = message
        self._state.messages.append(message)
        self._state.output = output

    async def execute(self, call: InspectToolCall, tool: ToolDef | InspectTool) -> ChatMessage:
        """Run one call of the last answer as Inspect runs its own tools."""
        answer = self._state.messages[-1]
        if not isinstance(answer, ChatMessageAssistant):
            answer = ChatMessageAssistant(content="")
        single = answer.model_copy(update={"tool_calls": [call]})
        before = self._state.messages[:-1]
        messages, _ = await execute_tools([*before, single], [tool])
        self._results[call.id] = messages[0]
        return messages[0]

    def held(self, replacement: Callable[[str], LudolfError]) -> "_Held":
        """Keep an exception of the block as the failure, and raise one for the loop instead."""
        return _Held(self, replacement)

    def _original(self, message: ModelMessage) -> ChatMessage:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = (message, self._found(message))
        return known[1]

    def _found(self, message: ModelMessage) -> ChatMessage:
        found: ChatMessage | None = None
        if isinstance(message, AssistantMessage):
            found = self._answers.get(message.response_id or "")
        elif isinstance(message, ToolResultMessage):
            found = self._results.pop(message.tool_call_id, None)
        else:
            found, self.prompt = self.prompt, None
        return found or to_inspect(message)


class _Held:
    """Context manager of `EvalConversation.held`. Cancellation passes."""

    def __init__(
        self, conversation: EvalConversation, replacement: Callable[[str], LudolfError]
    ) -> None:
        self._conversation = conversation
        self._replacement = replacement

    def __enter__(self) -> None:
        failure = self._conversation.failure
        if failure is not None:
            raise self._replacement(str(failure))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, LudolfError):
            self._conversation.failure = error
            raise self._replacement(f"{type(error).__name__}: {error}") from error


class InspectProvider:
    """Provider that asks the model of the evaluation. Inspect retries, caches and counts."""

    api = API
    abort_text = "Request was aborted."

    def __init__(self, model: InspectModel, conversation: EvalConversation) -> None:
        self._model = model
        self._conversation = conversation
        self._specs: tuple[ToolSpec, ...] = ()
        self._tools: list[ToolInfo] = []

    @cached_property
    def model(self) -> Model:
        """The model as Ludolf sees it. Inspect sets its options and prices."""
        from inspect_ai.model import get_model_info

        info = get_model_info(self._model)
        return Model(
            id=str(self._model),
            name=str(self._model),
            api=API,
            provider=API,
            base_url="",
            reasoning=False,
            input=("text", "image"),
            cost=ModelCost(),
            context_window=(info and info.context_length) or _UNKNOWN_WINDOW,
            max_tokens=(info and info.output_tokens) or _MAX_TOKENS,
        )

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        """Ask for one answer.

        Raises:
            ProviderError: Inspect raised an exception, which the conversation keeps; or the
                conversation exceeds the context window.
        """
        with self._conversation.held(_final):
            messages = self._conversation.messages(request)
            output = await self._model.generate(messages, tools=self._declared(request.tools))
            if output.error:
                raise ProviderError(output.error, kind="bad_request")
            if output.stop_reason == "model_length" and not output.message.tool_calls:
                raise ProviderError("The model's context window is exceeded.", kind="overflow")
            self._conversation.answered(output)
        yield draft_events(output, draft)

    def _declared(self, specs: tuple[ToolSpec, ...]) -> list[ToolInfo]:
        if specs is not self._specs:
            self._specs, self._tools = specs, [to_tool_info(spec) for spec in specs]
        return self._tools


def _final(text: str) -> ProviderError:
    return ProviderError(text, kind="bad_request")


class EvalTool(ToolDefaults):
    """A built-in tool that runs as a tool of Inspect: with its approvals, limits and events."""

    def __init__(self, tool: Tool, conversation: EvalConversation) -> None:
        self._tool = tool
        self._conversation = conversation
        self.name, self.label, self.description = tool.name, tool.label, tool.description
        self.parameters: Mapping[str, Any] = tool.parameters
        self.alone, self.read_only, self.sampling = tool.alone, tool.read_only, tool.sampling
        self.snippet, self.guidelines = tool.snippet, tool.guidelines
        self._inspect_parameters = to_parameters(tool.parameters)

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._tool.prepare(args)

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        async def run(**kwargs: Any) -> Any:
            try:
                output = await self._tool.execute(kwargs, ctx)
            except ToolFailure as error:
                raise ToolError(str(error)) from error
            return to_content(output.content)

        definition = ToolDef(
            run, self.name, self.description, self._inspect_parameters, max_output=0
        )
        return await _output(self._conversation, definition, self.name, args, ctx)


class ForeignTool(ToolDefaults):
    """A tool of Inspect that the task or the caller of the agent provides."""

    def __init__(self, tool: InspectTool | ToolDef, conversation: EvalConversation) -> None:
        self._definition = tool if isinstance(tool, ToolDef) else ToolDef(tool)
        self._conversation = conversation
        self.name = self.label = self._definition.name
        self.description = self._definition.description
        self.parameters = self._definition.parameters.model_dump(exclude_none=True)
        self.alone = not self._definition.parallel
        self.snippet = self.description.partition("\n")[0]

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await _output(self._conversation, self._definition, self.name, args, ctx)


async def _output(
    conversation: EvalConversation,
    tool: ToolDef,
    name: str,
    args: Mapping[str, Any],
    ctx: ToolContext,
) -> ToolOutput:
    call = InspectToolCall(id=ctx.call_id, function=name, arguments=dict(args))
    with conversation.held(ToolFailure):
        message = await conversation.execute(call, tool)
    if message.error is not None:
        raise ToolFailure(message.error.message)
    return ToolOutput(content=from_content(message.content))


def eval_tools(
    tools: Sequence[Tool], foreign: Sequence[InspectTool | ToolDef], conversation: EvalConversation
) -> list[Tool]:
    """Return the tools of a session; those of the task replace built-in ones of the same name."""
    made: list[Tool] = [EvalTool(tool, conversation) for tool in tools]
    made += [ForeignTool(tool, conversation) for tool in foreign]
    return list({tool.name: tool for tool in made}.values())


if TYPE_CHECKING:

    def _proof(provider: InspectProvider) -> Provider:
        return provider
