"""The terminal program: keys and frames in, one live area and finished rows out."""

import asyncio
import select
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError
from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import plain
from ludolf.tui.complete import (
    CompletionQuery,
    Suggestion,
    argument_suggestions,
    file_suggestions,
)
from ludolf.tui.conversation import SPINS_PER_SECOND, Conversation
from ludolf.tui.dialogs import Dialog
from ludolf.tui.engine_link import EngineLink, OpenRefused
from ludolf.tui.footer import folder_text
from ludolf.tui.keys import InputEvent, KeyParser, KeyPress, TerminalReply
from ludolf.tui.live_view import LiveView
from ludolf.tui.pace import DrawPace
from ludolf.tui.prompt_area import PromptArea
from ludolf.tui.prompt_history import PromptHistory, history_path
from ludolf.tui.screen import LiveScreen
from ludolf.tui.start_options import FirstPrompt, StartOptions
from ludolf.tui.terminal import RawTerminal

if TYPE_CHECKING:
    from ludolf.client import RemoteSession

GONE = "The engine is gone. Enter starts it again."
STARTING = "Starting ..."
# A lone Esc is a key if nothing follows it for so long.
ESCAPE_SECONDS = 0.04
QUIT_SECONDS = 1.5
_FILES = 50
HUNG_UP, TERMINATED = 128 + signal.SIGHUP, 128 + signal.SIGTERM
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)


class FullView(Protocol[T_co]):
    """A view on the whole screen; `handle` returns something else than None or False at its end."""

    def rows(self, cells: int, lines: int) -> tuple[list[str], tuple[int, int] | None]: ...
    def handle(self, event: InputEvent) -> T_co | None: ...


class TerminalApp:
    """One session at one terminal.

    Args:
        start: How the program was started.
        terminal: The terminal, entered.
        bindings: The keys of actions.
        encoding: The encoding of the terminal.
    """

    def __init__(
        self, start: StartOptions, terminal: RawTerminal, bindings: Bindings, encoding: str
    ) -> None:
        self.start = start
        self.terminal = terminal
        self.bindings = bindings
        self.screen = LiveScreen(terminal.write, terminal.size, encoding)
        self.view = LiveView(start, terminal, encoding)
        self.conversation = Conversation(self.view.drawing, show_thinking=start.show_thinking)
        history = PromptHistory(history_path(start.agent_dir, start.cwd))
        self.area = PromptArea(bindings, history, start.cwd, start.home)
        self.link = EngineLink(start)
        self.tasks = Tasks()
        self.is_lost = False
        self.hint = STARTING
        self.folder = folder_text(start.cwd, start.home)
        self._parser = KeyParser(encoding)
        self._full: tuple[Any, asyncio.Future[Any], Any] | None = None
        self._dialog: Dialog | None = None
        self._own_questions: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._early = [*start.messages]
        self._spinner: asyncio.TimerHandle | None = None
        self._escape: asyncio.TimerHandle | None = None
        self._last_clear = 0.0
        # Set when the session is there, or when it is known that it is not.
        self._started = asyncio.Event()
        self._is_first_read = bool(select.select([0], [], [], 0)[0])
        self._asked: CompletionQuery | None = None
        self._loop = asyncio.get_running_loop()
        self._pace = DrawPace(self._paint, self._loop)
        self._end: asyncio.Future[int] = self._loop.create_future()
        self._stays = False
        from ludolf.tui.slash_commands import SlashCommands

        self.slash = SlashCommands(self)
        self.area.commands = self.slash.all()

    # ------------------------------------------------------------ life

    async def run(self) -> int:
        """Work until the user leaves; returns the exit code."""
        self.view.enter_title(f"{self.folder} - ludolf")
        self.draw()
        self._listen()
        await asyncio.sleep(0)  # keys that are there already are drawn first
        self.link.prepare()
        self.do(self._connect(self.start.session))
        try:
            code = await self._end
        finally:
            self._loop.remove_reader(0)
            self._stop_timers()
            await self.tasks.close()
        if self._stays and self.link.session is not None:
            id = self.link.session.id
            self.conversation.say(f"The session continues. To come back: ludolf attach {id}")
        self.screen.print(self.conversation.take_rows())
        self.screen.close()
        self.view.leave_title()
        if code == HUNG_UP:
            return code  # the end of the connection says so to the server
        self.terminal.restore()
        await self.link.close(stays=self._stays)
        return code

    def _listen(self) -> None:
        loop = self._loop
        loop.add_reader(0, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGCONT, self._continued)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.leave, 128 + number)
        loop.add_signal_handler(signal.SIGHUP, self.leave, HUNG_UP)

    def leave(self, code: int = 0, *, stays: bool = False) -> None:
        """End the program; `stays`: its server and the session continue."""
        self._stays = stays
        if not self._end.done():
            self._end.set_result(code)

    def do(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a task of the program; an error of the engine becomes a notice."""
        return self.tasks.start(self._guarded(work))

    def do_when_started(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that needs the session, as soon as there is one."""
        self.do(self._when_started(work))

    async def _when_started(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await self._started.wait()
        except asyncio.CancelledError:
            work.close()
            raise
        await work

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LudolfError as error:
            self.say(str(error), "error")

    def say(self, text: str, role: str = "muted") -> None:
        """Print a notice."""
        self.conversation.say(plain(text), role)
        self.draw_soon()

    # ------------------------------------------------------------ the session

    @property
    def session(self) -> "RemoteSession":
        """Raises:
        LudolfError: there is none yet.
        """
        if self.link.session is None:
            raise LudolfError(GONE if self.is_lost else "The engine has not started yet.")
        return self.link.session

    async def _connect(self, name: str) -> None:
        self.is_lost, self.hint = False, STARTING
        self._started.clear()
        self.draw()
        try:
            session = await self.link.open(name)
        except OpenRefused as error:
            await self._refused(str(error))
            return
        except LudolfError as error:
            await self._lose(str(error))
            return
        self.hint = ""
        self._started.set()
        self.conversation.begin(session.snapshot_record)
        self._name_window()
        self.do(self._follow(session))
        self.do(self.slash.load_commands())
        self.do(self._read_clients())
        early, self._early = self._early, []
        for each in early:
            self.area.remember(each.text)
            await self.send(each)
        self.draw()

    async def _refused(self, reason: str) -> None:
        """Leave if the first session cannot be opened: another attempt would fail too."""
        if self.conversation.info.id:
            await self._lose(reason)
        else:
            self.say(f"Error: {reason}", "error")
            self.leave(1)

    async def _follow(self, session: "RemoteSession") -> None:
        """Take the frames of the session until it ends here."""
        async for frame in session.events():
            self.conversation.take(frame)
            self._obey_effects()
            if frame.get("type") in ("session_info_changed", "resync"):
                self._name_window()
            self.draw_soon()
        if self.link.session is session and not self._end.done():
            await self._lose("")

    def _name_window(self) -> None:
        self.view.set_title(f"{self.conversation.info.name or self.folder} - ludolf")

    async def _lose(self, reason: str) -> None:
        known = await self.link.lose()
        reason = reason or known
        self.conversation.lost()
        self.is_lost, self.hint = True, ""
        self._started.set()
        if reason:
            self.say(reason, "error")
        self.say(GONE, "warning")

    def _obey_effects(self) -> None:
        for effect in self.conversation.take_effects():
            match effect.kind:
                case "stats":
                    self.do(self._read_stats())
                case "editor":
                    self.area.editor.text = effect.text
                case "title":
                    self.view.set_title(effect.text)
                case "settled":
                    self.view.notify("The run has ended.")
                case "question":
                    self.view.notify("A question waits for an answer.")

    async def _read_clients(self) -> None:
        found = await self.link.others()
        self.conversation.others = {id: plain(name) for id, name in found.items()}
        self.draw_soon()

    async def _read_stats(self) -> None:
        session = self.link.session
        if session is not None:
            self.conversation.set_stats(await session.ask("get_session_stats", 30.0) or {})
            self.draw_soon()

    # ------------------------------------------------------------ prompts

    def submit(self, *, later: bool = False) -> None:
        """Send what is in the editor."""
        if self.is_lost:
            self.do(self._start_again())
            return
        text, images = self.area.take()
        if not text.strip() and not images:
            return
        self.area.remember(text)
        stripped = text.strip()
        if stripped.startswith("!") and len(stripped.lstrip("!")) > 0:
            self.do_when_started(self._shell(stripped))
        elif stripped.startswith("/") and self.slash.obey(stripped):
            pass
        else:
            self.do(self.send(FirstPrompt(text, tuple(images)), later=later))

    async def _start_again(self) -> None:
        """Start the engine again with the same session; then send what is in the editor."""
        info = self.conversation.info
        await self._connect(info.path or info.id or self.start.session)
        if not self.is_lost and not self.area.is_empty:
            self.submit()

    async def send(self, prompt: FirstPrompt, *, later: bool = False) -> None:
        """Send a prompt: at once, into the run, or after it."""
        if self.link.session is None:
            self._early.append(prompt)
            return
        self.conversation.sent(prompt.text)
        images = {"images": list(prompt.images)} if prompt.images else {}
        behaviour = "followUp" if later else "steer"
        try:
            await self.session.ask(
                "prompt", None, message=prompt.text, streamingBehavior=behaviour, **images
            )
        except LudolfError:
            self.area.put_back(prompt.text)
            raise
        finally:
            self.draw_soon()

    async def _shell(self, text: str) -> None:
        is_private = text.startswith("!!")
        command = text.lstrip("!").strip()
        session = self.session
        id = await session.send("bash", command=command, excludeFromContext=is_private)
        self.conversation.shell_began(str(id), command)
        self.draw_soon()
        reply = await session.reply_to(id, None)
        if reply.get("success"):
            data = reply.get("data")
            result = data if isinstance(data, dict) else {}
            if is_private:
                result = {**result, "excludeFromContext": True}
            self.conversation.shell_ended(str(id), result)
        else:
            self.conversation.shell_ended(str(id), {"output": str(reply.get("error"))})
        self.draw_soon()

    async def stop(self) -> None:
        """Stop the run; what was queued returns to the editor."""
        await self.take_back()
        session = self.session
        if self.conversation.has_shell:
            await session.ask("abort_bash", None)
        await session.ask("abort", None)

    async def take_back(self) -> None:
        """Return the queued messages to the editor."""
        conversation = self.conversation
        if not (conversation.steering or conversation.follow_up):
            return
        queued = await self.session.ask("clear_queue", None) or {}
        texts = [*queued.get("steering", ()), *queued.get("followUp", ())]
        if texts:
            self.area.put_back("\n\n".join(map(str, texts)))
        self.draw()

    # ------------------------------------------------------------ keys

    def _read(self) -> None:
        data = self.terminal.read()
        if not data:
            self.leave(HUNG_UP)
            return
        if self._is_first_read:
            # Typed before raw mode, when the terminal made line feeds of Enter.
            self._is_first_read = False
            data = data.replace(b"\n", b"\r")
        if self._escape is not None:
            self._escape.cancel()
            self._escape = None
        for event in self._parser.feed(data):
            self._take(event)
        if self._parser.waits:
            self._escape = self._loop.call_later(ESCAPE_SECONDS, self._flush)
        self.draw()

    def _flush(self) -> None:
        for event in self._parser.flush():
            self._take(event)
        self.draw()

    def _take(self, event: InputEvent) -> None:
        if isinstance(event, TerminalReply):
            self._learn(event)
        elif self._full is not None:
            view, future, _ = self._full
            result = view.handle(event)
            if result and not future.done():
                future.set_result(result)
        elif self._dialog is not None:
            self._answer(event)
        else:
            self._press(event)

    def _learn(self, reply: TerminalReply) -> None:
        capabilities = self.terminal.capabilities
        if capabilities.learn(reply):
            self.screen.reflows = capabilities.reflows
            if self.view.learn(capabilities):
                self.conversation.resize(self.view.drawing)

    def _answer(self, event: InputEvent) -> None:
        assert self._dialog is not None
        if isinstance(event, KeyPress) and self.bindings.matches(event, "app.tools.expand"):
            self.do(self.slash.open_pager(at_tool=True))
            return
        answer = self._dialog.handle(event)
        if answer is not None:
            self.conversation.dialogs.pop(self._dialog.id, None)
            self.do(self._send_answer(self._dialog.id, answer))
            self._dialog = None

    async def ask(self, request: dict[str, Any]) -> str:
        """Ask the user for a text in the place of the editor; empty if it is dismissed."""
        id = f"own-{len(self._own_questions)}-{self._loop.time()}"
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._own_questions[id] = future
        self.conversation.dialogs[id] = {"id": id, **request}
        self.draw()
        answer = await future
        return str(answer.get("value") or "")

    async def _send_answer(self, id: str, answer: dict[str, Any]) -> None:
        own = self._own_questions.pop(id, None)
        if own is not None:
            own.set_result(answer)
            return
        await self.session.send("extension_ui_response", id=id, **answer)

    def _press(self, event: InputEvent) -> None:
        if isinstance(event, KeyPress) and self._act_first(event):
            return
        if self.area.handle(event):
            self._ask_to_complete()
        elif isinstance(event, KeyPress):
            self._act(event)

    def _act_first(self, key: KeyPress) -> bool:
        """Obey keys that the editor must not get."""
        if self.slash.obey_shortcut(key):
            return True
        table: dict[str, Callable[[], object]] = {
            "app.message.followUp": lambda: self.submit(later=True),
            "app.message.dequeue": lambda: self.do(self.take_back()),
            "app.clear": self._clear,
            "app.suspend": self.suspend,
        }
        for action, obey in table.items():
            if self.bindings.matches(key, action):
                obey()
                return True
        return False

    def _act(self, key: KeyPress) -> None:
        matches = self.bindings.matches
        if matches(key, "tui.input.submit"):
            self.submit()
        elif matches(key, "app.interrupt"):
            if self.conversation.moves:
                self.do(self.stop())
        elif matches(key, "app.exit"):
            if self.area.is_empty:
                self.leave()
        else:
            self.slash.obey_key(key)

    def _clear(self) -> None:
        now = self._loop.time()
        if not self.area.is_empty:
            self.area.clear()
        elif now - self._last_clear < QUIT_SECONDS:
            self.leave()
            return
        else:
            self.hint = "Ctrl+C again quits"
            self._loop.call_later(QUIT_SECONDS, self._forget_hint)
        self._last_clear = now

    def _forget_hint(self) -> None:
        self.hint = ""
        self.draw()

    def _ask_to_complete(self) -> None:
        query = self.area.wanted()
        if query is not None and query != self._asked and self.link.session is not None:
            self._asked = query
            self.do(self._find(query))

    async def _find(self, query: CompletionQuery) -> None:
        by_kind = {"file": self._find_files, "arguments": self._find_arguments}
        try:
            items = await by_kind[query.kind](query)
        finally:
            self._asked = None
        self.area.offer(query, items)
        self.draw()
        newer = self.area.wanted()
        if newer is not None and newer != query:
            self._ask_to_complete()

    async def _find_files(self, query: CompletionQuery) -> list[Suggestion]:
        data = await self.session.ask("find_files", 30.0, query=query.query, limit=_FILES) or {}
        return file_suggestions(
            [
                (str(each.get("path")), bool(each.get("isDirectory")))
                for each in data.get("files", ())
            ]
        )

    async def _find_arguments(self, query: CompletionQuery) -> list[Suggestion]:
        data = await self.session.ask(
            "complete_command", 30.0, name=query.command, prefix=query.query
        )
        if data is None:
            self.area.completing.discard(query.command)
            return []
        return argument_suggestions(data.get("items", ()))

    # ------------------------------------------------------------ the terminal

    def suspend(self) -> None:
        """Stop as Ctrl+Z does; draw again when the shell continues the program."""
        self.screen.suspend()
        self.terminal.suspend()
        self.screen.resume()
        self._resized()

    def outside(self, work: Callable[[], R]) -> R:
        """Give the terminal to another program, such as an editor."""
        self.screen.suspend()
        self._loop.remove_reader(0)
        self.terminal.__exit__(None, None, None)
        try:
            return work()
        finally:
            self.terminal.__enter__()
            self._loop.add_reader(0, self._read)
            self.screen.resume()
            self._resized()

    def _continued(self) -> None:
        self.terminal.continued()
        self._resized()

    def _resized(self) -> None:
        self.view.resized()
        self.conversation.resize(self.view.drawing)
        self.screen.resized()
        self._pace.resized()

    async def show(self, view: FullView[R]) -> R:
        """Show a view on the whole screen until it ends."""
        future: asyncio.Future[R] = self._loop.create_future()
        before = self._full
        if before is not None:
            self._full = view, future, before[2]
            try:
                return await future
            finally:
                self._full = before
                self.draw()
        with self.screen.alternate() as whole:
            self._full = view, future, whole
            self.draw()
            try:
                return await future
            finally:
                self._full = None
                self._loop.call_soon(self.draw)

    # ------------------------------------------------------------ draw

    def draw_soon(self) -> None:
        """Draw within a thirtieth of a second."""
        if not self._end.done():
            self._pace.soon()

    def draw(self) -> None:
        """Draw now."""
        if not self._end.done():
            self._pace.now()

    def _paint(self) -> None:
        if self._spinner is not None:
            self._spinner.cancel()
            self._spinner = None
        if self._full is not None:
            view, _, whole = self._full
            rows, cursor = view.rows(*whole.size)
            whole.draw(rows, cursor)
        else:
            self._mind_dialog()
            self.screen.print(self.conversation.take_rows())
            rows, cursor = self.view.compose(self, self.screen.most_rows)
            self.screen.show(rows, cursor)
            self.screen.draw()
        if self.conversation.moves and self._full is None:
            self._spinner = self._loop.call_later(1 / SPINS_PER_SECOND, self.draw)

    def _stop_timers(self) -> None:
        self._pace.close()
        if self._spinner is not None:
            self._spinner.cancel()

    @property
    def dialog(self) -> Dialog | None:
        """The question that is shown in the place of the editor."""
        return self._dialog

    def _mind_dialog(self) -> None:
        dialogs = self.conversation.dialogs
        if self._dialog is not None and self._dialog.id not in dialogs:
            self._dialog = None
        if self._dialog is None and dialogs and not self.start.view:
            self._dialog = Dialog(next(iter(dialogs.values())), self.bindings)
