"""One agent session that commands act on."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ludolf.agent.io import QueueKind, QueueMode
from ludolf.agent.scope import Scope, Tasks
from ludolf.base import CommandError, ConfigError, check_path, expand_user
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import F, Feature, HostForms, Send, SessionMove
from ludolf.engine.host.host_link import HostLink
from ludolf.engine.host.host_side import WAIT_SECONDS, HostSide
from ludolf.engine.project_trust import (
    NOT_APPLIED,
    enter_folder,
    report_distrust,
    verify_code,
)
from ludolf.engine.run.requests import Renew, Requests
from ludolf.engine.run.runner import PromptRunner
from ludolf.engine.start import LateModel, report_unusable_default
from ludolf.engine.toolset import offers_tasks
from ludolf.protocol.events import CompactionResult, SessionInfoChanged, Warned
from ludolf.protocol.results import State
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.engine.features.mcp.feature import McpFeature
    from ludolf.engine.features.todos import TodoPlan
    from ludolf.engine.history.compact import Compactor
    from ludolf.engine.history.handoff import Handoffs
    from ludolf.engine.history.sessions import Library, SessionSwitcher
    from ludolf.engine.history.tree import TreeNavigation
    from ludolf.engine.host.approvals import Approvals
    from ludolf.engine.host.host_uris import HostDocuments
    from ludolf.engine.host.logins import Logins
    from ludolf.engine.host.renewals import Renewals
    from ludolf.engine.run.prompting import Prompting
    from ludolf.engine.run.shell import Shell
    from ludolf.protocol.commands import UiAnswer
    from ludolf.protocol.ui import UiRequest
    from ludolf.session.stats import SessionStats, Tally

# What the first prompt needs is prepared so long after the first replies.
WARM_UP_SECONDS = 0.2
RunMode = Literal["rpc", "acp", "serve", "json", "print", "sdk"]
# Modes with a host that may choose another model before the first prompt.
_SERVING: tuple[RunMode, ...] = ("rpc", "acp", "serve")
# Modes with several sessions in one program.
_SHARING: tuple[RunMode, ...] = ("acp", "serve", "sdk")


class Plugs(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine makes other engines and the features that need one.

    `refresh` adds and removes features after the settings have changed.
    """

    spawn: "Callable[[Engine, Any], Engine]"
    offer_subagents: "Callable[[Engine], None]"
    refresh: Callable[[Bundles], None]


def _path_in(home: Home, path: str) -> Path:
    return Path(home.cwd, expand_user(check_path(path), home.user))


def _do_nothing() -> None:
    """Ends nothing: no mode serves the engine yet."""


class Engine(Component):
    """Made by `build`. Close it when done: it ends what runs and frees what it holds.

    Everything that `abort` stops runs in the scope `work`; that of a subagent is part of its
    parent's. `renew` renews logins, by default in tasks of this engine.
    """

    def __init__(
        self,
        bundles: Bundles,
        plugs: Plugs,
        *,
        renew: Renew | None = None,
        work: Scope | None = None,
    ) -> None:
        super().__init__(bundles)
        self._plugs = plugs
        self.tasks = Tasks()
        self.work = work or Scope()
        self._shell_commands = Scope()
        self._logins_scope = Scope()
        self.mode: RunMode = "rpc"
        self.send: Send | None = None
        # Set before `start`, if the host shows whole forms.
        self.forms: HostForms | None = None
        self.on_shutdown: Callable[[], None] = _do_nothing
        # Called by `start` if it has to wait for extensions in another process.
        self.on_slow_start: Callable[[], None] | None = None
        self._shutting_down = False
        self._tally: Tally | None = None
        self._assemble(renew or self._renew)

    def _assemble(self, renew: Renew) -> None:
        bundles, work = self.bundles, self.work
        self.requests = Requests(bundles, renew)
        self.runner = PromptRunner(bundles, self.requests, self.tasks, work, self._on_idle)
        hub = self.conversation.hub
        self.own_host = self.host_side(HostLink(hub.emit, hub.post))

    @property
    def compactor(self) -> "Compactor":
        return self.runner.compactor

    # ------------------------------------------------------------ state

    @property
    def session(self) -> Session:
        return self.conversation.session

    def state(self) -> State:
        session, queue = self.session, self.conversation.queue
        return State(
            model=self.models.current,
            thinking_level=self.models.level,
            is_streaming=self.runner.running,
            is_compacting=bool(self.conversation.summarising),
            steering_mode=queue.modes["steering"],
            follow_up_mode=queue.modes["follow_up"],
            session_file=str(session.path) if session.path else None,
            session_id=session.id,
            session_name=session.name,
            auto_compaction_enabled=self.workspace.settings.compaction.enabled,
            message_count=len(session.context.entries),
            pending_message_count=queue.said(),
        )

    def stats(self) -> "SessionStats":
        """Return counts and costs over all branches of the session."""
        session, model = self.session, self.models.current
        if self._tally is None or self._tally.session is not session:
            from ludolf.session.stats import Tally

            self._tally = Tally(session)
        return self._tally.stats(model.context_window if model else None)

    @property
    def is_settled(self) -> bool:
        """Return whether nothing runs, and nothing will start without a prompt."""
        return not self.runner.running and not self.features.will_wake()

    async def settled(self) -> None:
        """Wait until nothing runs, and nothing will start without a prompt."""
        await self.runner.idle()
        while not self.is_settled:
            for feature in self.features:
                await feature.quiet()
            await self.runner.idle()

    # ------------------------------------------------------------ stopping

    async def abort(self, earlier: Awaitable[Any] | None = None) -> None:
        """Stop everything except shell commands of the host, and wait until it has ended.

        Work that starts before `earlier` is done is stopped too.
        """
        self._logins_scope.abort_open()
        await self.stop_work(earlier)

    async def stop_work(self, earlier: Awaitable[Any] | None = None) -> None:
        """Stop prompts, compactions and subagents, and wait until they have ended."""
        self.abort_subagents()
        scopes = self.work.abort_open()
        if earlier is not None:
            with self.work.held():
                await earlier
        for scope in scopes:
            await scope.closed()
        await self.runner.idle()

    def abort_run(self) -> None:
        """Stop the running prompt and what features run for it, without waiting."""
        self.abort_subagents()
        self.runner.abort()

    def abort_subagents(self) -> None:
        """Stop what features run for the prompt."""
        for feature in self.features:
            feature.abort()

    async def _stop_run(self) -> None:
        self.runner.abort()
        await self.runner.idle()

    def shutdown(self) -> None:
        """End the program once the present command is answered and the run has settled."""
        self._shutting_down = True
        if not self.runner.running:
            self.end_if_asked()

    def end_if_asked(self) -> None:
        """End the program if `shutdown` was called and nothing runs."""
        if self._shutting_down and self.is_settled:
            self.on_shutdown()

    def _on_idle(self) -> None:
        if self.session.unsaved or self.sessions.unsaved:
            self.sessions.save_all()
        if self.shell.waiting:
            self.shell.store_waiting()
        if self._shutting_down:
            self.end_if_asked()

    # ------------------------------------------------------------ life

    async def start(self, mode: RunMode, send: Send | None = None) -> None:
        """Start the features, now that there is a loop; `send` shows dialogs to the user.

        Raises:
            ConfigError: an extension named on the command line does not load, or print or JSON
                mode has a default model that cannot be used, and no other.
        """
        self.mode, self.send = mode, send
        self.workspace.mode = mode
        self.toolset.owns_process = mode != "sdk"
        self.toolset.hide_keys()
        if mode in _SERVING:
            report_unusable_default(self.workspace, self.models, mode)
        for feature in self.features:
            self._connect(feature)
        for feature in self.features:
            await feature.start()
        report_distrust(self.bundles)
        if mode not in ("rpc", "serve"):
            self.offer_subagents(default=False)
        if mode not in _SERVING:
            if self.models.by_default:
                await self.models.resolve()
            report_unusable_default(self.workspace, self.models, mode)

    @property
    def has_late_model(self) -> bool:
        """Return whether extensions may provide the model of the start."""
        late = self.features.find(LateModel) is not None
        return late or self.models.by_default or self.models.unusable_default is not None

    def warm_up(self) -> None:
        """Prepare what the first prompt needs, after the first replies have been sent."""
        for feature in self.features.hooks["warm_up"]:
            feature.warm_up()
        self.resources.warm_up()
        if self.models.by_default:
            self.tasks.start(self.models.resolve())

    def offer_subagents(self, *, default: bool) -> None:
        """Let the model start subagents, if the options and settings allow it."""
        if offers_tasks(self.workspace, default=default):
            self._plugs.offer_subagents(self)

    def spawn(self, task: Any) -> "Engine":
        """Return an engine for a subagent."""
        return self._plugs.spawn(self, task)

    def host_side(self, link: HostLink, wait_seconds: float = WAIT_SECONDS) -> HostSide:
        """Return the place for the tools and documents of another host, which `link` reaches."""
        return HostSide(self.bundles, link, lambda: self.host_documents, wait_seconds)

    def disconnect(self) -> None:
        """Give open dialogs and all later ones their defaults: the host is gone."""
        self.send = None
        for feature in self.features:
            feature.disconnect()

    def ask_approval(self, send: Send) -> None:
        """Ask through `send` before tool calls; other dialogs are not shown by it."""
        for feature in self.features:
            feature.connect(send)

    def answer_dialog(self, answer: "UiAnswer") -> None:
        for feature in self.features:
            feature.answer_dialog(answer)

    def open_dialogs(self) -> "tuple[UiRequest, ...]":
        """Return the dialogs that wait for an answer of the user."""
        asking = self.features.hooks["open_dialogs"]
        return tuple(request for feature in asking for request in feature.open_dialogs())

    def commands(self) -> tuple[Any, ...]:
        """Return the items of `get_commands`: of extensions, then templates, then skills."""
        added = (item for each in self.features.hooks["commands"] for item in each.commands())
        return (*added, *self.resources.commands())

    async def complete_command(self, name: str, prefix: str) -> tuple[Any, ...] | None:
        """Return completions of a command's arguments; None if the command offers none."""
        for feature in self.features.hooks["complete_command"]:
            found = await feature.complete_command(name, prefix)
            if found is not None:
                return found
        return None

    def shortcuts(self) -> tuple[Any, ...]:
        """Return the keys of extensions."""
        hooks = self.features.hooks["shortcuts"]
        return tuple(item for feature in hooks for item in feature.shortcuts())

    async def run_shortcut(self, key: str) -> None:
        """Run the function of an extension's key.

        Raises:
            CommandError: no extension has registered the key.
        """
        for feature in self.features.hooks["run_shortcut"]:
            if await feature.run_shortcut(key):
                return
        raise CommandError(f"No extension has registered the key {key}.")

    def handles(self, text: str) -> bool:
        """Return whether a text calls a command, or an extension may take it as input."""
        if self.prompting.is_command(text) or self.resources.expand(text) != text:
            return True
        return any(feature.handles_input(text) for feature in self.features.hooks["handles_input"])

    async def reload(self) -> None:
        """Read settings, models, skills, templates, context files and extensions again.

        Raises:
            CommandError: a prompt or a compaction runs.
        """
        self._check_idle("reload")
        verify_code(self.bundles)
        await self._reload(trusted=self.workspace.files.trusted)

    async def _reload(self, *, trusted: bool) -> None:
        for feature in self.features:
            await feature.leave_session("reload", None)
        before = self.workspace.files
        self.workspace.files = SettingsFiles(
            self.workspace.home, trusted=trusted, given=before.given
        )
        self.workspace.files.override(before.overrides)
        self.models.registry.refresh()
        self.resources.invalidate()
        self.toolset.invalidate()
        for feature in self.features:
            feature.reload()
        try:
            self._plugs.refresh(self.bundles)
        except ConfigError as error:
            self.workspace.files = before
            self.conversation.hub.post(Warned(message=NOT_APPLIED.format(error=error)))
        for feature in self.features:
            self._connect(feature)
        registry, warnings = self.models.registry, self.workspace.files.warnings
        packages = self.workspace.package_warnings()
        for text in (*warnings, *packages, *registry.errors, *registry.unknown_keys):
            self.conversation.hub.post(Warned(message=text))
        for feature in self.features:
            await feature.enter_session(SessionMove(reason="reload"))

    def trust_project(self) -> None:
        """Use the project's own settings and resources from now on."""
        self.workspace.use_project(trusted=True)
        self.resources.invalidate()
        self._plugs.refresh(self.bundles)

    async def set_project_trust(self, trusted: bool, *, remember: bool) -> None:
        """Use or ignore what the project brings, as the host decides for the user.

        Raises:
            CommandError: a prompt or a compaction runs.
        """
        from ludolf.config.settings.trust import save_decision

        self._check_idle("change trust")
        if remember:
            save_decision(self.workspace.home, trusted=trusted)
        self.workspace.seal = None
        await self._reload(trusted=trusted)

    def _enter_folder(self, cwd: str) -> None:
        enter_folder(self.bundles, cwd, self._plugs.refresh)

    def _check_idle(self, what: str) -> None:
        if not self.is_settled or self.compactor.running:
            raise CommandError(f"Cannot {what} while the agent is working. Abort it or wait.")

    async def close(self, *, owns_models: bool = True) -> None:
        """End what runs, store it, and free everything.

        A subagent's engine leaves the model access, which it shares, open.
        """
        self.shell.abort()  # at the same time: processes that clean up may take a moment
        await self.abort()
        for feature in self.features:
            await feature.leave_session("quit", None)
        # Features end their own processes first, such as MCP servers, which are asked to end.
        for feature in self.features.inner_first:
            await feature.close()
        # Other sessions of the program may still need what their commands left running.
        has_program = owns_models and self.mode not in _SHARING
        self.shell.close(whole_program=has_program)
        await self.tasks.close()
        self.session.close()
        self.sessions.close()
        if owns_models:
            await self.models.close()

    # ------------------------------------------------------------ commands

    async def compact(self, instructions: str | None) -> CompactionResult:
        """Compact now. A compaction that would be refused stops nothing.

        Raises:
            CommandError: refused, failed or cancelled.
        """
        return await self.compactor.manual(instructions, self._stop_run)

    async def export_html(self, output: str | None, *, overwrite: bool = False) -> str:
        """Write the session as a page; returns the path as it was asked for.

        Raises:
            CommandError: there is nothing to export, or the file cannot be written.
        """
        from ludolf.page.html import export_html

        work = partial(
            export_html,
            self.session,
            _path_in(self.workspace.home, output) if output else None,
            overwrite=overwrite,
            system_prompt=self.resources.system_prompt(),
            tools=self.toolset.specs(),
        )
        written = await asyncio.to_thread(work)
        return output or str(written)

    def set_auto_compaction(self, enabled: bool) -> None:
        self.workspace.files.save({"compaction": {"enabled": enabled}})

    def set_auto_retry(self, enabled: bool) -> None:
        self.workspace.files.save({"retry": {"enabled": enabled}})

    def set_queue_mode(self, kind: QueueKind, mode: str, *, save: bool = True) -> None:
        """Change how queued messages are delivered; `save` keeps it for later sessions.

        Raises:
            CommandError: the mode is unknown.
        """
        if mode not in ("all", "one-at-a-time"):
            raise CommandError(f"Invalid mode: {mode}")
        chosen: QueueMode = mode  # type: ignore[assignment]  # checked above
        self.conversation.queue.modes[kind] = chosen
        if save:
            key = "steeringMode" if kind == "steering" else "followUpMode"
            self.workspace.files.save({key: mode})

    def set_session_name(self, name: str) -> None:
        """Raises:
        CommandError: the name is empty.
        """
        if not name.strip():
            raise CommandError("Session name cannot be empty")
        self.session.set_name(name)
        self.conversation.hub.post(SessionInfoChanged(name=self.session.name))

    # ------------------------------------------------------------ made on first use

    @cached_property
    def prompting(self) -> "Prompting":
        from ludolf.engine.run.prompting import Prompting

        return Prompting(self.runner, self.work)

    @cached_property
    def sessions(self) -> "SessionSwitcher":
        from ludolf.engine.history.sessions import SessionSwitcher

        return SessionSwitcher(self.bundles, self.stop_work, self._enter_folder)

    @cached_property
    def library(self) -> "Library":
        from ludolf.engine.history.sessions import Library

        return Library(self.conversation)

    @cached_property
    def tree(self) -> "TreeNavigation":
        from ludolf.engine.history.tree import TreeNavigation

        return TreeNavigation(self.bundles, self.compactor.summaries, self.work)

    @cached_property
    def handoff(self) -> "Handoffs":
        from ludolf.engine.history.handoff import Handoffs

        return Handoffs(self.runner, self.sessions, self.work)

    @cached_property
    def shell(self) -> "Shell":
        from ludolf.engine.run.shell import Shell

        return Shell(self.bundles, self._shell_commands, lambda: not self.runner.running)

    @cached_property
    def todos(self) -> "TodoPlan":
        from ludolf.engine.features.todos import TodoPlan

        return self._added(TodoPlan(self.bundles))

    @property
    def has_todos(self) -> bool:
        """Return whether the session had a todo list."""
        return "todos" in vars(self) and self.todos.was_used

    @cached_property
    def host_documents(self) -> "HostDocuments":
        """Return the documents of all hosts."""
        from ludolf.engine.host.host_uris import HostDocuments

        return self._added(HostDocuments(self.toolset))

    @cached_property
    def mcp(self) -> "McpFeature":
        from ludolf.engine.features.mcp.feature import McpFeature

        found = self.features.find(McpFeature)
        if found is None:
            found = self._added(McpFeature(self.bundles))
            self._connect(found)
        return found

    @property
    def has_mcp(self) -> bool:
        """Return whether a host or an extension has asked for MCP servers."""
        return "mcp" in vars(self)

    @cached_property
    def approvals(self) -> "Approvals":
        """Return the approvals of the session, whose mode the host may change."""
        from ludolf.engine.features.safety import find_safety

        safety = find_safety(self.bundles)
        safety.connect(self.send)
        return safety.offer_approvals()

    @cached_property
    def logins(self) -> "Logins":
        from ludolf.engine.host.logins import Logins

        clock = self.conversation.answer_clock
        registry, features = self.models.registry, self.features
        return self._added(Logins(registry, features, self.send, self._logins_scope, clock))

    @cached_property
    def _renewals(self) -> "Renewals":
        from ludolf.engine.host.renewals import Renewals

        return Renewals(self.models.registry, self.conversation.hub, self.tasks)

    async def _renew(self, provider: str) -> None:
        await self._renewals.renew(provider)

    def _connect(self, feature: Feature) -> None:
        feature.connect(self.send)
        feature.use_forms(self.forms)

    def _added(self, feature: F) -> F:
        self.features.add(feature)
        return feature
