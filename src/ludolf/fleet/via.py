"""The agent of an item in a program that `--via` starts, driven over the RPC protocol."""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from ludolf.agent.events import ToolStart
from ludolf.agent.scope import Tasks
from ludolf.ai.messages import AssistantMessage, Image
from ludolf.base import ConfigError
from ludolf.client import Client, ClientError, LimitReached, StructuredOutput
from ludolf.client.events import TypedEvent
from ludolf.config.settings.options import Options
from ludolf.fleet.agents import AgentAnswer, OnStep, StepSink, answer_at, check_outcome
from ludolf.fleet.folder import write_private
from ludolf.fleet.results import CheckOutcome
from ludolf.fleet.workspace import SESSIONS_IN_COPY, ItemWorkspace
from ludolf.protocol.results import Limits
from ludolf.protocol.wire.frames import MessageEnd
from ludolf.session.finder import newest
from ludolf.session.stats import SessionStats
from ludolf.session.store import is_written_elsewhere

END_SECONDS = 60.0
# Seconds that a program which lost its worker may take to store its session.
LEFT_SECONDS = 10.0
_SESSIONS_IN_CLONE = ".git/ludolf"
_PLACEHOLDER = re.compile(r"\{(name|folder|id)\}")
_VALUES = {
    "provider": "--provider",
    "model": "--model",
    "thinking": "--thinking",
    "system_prompt": "--system-prompt",
    "approval": "--approval",
    "sandbox": "--sandbox",
    "sandbox_network": "--sandbox-network",
    "replay": "--replay",
}
_LISTS = {"models": "--models", "tools": "--tools", "exclude_tools": "--exclude-tools"}
_REPEATED = {
    "extensions": "--extension",
    "skills": "--skill",
    "prompt_templates": "--prompt-template",
    "mcp_config": "--mcp-config",
    "append_system_prompt": "--append-system-prompt",
}
_SWITCHES = {
    "no_builtin_tools": "--no-builtin-tools",
    "no_tools": "--no-tools",
    "no_extensions": "--no-extensions",
    "no_skills": "--no-skills",
    "no_prompt_templates": "--no-prompt-templates",
    "no_context_files": "--no-context-files",
    "no_mcp": "--no-mcp",
    "mask_secrets": "--mask-secrets",
}


class ViaPlace:
    """The names that a command gets, and the folder of its sessions, relative to its folder."""

    def __init__(self, name: str, item_id: str, workspace: ItemWorkspace) -> None:
        self.names = {"name": name, "id": item_id, "folder": workspace.root}
        self.cwd = Path(workspace.cwd)
        has_git = workspace.kind == "clone" and workspace.cwd == workspace.root
        self.sessions = _SESSIONS_IN_CLONE if has_git else SESSIONS_IN_COPY

    @property
    def session_folder(self) -> Path:
        return self.cwd / self.sessions

    def collect(self, item: Path) -> None:
        """Copy the sessions into the folder of the item."""
        for path in self.session_folder.glob("*.jsonl"):
            write_private(item / path.name, path.read_bytes())


def via_words(command: str, names: Mapping[str, str]) -> list[str]:
    """Split a command into words and fill in `{name}`, `{folder}` and `{id}`.

    Raises:
        ConfigError: a quote is not closed, or the command is empty.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"{command!r} is not a command: {error}.") from error
    if not words:
        raise ConfigError("The command of --via is empty.")
    return [_PLACEHOLDER.sub(lambda found: names[found[1]], word) for word in words]


def option_words(options: Options) -> list[str]:
    """Return the command line of the options of a session, without keys."""
    words: list[str] = []
    for field, flag in _VALUES.items():
        if (value := getattr(options, field)) is not None:
            words += (flag, str(value))
    for field, flag in _LISTS.items():
        if value := getattr(options, field):
            words += (flag, ",".join(value))
    for field, flag in _REPEATED.items():
        for value in getattr(options, field):
            words += (flag, value)
    words += (flag for field, flag in _SWITCHES.items() if getattr(options, field))
    if options.approve is not None:
        words.append("--approve" if options.approve else "--no-approve")
    return words


class ViaAgent:
    """An agent in another process, in a container for example."""

    def __init__(
        self,
        command: str,
        place: ViaPlace,
        options: Options,
        schema: Mapping[str, Any] | None,
        on_step: OnStep,
    ) -> None:
        self._place = place
        self._schema = schema
        self._sink = StepSink(on_step)
        self._tasks = Tasks()
        words = via_words(command, place.names)
        more = ["--mode", "rpc", "--rpc-dialect", "pi-delta", *option_words(options)]
        more += ["--session-dir", place.sessions]
        if options.session is not None:
            more.append("--continue")
        self._client = Client(*more, program=words, cwd=place.cwd, timeout=None)
        self._model: str | None = None

    async def open(self) -> None:
        """Raises:
        LudolfError: the program does not start.
        """
        await self._released()
        self._place.session_folder.mkdir(parents=True, exist_ok=True)
        await self._client.open()
        state = await self._client.get_state()
        self._model = state.model.key if state.model is not None else None

    async def ask(self, text: str, images: Sequence[Image]) -> AgentAnswer:
        sink = self._sink
        sink.begin()
        try:
            stream = self._client.stream(text, images=images, output_schema=self._schema)
            async with aclosing(stream) as events:
                async for event in events:
                    self._take(event)
        except ClientError as error:
            return AgentAnswer(error=str(error), kind="via")
        return answer_at(sink)

    async def run_check(self, command: str) -> CheckOutcome:
        return check_outcome(await self._client.bash(command, exclude_from_context=True))

    async def set_limits(self, limits: Limits) -> None:
        await self._client.set_limits(
            max_turns=limits.max_turns, max_tokens=limits.max_tokens, max_cost=limits.max_cost
        )

    async def stats(self) -> SessionStats:
        return await self._client.get_session_stats()

    @property
    def model(self) -> str | None:
        return self._model

    def end_after_turn(self) -> None:
        self._tasks.start(self._client.send("set_limits", maxTurns=1))

    async def close(self) -> None:
        await self._tasks.close()
        with suppress(ClientError):
            await self._client.close()

    def _take(self, event: TypedEvent) -> None:
        if isinstance(event, MessageEnd):
            if isinstance(event.message, AssistantMessage):
                self._sink.answered(event.message)
        elif isinstance(event, ToolStart | StructuredOutput | LimitReached):
            self._sink.take(event)

    async def _released(self) -> None:
        """Wait until a program whose worker was lost has left its session."""
        folder = self._place.session_folder
        path = newest(folder) if folder.is_dir() else None
        if path is None:
            return
        async with asyncio.timeout(LEFT_SECONDS):
            while is_written_elsewhere(path):  # noqa: ASYNC110 - a lock of another process
                await asyncio.sleep(0.05)


async def run_end_command(command: str, names: Mapping[str, str], cwd: Path) -> str | None:
    """Run `--via-end` for an item; returns why it failed, or None."""
    words = via_words(command, names)
    null, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        child = await asyncio.create_subprocess_exec(
            *words, cwd=cwd, stdin=null, stdout=null, stderr=pipe
        )
    except OSError as error:
        return f"--via-end: {words[0]}: {os.strerror(error.errno or 0)}"
    try:
        async with asyncio.timeout(END_SECONDS):
            await child.communicate()
    except TimeoutError:
        return f"--via-end: {words[0]} did not end within {END_SECONDS:g} s"
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return None
