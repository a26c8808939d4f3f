"""Let the model of an engine start subagents."""

from ludolf.engine.engine import Engine
from ludolf.engine.features.subagents.registry import SubagentRegistry
from ludolf.engine.features.subagents.subagents import SubagentSpawner
from ludolf.engine.features.subagents.subscription import SubagentSubscription
from ludolf.engine.features.subagents.task import SubagentTask
from ludolf.engine.features.subagents.tool import TaskTool


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
    engine.toolset.provide(TaskTool.name, [tool])


def _is_too_deep(engine: Engine) -> bool:
    most = engine.workspace.settings.task.max_recursion_depth
    return 0 <= most <= engine.workspace.depth
