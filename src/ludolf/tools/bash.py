"""The bash tool: run a shell command and return the end of its output."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from ludolf.agent.tool import (
    TERMINAL_ID,
    Terminal,
    TerminalFailure,
    ToolContext,
    ToolDefaults,
    ToolFailure,
    ToolOutput,
    text_output,
)
from ludolf.ai.sampling import PREFER_STRICT
from ludolf.tools.options import BuiltinToolOptions, parameter_schema
from ludolf.tools.output import OutputTail
from ludolf.tools.process import (
    CommandProcess,
    ProcessCommand,
    ProcessEnd,
    Running,
    StartError,
    inside,
    shell_command,
)
from ludolf.tools.truncate import MAX_BYTES, MAX_LINES, Truncation, size_words

UPDATE_SECONDS = 0.1
# Number of commands that run at the same time. An abort has to find the processes of each.
AT_ONCE = 16
MAX_TIMEOUT = 2_147_483.647


class BashTool(ToolDefaults):
    name = "bash"
    label = "bash"
    description = (
        "Run a command in a new bash shell in the working directory. Returns stdout and stderr "
        f"combined, at most the last {MAX_LINES} lines or {MAX_BYTES // 1024}KB; longer output is "
        "saved to a file that the result names. stdin is closed, so do not start interactive "
        "programs."
    )
    parameters = parameter_schema(
        "command",
        command=("string", "Shell command to run"),
        timeout=("number", "Seconds after which the command is killed (default: no limit)"),
    )
    sampling = PREFER_STRICT
    snippet = "Run shell commands (build, test, git, search, ...)"

    def __init__(self, options: BuiltinToolOptions) -> None:
        self._options = options
        self._places = asyncio.Semaphore(AT_ONCE)

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        async with self._places:
            return await self._execute(args, ctx)

    async def _execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        await ctx.update(ToolOutput(content=()))
        timeout = _checked_timeout(args.get("timeout"))
        with self._tail(ctx) as tail:
            try:
                end = await self._run(args["command"], timeout, tail, ctx)
            except StartError as error:
                raise ToolFailure(str(error)) from error
            except TerminalFailure as error:
                raise ToolFailure(_failure(tail, str(error))) from error
            except TimeoutError:
                reason = f"Command timed out after {_number(timeout)} seconds"
                raise ToolFailure(_failure(tail, reason)) from None
            except asyncio.CancelledError:
                # An abort is plain cancellation, but the model should see the output so far.
                # The code that builds the error result takes it from the exception's arguments.
                raise asyncio.CancelledError(_failure(tail, "Command aborted")) from None
            return _result(tail, end)

    def _tail(self, ctx: ToolContext) -> OutputTail:
        return OutputTail(ctx.walls.output_folder if ctx.walls is not None else None)

    async def _run(
        self, text: str, timeout: float | None, tail: OutputTail, ctx: ToolContext
    ) -> ProcessEnd:
        """Run a command to its end.

        Raises:
            StartError: it did not start.
            TerminalFailure: it is unknown how it ended.
            TimeoutError: it was ended after the timeout.
        """
        command = self._command(text, ctx)
        async with asyncio.timeout(timeout):
            return await _run(command, tail, ctx)

    def _command(self, text: str, ctx: ToolContext) -> ProcessCommand:
        command = shell_command(
            text,
            cwd=ctx.cwd,
            env=ctx.environment(),
            shell_path=self._options.shell_path,
            prefix=self._options.command_prefix,
        )
        return inside(command, ctx.walls)


async def _run(command: ProcessCommand, tail: OutputTail, ctx: ToolContext) -> ProcessEnd:
    if ctx.terminals is not None:
        terminal = await _open_terminal(command, ctx)
        if terminal is not None:
            return await _run_in(terminal, tail, ctx)
    return await follow_command(Running(command), tail, ctx)


async def follow_command(command: CommandProcess, tail: OutputTail, ctx: ToolContext) -> ProcessEnd:
    """Run a command to its end, collect its output and report it as it arrives."""
    updates = _Updates(tail, ctx)
    async with command as running:
        while (chunk := await running.read(updates.patience())) != b"":
            if chunk:
                updates.pending |= bool(tail.feed(chunk))
            await updates.show_if_due()
        end = await running.end()
    updates.pending |= bool(tail.finish())
    await updates.show()
    return end


async def _open_terminal(command: ProcessCommand, ctx: ToolContext) -> Terminal | None:
    assert ctx.terminals is not None
    if ctx.walls is not None:
        ctx.terminals.decline("the sandbox holds only for commands that Ludolf runs itself")
        return None
    return await ctx.terminals.open(command.argv, command.cwd, command.env)


async def _run_in(terminal: Terminal, tail: OutputTail, ctx: ToolContext) -> ProcessEnd:
    """Wait for a command in a terminal of the host, which shows its output."""
    try:
        await ctx.update(ToolOutput(content=(), details={TERMINAL_ID: terminal.id}))
        end = await terminal.wait()
    finally:
        tail.feed((await terminal.close()).encode("utf-8", "replace"))
        tail.finish()
    return ProcessEnd(end.code, end.signal, ())


class _Updates:
    """Report the tail when it has changed, at a limited rate."""

    def __init__(self, tail: OutputTail, ctx: ToolContext) -> None:
        self._tail = tail
        self._ctx = ctx
        self._due = 0.0
        self.pending = False

    def patience(self) -> float | None:
        """Seconds to wait for output before a pending update must be sent; None if none is."""
        return max(0.001, self._due - time.monotonic()) if self.pending else None

    async def show_if_due(self) -> None:
        if time.monotonic() >= self._due:
            await self.show()

    async def show(self) -> None:
        if not self.pending:
            return
        self.pending = False
        shown = self._tail.tail()
        details = _details(self._tail, shown) if shown.truncated else {}
        await self._ctx.update(text_output(shown.content, details))
        self._due = time.monotonic() + UPDATE_SECONDS


def _checked_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if not math.isfinite(timeout) or timeout <= 0:
        raise ToolFailure("Invalid timeout: must be a finite number of seconds")
    if timeout > MAX_TIMEOUT:
        raise ToolFailure(f"Invalid timeout: maximum is {MAX_TIMEOUT} seconds")
    return timeout


def _result(tail: OutputTail, end: ProcessEnd) -> ToolOutput:
    shown = tail.tail()
    text = _text(tail, shown) or "(no output)"
    details = _details(tail, shown) if shown.truncated else {}
    if end.left:
        details["background"] = msgspec.to_builtins(end.left)
    if end.code != 0:
        why = f"[Killed by {end.signal}]\n\n" if end.signal else ""
        text = f"{text}\n\n{why}Command exited with code {end.code}"
        raise ToolFailure(text, text_output(text, details) if end.left else None)
    return text_output(text, details or msgspec.UNSET)


def _failure(tail: OutputTail, reason: str) -> str:
    text = _text(tail, tail.tail())
    return f"{text}\n\n{reason}" if text else reason


def _text(tail: OutputTail, shown: Truncation) -> str:
    if not shown.truncated:
        return shown.content
    where = f"Full output: {tail.full_output_path}"
    if tail.spill_error:
        where = f"The full output could not be kept: {tail.spill_error}"
    return f"{shown.content}\n\n[{_what_is_shown(tail, shown)}. {where}]"


def _what_is_shown(tail: OutputTail, shown: Truncation) -> str:
    last = shown.total_lines
    if shown.last_line_partial:
        kept, whole = size_words(shown.output_bytes), size_words(tail.last_line_bytes)
        return f"Showing last {kept} of line {last} (line is {whole})"
    lines = f"Showing lines {last - shown.output_lines + 1}-{last} of {last}"
    return lines if shown.truncated_by == "lines" else f"{lines} ({size_words(MAX_BYTES)} limit)"


def _details(tail: OutputTail, shown: Truncation) -> dict[str, Any]:
    return {"truncation": shown.as_json(), "fullOutputPath": tail.full_output_path}


def _number(value: float | None) -> str:
    return f"{value:g}" if value is None or value != int(value) else str(int(value))
