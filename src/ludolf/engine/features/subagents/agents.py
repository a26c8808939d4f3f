"""Agent definitions: two built-in ones, and those of the user in Markdown files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ludolf.ai.messages import ThinkingLevel
from ludolf.base import ConfigError
from ludolf.base.project_files import Reader
from ludolf.config.models.selection import as_level
from ludolf.config.settings.home import OWN, reader_of
from ludolf.engine.feature import Features
from ludolf.engine.workspace import Workspace
from ludolf.protocol.subagent_events import AgentSource

FOLDER = "agents"
# Of one folder.
MOST_FILES = 500
DEFAULT = "task"
ALIASES = {"scout": "explore"}


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of agent. Without `tools` it has its parent's; models are tried in their order."""

    name: str
    description: str
    source: AgentSource
    prompt: str
    tools: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    thinking: ThinkingLevel | None = None


BUNDLED = (
    Agent(
        name="task",
        description="Does any piece of work on its own, with all tools.",
        source="bundled",
        prompt=(
            "You do one piece of work for another agent. Do all of it and nothing beyond it. "
            "You cannot ask questions: where something is left open, decide, and say so in your "
            "result."
        ),
    ),
    Agent(
        name="explore",
        description="Looks around in files and reports what it finds. Changes nothing.",
        source="bundled",
        prompt=(
            "You look something up for another agent. Search, read, and report what you found with "
            "the paths and lines that prove it. Change nothing."
        ),
        tools=("read", "grep", "find", "ls"),
    ),
)


def find_agents(workspace: Workspace, features: Features) -> dict[str, Agent]:
    """All kinds that may be used: the trusted project's before the user's own, then ours."""
    found: dict[str, Agent] = {}
    for agent in (*_stored(workspace, features), *BUNDLED):
        found.setdefault(agent.name, agent)
    for name, real in ALIASES.items():
        if name not in found and real in found:
            found[name] = found[real]
    off = workspace.settings.task.disabled_agents
    return {
        name: agent for name, agent in found.items() if name not in off and agent.name not in off
    }


def project_folder(workspace: Workspace) -> Path | None:
    """Where a trusted project keeps kinds of its own."""
    folder = workspace.home.project / FOLDER
    return folder if workspace.files.trusted and folder.is_dir() else None


def _stored(workspace: Workspace, features: Features) -> Iterator[Agent]:
    if workspace.options.no_skills and workspace.options.no_prompt_templates:
        return
    project = project_folder(workspace)
    if project is not None:
        reader = reader_of(workspace.home, workspace.home.cwd, features.hides(workspace.cwd))
        yield from _in_folder(workspace, project, "project", reader)
    yield from _in_folder(workspace, workspace.home.agent / FOLDER, "user", OWN)


def _in_folder(
    workspace: Workspace, folder: Path, source: AgentSource, reader: Reader
) -> Iterator[Agent]:
    try:
        names = [name for name in reader.names(folder) if name.endswith(".md")]
    except ConfigError as error:
        workspace.warn(f"Warning: {error}")
        return
    if len(names) > MOST_FILES:
        workspace.warn(f"Warning: only the first {MOST_FILES} agents in {folder} are used")
    for path in (folder / name for name in names[:MOST_FILES]):
        try:
            agent = _read(path, source, reader)
        except (ConfigError, ValueError) as error:
            workspace.warn(f"Warning: the agent {path} cannot be used: {error}")
            continue
        if agent is not None:
            yield agent


def _read(path: Path, source: AgentSource, reader: Reader) -> Agent | None:
    from ludolf.config.resources.front_matter import split, text_field

    text = reader.text(path)
    if text is None:
        return None
    header, body = split(text)
    named = text_field(header, "thinking") or text_field(header, "thinkingLevel")
    return Agent(
        name=text_field(header, "name") or path.stem,
        description=text_field(header, "description"),
        source=source,
        prompt=body.strip(),
        tools=_words(header["tools"]) if header.get("tools") is not None else None,
        models=_words(header.get("model")),
        thinking=as_level(named),
    )


def _words(value: Any) -> tuple[str, ...]:
    """A list, or a text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list):
        return ()
    return tuple(word for item in items if (word := str(item).strip()))
