"""Shell commands that a host runs beside the conversation; the model reads of them later."""

import sys
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.scope import Aborted, Scope
from ludolf.agent.tool import ToolError
from ludolf.ai.messages import BashExecutionMessage
from ludolf.base import CommandError, now_ms
from ludolf.engine.parts import Parts
from ludolf.engine.run.runner import Runner
from ludolf.engine.toolbox import tool_environment
from ludolf.protocol.bash import BashResult
from ludolf.protocol.events import BashUpdate
from ludolf.session.entries import MessageBody
from ludolf.session.reader import NotASession
from ludolf.session.tree import Session, SessionReadOnly, open_session

if TYPE_CHECKING:
    from ludolf.tools.output import OutputTail
    from ludolf.tools.process import End

# Output of a command is told in pieces of at most this size, so that no frame grows without bound.
_PIECE = 64 * 1024


class Shell:
    """Several commands may run at once, also during a run of the agent."""

    def __init__(self, parts: Parts, runner: Runner) -> None:
        self._parts = parts
        self._runner = runner
        self._running: set[Scope] = set()
        self._waiting: list[BashExecutionMessage] = []
        runner.at_rest.append(self._store_waiting)

    def run(
        self, command: str, *, exclude: bool = False, reply_id: msgspec.Raw | None = None
    ) -> Coroutine[Any, Any, BashResult]:
        """Run a command to its end and keep what it said for the model.

        It counts as running from now on, so that an abort right behind it ends it.

        Raises:
            CommandError: when awaited: it could not be started.
        """
        scope = Scope()
        self._running.add(scope)
        work = self._run(command, scope, exclude=exclude, reply_id=reply_id)
        return self._kept(work, command, self._parts.session, exclude=exclude)

    async def _kept(
        self, work: Awaitable[BashResult], command: str, session: Session, *, exclude: bool
    ) -> BashResult:
        result = await work
        self._keep(_message(command, result, exclude=exclude), session)
        return result

    async def _run(
        self, command: str, scope: Scope, *, exclude: bool, reply_id: msgspec.Raw | None
    ) -> BashResult:
        try:
            result = await self._by_extension(command, scope, exclude=exclude)
            return result or await self._execute(command, scope, reply_id)
        finally:
            self._running.discard(scope)
            if self._parts.safety is not None:
                self._parts.safety.after_command(self._parts)

    def abort(self) -> None:
        """Kill every command; each is answered as cancelled."""
        for scope in tuple(self._running):
            scope.abort()

    def close(self, *, whole_program: bool) -> None:
        """End every command, and with the program what ended commands left running."""
        self.abort()
        # Not loaded: no command ran, so none left anything behind.
        if whole_program and "ludolf.tools.process_tree" in sys.modules:
            from ludolf.tools.process_tree import WARDEN

            for pid, name in WARDEN.end_all():
                self._parts.warn(f"Warning: could not be ended: {name} (process {pid})")

    # ------------------------------------------------------------ private

    async def _by_extension(
        self, command: str, scope: Scope, *, exclude: bool
    ) -> BashResult | None:
        """The result, if an extension runs the command in its own way."""
        if not self._parts.extending.wants("user_bash"):
            return None
        from ludolf.engine.extension_bridge.hook_points import Hooks

        try:
            return await scope.run(Hooks(self._parts).user_bash(command, exclude=exclude))
        except Aborted:
            return BashResult(output="", cancelled=True, truncated=False)

    async def _execute(
        self, command: str, scope: Scope, reply_id: msgspec.Raw | None
    ) -> BashResult:
        from ludolf.tools.output import OutputTail
        from ludolf.tools.process import StartError

        with OutputTail(self._output_folder()) as tail:
            end: End | None = None  # it was aborted
            try:
                end = await scope.run(self._stream(command, tail, reply_id))
            except Aborted:
                pass
            except (StartError, ToolError) as error:
                raise CommandError(str(error)) from error
            shown = tail.tail()
            return BashResult(
                output=shown.content,
                exit_code=end.code if end else None,
                cancelled=end is None,
                truncated=shown.truncated,
                full_output_path=tail.full_output_path,
                total_lines=shown.total_lines if shown.truncated else None,
                total_bytes=shown.total_bytes if shown.truncated else None,
                signal=end.signal if end else None,
                background=end.left if end else (),
            )

    def _output_folder(self) -> Path | None:
        safety = self._parts.safety
        return safety.output_folder if safety is not None else None

    async def _stream(
        self, command: str, tail: "OutputTail", reply_id: msgspec.Raw | None
    ) -> "End":
        from ludolf.tools.process import Running, inside, shell_command

        settings = self._parts.settings
        prepared = shell_command(
            command,
            cwd=self._parts.home.cwd,
            env=tool_environment(self._parts, self._parts.models.current),
            shell_path=settings.shell_path,
            prefix=settings.shell_command_prefix,
        )
        safety = self._parts.safety
        walls = safety.walls(self._parts.home.cwd) if safety is not None else None
        async with Running(inside(prepared, walls)) as child:
            while chunk := await child.read():
                await self._tell(tail.feed(chunk), reply_id)
            await self._tell(tail.finish(), reply_id)
            return await child.end()

    async def _tell(self, text: str, reply_id: msgspec.Raw | None) -> None:
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE]
            await self._parts.hub.emit(BashUpdate(id=reply_id, delta=piece))

    def _keep(self, message: BashExecutionMessage, session: Session) -> None:
        """A command belongs to the conversation in which it was started."""
        if session.id != self._parts.session.id:
            self._store_elsewhere(message, session)
            return
        self._waiting.append(message)
        if not self._runner.running:
            self._store_waiting()

    def _store_waiting(self) -> None:
        """A message must not come between a tool call and its result: it waits for the end."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._store(message, self._parts.session)

    def _store(self, message: BashExecutionMessage, session: Session) -> None:
        try:
            session.append(MessageBody(message=message))
        except SessionReadOnly as error:
            self._parts.report(f"The output of a command was not stored: {error}")

    def _store_elsewhere(self, message: BashExecutionMessage, session: Session) -> None:
        """The session that was left is closed: it is opened once more for this message."""
        if session.unsaved:
            self._store(message, session)  # still open: the disk owes it more than this
            return
        if session.path is not None and session.saved:
            try:
                session = open_session(session.path, session.header.cwd, self._parts.report)
            except (NotASession, OSError) as error:
                self._parts.report(f"The output of a command was not stored: {error}")
                return
        self._store(message, session)
        session.close()


def _message(command: str, result: BashResult, *, exclude: bool) -> BashExecutionMessage:
    return BashExecutionMessage(
        command=command,
        output=result.output,
        exit_code=result.exit_code,
        cancelled=result.cancelled,
        truncated=result.truncated,
        full_output_path=result.full_output_path,
        exclude_from_context=exclude,
        timestamp=now_ms(),
    )
