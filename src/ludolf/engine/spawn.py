"""Make the engine of a subagent: its own session and hub, everything else its parent's."""

from msgspec import structs

from ludolf.agent.tool import Tool
from ludolf.ai.messages import AssistantMessage
from ludolf.config.settings.options import Options
from ludolf.engine.bundles import Bundles
from ludolf.engine.conversation import Conversation, Meter
from ludolf.engine.engine import Engine, Plugs
from ludolf.engine.feature import Features
from ludolf.engine.features.subagents.subagent import SubagentTask
from ludolf.engine.models import Models
from ludolf.engine.resources import Resources
from ludolf.engine.toolset import MCP_PREFIX, Toolset, is_listed, mcp_patterns, permits
from ludolf.engine.workspace import SubagentOrigin
from ludolf.protocol.events import LimitReached
from ludolf.session.tree import Session, new_header


def spawn(parent: Engine, task: SubagentTask, plugs: Plugs) -> Engine:
    """Return an engine that runs inside the scope of the task."""
    features = Features()
    workspace = parent.workspace.for_subagent(_options(parent, task))
    workspace.origin = SubagentOrigin(task.id, task.agent.name, task.call_id)
    meter = SharedMeter(parent.conversation.meter)
    place = parent.conversation.place
    conversation = Conversation(workspace, place, features, meter, ("all", "all"))
    conversation.answer_clock = parent.conversation.answer_clock
    conversation.replace(_session(parent, task))
    models = Models(parent.models.access, workspace, conversation, features)
    models.start_with(task.model, task.level)
    toolset = Toolset(workspace, conversation, models, features)
    toolset.documents = parent.toolset.documents
    toolset.files = parent.toolset.files
    toolset.terminals = parent.toolset.terminals
    toolset.workplace = parent.toolset.workplace
    toolset.owns_process = parent.toolset.owns_process
    sections = {"agent": task.agent.prompt, "task_context": task.context}
    sections = {name: text for name, text in sections.items() if text}
    resources = Resources(workspace, toolset, conversation.hub, features, sections)
    bundles = Bundles(workspace, conversation, models, toolset, resources, features)
    engine = Engine(bundles, plugs, renew=parent.requests.renew, work=task.scope)
    for feature in parent.features:
        inherited = feature.for_subagent(bundles)
        if inherited is not None:
            features.add(inherited)
    toolset.provide("parent", _inherited(parent, task))
    models.record()
    return engine


def _session(parent: Engine, task: SubagentTask) -> Session:
    path = parent.session.path
    header = new_header(str(parent.workspace.cwd), parent_session=str(path) if path else None)
    return Session(header, task.file, parent.conversation.hub.report)


def _options(parent: Engine, task: SubagentTask) -> Options:
    """Return the options of the parent, with the tools of the agent definition."""
    options, tools = parent.workspace.options, _tools(parent, task)
    refused = options.tools is None and options.no_tools
    restricted = refused or (task.agent.tools is not None and not mcp_patterns(tools))
    excluded = (*options.exclude_tools, f"{MCP_PREFIX}*") if restricted else options.exclude_tools
    return structs.replace(options, tools=tools, exclude_tools=excluded)


def _tools(parent: Engine, task: SubagentTask) -> tuple[str, ...]:
    """Return the tools of the agent definition, as far as the user allows them; else all."""
    toolset, options = parent.toolset, parent.workspace.options
    wanted = task.agent.tools
    if wanted is None:
        own = tuple(tool.name for tool in toolset.active() if tool.name in toolset.tools)
        return (*own, *mcp_patterns(options.tools or ()))
    served = tuple(name for name in mcp_patterns(wanted) if permits(options, name))
    if options.tools is not None:
        return (*(name for name in wanted if is_listed(name, options.tools)), *served)
    if options.no_tools:
        return ()
    if options.no_builtin_tools:
        return (*(name for name in wanted if name in parent.features.tools()), *served)
    return wanted


def _inherited(parent: Engine, task: SubagentTask) -> list[Tool]:
    """Return the tools of the host or of the embedding program, as far as allowed."""
    own, wanted = parent.toolset.tools, task.agent.tools
    shared = (tool for tool in parent.toolset.inherited() if tool.name not in own)
    return [tool for tool in shared if wanted is None or is_listed(tool.name, wanted)]


class SharedMeter(Meter):
    """Counts on the meter of the parent, which only a new prompt of the user resets."""

    def __init__(self, parent: Meter) -> None:
        super().__init__()
        self._parent = parent

    def start(self) -> None:
        self.reached = None

    def count(self, message: AssistantMessage) -> None:
        self._parent.count(message)

    def check(self) -> LimitReached | None:
        self.reached = self._parent.check()
        return self.reached
