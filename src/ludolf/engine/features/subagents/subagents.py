"""The subagents of a host with their names and files, and how results return to an engine."""

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from ludolf.agent.events import MessageEnd, MessageStart
from ludolf.agent.io import QueueKind
from ludolf.agent.scope import Aborted, Tasks
from ludolf.ai.messages import CustomMessage
from ludolf.base import CommandError, loads, now_ms
from ludolf.engine.engine import Engine
from ludolf.engine.feature import Feature
from ludolf.engine.features.subagents.subagent import Subagent, SubagentSubscription, SubagentTask
from ludolf.protocol.events import AgentSettled, EntryStored
from ludolf.protocol.subagent_events import AgentWaiting, Snapshot
from ludolf.session.entries import entry_json
from ludolf.session.tree import Session

MOST_FILES = 256
LONGEST_NAME = 48
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
NEITHER = "get_subagent_messages requires subagentId or sessionFile"
UNKNOWN = "Unknown subagent or session file unavailable: {wanted}"


class SubagentRegistry:
    """One for each engine with a host, shared by all subagents below it."""

    def __init__(self, subscription: SubagentSubscription) -> None:
        self.subscription = subscription
        self._live: dict[str, Subagent] = {}
        self._files: dict[str, Path] = {}
        self._temporary: Path | None = None

    # ------------------------------------------------------------ agents

    def enter(self, subagent: Subagent) -> None:
        self._live[subagent.task.id] = subagent
        self._files[subagent.task.id] = subagent.task.file
        while len(self._files) > MOST_FILES:
            del self._files[next(iter(self._files))]

    def leave(self, subagent: Subagent) -> None:
        self._live.pop(subagent.task.id, None)

    def find(self, id: str) -> Subagent | None:
        """Return the running subagent of this name."""
        return self._live.get(id)

    def of_session(self, session_id: str) -> Subagent | None:
        """Return the running subagent that works in a session, such as that of a question."""
        live = self._live.values()
        return next((each for each in live if each.session_id == session_id), None)

    def snapshots(self) -> list[Snapshot]:
        snapshots = [subagent.watch.snapshot() for subagent in self._live.values()]
        return sorted(snapshots, key=lambda one: (one.index, one.id))

    # ------------------------------------------------------------ names and files

    def reserve(self, folder: Path, name: str, above: str = "") -> tuple[str, Path]:
        """Reserve an unused name, and the file for it."""
        plain = _ODD.sub("-", name).strip("-")[:LONGEST_NAME] or "Task"
        wanted = f"{above}.{plain}" if above else plain
        id, count = wanted, 1
        # Some file systems ignore case.
        taken = {known.lower() for known in self._files}
        while id.lower() in taken or (folder / f"{id}.jsonl").exists():
            count += 1
            id = f"{wanted}-{count}"
        # Reserved now, so that subagents of one call get different names.
        self._files[id] = folder / f"{id}.jsonl"
        return id, self._files[id]

    def folder(self, session: Session) -> Path:
        """Return the folder for subagents of a session: next to its file, with the same name."""
        path = session.path
        return self._temporary_folder() if path is None else path.with_suffix("")

    def _temporary_folder(self) -> Path:
        if self._temporary is None:
            import tempfile

            self._temporary = Path(tempfile.mkdtemp(prefix="ludolf-task-"))
        return self._temporary

    def close(self) -> None:
        """Remove the files of subagents of a session without a file."""
        if self._temporary is not None:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)

    # ------------------------------------------------------------ transcripts

    def transcript(self, id: str | None, file: str | None, start: int) -> dict[str, Any]:
        """What an agent's session file holds from a byte on, in whole lines.

        Raises:
            CommandError: neither is named, or it is none of an agent of this process.
        """
        if not id and not file:
            raise CommandError(NEITHER)
        known = self._files if id else {str(path): path for path in self._files.values()}
        path = known.get(id or file or "")
        if path is None:
            raise CommandError(UNKNOWN.format(wanted=id or file))
        data, reset = _from_byte(path, start)
        start = 0 if reset else start
        whole = data[: data.rfind(b"\n") + 1]
        entries = [loads(line) for line in whole.splitlines()]
        return {
            "sessionFile": str(path),
            "fromByte": start,
            "nextByte": start + len(whole),
            "reset": reset,
            "entries": entries,
            "messages": [one["message"] for one in entries if one.get("type") == "message"],
        }


def _from_byte(path: Path, start: int) -> tuple[bytes, bool]:
    """What stands there, and whether that is all of it, since the file ends before."""
    try:
        with path.open("rb") as file:
            reset = start > file.seek(0, os.SEEK_END)
            file.seek(0 if reset else start)
            return file.read(), reset
    except OSError:
        return b"", start > 0


RESULT = "async-result"
# A subagent starts when its parent is idle, or after this time: the last words of the parent come
# before the first frame of the subagent, as hosts know it from omp.
GRACE_SECONDS = 0.12
LONGEST_RESULT = 50_000


class SubagentSpawner(Feature):
    """Every engine that may start subagents has one; all of them share the registry.

    `task` is that of the subagent whose own subagents these are; None for the engine of the host.
    `offer_below` lets the engine of a subagent start subagents of its own.
    """

    def __init__(
        self,
        engine: Engine,
        registry: SubagentRegistry,
        offer_below: "Callable[[Engine, SubagentSpawner, SubagentTask], None]",
        task: SubagentTask | None = None,
    ) -> None:
        self._engine = engine
        self.registry = registry
        self._offer_below = offer_below
        self._task = task
        self._tasks = Tasks()
        self._running: list[Subagent] = []
        self._results: list[Subagent] = []
        self._slots: asyncio.Semaphore | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._reported_waiting = False
        self._waking = False

    # ------------------------------------------------------------ starting and stopping

    def reserve(self, name: str) -> tuple[str, Path]:
        """Reserve a name and a file for a new subagent."""
        if self._task is not None:
            return self.registry.reserve(self._task.file.parent, name, self._task.id)
        return self.registry.reserve(self.registry.folder(self._engine.session), name)

    def begin(self, tasks: Sequence[SubagentTask]) -> None:
        """Start subagents; returns at once."""
        self._quiet.clear()
        for task in tasks:
            subagent = Subagent(task, self.registry.subscription)
            self._running.append(subagent)
            self.registry.enter(subagent)
            self._tasks.start(self._run(subagent))

    def abort(self) -> None:
        """Stop all subagents and drop their results."""
        self._results.clear()
        for subagent in self._running:
            subagent.abort(silent=True)
        self._check_quiet()

    async def ended(self) -> None:
        """Return when no subagent runs."""
        await self._tasks.ended()

    async def close(self) -> None:
        self.abort()
        await self._tasks.close()
        if self._task is None:
            self.registry.close()

    # ------------------------------------------------------------ waking

    def will_wake(self) -> bool:
        return bool(self._results) or any(not subagent.silent for subagent in self._running)

    async def quiet(self) -> None:
        await self._quiet.wait()

    def pending(self, kind: QueueKind) -> int:
        return int(kind == "steering" and bool(self._results))

    def take(self, kind: QueueKind) -> CustomMessage:
        """Return all waiting results as one message."""
        self._reported_waiting = False
        message = self._result_message()
        self._check_quiet()
        return message

    def on_handoff_end(self) -> None:
        self._wake_soon()

    def on_idle(self) -> bool:
        """Report that the engine waits for its subagents, if it does."""
        self._reported_waiting = False
        if self._engine.conversation.meter.reached is not None:
            self._store_results()
            self.abort()
        self._reported_waiting = self.will_wake()
        if self._reported_waiting:
            waiting = (*self._results, *self._running)
            ids = tuple(subagent.task.id for subagent in waiting if not subagent.silent)
            self._engine.conversation.hub.post(AgentWaiting(jobs=ids))
            self._wake_soon()
        return self._reported_waiting

    # ------------------------------------------------------------ private

    async def _run(self, subagent: Subagent) -> None:
        try:
            slots = await subagent.scope.run(self._slot())
            try:
                if subagent.scope.aborted:  # in the moment when it got its slot
                    raise Aborted
                await subagent.run(
                    self._engine, lambda engine: self._offer_below(engine, self, subagent.task)
                )
            finally:
                slots.release()
        except Aborted:
            subagent.never_began()
        finally:
            self._ended(subagent)

    async def _slot(self) -> asyncio.Semaphore:
        """Wait until the parent is idle, but not long; then for a free slot."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._engine.runner.idle()
        except TimeoutError:
            pass
        if self._slots is None:
            most = self._engine.workspace.settings.task.max_concurrency
            self._slots = asyncio.Semaphore(most or 1_000_000)
        await self._slots.acquire()
        return self._slots

    def _ended(self, subagent: Subagent) -> None:
        self._running.remove(subagent)
        self._store_usage(subagent)
        self.registry.leave(subagent)
        subagent.watch.ended(subagent.outcome.status)
        if not subagent.silent:
            self._results.append(subagent)
            self._wake_soon()
        self._check_quiet()
        subagent.scope.close()

    def _store_usage(self, subagent: Subagent) -> None:
        """Count the usage of a subagent as usage of the session."""
        session, hub = self._engine.session, self._engine.conversation.hub
        for body in subagent.spent if session.refusal() is None else ():
            entry = session.append(structs.replace(body, note=subagent.task.id))
            hub.post(EntryStored(entry=msgspec.Raw(entry_json(entry))))

    def _wake_soon(self) -> None:
        """Start a run with the results; a running engine takes them at its next turn."""
        if self._results and not self._waking and not self._is_busy:
            self._waking = True
            self._engine.tasks.start(self._wake())

    @property
    def _is_busy(self) -> bool:
        """Return whether the engine runs or is about to leave its session."""
        return self._engine.runner.running or self._engine.handoff.running

    async def _wake(self) -> None:
        # Subagents that end together are reported together.
        await asyncio.sleep(0)
        await self._engine.compactor.idle()
        self._waking = False
        if self._is_busy or not self._results:
            return
        if self._engine.conversation.meter.reached is not None:
            self._store_results()
        else:
            self._engine.runner.start((self.take("steering"),), woken=True)

    def _store_results(self) -> None:
        """Keep the results in the conversation without a run, since a limit is reached."""
        if self._results:
            message = self._result_message()
            self._engine.conversation.hub.post(MessageStart(message=message))
            self._engine.conversation.hub.post(MessageEnd(message=message))
            self._check_quiet()

    def _result_message(self) -> CustomMessage:
        subagents, self._results = self._results, []
        return _message(subagents)

    def _check_quiet(self) -> None:
        if self._running or self._results:
            return
        self._quiet.set()
        if self._reported_waiting and not self._engine.runner.running:
            self._reported_waiting = False
            self._engine.conversation.hub.post(AgentSettled())
            self._engine.end_if_asked()


def _message(subagents: Sequence[Subagent]) -> CustomMessage:
    return CustomMessage(
        custom_type=RESULT,
        content="\n\n".join(map(_report, subagents)),
        display=True,
        details={
            "jobs": [
                {
                    "jobId": subagent.task.id,
                    "type": "task",
                    "label": subagent.task.name,
                    "durationMs": subagent.watch.duration_ms,
                    **({"error": subagent.outcome.error} if subagent.outcome.error else {}),
                }
                for subagent in subagents
            ]
        },
        timestamp=now_ms(),
    )


def _report(subagent: Subagent) -> str:
    task, outcome = subagent.task, subagent.outcome
    head = f'<task-result id="{task.id}" agent="{task.agent.name}" status="{outcome.status}">'
    text = outcome.text
    if len(text) > LONGEST_RESULT:
        text = f"{text[:LONGEST_RESULT]}\n[cut; the whole conversation is in {task.file}]"
    errors = [f"Error: {outcome.error}"] if outcome.error else []
    return "\n".join((head, *errors, *([text] if text else ()), "</task-result>"))
