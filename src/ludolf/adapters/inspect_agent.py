"""Ludolf as an agent of Inspect: `inspect eval TASK --solver ludolf/agent`."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, cast

try:
    import anyio
    from inspect_ai.agent import Agent, AgentState
    from inspect_ai.agent import agent as register_agent
    from inspect_ai.model import ChatMessage, ChatMessageUser, get_model
    from inspect_ai.tool import Tool as InspectTool
    from inspect_ai.tool import ToolDef
    from inspect_ai.util import sandbox
except ModuleNotFoundError as missing:
    raise ImportError(
        f'{missing}. Install Inspect with the extra: pip install "ludolf[inspect]"'
    ) from missing

from ludolf.adapters.inspect_loop import EvalConversation, InspectProvider, eval_tools
from ludolf.adapters.inspect_messages import from_content, from_inspect, to_inspect, to_output
from ludolf.adapters.inspect_program import run_program
from ludolf.adapters.inspect_sandbox import open_workplace
from ludolf.ai.access import Access
from ludolf.ai.history import HistoryAdapter
from ludolf.ai.messages import AssistantMessage, Image, text_of
from ludolf.base import ConfigError
from ludolf.engine.bundles import Bundles
from ludolf.engine.toolset import DEFAULT_ACTIVE
from ludolf.sdk import AgentSession, SessionOptions
from ludolf.session.entries import MessageBody
from ludolf.tools import BuiltinToolOptions
from ludolf.tools.remote import remote_tools

_CONTINUE = "Continue."
# Inspect retries requests; nothing of this machine's configuration enters an evaluation.
_SETTINGS = {"retry": {"enabled": False}}


@register_agent(description="Coding agent that reads, changes and runs files in the sandbox.")
def agent(
    *,
    where: Literal["inspect", "sandbox"] = "inspect",
    model: str | None = None,
    builtin_tools: str | Sequence[str] = DEFAULT_ACTIVE,
    tools: Sequence[InspectTool | ToolDef] = (),
    cwd: str | None = None,
    **options: Any,
) -> Agent:
    """Return the agent.

    Args:
        where: "inspect" runs the loop in this process and its tools in the sandbox; "sandbox" runs
            the program `ludolf`, which must be installed there.
        model: Ask this model by a provider of Ludolf instead of the model of the evaluation.
        builtin_tools: Names of built-in tools, in a list or separated by commas.
        tools: Tools of Inspect that the model may call too.
        cwd: Working folder in the sandbox; default: that of the sample.
        options: Further options of `ludolf.create_session`, such as `system_prompt`.
    """
    names = builtin_tools.split(",") if isinstance(builtin_tools, str) else builtin_tools
    chosen = tuple(name.strip() for name in names)

    async def execute(state: AgentState) -> AgentState:
        _check_backend()
        if where == "sandbox":
            return await run_program(state, chosen, cwd)
        run = EvalRun(state, model, chosen, tools)
        return await run.execute(cwd, options)

    if where not in ("inspect", "sandbox"):
        raise ConfigError(f'where must be "inspect" or "sandbox", not {where!r}.')
    return execute


def _check_backend() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        raise ConfigError(
            "Ludolf runs on asyncio: unset INSPECT_ASYNC_BACKEND, or set it to asyncio."
        ) from error


class EvalRun:
    """One sample: a session of Ludolf from the messages of the sample to the final answer."""

    def __init__(
        self,
        state: AgentState,
        model: str | None,
        names: tuple[str, ...],
        tools: Sequence[InspectTool | ToolDef],
    ) -> None:
        self._state = state
        self._own_model = model
        self._names = names
        self._foreign = tools
        self._conversation = EvalConversation(state)
        self._provider = InspectProvider(get_model(), self._conversation)

    async def execute(self, cwd: str | None, options: dict[str, Any]) -> AgentState:
        """Run the agent; exceptions of Inspect pass unchanged."""
        place = await open_workplace(sandbox(), cwd)
        system = [each.text for each in self._state.messages if each.role == "system"]
        given: SessionOptions = {"settings": _SETTINGS, "workplace": place, "builtin_tools": ()}
        if system:
            given["append_system_prompt"] = "\n\n".join(system)
        if self._own_model is not None:
            given["model"] = self._own_model
        available = remote_tools(BuiltinToolOptions(), place)
        _check_names(self._names, available)
        own = [available[name] for name in available if name in self._names]
        tools = eval_tools(own, self._foreign, self._conversation)
        session = _EvalSession(self, tools, cast("SessionOptions", {**given, **options}))
        try:
            await session.open()
            await self._prompt(session)
        finally:
            # Cancellation by a limit is repeated until the scope ends.
            with anyio.CancelScope(shield=True):
                await session.close()
        return self._state

    def use(self, bundles: Bundles) -> None:
        """Make the model of the evaluation that of a session."""
        if self._own_model is None:
            model = self._provider.model
            bundles.models.providers.register(self._provider)
            bundles.models.registry.register([model], Access())
            bundles.workspace.options.model = model.key

    async def _prompt(self, session: AgentSession) -> None:
        prompt = self._seed(session)
        self._conversation.prompt = prompt
        parts = from_content(prompt.content)
        images = [part for part in parts if isinstance(part, Image)]
        run = session.prompt(text_of(parts, "\n"), images=images)
        async for _ in run:
            pass
        if self._conversation.failure is not None:
            raise self._conversation.failure
        if self._own_model is not None:
            self._report(session)
        if run.answer.error is not None:
            raise RuntimeError(f"The agent failed: {run.answer.error}")

    def _seed(self, session: AgentSession) -> ChatMessage:
        """Store the conversation so far in the session; return the message to answer."""
        messages = [each for each in self._state.messages if each.role != "system"]
        last: ChatMessage = ChatMessageUser(content=_CONTINUE)
        if messages and messages[-1].role == "user":
            last = messages.pop()
        for original in messages:
            message = from_inspect(original, self._provider.model)
            if message is not None:
                session.engine.session.append(MessageBody(message=message))
                self._conversation.remember(message, original)
        return last

    def _report(self, session: AgentSession) -> None:
        """Copy a conversation that did not pass through a model of Inspect."""
        adapted = HistoryAdapter().adapt(session.messages, self._provider.model)
        converted = [to_inspect(message) for message in adapted]
        system = [each for each in self._state.messages if each.role == "system"]
        self._state.messages = [*system, *converted]
        for message, made in zip(adapted, converted, strict=True):
            if isinstance(message, AssistantMessage):
                self._state.output = to_output(message, made)


def _check_names(names: tuple[str, ...], available: dict[str, Any]) -> None:
    unknown = [name for name in names if name and name not in available]
    if unknown:
        raise ConfigError(
            f"Unknown in builtin_tools: {', '.join(unknown)}. Tools are: {', '.join(available)}."
        )


class _EvalSession(AgentSession):
    """A session with the model and the tools of an evaluation."""

    def __init__(self, run: EvalRun, tools: Sequence[Any], options: SessionOptions) -> None:
        super().__init__(**options)
        self._run = run
        self._tools = tools

    def _prepare(self, bundles: Bundles) -> None:
        super()._prepare(bundles)
        bundles.toolset.provide("inspect", self._tools)
        self._run.use(bundles)
