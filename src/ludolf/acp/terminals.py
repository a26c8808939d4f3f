"""Commands of the model in terminals of the client, which shows their output while they run."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.acp.link import ClientLink
from ludolf.agent.tool import CommandExit, TerminalFailure, Terminals
from ludolf.base import LudolfError
from ludolf.base.jsonrpc import OutgoingCall

CREATE, OUTPUT, RELEASE = "terminal/create", "terminal/output", "terminal/release"
WAIT_FOR_EXIT, KILL = "terminal/wait_for_exit", "terminal/kill"
ANSWER_SECONDS = 10.0
# A command that was aborted has to end soon, also if the client does not answer.
KILLED_SECONDS = 1.0
OUTPUT_BYTES = 1024 * 1024
_CUT = "[The terminal of the client kept only the end of the output]\n"
_LONGEST_ID, _LONGEST_SIGNAL = 1000, 40
# A terminal is interactive, so git and others would start a program that waits for keys.
_NO_PAGERS = {"PAGER": "cat", "GIT_PAGER": "cat"}


class ClientTerminals:
    """Terminals of one session. `report` gets the text of the first failure.

    A client that refuses to start a command is asked again for the next one; a client that does
    not answer is not.
    """

    def __init__(
        self,
        session_id: str,
        link: ClientLink,
        report: Callable[[str], None],
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._session_id = session_id
        self._link = link
        self._report = report
        self._seconds = seconds
        self._is_silent = False
        self._reported = False

    async def open(
        self, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> "ClientTerminal | None":
        if self._is_silent:
            return None
        params = {
            "sessionId": self._session_id,
            "command": argv[0],
            "args": argv[1:],
            "env": _changed_variables(env),
            "cwd": str(cwd),
            "outputByteLimit": OUTPUT_BYTES,
        }
        try:
            answer = await self._create(params)
        except TimeoutError:
            self._is_silent = True
            cause = f"it did not answer {CREATE} within {self._seconds:g} seconds"
            self.decline(cause)
            raise TerminalFailure(
                f"The client did not start the command: {cause}. Check whether the command has "
                "run before you run it again."
            ) from None
        except LudolfError as error:
            self.decline(f"the client failed in {CREATE}: {error}")
            return None
        terminal_id = _terminal_id(answer)
        if terminal_id is None:
            self.decline(f"the answer of the client to {CREATE} has no valid terminalId")
            return None
        return self._terminal(terminal_id)

    def decline(self, cause: str) -> None:
        if not self._reported:
            self._reported = True
            self._report(f"Ludolf runs commands itself, not in a terminal of the client: {cause}.")

    async def _create(self, params: Mapping[str, Any]) -> Any:
        """Raises:
        TimeoutError: the client did not answer.
        LudolfError: it answered with an error, or has left.
        """
        call = self._link.peer.open(CREATE, params)
        self._link.stdio.send(call.frame + b"\n")
        is_answered = False
        try:
            # `wait` leaves the answer open if this task is cancelled.
            await asyncio.wait((call.answer,), timeout=self._seconds)
            is_answered = call.answer.done()
        finally:
            if is_answered:
                self._link.peer.drop(call)
            else:
                # The client may start the command all the same: its terminal must not stay.
                self._link.peer.notify("$/cancel_request", {"requestId": call.id})
                call.answer.add_done_callback(partial(self._release_late, call))
        if not is_answered:
            raise TimeoutError
        return call.answer.result()

    def _release_late(self, call: OutgoingCall, answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            terminal_id = _terminal_id(answer.result())
            if terminal_id is not None:
                self._terminal(terminal_id).release()
        self._link.peer.drop(call)

    def _terminal(self, terminal_id: str) -> "ClientTerminal":
        return ClientTerminal(terminal_id, self._session_id, self._link, self._seconds)


class ClientTerminal:
    """One command in a terminal of the client."""

    def __init__(self, terminal_id: str, session_id: str, link: ClientLink, seconds: float) -> None:
        self.id = terminal_id
        self._params = {"sessionId": session_id, "terminalId": terminal_id}
        self._link = link
        self._seconds = seconds
        self._has_exited = False

    async def wait(self) -> CommandExit:
        try:
            answer = await self._link.ask(WAIT_FOR_EXIT, self._params)
        except LudolfError as error:
            raise TerminalFailure(
                f"The terminal of the client failed in {WAIT_FOR_EXIT}: {error}"
            ) from error
        self._has_exited = True
        return _exit_in(answer)

    async def close(self) -> str:
        seconds = self._seconds
        if not self._has_exited:
            self._link.post(KILL, self._params)
            seconds = min(seconds, KILLED_SECONDS)
        try:
            answer = await self._link.ask(OUTPUT, self._params, seconds)
        except TimeoutError:
            return _unread(f"it did not answer within {seconds:g} seconds")
        except LudolfError as error:
            return _unread(str(error))
        finally:
            self._link.post(RELEASE, self._params)
        return _output_in(answer)

    def release(self) -> None:
        """Kill the command and free the terminal, without its output."""
        self._link.post(KILL, self._params)
        self._link.post(RELEASE, self._params)


def _changed_variables(env: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the variables that differ from those of this program, which the client started.

    The protocol cannot remove a variable: one that commands must not see gets an empty value.
    """
    changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
    hidden = dict.fromkeys(os.environ.keys() - env.keys(), "")
    return [
        {"name": name, "value": value}
        for name, value in sorted({**hidden, **changed, **_NO_PAGERS}.items())
    ]


def _terminal_id(answer: Any) -> str | None:
    found = answer.get("terminalId") if isinstance(answer, dict) else None
    return found if isinstance(found, str) and 0 < len(found) <= _LONGEST_ID else None


def _exit_in(answer: Any) -> CommandExit:
    """Read an exit; without a code, it is that of a signal, which clients may not name."""
    fields = answer if isinstance(answer, dict) else {}
    code, name = fields.get("exitCode"), fields.get("signal")
    killed_by = name[:_LONGEST_SIGNAL] if isinstance(name, str) and name else None
    if isinstance(code, int) and not isinstance(code, bool):
        return CommandExit(code, killed_by if code else None)
    number = signal.Signals.__members__.get(killed_by or "", 0)
    return CommandExit(128 + number, killed_by or "an unknown signal")


def _output_in(answer: Any) -> str:
    fields = answer if isinstance(answer, dict) else {}
    text = fields.get("output")
    if not isinstance(text, str):
        return _unread("its answer has no text in the field output")
    return _CUT + text if fields.get("truncated") is True else text


def _unread(cause: str) -> str:
    return f"[The output was not read from the terminal of the client: {cause}]"


if TYPE_CHECKING:

    def _proof(terminals: ClientTerminals) -> Terminals:
        return terminals
