"""The tool by which the model starts subagents."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ludolf.agent.scope import Scope
from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model, clamp_thinking
from ludolf.base import ConfigError
from ludolf.config.models.selection import choose_model
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.engine import Engine
from ludolf.engine.features.subagents.agents import DEFAULT, Agent, find_agents, project_folder
from ludolf.engine.features.subagents.subagent import SubagentSubscription, SubagentTask
from ludolf.engine.features.subagents.subagents import SubagentRegistry, SubagentSpawner
from ludolf.engine.models import Models
from ludolf.engine.workspace import Workspace
from ludolf.protocol.subagent_events import SubagentStatus


def offer_subagents(engine: Engine) -> None:
    """Offer the `task` tool to an engine that has a host."""
    if engine.features.find(SubagentSpawner) is None and not _is_too_deep(engine):
        registry = SubagentRegistry(SubagentSubscription(engine.conversation.hub))
        _offer(engine, SubagentSpawner(engine, registry, offer_below))


def offer_below(engine: Engine, above: SubagentSpawner, task: SubagentTask) -> None:
    """Offer the `task` tool to the engine of a subagent, as deep as the settings allow."""
    may_have = task.agent.tools is None or TaskTool.name in task.agent.tools
    if may_have and not _is_too_deep(engine):
        _offer(engine, SubagentSpawner(engine, above.registry, offer_below, task))


def _offer(engine: Engine, subagents: SubagentSpawner) -> None:
    engine.features.add(subagents)
    tool = TaskTool(engine.bundles, subagents, engine.work)
    engine.toolset.provide(TaskTool.name, [tool], inherited=False)


def _is_too_deep(engine: Engine) -> bool:
    most = engine.workspace.settings.task.max_recursion_depth
    return 0 <= most <= engine.workspace.depth


MOST_TASKS = 64
_ABOUT = (
    "Start subagents that work in the background. They do not see this conversation: put what all "
    "of them need into `context`, and everything else that one needs into its `task`. The call "
    "returns at once; each result arrives as a message when its subagent is done. Do not wait or "
    "poll: continue with other work or finish. Use subagents for independent pieces of work, and "
    "for searches whose details you do not need."
)
STARTED = (
    "Started in the background: {names}. Each result arrives as a message when its subagent is "
    "done; do not wait for it. Continue with other work, or end your turn."
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


class TaskTool(Component, ToolDefaults):
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
    read_only = True
    snippet = "Start agents that work in the background and report back"

    def __init__(self, bundles: Bundles, subagents: SubagentSpawner, work: Scope) -> None:
        super().__init__(bundles)
        self._subagents = subagents
        self._work = work

    @property
    def description(self) -> str:
        kinds = find_agents(self.workspace, self.features)
        listed = [f"- {name}: {kind.description}" for name, kind in kinds.items()]
        return "\n".join((_ABOUT, "Kinds of agents:", *listed))

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """One task may be given without a list."""
        if "tasks" not in args and "task" in args:
            return {"context": args.get("context", ""), "tasks": [dict(args)]}
        return args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        tasks = self._tasks(args, ctx.call_id)
        names = ", ".join(f"`{task.id}`" for task in tasks)
        await ctx.update(self._output(tasks, f"Starting {names}...", "pending"))
        self._subagents.begin(tasks)
        await ctx.update(self._output(tasks, f"Running {names} in the background...", "running"))
        return self._output(tasks, STARTED.format(names=names), "pending")

    # ------------------------------------------------------------ private

    def _tasks(self, args: Mapping[str, Any], call_id: str) -> list[SubagentTask]:
        """Raises:
        ToolFailure: something is missing or unknown; no subagent was started.
        """
        items: Sequence[Mapping[str, Any]] = args["tasks"]
        if not 0 < len(items) <= MOST_TASKS:
            raise ToolFailure(f"Give between 1 and {MOST_TASKS} tasks in one call.")
        kinds = [self._kind(item) for item in items]
        context = str(args.get("context") or "")
        return [
            self._task(item, kind, index, (call_id, context))
            for index, (item, kind) in enumerate(zip(items, kinds, strict=True))
        ]

    def _kind(self, item: Mapping[str, Any]) -> Agent:
        if not str(item.get("task") or "").strip():
            raise ToolFailure("Every task needs a text that says what to do.")
        known = find_agents(self.workspace, self.features)
        wanted = str(item.get("agent") or DEFAULT)
        if wanted not in known:
            raise ToolFailure(f'Unknown agent "{wanted}". Known: {", ".join(known) or "none"}.')
        return known[wanted]

    def _task(
        self, item: Mapping[str, Any], kind: Agent, index: int, call: tuple[str, str]
    ) -> SubagentTask:
        name = str(item.get("name") or "").strip() or kind.name.capitalize()
        chosen = choose(self.workspace, self.models, kind)
        id, file = self._subagents.reserve(name)
        return SubagentTask(
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
            scope=self._work.child(),
        )

    def _output(
        self, tasks: Sequence[SubagentTask], text: str, status: SubagentStatus
    ) -> ToolOutput:
        folder = project_folder(self.workspace)
        progress = [msgspec.to_builtins(task.progress(status)) for task in tasks]
        details = {
            "projectAgentsDir": str(folder) if folder is not None else None,
            "results": [],
            "totalDurationMs": 0,
            "progress": progress,
            "async": {"state": "running", "jobId": tasks[0].id, "type": "task"},
        }
        return text_output(text, details)


class ChosenModel(msgspec.Struct, frozen=True):
    """The patterns asked for, and the model that matched, or the parent's instead."""

    wanted: tuple[str, ...]
    model: Model
    level: ThinkingLevel
    is_fallback: bool


def choose(workspace: Workspace, models: Models, kind: Agent) -> ChosenModel:
    """Choose the model of a subagent: by the settings, then by the agent definition.

    If none of those is available, the subagent gets the model of its parent.
    """
    override = workspace.settings.task.agent_model_overrides.get(kind.name)
    wanted = (override,) if override else kind.models
    own, level = models.require(), kind.thinking or models.level
    for pattern in wanted:
        try:
            choice = choose_model(models.registry, pattern)
        except ConfigError:
            continue
        if models.registry.admits(choice.model):
            thinks = clamp_thinking(choice.model, choice.level or level)
            return ChosenModel(wanted, choice.model, thinks, False)
    return ChosenModel(wanted, own, clamp_thinking(own, level), bool(wanted))
