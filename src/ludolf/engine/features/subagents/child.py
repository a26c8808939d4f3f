"""The engine of an agent in the background: its own session and hub, all else its parent's."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.agent.scope import Tasks
from ludolf.ai.messages import AssistantMessage
from ludolf.engine.build import recorder
from ludolf.engine.engine import Engine
from ludolf.engine.extension_bridge.loader import Extending
from ludolf.engine.features.stream_rules import StreamRules
from ludolf.engine.features.subagents.task import Plan
from ludolf.engine.features.todos import TOOL_NAMES as TODO_NAMES
from ludolf.engine.features.todos import Todos
from ludolf.engine.hub import Hub
from ludolf.engine.models import ModelState
from ludolf.engine.parts import Parts
from ludolf.engine.resources import Resources
from ludolf.engine.run.limits import Meter, Reached
from ludolf.engine.run.message_queue import Waiting
from ludolf.engine.toolbox import Toolbox
from ludolf.session.tree import Session, new_header

if TYPE_CHECKING:
    from ludolf.agent.tool import Tool
    from ludolf.extensions.runner import Runner

# The plan of the parent is the parent's; and these are given anew where they belong.
NOT_LENT = (*TODO_NAMES, "task", "yield")
# What guards the user's machine holds for agents of agents too.
_GUARDS = ("tool_call", "tool_result")


def make_child(parent: Engine, plan: Plan, finish: "Tool") -> Engine:
    """An engine that is closed by `close_child`."""
    parts = _parts(parent.parts, plan)
    engine = Engine(parts)
    parts.extending = Lent(parts, engine.tasks, parent.parts)
    engine.requests.renew = parent.requests.renew
    lent = [tool for tool in _provided(parent.parts) if _may_have(plan, tool.name)]
    parts.toolbox.provide("parent", [*lent, finish])
    parts.models.record()
    return engine


async def close_child(engine: Engine) -> None:
    """End what it does. What it shares with its parent stays open."""
    await engine.abort()
    engine.shell.close(whole_program=False)
    await engine.tasks.close()
    engine.parts.session.close()


def _parts(lender: Parts, plan: Plan) -> Parts:
    parts = Parts()
    parts.options = structs.replace(lender.options, tools=_tools(lender, plan))
    parts.home, parts.place, parts.warn = lender.home, lender.place, lender.warn
    parts.start = lender.start
    parts.settings_files, parts.registry = lender.settings_files, lender.registry
    parts.transport, parts.providers = lender.transport, lender.providers
    parts.depth = lender.depth + 1
    # The same object: its calls are asked about at the parent's host, within the same walls.
    parts.safety = lender.safety
    parts.hub = Hub(recorder(parts))
    parts.queue = Waiting(parts.hub, "all", "all")
    parts.meter = SharedMeter(lender.meter)
    parts.toolbox = Toolbox(parts)
    parts.resources = Resources(parts)
    parts.todos = Todos(parts)
    parts.rules = StreamRules(parts)
    parts.sections = _sections(plan)
    parts.documents = lender.documents
    path = lender.session.path
    header = new_header(str(lender.home.cwd), parent_session=str(path) if path else None)
    parts.session = Session(header, plan.file, lender.report)
    parts.models = ModelState(parts, plan.model, plan.level)
    return parts


def _sections(plan: Plan) -> dict[str, str]:
    told = {"agent": plan.agent.prompt, "task_context": plan.context}
    return {name: text for name, text in told.items() if text}


def _tools(lender: Parts, plan: Plan) -> tuple[str, ...]:
    """The kind's own tools, as far as the user allows tools at all; else those of the parent."""
    toolbox, options = lender.toolbox, lender.options
    if plan.agent.tools is None:
        return tuple(tool.name for tool in toolbox.active() if tool.name in toolbox.tools)
    if options.tools is not None:
        return tuple(name for name in plan.agent.tools if name in options.tools)
    if options.no_tools:
        return ()
    if options.no_builtin_tools:
        return tuple(name for name in plan.agent.tools if name in lender.extending.tools())
    return plan.agent.tools


def _provided(lender: Parts) -> "list[Tool]":
    """Active tools that the host or the program around brought."""
    toolbox = lender.toolbox
    active = (tool for tool in toolbox.active() if tool.name not in toolbox.tools)
    return [tool for tool in active if tool.name not in NOT_LENT]


def _may_have(plan: Plan, name: str) -> bool:
    return plan.agent.tools is None or name in plan.agent.tools


class SharedMeter(Meter):
    """Counts on the parent's meter, which only a new prompt of the user sets back."""

    def __init__(self, above: Meter) -> None:
        super().__init__()
        self._above = above

    def start(self) -> None:
        self.reached = None

    def count(self, message: AssistantMessage) -> None:
        self._above.count(message)

    def check(self) -> Reached | None:
        self.reached = self._above.check()
        return self.reached


class Lent(Extending):
    """The parent's extensions: their tools, and their say about calls; nothing else of theirs."""

    def __init__(self, parts: Parts, tasks: Tasks, lender: Parts) -> None:
        super().__init__(parts, tasks)
        self._lender = lender
        self.mode = lender.extending.mode

    def wants(self, name: str) -> bool:
        return name in _GUARDS and self._lender.extending.wants(name)

    @property
    def runner(self) -> "Runner":
        return self._lender.extending.runner

    def tools(self) -> "Mapping[str, Tool]":
        return self._lender.extending.tools()

    def report(self, path: str, event: str, text: str) -> None:
        self._lender.extending.report(path, event, text)
