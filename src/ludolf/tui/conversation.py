"""The state of a conversation at a terminal: frames in, finished rows and live rows out.

It knows neither the terminal nor the server. Finished rows are handed out once; live rows are made
for each draw.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from ludolf.tui.cells import cut, plain

_Frame = dict[str, Any]
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER = "|/-\\"
SPINS_PER_SECOND = 4
# Rows of a running shell command of the user.
SHELL_ROWS = 5
_SHELL_TAIL = 16 * 1024
# Messages whose keys are remembered, so that a snapshot does not print them twice.
_MOST_KEYS = 10_000
# Entries that every session begins with; the footer says the same.
_OF_THE_FOOTER = ("model_change", "thinking_level_change")


class OpenAnswer(Protocol):
    """A text of the model that is being written."""

    cells: int

    def feed(self, delta: str) -> list[str]: ...
    def open_rows(self, most: int) -> list[str]: ...
    def end(self) -> list[str]: ...


class RowWriter(Protocol):
    """Makes rows of one width."""

    cells: int
    is_ascii: bool

    def entry(self, entry: _Frame, *, streamed: bool = False) -> list[str]: ...
    def prompt(self, message: _Frame, by: str | None) -> list[str]: ...
    def notice(self, text: str, role: str = "muted") -> list[str]: ...
    def event(self, frame: _Frame) -> list[str]: ...
    def thinking(self, text: str, *, shown: bool) -> list[str]: ...
    def result(self, frame: _Frame, seconds: float | None) -> list[str]: ...
    def running(self, call: "RunningCall", seconds: float) -> list[str]: ...
    def answer(self) -> OpenAnswer: ...
    def styled(self, role: str, text: str) -> str: ...


class RunningCall(msgspec.Struct):
    """A call of a tool that has begun."""

    name: str
    args: Any
    started: float
    partial: Any = None


class FooterInfo(msgspec.Struct):
    """What the footer says."""

    id: str = ""
    path: str | None = None
    name: str | None = None
    model: str = ""
    provider: str = ""
    level: str = "off"
    percent: float | None = None
    window: int = 0
    cost: float = 0.0


class Effect(msgspec.Struct, frozen=True):
    """Something that the program has to do: `editor`, `title`, `settled`, `stats`, `question`."""

    kind: str
    text: str = ""


class Conversation:
    """Takes frames of one session.

    Args:
        writer: Makes the rows.
        show_thinking: Whether the thoughts of the model are printed, or one line for each.
        clock: Returns seconds.
    """

    def __init__(
        self,
        writer: RowWriter,
        *,
        show_thinking: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.writer = writer
        self.show_thinking = show_thinking
        self.info = FooterInfo()
        self.is_busy = False
        self.steering: tuple[str, ...] = ()
        self.follow_up: tuple[str, ...] = ()
        # Dialogs that wait for an answer, the oldest first.
        self.dialogs: dict[str, _Frame] = {}
        self.others: dict[str, str] = {}
        self.statuses: dict[str, str] = {}
        self.widgets: dict[str, tuple[list[str], bool]] = {}
        self._clock = clock
        self._rows: list[str] = []
        self._effects: list[Effect] = []
        self._printed: dict[tuple[str, ...], None] = {}
        self._own: list[str] = []
        self._answer: OpenAnswer | None = None
        # The text of the last block, until its message is stored.
        self._fed: list[str] = []
        self._thought: list[str] = []
        self._thinks_since: float | None = None
        self._writes_call = ""
        self._calls: dict[str, RunningCall] = {}
        # Calls whose cards are printed and whose results are not stored yet.
        self._carded: set[str] = set()
        self._shells: dict[str, tuple[str, str]] = {}
        self._state = ""
        self._busy_since = 0.0

    # ------------------------------------------------------------ out

    def take_rows(self) -> list[str]:
        """Return the finished rows since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def take_effects(self) -> list[Effect]:
        """Return what the program has to do since the last call."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def moves(self) -> bool:
        """Whether the live rows change with time."""
        return self.is_busy or bool(self._calls) or bool(self._shells) or bool(self._state)

    @property
    def has_shell(self) -> bool:
        """Whether a shell command of the user runs."""
        return bool(self._shells)

    def live_rows(self, most: int) -> list[str]:
        """Return the rows of what is under way, at most so many."""
        below = [*self._call_rows(), *self._shell_rows(), *self._state_rows(), *self._queue_rows()]
        above = self._answer.open_rows(max(0, most - len(below) - 1)) if self._answer else []
        gap = [""] if below else []
        rows = [*above, *gap, *below]
        return rows[-most:] if most > 0 else []

    def say(self, text: str, role: str = "muted") -> None:
        """Print a notice."""
        self._rows += self.writer.notice(text, role)

    def resize(self, writer: RowWriter) -> None:
        """Make rows of another width from now on."""
        self.writer = writer
        if self._answer is not None:
            self._answer.cells = writer.cells

    # ------------------------------------------------------------ what the user did here

    def sent(self, text: str) -> None:
        """Note a prompt of this terminal, so that it is not shown as one of another client."""
        self._own.append(text.strip())
        del self._own[:-100]

    def shell_began(self, id: str, command: str) -> None:
        self._shells[id] = command, ""

    def shell_ended(self, id: str, result: _Frame) -> None:
        """Print a shell command of the user with its result."""
        command, _ = self._shells.pop(id, ("", ""))
        message = {"role": "bashExecution", "command": command, "output": "", "timestamp": 0}
        message |= {"cancelled": False, "truncated": False, **result}
        self._note(message)
        self._rows += self.writer.entry({"type": "message", "message": message})

    # ------------------------------------------------------------ in

    def take(self, frame: _Frame) -> None:
        """Take one frame; unknown ones are passed over."""
        handle = _HANDLERS.get(str(frame.get("type")))
        if handle is not None:
            handle(self, frame)

    def begin(self, data: _Frame) -> None:
        """Show a session by its snapshot: entries that are not printed yet, then what runs."""
        fed, self._fed = "".join(self._fed), []
        held = (self._answer or self.writer.answer(), fed) if self._answer or fed else None
        self._forget_work()
        state = _record(data.get("state"))
        if state:
            self.set_state(state)
        entries = [each for each in _list(data.get("entries")) if isinstance(each, dict)]
        fresh = [each for each in entries if not self._is_printed(each)]
        if not any("message" in each for each in entries):
            fresh = [each for each in fresh if each.get("type") not in _OF_THE_FOOTER]
        if data.get("more") and len(fresh) == len(entries) and fresh:
            self.say("Earlier entries are in the pager (PgUp).")
        for entry in fresh:
            message = _record(entry.get("message"))
            is_open = self._continue_text(message, held)
            self._end_text()
            if not self._is_carded(message):
                self._rows += self.writer.entry(entry, streamed=is_open)
            self._note(message)
        self._take_underway(_record(data.get("underway")), held)
        if data.get("interrupted"):
            self.say("The last run was interrupted. Send a message to continue.", "warning")
        self._effects.append(Effect("stats"))

    def show_entries(self, entries: Iterable[_Frame]) -> None:
        """Print stored entries, also those that were printed before."""
        for entry in entries:
            self._rows += self.writer.entry(entry)
            self._note(_record(entry.get("message")))

    def set_state(self, state: _Frame) -> None:
        """Take the answer to `get_state`."""
        info, model = self.info, _record(state.get("model"))
        info.id = str(state.get("sessionId") or "")
        path = state.get("sessionFile")
        info.path = path if isinstance(path, str) else None
        info.name = _text_or_none(state.get("sessionName"))
        info.level = str(state.get("thinkingLevel") or "off")
        self.set_model(model)
        self._set_busy(is_busy=bool(state.get("isStreaming")))

    def set_model(self, model: _Frame) -> None:
        """Take a model as the server describes it."""
        self.info.model = str(model.get("id") or "")
        self.info.provider = str(model.get("provider") or "")
        window = model.get("contextWindow")
        self.info.window = window if isinstance(window, int) else 0

    def set_stats(self, stats: _Frame) -> None:
        """Take the answer to `get_session_stats`."""
        cost = stats.get("cost")
        self.info.cost = float(cost) if isinstance(cost, int | float) else 0.0
        usage = _record(stats.get("contextUsage"))
        percent = usage.get("percent")
        self.info.percent = float(percent) if isinstance(percent, int | float) else None

    def lost(self) -> None:
        """The server is gone: what was under way has no end."""
        self._end_text()
        self._forget_work()
        self.others.clear()

    # ------------------------------------------------------------ snapshots

    def _forget_work(self) -> None:
        self._answer = None
        self._thought, self._thinks_since, self._writes_call = [], None, ""
        self._calls.clear()
        self._shells.clear()
        self.dialogs.clear()
        self.statuses.clear()
        self.widgets.clear()
        self.steering = self.follow_up = ()
        self._state = ""
        self._set_busy(is_busy=False)

    def _take_underway(self, work: _Frame, held: tuple[OpenAnswer, str] | None) -> None:
        if isinstance(work.get("message"), dict):
            self._set_busy(is_busy=True)
            if not self._continue_text(work["message"], held):
                self._show_message(work["message"])
        for each in map(_record, _list(work.get("tools"))):
            if "result" not in each or each.get("result") is None:
                self._tool_start(each)
                self._calls[str(each.get("toolCallId"))].partial = each.get("partialResult")
        self._queue_update(work)
        for each in map(_record, _list(work.get("dialogs"))):
            self._ui_request(each)
        if isinstance(work.get("retry"), dict):
            self._retry_start(work["retry"])
        if isinstance(work.get("compaction"), dict):
            self._compaction_start(work["compaction"])
        for key, text in _record(work.get("statuses")).items():
            self.statuses[key] = str(text)
        for each in map(_record, _list(work.get("widgets"))):
            self._set_widget(each)

    def _continue_text(self, message: _Frame, held: tuple[OpenAnswer, str] | None) -> bool:
        """Continue the text that was being written, if this message holds it."""
        if held is None or message.get("role") != "assistant":
            return False
        answer, fed = held
        for block in reversed([_record(each) for each in _list(message.get("content"))]):
            text = str(block.get("text") or "") if block.get("type") == "text" else ""
            if text.startswith(fed) and text:
                self._answer, self._fed = answer, [fed]
                self._feed(text[len(fed) :])
                return True
        return False

    def _show_message(self, message: _Frame) -> None:
        """Show the answer so far; its deltas follow."""
        blocks = [_record(each) for each in _list(message.get("content"))]
        for block in blocks:
            if block.get("type") == "text":
                self._end_text()
                self._start_text()
                self._feed(str(block.get("text") or ""))

    # ------------------------------------------------------------ messages

    def _is_printed(self, entry: _Frame) -> bool:
        message = entry.get("message")
        if isinstance(message, dict):
            return _key(message) in self._printed
        key = "entry", str(entry.get("id"))
        is_known = key in self._printed
        self._printed[key] = None
        return is_known

    def _note(self, message: _Frame) -> bool:
        """Remember that a message is printed; returns whether it was before."""
        if not message:
            return False
        key = _key(message)
        was_printed = key in self._printed
        self._printed[key] = None
        while len(self._printed) > _MOST_KEYS:
            del self._printed[next(iter(self._printed))]
        return was_printed

    def _message_end(self, frame: _Frame) -> None:
        message = _record(frame.get("message"))
        role = message.get("role")
        if role == "assistant":
            self._assistant_end(message)
        elif not self._note(message) and not self._is_carded(message):
            if role == "user":
                self._rows += self.writer.prompt(message, self._author(message))
            else:
                self._rows += self.writer.entry({"type": "message", "message": message})

    def _is_carded(self, message: _Frame) -> bool:
        """Return whether a result was printed when its call ended, before it was stored."""
        id = str(message.get("toolCallId"))
        if message.get("role") != "toolResult" or id not in self._carded:
            return False
        self._carded.remove(id)
        return True

    def _author(self, message: _Frame) -> str | None:
        """Return the name of the client whose prompt this is; None for our own."""
        text = message_text(message).strip()
        if text in self._own:
            self._own.remove(text)
            return None
        if not self.others:
            return None
        return next(iter(self.others.values())) if len(self.others) == 1 else "another client"

    def _assistant_end(self, message: _Frame) -> None:
        self._end_thinking()
        self._end_text()
        self._fed = []
        self._writes_call = ""
        if not self._note(message):
            entry = {"type": "message", "message": message}
            self._rows += self.writer.entry(entry, streamed=True)

    def _message_update(self, frame: _Frame) -> None:
        event = _record(frame.get("assistantMessageEvent"))
        match event.get("type"):
            case "text_delta":
                self._feed(str(event.get("delta") or ""))
            case "thinking_delta":
                self._thought.append(str(event.get("delta") or ""))
            case "text_start":
                self._end_thinking()
                self._end_text()
                self._start_text()
            case "text_end":
                self._end_text()
            case "thinking_start":
                self._end_text()
                self._thought, self._thinks_since = [], self._clock()
            case "thinking_end":
                self._end_thinking()
            case "toolcall_start":
                self._end_thinking()
                self._end_text()
                self._writes_call = str(event.get("toolName") or "a tool call")
            case "toolcall_end":
                self._writes_call = ""

    def _start_text(self) -> None:
        self._answer, self._fed = self.writer.answer(), []

    def _feed(self, delta: str) -> None:
        if self._answer is None:
            self._start_text()
        assert self._answer is not None
        self._fed.append(delta)
        self._rows += self._answer.feed(delta)

    def _end_text(self) -> None:
        if self._answer is not None:
            self._rows += self._answer.end()
            self._answer = None

    def _end_thinking(self) -> None:
        if self._thinks_since is None:
            return
        text = "".join(self._thought)
        self._thought, self._thinks_since = [], None
        if text.strip():
            self._rows += self.writer.thinking(text, shown=self.show_thinking)

    # ------------------------------------------------------------ tools

    def _tool_start(self, frame: _Frame) -> None:
        self._end_text()
        call = RunningCall(str(frame.get("toolName")), frame.get("args"), self._clock())
        self._calls[str(frame.get("toolCallId"))] = call

    def _tool_update(self, frame: _Frame) -> None:
        call = self._calls.get(str(frame.get("toolCallId")))
        if call is not None:
            call.partial = frame.get("partialResult")

    def _tool_end(self, frame: _Frame) -> None:
        id = str(frame.get("toolCallId"))
        call = self._calls.pop(id, None)
        seconds = None if call is None else self._clock() - call.started
        self._carded.add(id)
        self._rows += self.writer.result(frame, seconds)

    def _call_rows(self) -> Iterable[str]:
        for call in self._calls.values():
            yield from self.writer.running(call, self._clock() - call.started)

    # ------------------------------------------------------------ shell commands of the user

    def _shell_update(self, frame: _Frame) -> None:
        id = str(frame.get("id"))
        if id in self._shells:
            command, output = self._shells[id]
            self._shells[id] = command, (output + str(frame.get("delta")))[-_SHELL_TAIL:]

    def _shell_rows(self) -> Iterable[str]:
        for command, output in self._shells.values():
            yield self._cut(f"{self._spin()} ! {plain(command)}", "accent")
            for line in plain(output).splitlines()[-SHELL_ROWS:]:
                yield self._cut(f"  {line}", "muted")

    # ------------------------------------------------------------ state of the run

    def _set_busy(self, *, is_busy: bool) -> None:
        if is_busy and not self.is_busy:
            self._busy_since = self._clock()
        self.is_busy = is_busy

    def _agent_start(self, frame: _Frame) -> None:
        self._set_busy(is_busy=True)

    def _agent_settled(self, frame: _Frame) -> None:
        self._end_thinking()
        self._end_text()
        self._calls.clear()
        self._carded.clear()
        self._state = self._writes_call = ""
        self._set_busy(is_busy=False)
        self._effects += (Effect("stats"), Effect("settled"))

    def _turn_end(self, frame: _Frame) -> None:
        self._effects.append(Effect("stats"))

    def _retry_start(self, frame: _Frame) -> None:
        self._event(frame)
        self._state = "Waiting for another attempt"

    def _retry_end(self, frame: _Frame) -> None:
        self._event(frame)
        self._state = ""

    def _compaction_start(self, frame: _Frame) -> None:
        self._state = "Compacting the conversation"

    def _compaction_end(self, frame: _Frame) -> None:
        self._event(frame)
        self._state = ""
        before = _record(frame.get("result")).get("tokensBefore")
        if before is not None:
            self.say(f"Compacted from {before} tokens")
        self._effects.append(Effect("stats"))

    def _event(self, frame: _Frame) -> None:
        """Print the line of an event."""
        self._rows += self.writer.event(frame)

    def _state_rows(self) -> Iterable[str]:
        if self._calls:
            return
        text = self._state
        if not text and self.is_busy and not self.dialogs:
            text = self._activity()
        if text:
            since = self._thinks_since if self._thinks_since is not None else self._busy_since
            seconds = int(self._clock() - since) if self.is_busy else 0
            yield self._cut(f"{self._spin()} {text}" + (f"  {seconds} s" if seconds else ""))

    def _activity(self) -> str:
        """Return what the model does."""
        if self._writes_call:
            return f"Writing a call of {plain(self._writes_call)}"
        if self._answer is not None:
            return "Writing"
        return "Thinking" if self._thinks_since is not None else "Working"

    def _spin(self) -> str:
        signs = ASCII_SPINNER if self.writer.is_ascii else SPINNER
        return signs[int(self._clock() * SPINS_PER_SECOND) % len(signs)]

    # ------------------------------------------------------------ queue

    def _queue_update(self, frame: _Frame) -> None:
        self.steering = tuple(map(str, _list(frame.get("steering"))))
        self.follow_up = tuple(map(str, _list(frame.get("followUp"))))

    def _queue_rows(self) -> Iterable[str]:
        arrow = "->" if self.writer.is_ascii else "↳"
        for label, texts in (("steer", self.steering), ("then", self.follow_up)):
            for text in texts:
                yield self._cut(f"{arrow} {label}: {' '.join(plain(text).split())}", "muted")

    def _cut(self, text: str, role: str = "muted") -> str:
        return self.writer.styled(role, cut(text, self.writer.cells))

    # ------------------------------------------------------------ session and clients

    def _thinking_level(self, frame: _Frame) -> None:
        self.info.level = str(frame.get("level"))

    def _info_changed(self, frame: _Frame) -> None:
        self.info.name = _text_or_none(frame.get("name"))

    def _client_joined(self, frame: _Frame) -> None:
        self.others[str(frame.get("client"))] = plain(str(frame.get("name") or frame.get("client")))

    def _client_left(self, frame: _Frame) -> None:
        self.others.pop(str(frame.get("client")), None)

    def _resync(self, frame: _Frame) -> None:
        self.begin(_record(frame.get("data")))

    # ------------------------------------------------------------ requests of extensions

    def _ui_request(self, frame: _Frame) -> None:
        match frame.get("method"):
            case "select" | "confirm" | "input" | "editor":
                self.dialogs[str(frame.get("id"))] = frame
                self._effects.append(Effect("question"))
            case "cancel":
                self._close_dialog(frame)
            case "notify":
                kind = str(frame.get("notifyType") or "info")
                role = {"warning": "warning", "error": "error"}.get(kind, "muted")
                self.say(plain(str(frame.get("message"))), role)
            case "setStatus":
                self._set_status(str(frame.get("statusKey")), frame.get("statusText"))
            case "setWidget":
                self._set_widget(frame)
            case "setTitle":
                self._effects.append(Effect("title", plain(str(frame.get("title")))))
            case "set_editor_text":
                self._effects.append(Effect("editor", str(frame.get("text") or "")))
            case "open_url":
                self._open_url(frame)

    def _close_dialog(self, frame: _Frame) -> None:
        dialog = self.dialogs.pop(str(frame.get("targetId")), None)
        by = frame.get("by")
        if dialog is not None and isinstance(by, str):
            title = " ".join(plain(str(dialog.get("title"))).split())
            self.say(f"{title}: answered by {self.others.get(by, plain(by))}")

    def _set_status(self, key: str, text: Any) -> None:
        if isinstance(text, str):
            self.statuses[key] = text
        else:
            self.statuses.pop(key, None)

    def _set_widget(self, frame: _Frame) -> None:
        key, lines = str(frame.get("widgetKey")), frame.get("widgetLines")
        if isinstance(lines, list):
            is_below = frame.get("widgetPlacement") == "belowEditor"
            self.widgets[key] = [plain(str(line)) for line in lines], is_below
        else:
            self.widgets.pop(key, None)

    def _open_url(self, frame: _Frame) -> None:
        instructions = frame.get("instructions")
        if isinstance(instructions, str):
            self.say(plain(instructions))
        self.say(f"Open {plain(str(frame.get('url')))}", "accent")


def message_text(message: _Frame) -> str:
    """Return the text of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = map(_record, _list(content))
    return "".join(str(each.get("text")) for each in blocks if each.get("type") == "text")


def _key(message: _Frame) -> tuple[str, ...]:
    """Return what identifies a message in frames and in entries."""
    role = str(message.get("role"))
    if role == "toolResult":
        return role, str(message.get("toolCallId")), str(message.get("timestamp"))
    if role == "bashExecution":
        return role, str(message.get("command")), str(message.get("output"))[-200:]
    return role, str(message.get("timestamp"))


def _record(value: Any) -> _Frame:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text_or_none(value: Any) -> str | None:
    return plain(value) if isinstance(value, str) and value else None


_HANDLERS: dict[str, Callable[[Conversation, _Frame], None]] = {
    "agent_start": Conversation._agent_start,
    "agent_settled": Conversation._agent_settled,
    "turn_end": Conversation._turn_end,
    "message_update": Conversation._message_update,
    "message_end": Conversation._message_end,
    "tool_execution_start": Conversation._tool_start,
    "tool_execution_update": Conversation._tool_update,
    "tool_execution_end": Conversation._tool_end,
    "bash_execution_update": Conversation._shell_update,
    "queue_update": Conversation._queue_update,
    "auto_retry_start": Conversation._retry_start,
    "auto_retry_end": Conversation._retry_end,
    "compaction_start": Conversation._compaction_start,
    "compaction_end": Conversation._compaction_end,
    "limit_reached": Conversation._event,
    "warning": Conversation._event,
    "extension_error": Conversation._event,
    "thinking_level_changed": Conversation._thinking_level,
    "session_info_changed": Conversation._info_changed,
    "client_joined": Conversation._client_joined,
    "client_left": Conversation._client_left,
    "resync": Conversation._resync,
    "server_closing": Conversation._event,
    "extension_ui_request": Conversation._ui_request,
}
