"""The plan of a batch: its options, the items to run, and what must not change on resume."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import ConfigError, dumps
from ludolf.fleet.folder import BatchHistory
from ludolf.fleet.orders import FleetSetup
from ludolf.fleet.tasks import RawItem, Task, in_shard, make_tasks, render_prompt

AGENTS_PER_WORKER = 50
_READ_ONLY_TOOLS = frozenset(("read", "grep", "find", "ls"))
# Options of sessions that name files; prompts are a text or a file.
_PATHS = (
    *("extensions", "skills", "promptTemplates", "mcpConfig", "replay"),
    *("systemPrompt", "appendSystemPrompt"),
)
_LONGEST_PATH = 255
# Recorded as digests: they may be long.
_LONG = ("prompt", "schema")


class ItemChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which items to run: all that are not recorded, unless these say otherwise."""

    only: tuple[str, ...] = ()
    first: int | None = None
    redo: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None


class BatchPlan(msgspec.Struct, kw_only=True):
    """A batch as it was asked for."""

    items: Iterable[RawItem]
    prompt: str | None
    setup: FleetSetup
    choice: ItemChoice = ItemChoice()
    jobs: int = 8
    workers: int | None = None
    budget: float | None = None
    retries: int = 2
    # The engine to run on; None is this machine.
    on: str | None = None

    @property
    def worker_count(self) -> int:
        """One worker for 50 agents; on this machine at most one for each core."""
        most = self.jobs if self.on is not None else os.cpu_count() or 1
        wanted = self.workers or min(-(-self.jobs // AGENTS_PER_WORKER), most)
        return max(1, min(wanted, self.jobs))

    def check(self) -> None:
        """Raises:
        ConfigError: options contradict each other.
        """
        setup = self.setup
        if setup.kind == "here" and self.jobs > 1 and not _is_read_only(setup.choices):
            raise ConfigError(
                "--in here lets all agents write in one folder. Add -j 1, or only tools that read: "
                "--tools read,grep,find,ls."
            )
        if setup.via is None and setup.via_end is not None:
            raise ConfigError("--via-end needs --via.")
        if setup.via is not None and setup.choices.get("apiKey"):
            raise ConfigError("--api-key cannot be used with --via: set the provider's variable.")
        if setup.check is None and setup.check_rounds:
            raise ConfigError("--check-rounds needs --check.")

    def fixed_options(self) -> dict[str, Any]:
        """Return the options that a resume must repeat, by their names and without keys."""
        setup = self.setup
        choices = {_flag(name): value for name, value in setup.choices.items() if name != "apiKey"}
        limits = {_flag(name): value for name, value in _given(setup.limits).items()}
        own: dict[str, Any] = {
            "prompt": self.prompt,
            "schema": setup.schema,
            "in": setup.kind,
            "via": setup.via,
            "via-end": setup.via_end,
            "check": setup.check,
            "check-rounds": setup.check_rounds or None,
            "shard": list(self.choice.shard) if self.choice.shard else None,
        }
        found = {name: value for name, value in {**choices, **limits, **own}.items() if value}
        return {
            name: hashlib.sha256(dumps(value)).hexdigest() if name in _LONG else value
            for name, value in found.items()
        }


class SelectedTasks(msgspec.Struct):
    """The items to run, and the numbers of those that earlier runs recorded."""

    tasks: list[Task]
    redone: set[str]
    recorded_ok: int = 0
    recorded_failed: int = 0
    # By the names of their folders: a crash may have left workspaces of recorded items.
    recorded_folders: dict[str, str] = {}


def select_tasks(plan: BatchPlan, history: BatchHistory, left: set[str]) -> SelectedTasks:
    """Choose the items to run and check their prompts; `left` are names of workspaces that exist.

    Raises:
        ConfigError: an item is invalid, has changed since it was started, or a chosen one does not
            exist.
    """
    choice = plan.choice
    selected = SelectedTasks([], set())
    missing = {*choice.only, *(each for each in choice.redo if each != "failed")}
    for number, task in enumerate(make_tasks(plan.items)):
        missing.discard(task.id)
        is_left_out = choice.first is not None and number >= choice.first
        if is_left_out or (choice.only and task.id not in choice.only):
            continue
        if choice.shard is not None and not in_shard(task, choice.shard):
            continue
        _select(task, plan, history, left, selected)
    if missing:
        raise ConfigError(f"No item has the id {', '.join(sorted(missing))}.")
    return selected


def _select(
    task: Task, plan: BatchPlan, history: BatchHistory, left: set[str], selected: SelectedTasks
) -> None:
    if history.is_recorded(task.id):
        is_ok = history.is_ok(task.id)
        redo = plan.choice.redo
        if task.id not in redo and ("failed" not in redo or is_ok):
            selected.recorded_ok += is_ok
            selected.recorded_failed += not is_ok
            if left and task.folder_name in left:
                selected.recorded_folders[task.folder_name] = task.id
            return
        selected.redone.add(task.id)
    opened = history.open.get(task.id)
    if opened is not None and opened[1] != task.digest:
        raise ConfigError(
            f'The item "{task.id}" has changed since it was started. Give the changed item another '
            "id, or start a new batch with another --out."
        )
    render_prompt(task, plan.prompt)
    selected.tasks.append(task)


def _given(value: msgspec.Struct) -> dict[str, Any]:
    return {name: each for name, each in msgspec.structs.asdict(value).items() if each is not None}


def _flag(name: str) -> str:
    spaced = "".join(f"-{mark.lower()}" if mark.isupper() else mark for mark in name)
    return spaced.replace("_", "-")


def _is_read_only(choices: dict[str, Any]) -> bool:
    if choices.get("noTools") or choices.get("sandbox") == "read-only":
        return True
    tools = choices.get("tools")
    return tools is not None and set(tools) <= _READ_ONLY_TOOLS


def absolute_paths(choices: dict[str, Any], start: Path) -> dict[str, Any]:
    """Return the options of sessions with paths of files as seen from their workspaces."""

    def found(text: str) -> str:
        path = Path(start, os.path.expanduser(text))
        return str(path) if len(text) < _LONGEST_PATH and path.exists() else text

    changed: dict[str, Any] = {}
    for name in _PATHS:
        value = choices.get(name)
        if isinstance(value, str):
            changed[name] = found(value)
        elif value:
            changed[name] = [found(each) for each in value]
    return {**choices, **changed}


def batch_name(out: Path) -> str:
    """Return the beginning of the names of a batch's containers."""
    return f"ludolf-{hashlib.sha256(os.fsencode(os.path.realpath(out))).hexdigest()[:8]}"
