"""The terminal program for terminals that can only show lines: no live area, no colours."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError
from ludolf.protocol.ui import DIALOGS
from ludolf.tui.cells import plain
from ludolf.tui.engine_link import EngineLink, OpenRefused
from ludolf.tui.start_options import FirstPrompt, StartOptions

if TYPE_CHECKING:
    from ludolf.client import RemoteSession

_Frame = dict[str, Any]
PROMPT = "> "
GONE = "The engine is gone. Enter starts it again."
_LONGEST_LINE = 200
HELP = "Commands: /new /model ID /thinking LEVEL /compact /name TEXT /stop /detach /quit"


async def run_plain(start: StartOptions, encoding: str) -> int:
    """Converse by lines until the user leaves; returns the exit code."""
    return await PlainMode(start, encoding).run()


class PlainMode:
    """Reads lines from stdin, writes what happens to stdout."""

    def __init__(self, start: StartOptions, encoding: str) -> None:
        self._start = start
        self._encoding = encoding
        self._link = EngineLink(start)
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = self._loop.create_future()
        self._dialogs: dict[str, _Frame] = {}
        self._rest = b""
        self._early: list[str] = []
        self._is_busy = False
        self._is_lost = False
        self._stays = False
        self._in_line = False
        self._place = start.session
        self._calls: dict[str, str] = {}

    async def run(self) -> int:
        self._link.prepare()
        self._loop.add_reader(0, self._read)
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._loop.add_signal_handler(signal.SIGTERM, self._leave, 128 + signal.SIGTERM)
        self._loop.add_signal_handler(signal.SIGHUP, self._leave, 128 + signal.SIGHUP)
        self._do(self._connect())
        try:
            code = await self._end
        finally:
            self._loop.remove_reader(0)
            await self._tasks.close()
        if code != 128 + signal.SIGHUP:
            await self._link.close(stays=self._stays)
        return code

    # ------------------------------------------------------------ the session

    async def _connect(self) -> None:
        self._is_lost = False
        try:
            session = await self._link.open(self._place)
        except OpenRefused as error:
            self._line(f"Error: {error}")
            self._leave(1)
            return
        except LudolfError as error:
            await self._lose(str(error))
            return
        data = session.snapshot_record
        state = data.get("state") or {}
        self._place = state.get("sessionFile") or session.id
        model = state.get("model") or {}
        self._line(f"Ludolf, {model.get('provider')}/{model.get('id')}. {HELP}")
        self._do(self._follow(session))
        for prompt in self._start.messages:
            self._line(PROMPT + prompt.text)
            await self._prompt(prompt)
        self._start.messages = ()
        early, self._early = self._early, []
        for text in early:
            self._take_line(text)
        self._ready()

    async def _follow(self, session: "RemoteSession") -> None:
        async for frame in session.events():
            handle = _HANDLERS.get(str(frame.get("type")))
            if handle is not None:
                handle(self, frame)
        if self._link.session is session and not self._end.done():
            await self._lose("")

    async def _lose(self, reason: str) -> None:
        reason = reason or await self._link.lose()
        await self._link.lose()
        self._is_lost, self._is_busy = True, False
        self._dialogs.clear()
        if reason:
            self._line(reason)
        self._line(GONE)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LudolfError as error:
            self._line(f"Error: {error}")
            self._ready()

    # ------------------------------------------------------------ input

    def _read(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            self._leave(0)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take_line(line.decode(self._encoding, "replace").rstrip("\r"))

    def _take_line(self, line: str) -> None:
        text = line.strip()
        if self._is_lost:
            self._early += [line] if text else []
            self._do(self._connect())
        elif self._link.session is None:
            self._early.append(line)
        elif self._dialogs:
            self._answer(text)
        elif text in ("/quit", "/detach"):
            self._stays = text == "/detach"
            self._leave(0)
        elif text.startswith("/") and self._command(text):
            pass
        elif text:
            self._do(self._prompt(FirstPrompt(line)))
        else:
            self._ready()

    def _command(self, text: str) -> bool:
        name, _, rest = text[1:].partition(" ")
        commands: dict[str, tuple[str, dict[str, Any]]] = {
            "new": ("new_session", {}),
            "compact": ("compact", {"customInstructions": rest} if rest else {}),
            "name": ("set_session_name", {"name": rest}),
            "thinking": ("set_thinking_level", {"level": rest}),
            "stop": ("abort", {}),
        }
        if name == "model":
            provider, _, model = rest.partition("/")
            commands["model"] = "set_model", {"provider": provider, "modelId": model}
        if name not in commands:
            return False
        self._do(self._ask(*commands[name]))
        return True

    async def _ask(self, command: str, params: dict[str, Any]) -> None:
        assert self._link.session is not None
        await self._link.session.ask(command, None, **params)
        self._line("Done.")
        self._ready()

    async def _prompt(self, prompt: FirstPrompt) -> None:
        assert self._link.session is not None
        images = {"images": list(prompt.images)} if prompt.images else {}
        was_busy = self._is_busy
        await self._link.session.ask(
            "prompt", None, message=prompt.text, streamingBehavior="steer", **images
        )
        if was_busy:
            self._line("[queued]")

    def _interrupt(self) -> None:
        if self._is_busy and self._link.session is not None:
            self._do(self._ask("abort", {}))
        else:
            self._leave(0)

    def _leave(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    # ------------------------------------------------------------ output

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        try:
            sys.stdout.flush()
            os.write(1, data)
        except OSError:
            self._leave(128 + signal.SIGHUP)
        self._in_line = not text.endswith("\n")

    def _line(self, text: str) -> None:
        self._write(("\n" if self._in_line else "") + plain(text) + "\n")

    def _ready(self) -> None:
        if not self._is_busy and not self._dialogs and not self._in_line:
            self._write(PROMPT)

    # ------------------------------------------------------------ frames

    def _update(self, frame: _Frame) -> None:
        event = frame.get("assistantMessageEvent") or {}
        if event.get("type") == "text_delta":
            self._write(plain(str(event.get("delta") or "")))
        elif event.get("type") == "text_end" and self._in_line:
            self._write("\n")

    def _message_end(self, frame: _Frame) -> None:
        message = frame.get("message") or {}
        if message.get("role") == "assistant":
            reason = message.get("stopReason")
            if reason == "error":
                self._line(f"Error: {message.get('errorMessage')}")
            elif reason == "aborted":
                self._line("Stopped.")

    def _tool_start(self, frame: _Frame) -> None:
        args = frame.get("args")
        first = next(iter(args.values()), "") if isinstance(args, dict) else ""
        text = " ".join(plain(str(first)).split())[:_LONGEST_LINE]
        self._calls[str(frame.get("toolCallId"))] = text

    def _tool_end(self, frame: _Frame) -> None:
        text = self._calls.pop(str(frame.get("toolCallId")), "")
        state = "failed" if frame.get("isError") else "done"
        self._line(f"[{frame.get('toolName')}] {text}: {state}")

    def _agent_start(self, frame: _Frame) -> None:
        self._is_busy = True
        if self._in_line:
            self._write("\n")

    def _settled(self, frame: _Frame) -> None:
        self._is_busy = False
        self._calls.clear()
        if self._in_line:
            self._write("\n")
        self._ready()

    def _notice(self, frame: _Frame) -> None:
        self._line(str(frame.get("message") or frame.get("errorMessage") or ""))

    def _compaction(self, frame: _Frame) -> None:
        self._line("Compacting the conversation.")

    def _request(self, frame: _Frame) -> None:
        method = frame.get("method")
        if method in DIALOGS:
            self._dialogs[str(frame.get("id"))] = frame
            if len(self._dialogs) == 1:
                self._show_dialog()
        elif method == "cancel":
            if self._dialogs.pop(str(frame.get("targetId")), None) is not None:
                by = frame.get("by")
                self._line(f"Answered by {by}." if by else "The question is closed.")
            self._show_dialog()
        elif method == "notify":
            self._notice(frame)
        elif method == "open_url":
            self._line(f"Open {frame.get('url')}")

    def _show_dialog(self) -> None:
        if not self._dialogs:
            return
        dialog = next(iter(self._dialogs.values()))
        self._line(str(dialog.get("title") or ""))
        for text in (dialog.get("message"), _details(dialog)):
            if text:
                self._line(str(text))
        for number, option in enumerate(_options(dialog), 1):
            self._line(f"  {number}. {option}")
        asks = "Number, or an empty line for none: " if _options(dialog) else "Text: "
        self._write(asks)

    def _answer(self, text: str) -> None:
        id, dialog = next(iter(self._dialogs.items()))
        answer = _answer_of(dialog, text)
        if answer is None:
            self._show_dialog()
            return
        del self._dialogs[id]
        self._in_line = False
        self._do(self._send(id, answer))
        self._show_dialog()

    async def _send(self, id: str, answer: dict[str, Any]) -> None:
        assert self._link.session is not None
        await self._link.session.send("extension_ui_response", id=id, **answer)


def _options(dialog: _Frame) -> list[str]:
    if dialog.get("method") == "confirm":
        return ["Yes", "No"]
    options = dialog.get("options")
    return list(map(str, options)) if isinstance(options, list) else []


def _details(dialog: _Frame) -> str:
    """Return what an approval is about."""
    args = dialog.get("args")
    if not isinstance(args, dict):
        return ""
    return "\n".join(f"  {name}: {plain(str(value))}" for name, value in args.items())


def _answer_of(dialog: _Frame, text: str) -> dict[str, Any] | None:
    """Return the answer that a line gives; None if it gives none."""
    options = _options(dialog)
    if not options:
        return {"value": text} if text else {"cancelled": True}
    if not text:
        return {"confirmed": False} if dialog.get("method") == "confirm" else {"cancelled": True}
    letters = {"y": 0, "yes": 0, "n": len(options) - 1, "no": len(options) - 1}
    at = letters.get(text.lower(), int(text) - 1 if text.isdecimal() else -1)
    if not 0 <= at < len(options):
        return None
    if dialog.get("method") == "confirm":
        return {"confirmed": at == 0}
    return {"value": options[at]}


_HANDLERS: dict[str, Callable[[PlainMode, _Frame], None]] = {
    "agent_start": PlainMode._agent_start,
    "agent_settled": PlainMode._settled,
    "message_update": PlainMode._update,
    "message_end": PlainMode._message_end,
    "tool_execution_start": PlainMode._tool_start,
    "tool_execution_end": PlainMode._tool_end,
    "auto_retry_start": PlainMode._notice,
    "compaction_start": PlainMode._compaction,
    "warning": PlainMode._notice,
    "extension_ui_request": PlainMode._request,
}
