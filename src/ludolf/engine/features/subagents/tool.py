"""The tool by which the model starts agents in the background."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.tool import Tool, ToolContext, ToolError, ToolOutput, text_output
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model, clamp_thinking
from ludolf.base import ConfigError
from ludolf.engine.parts import Parts

if TYPE_CHECKING:
    from ludolf.engine.engine import Engine
    from ludolf.engine.features.subagents.agents import Agent
    from ludolf.engine.features.subagents.task import Plan
    from ludolf.protocol.subagent_events import Status

MOST_TASKS = 64
_ABOUT = (
    "Start agents that work in the background, each with a context of its own. They know nothing "
    "of this conversation: `context` is told to all of them, `task` must say everything else that "
    "one needs. The call returns at once; results come by themselves as messages when agents are "
    "done, so never wait for them or ask for them: go on with other work, or end. Good for pieces "
    "of work that can be done apart, and for searches whose details you do not need."
)
STARTED = (
    "Started in the background: {names}. Each result comes as a message when its agent is done; do "
    "not wait for it. Go on with other work, or end your turn if there is none."
)
_ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "A short name for this agent, one word"},
        "agent": {"type": "string", "description": "The kind of agent; task if left out"},
        "task": {"type": "string", "description": "What to do: complete, with paths and limits"},
    },
    "required": ["task"],
}


def offer(engine: "Engine") -> None:
    """Let the model of an engine with a host start agents."""
    from ludolf.engine.features.subagents.jobs import Jobs
    from ludolf.engine.features.subagents.registry import Board

    if engine.parts.jobs is None and not is_deep_enough(engine.parts):
        engine.parts.jobs = Jobs(engine, Board(engine.parts))
        engine.parts.toolbox.provide(TaskTool.name, [TaskTool(engine)])


def is_deep_enough(parts: Parts) -> bool:
    most = parts.settings.task.max_recursion_depth
    return 0 <= most <= parts.depth


class TaskTool:
    name = "task"
    label = "task"
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "context": {"type": "string", "description": "What all of these agents must know"},
            "tasks": {"type": "array", "items": _ITEM, "minItems": 1},
        },
        "required": ["tasks"],
    }
    alone = False
    read_only = True
    snippet = "Start agents that work in the background and report back"
    guidelines: tuple[str, ...] = ()

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    @property
    def description(self) -> str:
        kinds = _agents(self._engine.parts)
        listed = [f"- {name}: {kind.description}" for name, kind in kinds.items()]
        return "\n".join((_ABOUT, "Kinds of agents:", *listed))

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """One task may be given without a list."""
        if "tasks" not in args and "task" in args:
            return {"context": args.get("context", ""), "tasks": [dict(args)]}
        return args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        jobs = self._engine.parts.jobs
        assert jobs is not None
        plans = self._plans(args, ctx.call_id)
        names = ", ".join(f"`{plan.id}`" for plan in plans)
        await ctx.update(self._output(plans, f"Starting {names}...", "pending"))
        jobs.begin(plans)
        await ctx.update(self._output(plans, f"Running {names} in the background...", "running"))
        return self._output(plans, STARTED.format(names=names), "pending")

    # ------------------------------------------------------------ private

    def _plans(self, args: Mapping[str, Any], call_id: str) -> "list[Plan]":
        """Raises:
        ToolError: something is missing or unknown; nothing was started then.
        """
        items: Sequence[Mapping[str, Any]] = args["tasks"]
        if not 0 < len(items) <= MOST_TASKS:
            raise ToolError(f"Give between 1 and {MOST_TASKS} tasks in one call.")
        kinds = [self._kind(item) for item in items]
        context = str(args.get("context") or "")
        return [
            self._plan(item, kind, index, (call_id, context))
            for index, (item, kind) in enumerate(zip(items, kinds, strict=True))
        ]

    def _kind(self, item: Mapping[str, Any]) -> "Agent":
        from ludolf.engine.features.subagents.agents import DEFAULT

        if not str(item.get("task") or "").strip():
            raise ToolError("Every task needs a text that says what to do.")
        known = _agents(self._engine.parts)
        wanted = str(item.get("agent") or DEFAULT)
        if wanted not in known:
            raise ToolError(f'There is no agent "{wanted}". Known: {", ".join(known) or "none"}.')
        return known[wanted]

    def _plan(
        self, item: Mapping[str, Any], kind: "Agent", index: int, call: tuple[str, str]
    ) -> "Plan":
        from ludolf.engine.features.subagents.task import Plan

        jobs = self._engine.parts.jobs
        assert jobs is not None
        name = str(item.get("name") or "").strip() or kind.name.capitalize()
        chosen = choose(self._engine.parts, kind)
        id, file = jobs.allot(name)
        return Plan(
            id=id,
            name=name,
            index=index,
            call_id=call[0],
            agent=kind,
            assignment=str(item["task"]).strip(),
            context=call[1].strip(),
            file=file,
            model=chosen.model,
            level=chosen.level,
            wanted=chosen.wanted or (chosen.model.key,),
            is_fallback=chosen.is_fallback,
        )

    def _output(self, plans: "Sequence[Plan]", text: str, status: "Status") -> ToolOutput:
        from ludolf.engine.features.subagents.agents import project_folder

        folder = project_folder(self._engine.parts)
        progress = [msgspec.to_builtins(plan.progress(status)) for plan in plans]
        details = {
            "projectAgentsDir": str(folder) if folder is not None else None,
            "results": [],
            "totalDurationMs": 0,
            "progress": progress,
            "async": {"state": "running", "jobId": plans[0].id, "type": "task"},
        }
        return text_output(text, details)


def _agents(parts: Parts) -> "dict[str, Agent]":
    from ludolf.engine.features.subagents.agents import find_agents

    return find_agents(parts)


class Chosen(msgspec.Struct, frozen=True):
    """The names that were asked for, what was found for them, or what takes its place."""

    wanted: tuple[str, ...]
    model: Model
    level: ThinkingLevel
    is_fallback: bool


def choose(parts: Parts, kind: "Agent") -> Chosen:
    """The model that does the work.

    The settings come before the kind's own wish. Where nothing that was asked for can be had, the
    parent's model does the work.
    """
    from ludolf.config.models.selection import choose_model

    override = parts.settings.task.agent_model_overrides.get(kind.name)
    wanted = (override,) if override else kind.models
    own, level = parts.models.require(), kind.thinking or parts.models.level
    for pattern in wanted:
        try:
            choice = choose_model(parts.registry, pattern)
        except ConfigError:
            continue
        if parts.registry.admits(choice.model):
            thinks = clamp_thinking(choice.model, choice.level or level)
            return Chosen(wanted, choice.model, thinks, False)
    return Chosen(wanted, own, clamp_thinking(own, level), bool(wanted))


if TYPE_CHECKING:

    def _proof(tool: TaskTool) -> Tool:
        return tool
