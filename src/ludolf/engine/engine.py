"""One agent session that commands can act on; it holds the parts and delegates to them."""

from ludolf.agent.queue import QueueKind, QueueMode
from ludolf.agent.scope import Tasks
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import CommandError, Value
from ludolf.engine.compact import Compactor
from ludolf.engine.library import Library
from ludolf.engine.models import ModelState
from ludolf.engine.parts import Parts
from ludolf.engine.prompting import Prompting
from ludolf.engine.requests import Requests
from ludolf.engine.runner import Runner
from ludolf.engine.sessions import Sessions
from ludolf.engine.shell import Shell
from ludolf.engine.tree import TreeWalk
from ludolf.protocol.events import CompactionResult, SessionInfoChanged, Warned
from ludolf.session.stats import SessionStats, Tally
from ludolf.session.tree import Session


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


class Engine:
    """Made by `build`. Close it when done: it ends what runs and frees what it holds."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.tasks = Tasks()
        self.requests = Requests(parts)
        self.compactor = Compactor(parts, self.requests)
        self.runner = Runner(parts, self.requests, self.compactor, self.tasks)
        self.prompting = Prompting(parts, self.runner, self.compactor)
        self.sessions = Sessions(parts, self.stop)
        self.tree = TreeWalk(parts, self.compactor.summaries)
        self.library = Library(parts)
        self.shell = Shell(parts, self.runner)
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
            is_compacting=self.compactor.running or self.tree.summarising,
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
        await self.stop()

    async def stop(self) -> None:
        """Stop the running agent and wait until it has come to rest."""
        self.runner.abort()
        await self.runner.settled()

    async def compact(self, instructions: str | None) -> CompactionResult:
        """Compact now. A compaction that would be refused stops nothing.

        Raises:
            CommandError: refused, failed or cancelled.
        """
        if self.compactor.refusal() is None:
            await self.stop()
        return await self.compactor.manual(instructions)

    def set_auto_compaction(self, enabled: bool) -> None:
        self.parts.settings_files.save({"compaction": {"enabled": enabled}})

    def set_auto_retry(self, enabled: bool) -> None:
        self.parts.settings_files.save({"retry": {"enabled": enabled}})

    def set_queue_mode(self, kind: QueueKind, mode: str) -> None:
        """Raises:
        CommandError: there is no such mode.
        """
        if mode not in ("all", "one-at-a-time"):
            raise CommandError(f"Invalid mode: {mode}")
        chosen: QueueMode = mode  # type: ignore[assignment]  # checked above
        self.parts.queue.modes[kind] = chosen
        key = "steeringMode" if kind == "steering" else "followUpMode"
        self.parts.settings_files.save({key: mode})

    def reload(self) -> None:
        """Read settings, models, skills, templates and context files anew.

        Raises:
            CommandError: something runs, which must not change under its feet.
        """
        if self.runner.running or self.compactor.running:
            raise CommandError("Cannot reload while the agent is working. Abort it or wait.")
        parts = self.parts
        parts.settings_files.load()
        parts.registry.refresh()
        parts.resources.forget()
        parts.toolbox.forget()
        for text in (*parts.settings_files.warnings, *parts.registry.errors):
            parts.hub.post(Warned(message=text))

    def set_session_name(self, name: str) -> None:
        """Raises:
        CommandError: the name is empty.
        """
        if not name.strip():
            raise CommandError("Session name cannot be empty")
        self.parts.session.set_name(name)
        self.parts.hub.post(SessionInfoChanged(name=self.parts.session.name))

    async def close(self) -> None:
        """End what runs, store it, and free everything."""
        await self.abort()
        self.shell.close()
        await self.tasks.close()
        self.parts.session.close()
        await self.parts.transport.close()
