"""Run one item to its result: workspace, session, check, patch. Nothing here knows the driver."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, structs

from ludolf.ai.errors import RETRYABLE
from ludolf.ai.gate import RequestGate
from ludolf.ai.messages import Usage
from ludolf.base import CommandError, LudolfError, Warn
from ludolf.base.trace_context import TraceContext
from ludolf.config.settings.options import Options
from ludolf.config.settings.session_request import with_choices
from ludolf.engine.features.structured_answers import answer_tool_for
from ludolf.fleet.agents import AgentAnswer, ItemAgent, LocalAgent
from ludolf.fleet.folder import DiskFull, disk_full, private_folder, write_private
from ludolf.fleet.orders import FleetSetup, ItemLimits, ItemOrder, ItemProgress
from ludolf.fleet.prompt_files import with_files
from ludolf.fleet.results import (
    PATCH_IN_RESULT,
    CheckOutcome,
    HowStarted,
    ItemError,
    ItemResult,
    ItemStatus,
    ItemUsage,
)
from ludolf.fleet.session_end import SessionEnd, Spendings, last_session, read_end, spendings
from ludolf.fleet.via import ViaAgent, ViaPlace, run_end_command
from ludolf.fleet.workspace import (
    ItemWorkspace,
    WorkspaceRequest,
    find_workspace,
    make_workspace,
    take_patch,
)
from ludolf.functions.final_answer import AnswerTool
from ludolf.protocol.results import Limits
from ludolf.session.stats import SessionStats
from ludolf.session.store import is_written_elsewhere

INTERRUPTED_TEXT = (
    "You were interrupted. A command without a result may or may not have run: check before you "
    "repeat it."
)
# A worker on a node that is lost may be killed after Ray has reported its end.
_WRITER_LOOKS, _WRITER_PAUSE = 300, 0.1
CHECK_FAILED = "The check failed. Correct the cause."
# Failures after which the same request may succeed later.
TRANSIENT = frozenset((*RETRYABLE, "via"))


def mirrors_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for mirrors of repositories on other machines."""
    cache = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "ludolf", "repositories")


async def _wait_for_writer(path: Path) -> None:
    """Wait until no other worker writes the session.

    Raises:
        CommandError: another process does not stop writing it.
        OSError: it cannot be read.
    """
    for _ in range(_WRITER_LOOKS):
        if not is_written_elsewhere(path):
            return
        await asyncio.sleep(_WRITER_PAUSE)
    raise CommandError(
        f"Session is in use by another process: {path}. End that process, then run the batch again."
    )


class FinishedItem(msgspec.Struct):
    """A result, and whether a later attempt may have a better one."""

    result: ItemResult
    is_transient: bool

    @property
    def kind(self) -> str | None:
        error = self.result.error
        return error.kind if isinstance(error, ItemError) else None

    @property
    def text(self) -> str:
        error = self.result.error
        return error.text if isinstance(error, ItemError) else ""


class ItemRun:
    """One attempt at an item."""

    def __init__(
        self,
        setup: FleetSetup,
        order: ItemOrder,
        report: Callable[[ItemProgress], None],
        warn: Warn,
        gate: RequestGate | None = None,
    ) -> None:
        self._gate = gate
        self._setup = setup
        self._order = order
        self._report = report
        self._warn = warn
        out = Path(setup.out)
        self.folder = out / "items" / order.folder
        self.work = out / "work" / order.folder
        self._limits = _limits_of(order.item, setup.limits)
        self._agent: ItemAgent | None = None
        self._place: ItemWorkspace | None = None
        self._how: HowStarted = "new"
        self._model: str | None = None
        self._stats: SessionStats | None = None
        self._before = Spendings(ItemUsage(), 0, 0)
        self._turns, self._tokens, self._cost, self._tool = 0, 0, 0.0, ""
        self._ends_early = False

    async def run(self) -> FinishedItem:
        """Run the item. Cancelling stores the session and has no result.

        Raises:
            DiskFull: the disk is full.
        """
        began = time.monotonic()
        answer, check = AgentAnswer(limit="seconds"), None
        try:
            private_folder(self.folder)
            async with asyncio.timeout(self._limits.max_seconds) as clock:
                answer, check = await self._work()
        except TimeoutError as error:
            if not clock.expired():
                answer = AgentAnswer(error=str(error), kind="timeout")
        except DiskFull:
            raise
        except LudolfError as error:
            answer = AgentAnswer(error=str(error), kind="start")
        except OSError as error:
            answer = _file_failure(error)
        finally:
            await self._close()
        patch = await self._patch()
        return self._finished(answer, check, patch, time.monotonic() - began)

    def end_after_turn(self) -> None:
        """Send no further request: the budget is used up."""
        self._ends_early = True
        if self._agent is not None:
            self._agent.end_after_turn()

    # ------------------------------------------------------------ steps

    async def _work(self) -> tuple[AgentAnswer, CheckOutcome | None]:
        setup = self._setup
        end = await self._prepare()
        assert self._place is not None
        tool = self._answer_tool()
        await self._end_left(self._place)
        agent = self._make_agent(self._place, end, tool)
        needs_agent = self._how != "collected" or setup.check is not None
        if needs_agent:
            await agent.open()
            self._agent = agent
            self._model = agent.model
        if self._how == "collected":
            assert end is not None
            answer = AgentAnswer(text=end.text, value=end.value)
            self._model = end.model
        else:
            answer = await self._first_answer(end)
        if setup.check is None:
            return answer, None
        return await self._checked(answer, setup.check, end.check_rounds if end else 0)

    async def _prepare(self) -> SessionEnd | None:
        """Find out how far the item came; make its workspace if it begins."""
        setup, item = self._setup, self._order.item
        place = find_workspace(self.folder)
        if place is not None and setup.via is not None:
            self._via_place(place).collect(self.folder)
        path = last_session(self.folder)
        if place is not None and path is not None:
            await _wait_for_writer(path)
            end = await read_end(path, self._answer_tool(), CHECK_FAILED)
            if end is not None:
                self._place = place
                self._how = "collected" if end.is_final else "continued"
                self._before = spendings(self.folder, None)
                return end
        request = WorkspaceRequest(
            start=Path(setup.start),
            out=Path(setup.out),
            mirrors=mirrors_folder(os.environ),
            kind=setup.kind,
            repo=item.get("repo"),
            ref=item.get("ref"),
            folder=item.get("folder"),
        )
        self._before = spendings(self.folder, None)
        self._place = await make_workspace(request, self.folder, self.work)
        return None

    async def _first_answer(self, end: SessionEnd | None) -> AgentAnswer:
        if end is not None:
            return await self._ask(INTERRUPTED_TEXT, [])
        assert self._place is not None
        places = (Path(self._place.cwd), Path(self._setup.start))
        text, images = with_files(self._order.prompt, self._order.item.get("files", ()), places)
        return await self._ask(text, images)

    async def _ask(self, text: str, images: list[Any]) -> AgentAnswer:
        assert self._agent is not None
        left = self._limits_left()
        if isinstance(left, str):
            return AgentAnswer(limit=left)
        await self._agent.set_limits(left)
        if self._ends_early:
            return AgentAnswer(limit="budget")
        return await self._agent.ask(text, images)

    async def _checked(
        self, answer: AgentAnswer, command: str, rounds: int
    ) -> tuple[AgentAnswer, CheckOutcome | None]:
        assert self._agent is not None
        while answer.error is None and answer.limit is None:
            check = await self._agent.run_check(command)
            write_private(self.folder / "check.log", check.tail.encode("utf-8", "replace"))
            if check.code == 0 or rounds >= self._setup.check_rounds:
                return answer, check
            rounds += 1
            text = f"{CHECK_FAILED} `{command}` exited with {check.code}:\n\n{check.tail}"
            answer = await self._ask(text, [])
        return answer, None

    async def _close(self) -> None:
        """Store the session, free what the agent holds, and end its container."""
        agent, self._agent = self._agent, None
        place = self._place
        if agent is not None:
            try:
                self._stats = await agent.stats()
            except LudolfError as error:
                self._warn(str(error))
            finally:
                await agent.close()
        if place is not None and self._setup.via is not None:
            await self._end_via(place)
            self._via_place(place).collect(self.folder)

    async def _patch(self) -> bytes | None:
        if self._place is None:
            return None
        try:
            patch = await take_patch(self._place, self.work)
            if patch is not None:
                write_private(self.folder / "patch.diff", patch)
            return patch
        except DiskFull:
            raise
        except (LudolfError, OSError) as error:
            if isinstance(error, OSError):
                _file_failure(error)
            self._warn(f"Item {self._order.id} has no patch: {error}")
            return None

    # ------------------------------------------------------------ result

    def _finished(
        self, answer: AgentAnswer, check: CheckOutcome | None, patch: bytes | None, seconds: float
    ) -> FinishedItem:
        sums = spendings(self.folder, self._stats)
        session = last_session(self.folder)
        text = patch.decode("utf-8", "replace") if patch is not None else None
        is_short = patch is not None and len(patch) <= PATCH_IN_RESULT
        is_long = patch is not None and not is_short
        error = self._error(answer, check)
        result = ItemResult(
            id=self._order.id,
            status=self._status(answer, error),
            attempts=self._order.attempt,
            how=self._how,
            answer=answer.text,
            value=answer.value,
            patch=text if is_short else None,
            patch_file=self._relative(self.folder / "patch.diff") if is_long else None,
            base=self._place.commit if self._place is not None else None,
            usage=sums.usage,
            turns=sums.turns,
            seconds=round(seconds, 3),
            model=self._model,
            session=self._relative(session) if session is not None else None,
            error=error or UNSET,
            check=check or UNSET,
            item=self._order.item,
        )
        return FinishedItem(result, error is not None and error.kind in TRANSIENT)

    def _status(self, answer: AgentAnswer, error: ItemError | None) -> ItemStatus:
        if answer.limit is not None:
            return "budget" if self._ends_early else "limit"
        return "ok" if error is None else "failed"

    def _error(self, answer: AgentAnswer, check: CheckOutcome | None) -> ItemError | None:
        if answer.error is not None:
            return ItemError(kind=answer.kind or "unknown", text=answer.error)
        if answer.limit is not None:
            what = "budget" if self._ends_early else answer.limit
            return ItemError(kind="limit", text=f"The limit of {what} was reached.")
        if check is not None and check.code != 0:
            return ItemError(kind="check", text=f"The check exited with {check.code}.")
        return None

    def _relative(self, path: Path) -> str:
        return os.path.relpath(path, self._setup.out)

    # ------------------------------------------------------------ parts

    def _answer_tool(self) -> AnswerTool[Any] | None:
        schema = self._setup.schema
        return answer_tool_for(schema) if schema is not None else None

    def _make_agent(
        self, place: ItemWorkspace, end: SessionEnd | None, tool: AnswerTool[Any] | None
    ) -> ItemAgent:
        setup = self._setup
        options = with_choices(Options(cwd=Path(place.cwd)), setup.choices)
        options.model = self._order.item.get("model", options.model)
        if options.model != setup.choices.get("model"):
            options.provider = None
        options.session = str(end.path) if end is not None else None
        options.session_dir = str(self.folder)
        options.gate = self._gate
        options.telemetry = setup.telemetry
        if (parent := self._order.traceparent) is not None:
            options.trace = TraceContext(traceparent=parent, linked=True, item=self._order.id)
        if setup.via is not None:
            where = self._via_place(place)
            return ViaAgent(setup.via, where, options, setup.schema, self._on_step)
        return LocalAgent(options, tool, self._on_step, self._warn)

    def _via_place(self, place: ItemWorkspace) -> ViaPlace:
        return ViaPlace(f"{self._setup.name}-{self._order.folder}", self._order.id, place)

    async def _end_left(self, place: ItemWorkspace) -> None:
        if self._order.attempt > 1:
            await self._end_via(place)

    async def _end_via(self, place: ItemWorkspace) -> None:
        command = self._setup.via_end
        if command is not None:
            names = self._via_place(place).names
            problem = await run_end_command(command, names, Path(self._setup.start))
            if problem is not None:
                self._warn(problem)

    def _limits_left(self) -> Limits | str:
        """Return the limits for the next prompt, less what was used; or the one that is reached."""
        limits, before = self._limits, self._before
        left: dict[str, Any] = {}
        cost = before.usage.cost + self._cost
        used = (before.turns + self._turns, before.tokens + self._tokens, cost)
        most = (limits.max_turns, limits.max_tokens, limits.max_cost)
        for name, one, limit in zip(("turns", "tokens", "cost"), used, most, strict=True):
            if limit is not None:
                if one >= limit:
                    return name
                left[f"max_{name}"] = limit - one
        return Limits(**left)

    def _on_step(self, step: str | Usage) -> None:
        if isinstance(step, str):
            self._tool = step
        else:
            self._turns += 1
            self._tokens += step.context
            self._cost += step.cost.total
        self._report(
            ItemProgress(
                id=self._order.id,
                turns=self._before.turns + self._turns,
                cost=self._before.usage.cost + self._cost,
                tool=self._tool,
            )
        )


def _file_failure(error: OSError) -> AgentAnswer:
    """Raises:
    DiskFull: the disk is full.
    """
    if (full := disk_full(error)) is not None:
        raise full from error
    return AgentAnswer(error=f"{error.filename}: {error.strerror}", kind="files")


def _limits_of(item: Mapping[str, Any], limits: ItemLimits) -> ItemLimits:
    own = {name: item[name] for name in structs.asdict(limits) if name in item}
    return limits.replace(**own)
