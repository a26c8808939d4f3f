"""Shell commands that a host runs next to the conversation; the model sees them later."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ludolf.agent.scope import Aborted, Scope
from ludolf.agent.tool import ToolFailure
from ludolf.ai.messages import BashExecutionMessage
from ludolf.base import CommandError, Warn, now_ms
from ludolf.engine.bundles import Bundles, Component
from ludolf.protocol.events import ShellOutput
from ludolf.protocol.results import BashResult
from ludolf.session.entries import MessageBody
from ludolf.session.reader import NotASession
from ludolf.session.tree import Session, SessionReadOnly, open_session

if TYPE_CHECKING:
    from ludolf.tools.output import OutputTail
    from ludolf.tools.process import ProcessEnd

# The size of one piece of output in an event, so that no frame grows without bound.
_PIECE = 64 * 1024


def end_left_behind(warn: Warn) -> None:
    """End the processes that commands of all engines left running; for the end of the program."""
    # Not loaded: no command ran, so none left anything behind.
    if "ludolf.tools.process_tree" in sys.modules:
        from ludolf.tools.process_tree import WARDEN

        for pid, name in WARDEN.end_all():
            warn(f"Warning: could not be ended: {name} (process {pid})")


class Shell(Component):
    """Several commands may run at once, also during a run of the agent.

    `commands` is the scope that they run in.
    """

    def __init__(self, bundles: Bundles, commands: Scope, is_idle: Callable[[], bool]) -> None:
        super().__init__(bundles)
        self._commands = commands
        self._is_idle = is_idle
        self.waiting: list[BashExecutionMessage] = []

    async def run(
        self, command: str, *, exclude: bool = False, reply_id: msgspec.Raw | None = None
    ) -> BashResult:
        """Run a command to its end and keep its output for the model.

        Raises:
            CommandError: the command could not be started.
        """
        session = self.conversation.session
        with self._commands.open() as scope:
            result = await self._run(command, scope, exclude=exclude, reply_id=reply_id)
        self._keep(_message(command, result, exclude=exclude), session)
        return result

    async def _run(
        self, command: str, scope: Scope, *, exclude: bool, reply_id: msgspec.Raw | None
    ) -> BashResult:
        try:
            result = await scope.run(self.features.run_bash(command, exclude=exclude))
            return result or await self._execute(command, scope, reply_id)
        except Aborted:
            return BashResult(output="", cancelled=True, truncated=False)
        finally:
            for feature in self.features.hooks["after_command"]:
                feature.after_command()

    @property
    def is_busy(self) -> bool:
        """Return whether a command runs."""
        return self._commands.is_open

    def abort(self) -> None:
        """Kill every command; each is answered as cancelled."""
        self._commands.abort_open()

    def close(self, *, whole_program: bool) -> None:
        """End every command, and with the program the processes that commands left running."""
        self.abort()
        if whole_program:
            end_left_behind(self.workspace.warn)

    # ------------------------------------------------------------ private

    async def _execute(
        self, command: str, scope: Scope, reply_id: msgspec.Raw | None
    ) -> BashResult:
        from ludolf.tools.output import OutputTail
        from ludolf.tools.process import StartError

        with OutputTail(self.features.output_folder()) as tail:
            end: ProcessEnd | None = None  # stays None if it is aborted
            try:
                end = await scope.run(self._stream(command, tail, reply_id))
            except Aborted:
                pass
            except (StartError, ToolFailure) as error:
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

    async def _stream(
        self, command: str, tail: "OutputTail", reply_id: msgspec.Raw | None
    ) -> "ProcessEnd":
        async with self.toolset.command(command) as child:
            while chunk := await child.read():
                await self._emit(tail.feed(chunk), reply_id)
            await self._emit(tail.finish(), reply_id)
            return await child.end()

    async def _emit(self, text: str, reply_id: msgspec.Raw | None) -> None:
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE]
            await self.conversation.hub.emit(ShellOutput(id=reply_id, delta=piece))

    def _keep(self, message: BashExecutionMessage, session: Session) -> None:
        """Store the output in the conversation in which the command was started."""
        if session.id != self.conversation.session.id:
            self._store_elsewhere(message, session)
            return
        self.waiting.append(message)
        if self._is_idle():
            self.store_waiting()

    def store_waiting(self) -> None:
        """Store outputs that waited: none may come between a tool call and its result."""
        waiting, self.waiting = self.waiting, []
        for message in waiting:
            self._store(message, self.conversation.session)

    def _store(self, message: BashExecutionMessage, session: Session) -> None:
        try:
            session.append(MessageBody(message=message))
        except SessionReadOnly as error:
            self.conversation.hub.report(f"The output of a command was not stored: {error}")

    def _store_elsewhere(self, message: BashExecutionMessage, session: Session) -> None:
        """Open the session that was left once more for this message."""
        if session.unsaved:
            self._store(message, session)  # still open: earlier writes are pending
            return
        if session.path is not None and session.saved:
            try:
                session = open_session(
                    session.path, session.header.cwd, self.conversation.hub.report
                )
            except (NotASession, OSError) as error:
                self.conversation.hub.report(f"The output of a command was not stored: {error}")
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
