"""Actions that `api` and `ctx` share."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET

from ludolf.ai.messages import Part, ThinkingLevel, UserMessage
from ludolf.ai.models import Model
from ludolf.base import CommandError, LudolfError
from ludolf.extensions.host import Delivery, Host
from ludolf.extensions.runtime import NotReady, Runtime
from ludolf.functions.content import read_custom, read_parts
from ludolf.functions.results import ExecResult

RUNTIME = "<runtime>"
GRACE_SECONDS = 5.0


class PendingMessage:
    """Handle of a sent message; awaiting it is optional and waits until the agent is idle."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __await__(self) -> Generator[Any, None, None]:
        return self._runtime.host.wait_for_idle().__await__()


class Actions:
    """Base class of `Api` and `Context`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._runtime.host.thinking_level

    @property
    def active_tools(self) -> tuple[str, ...]:
        return self._runtime.do(lambda host: host.active_tools)

    def send_message(
        self,
        custom_type: str,
        content: Any,
        *,
        display: bool = True,
        details: Any = UNSET,
        trigger_turn: bool | None = None,
        deliver_as: Delivery | None = None,
    ) -> PendingMessage:
        """Add a custom message to the conversation.

        When idle, the message is appended, and with `trigger_turn` the model answers. During a
        run it is queued, as steering unless `deliver_as` is "followUp"; with trigger_turn=False
        it is appended at the end of the turn. "nextTurn" holds it until the next prompt.
        """
        fields = {"custom_type": custom_type, "content": content, "display": display}
        if details is not UNSET and details is not None:
            fields["details"] = details
        message = read_custom(fields, "send_message")
        if deliver_as not in (None, "steer", "followUp", "nextTurn"):
            raise ValueError(f'deliver_as must be "steer", "followUp" or "nextTurn": {deliver_as}')
        return self._send(
            "send_message",
            lambda host: host.send_message(
                message, trigger_turn=trigger_turn, deliver_as=deliver_as
            ),
        )

    def send_user_message(
        self,
        content: Any,
        *,
        deliver_as: Literal["steer", "followUp"] | None = None,
        expand_prompt_templates: bool = False,
    ) -> PendingMessage:
        """Send a message as the user. During a run, `deliver_as` is required."""
        if deliver_as not in (None, "steer", "followUp"):
            raise ValueError(f'deliver_as must be "steer" or "followUp": {deliver_as}')
        parts: str | tuple[Part, ...] = content
        if isinstance(content, UserMessage):
            parts = content.content
        elif not isinstance(content, str):
            parts = read_parts(content, "content")
        return self._send(
            "send_user_message",
            lambda host: host.send_user_message(
                parts, deliver_as=deliver_as, expand=expand_prompt_templates
            ),
        )

    def _send(self, event: str, send: Callable[[Host], None]) -> PendingMessage:
        """Send without waiting; errors are reported, except `NotReady`."""
        try:
            self._runtime.do(send)
        except NotReady:
            raise
        except LudolfError as error:
            self._runtime.report(RUNTIME, event, str(error))
        return PendingMessage(self._runtime)

    def append_entry(self, custom_type: str, data: Any = UNSET) -> str:
        """Store state in the session that is not sent to models; returns the entry's id."""
        return self._runtime.do(lambda host: host.append_entry(custom_type, data))

    def set_model(self, model: Model | str) -> bool:
        """Select a model, or `provider/id`; returns False without credentials.

        Raises:
            CommandError: the model is unknown.
        """
        return self._runtime.do(lambda host: host.set_model(find_model(host, model)))

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        self._runtime.do(lambda host: host.set_thinking_level(level))

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Activate exactly these tools; unknown names are ignored."""
        self._runtime.do(lambda host: host.set_active_tools(tuple(names)))

    async def exec(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        """Run a program, without a shell; `timeout` in milliseconds."""
        host = self._runtime.host
        place = host.cwd if cwd is None else host.cwd / cwd
        return await _execute((command, *args), place, host.environment, timeout)


def find_model(host: Host, model: Model | str) -> Model:
    if isinstance(model, Model):
        return model
    provider, _, name = model.partition("/")
    match = host.registry.find(provider, name)
    if match is None:
        raise CommandError(f"Model not found: {model}")
    return match


# ---------------------------------------------------------------- programs


async def _execute(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float | None
) -> ExecResult:
    """Run a program and return its output; after `timeout` ms send TERM, 5 s later KILL.

    Cancelling kills at once. The program and its children form one process group.

    Raises:
        CommandError: the program could not be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"Cannot start {argv[0]}: {error}") from error
    try:
        return await _finish(process, timeout)
    finally:
        if process.returncode is None:
            _signal(process.pid, signal.SIGKILL)
            await process.wait()


async def _finish(process: asyncio.subprocess.Process, timeout: float | None) -> ExecResult:
    killed = False
    async with asyncio.TaskGroup() as group:
        output = group.create_task(process.communicate())
        if timeout is not None:
            done, _ = await asyncio.wait((output,), timeout=timeout / 1000)
            killed = not done
        if killed:
            _signal(process.pid, signal.SIGTERM)
            done, _ = await asyncio.wait((output,), timeout=GRACE_SECONDS)
            if not done:
                _signal(process.pid, signal.SIGKILL)
    stdout, stderr = (text.decode("utf-8", "replace") for text in output.result())
    code = process.returncode or 0
    return ExecResult(stdout, stderr, 128 - code if code < 0 else code, killed)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
