"""One agent session that commands can act on; it holds the parts and delegates to them."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.queue import QueueKind, QueueMode
from ludolf.agent.scope import Tasks
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import CommandError, ConfigError, Value, check_path
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.extension_bridge.loader import Extending, Mode
from ludolf.engine.history.compact import Compactor
from ludolf.engine.history.handoff import HandOver
from ludolf.engine.history.library import Library
from ludolf.engine.history.sessions import Sessions
from ludolf.engine.history.tree import TreeWalk
from ludolf.engine.host.host_tools import HostTools
from ludolf.engine.host.host_uris import HostUris
from ludolf.engine.models import ModelState
from ludolf.engine.parts import Parts
from ludolf.engine.run.prompting import Prompting
from ludolf.engine.run.requests import Requests
from ludolf.engine.run.runner import Runner
from ludolf.engine.run.shell import Shell
from ludolf.engine.toolbox import hide_keys, offers_tasks
from ludolf.protocol.events import CompactionResult, SessionInfoChanged, Warned
from ludolf.session.stats import SessionStats, Tally
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.engine.extension_bridge.host import EngineHost
    from ludolf.engine.host.logins import Logins
    from ludolf.extensions.dialogs import Dialogs
    from ludolf.protocol.commands import UiAnswer
    from ludolf.protocol.ui import UiRequest


class State(Value, kw_only=True):
    """The answer to `get_state`. `model` is null when none is selected."""

    model: Model | None
    thinking_level: ThinkingLevel
    is_streaming: bool
    is_compacting: bool
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    session_file: str | None = None
    session_id: str
    session_name: str | None = None
    auto_compaction_enabled: bool
    message_count: int
    pending_message_count: int


def _from(folder: Path, path: str) -> Path:
    return Path(folder, os.path.expanduser(check_path(path)))


def _nothing() -> None:
    """Nobody serves yet."""


class Engine:
    """Made by `build`. Close it when done: it ends what runs and frees what it holds."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.tasks = Tasks()
        self.dialogs: Dialogs | None = None
        self.logins: Logins | None = None
        self.send: Callable[[UiRequest], bool | None] | None = None
        self.on_shutdown: Callable[[], None] = _nothing
        self._shutting_down = False
        parts.extending = Extending(parts, self.tasks)
        self.requests = Requests(parts, self.tasks)
        self.compactor = Compactor(parts, self.requests)
        self.runner = Runner(parts, self.requests, self.compactor, self.tasks)
        self.prompting = Prompting(parts, self.runner, self.compactor)
        self.sessions = Sessions(parts, self.abort)
        self.runner.at_rest.append(self.sessions.save_all)
        self.runner.at_rest.append(self._after_commands)
        self.tree = TreeWalk(parts, self.compactor.summaries)
        self.hand_over = HandOver(parts, self.compactor, self.runner, self.sessions)
        self.library = Library(parts)
        self.shell = Shell(parts, self.runner)
        self.host_tools = HostTools(parts)
        self.host_uris = HostUris(parts)
        self._tally: Tally | None = None
        self._counted: Session | None = None

    @property
    def models(self) -> ModelState:
        return self.parts.models

    def state(self) -> State:
        parts = self.parts
        session = parts.session
        return State(
            model=parts.models.current,
            thinking_level=parts.models.level,
            is_streaming=self.runner.running,
            is_compacting=self.compactor.running or self.tree.summarising or self.hand_over.running,
            steering_mode=parts.queue.modes["steering"],
            follow_up_mode=parts.queue.modes["follow_up"],
            session_file=str(session.path) if session.path else None,
            session_id=session.id,
            session_name=session.name,
            auto_compaction_enabled=parts.settings.compaction.enabled,
            message_count=len(session.context.entries),
            pending_message_count=parts.queue.said(),
        )

    def stats(self) -> SessionStats:
        """Counts and costs over all branches of the session."""
        session, model = self.parts.session, self.models.current
        if self._tally is None or self._counted is not session:
            self._tally, self._counted = Tally(session), session
        return self._tally.stats(model.context_window if model else None)

    async def abort(self) -> None:
        """Stop everything but direct shell commands, and wait until it has come to rest."""
        self.compactor.abort_manual()
        self.tree.abort()
        self.hand_over.abort()
        self.prompting.abort()
        jobs = self.parts.jobs
        if jobs is not None:
            jobs.abort()
        await self.stop()
        await self.compactor.over()
        if jobs is not None:
            await jobs.over()

    async def stop(self) -> None:
        """Stop the running agent and wait until it has come to rest."""
        self.runner.abort()
        await self.runner.settled()

    @property
    def is_settled(self) -> bool:
        """Whether nothing runs, and nothing will by itself."""
        jobs = self.parts.jobs
        return not self.runner.running and (jobs is None or not jobs.will_wake)

    async def settled(self) -> None:
        """Wait until nothing runs, and nothing will by itself."""
        await self.runner.settled()
        while self.parts.jobs is not None and not self.is_settled:
            await self.parts.jobs.quiet()
            await self.runner.settled()

    async def compact(self, instructions: str | None) -> CompactionResult:
        """Compact now. A compaction that would be refused stops nothing.

        Raises:
            CommandError: refused, failed or cancelled.
        """
        return await self.compactor.manual(instructions, self.stop)

    async def export_html(self, output: str | None) -> str:
        """Write the session as a page; returns the path as it was asked for.

        Raises:
            CommandError: there is nothing to export, or the file cannot be written.
        """
        from ludolf.page import export_html

        parts = self.parts
        target = _from(parts.home.cwd, output) if output else None
        work = partial(
            export_html,
            parts.session,
            target,
            overwrite=False,
            system_prompt=parts.resources.system_prompt(),
            tools=parts.toolbox.specs(),
        )
        written = await asyncio.to_thread(work)
        return output or str(written)

    def set_auto_compaction(self, enabled: bool) -> None:
        self.parts.settings_files.save({"compaction": {"enabled": enabled}})

    def set_auto_retry(self, enabled: bool) -> None:
        self.parts.settings_files.save({"retry": {"enabled": enabled}})

    def set_queue_mode(self, kind: QueueKind, mode: str, *, save: bool = True) -> None:
        """Deliver so from now on, and with `save` also in sessions to come.

        Raises:
            CommandError: there is no such mode.
        """
        if mode not in ("all", "one-at-a-time"):
            raise CommandError(f"Invalid mode: {mode}")
        chosen: QueueMode = mode  # type: ignore[assignment]  # checked above
        self.parts.queue.modes[kind] = chosen
        if save:
            key = "steeringMode" if kind == "steering" else "followUpMode"
            self.parts.settings_files.save({key: mode})

    async def start(
        self,
        mode: Mode,
        send: "Callable[[UiRequest], bool | None] | None" = None,
    ) -> None:
        """Load the extensions, now that there is a loop; `send` asks somebody for them.

        Raises:
            ConfigError: one that was named on the command line does not load.
        """
        extending = self.parts.extending
        extending.mode = mode
        hide_keys(self.parts)
        if mode != "sdk" and self.parts.safety is not None:
            self.parts.safety.close_imports(self.parts.home.cwd)
        self.send = send
        extending.make_host = partial(self._make_host, send)
        self.runner.at_rest.append(self.end_if_asked)
        await extending.start()
        self._connect_safety()
        self.parts.report_distrust()
        if self.parts.model_later is not None:
            self.parts.model_later()
        if mode != "rpc" and offers_tasks(self.parts, default=False):
            from ludolf.engine.features.subagents.tool import offer

            offer(self)
        if mode != "rpc" and self.models.by_default:
            await self.models.settle()

    def _connect_safety(self) -> None:
        if self.parts.safety is not None:
            self.parts.safety.listen(self.send)

    def hang_up(self) -> None:
        """Nobody answers any more: open dialogs and all later ones get their defaults."""
        if self.dialogs is not None:
            self.dialogs.close()
        if self.logins is not None:
            self.logins.abort()
        if self.parts.safety is not None:
            self.parts.safety.hang_up()

    def answer_dialog(self, response: "UiAnswer") -> None:
        """What the user said to a dialog, whoever asked."""
        for asker in (self.dialogs, self.logins, self.parts.safety):
            if asker is not None:
                asker.answer(response)

    def _make_host(self, send: "Callable[[UiRequest], bool | None] | None") -> "EngineHost":
        """What extensions act through; made for the first of them."""
        from ludolf.engine.extension_bridge.host import EngineHost
        from ludolf.extensions.no_ui import NoUi

        if send is not None:
            from ludolf.extensions.dialogs import Dialogs

            self.dialogs = Dialogs(send)
            self.parts.extending.settle_dialogs = self.dialogs.settle_all
        return EngineHost(self, self.dialogs or NoUi())

    def commands(self) -> tuple[Any, ...]:
        """The items of `get_commands`: of extensions, then templates, then skills."""
        current = self.parts.extending.current
        own = current.commands() if current is not None else ()
        return (*own, *self.parts.resources.commands())

    def shutdown(self) -> None:
        """End the program once the present command is answered and the run has settled."""
        self._shutting_down = True
        if not self.runner.running:
            self.end_if_asked()

    def end_if_asked(self) -> None:
        """All has come to rest: end the program if somebody asked for it."""
        if self._shutting_down and self.is_settled:
            self.on_shutdown()

    async def set_project_trust(self, trusted: bool, *, remember: bool) -> None:
        """The host speaks for the user: use what the project brings, or leave it alone.

        Raises:
            CommandError: something runs.
        """
        from ludolf.config.settings.trust import save_decision

        self._check_idle("change trust")
        if remember:
            save_decision(self.parts.home, trusted=trusted)
        self.parts.seal = None
        await self._reload(trusted=trusted)

    def _check_idle(self, what: str) -> None:
        if not self.is_settled or self.compactor.running:
            raise CommandError(f"Cannot {what} while the agent is working. Abort it or wait.")

    async def reload(self) -> None:
        """Read settings, models, skills, templates, context files and extensions anew.

        Raises:
            CommandError: something runs, which must not change under its feet.
        """
        from ludolf.engine.project_trust import verify_code

        self._check_idle("reload")
        verify_code(self.parts)
        await self._reload(trusted=self.parts.settings_files.trusted)

    async def _reload(self, *, trusted: bool) -> None:
        parts, before = self.parts, self.parts.settings_files
        await parts.extending.leave("reload")
        parts.settings_files = SettingsFiles(parts.home, trusted=trusted, given=before.given)
        parts.registry.refresh()
        parts.resources.forget()
        parts.toolbox.forget()
        parts.rules.forget()
        try:
            parts.renew_safety()
        except ConfigError as error:
            parts.settings_files = before
            parts.hub.post(Warned(message=f"What guards the machine stays as it was: {error}"))
        self._connect_safety()
        for text in (*parts.settings_files.warnings, *parts.registry.errors):
            parts.hub.post(Warned(message=text))
        await parts.extending.enter("reload")

    def set_session_name(self, name: str) -> None:
        """Raises:
        CommandError: the name is empty.
        """
        if not name.strip():
            raise CommandError("Session name cannot be empty")
        self.parts.session.set_name(name)
        self.parts.hub.post(SessionInfoChanged(name=self.parts.session.name))

    def _after_commands(self) -> None:
        """Also for commands that were aborted, whose calls have no result to look at."""
        if self.parts.safety is not None:
            self.parts.safety.after_command(self.parts)

    async def close(self) -> None:
        """End what runs, store it, and free everything."""
        self.shell.abort()  # at the same time: who cleans up may take a moment
        await self.abort()
        await self.parts.extending.leave("quit")
        if self.parts.jobs is not None:
            await self.parts.jobs.close()
        self.shell.close(whole_program=self.parts.extending.mode != "sdk")
        await self.tasks.close()
        self._after_commands()
        if self.parts.safety is not None:
            self.parts.safety.close()
        self.parts.session.close()
        self.sessions.close()
        await self.parts.providers.close()
        await self.parts.transport.close()
