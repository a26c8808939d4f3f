"""Commands of the terminal: `/name` in the editor, and the keys of the same actions."""

import os
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ludolf.base import LudolfError
from ludolf.tui.bindings import key_name
from ludolf.tui.keys import KeyPress
from ludolf.tui.outside_programs import clipboard_image, edited_outside
from ludolf.tui.pager import clipboard_sequence
from ludolf.tui.session_views import SessionViews
from ludolf.tui.theme import theme_names

if TYPE_CHECKING:
    from ludolf.tui.app import TerminalApp

Work = Coroutine[Any, Any, None]
OWN: dict[str, str] = {
    "new": "Begin a new session",
    "resume": "Continue a stored session",
    "tree": "Go to another place of this session",
    "fork": "Begin a session before one of your messages",
    "clone": "Begin a session with the same conversation",
    "name": "Name this session: /name TEXT",
    "session": "Show file, messages, tokens and cost",
    "model": "Choose the model",
    "thinking": "Choose the thinking level",
    "compact": "Replace older messages by a summary: /compact [INSTRUCTIONS]",
    "export": "Write this session as a page: /export [FILE]",
    "copy": "Copy the last answer",
    "login": "Log in to a provider, or store a key",
    "logout": "Remove the credentials of a provider",
    "settings": "Change settings of this session",
    "theme": "Choose the colours: /theme [NAME]",
    "hotkeys": "List the keys",
    "reload": "Read settings, skills, templates and extensions again",
    "detach": "Leave; the session continues, and `ludolf attach` finds it",
    "quit": "Stop what runs and leave",
}
KEYS = (
    ("Enter", "send; while the model works: steer"),
    ("Alt+Enter", "send when the model is done"),
    ("Alt+Up", "take queued messages back"),
    ("Shift+Enter, Ctrl+J, \\Enter", "new line"),
    ("Esc", "stop; queued messages return to the editor"),
    ("Ctrl+C", "empty the editor; twice: quit"),
    ("Ctrl+D", "quit, if the editor is empty"),
    ("Ctrl+O", "pager at the last tool"),
    ("PgUp", "pager"),
    ("Ctrl+T", "show thinking from now on, or not"),
    ("Ctrl+L", "choose the model"),
    ("Ctrl+P", "next model"),
    ("Shift+Tab", "next thinking level"),
    ("Ctrl+G", "write in $EDITOR"),
    ("Ctrl+V", "paste an image"),
    ("Ctrl+R", "search earlier prompts"),
    ("Ctrl+Z", "suspend"),
    ("!command, !!command", "run a shell command; !! keeps it from the model"),
    ("@, Tab", "complete a file or a path"),
)
# Actions whose keys extensions do not get.
RESERVED = (
    *("app.interrupt", "app.clear", "app.exit", "app.suspend", "app.thinking.cycle"),
    *("app.thinking.toggle", "app.model.select", "app.model.cycleForward"),
    *("app.model.cycleBackward", "app.tools.expand", "app.editor.external"),
    *("app.message.followUp", "tui.input.submit", "tui.input.copy", "tui.select.confirm"),
    *("tui.select.cancel", "tui.editor.deleteToLineEnd"),
)
_CALL = re.compile(r"/([\w:.-]+)(?:\s+(.*))?$", re.DOTALL)


class SlashCommands:
    """Obeys commands for one terminal."""

    def __init__(self, app: "TerminalApp") -> None:
        self._app = app
        self._views = SessionViews(app)
        self._server: list[tuple[str, str]] = []
        # Keys of extensions by the names of key presses, as the extensions wrote them.
        self._shortcuts: dict[str, tuple[str, str]] = {}
        views = self._views
        self._handlers: dict[str, Callable[[str], Work]] = {
            "new": lambda rest: self._ask("new_session"),
            "resume": lambda rest: views.resume(),
            "tree": lambda rest: views.tree(),
            "fork": lambda rest: views.fork(),
            "clone": lambda rest: self._ask("clone", "This is a copy of the session."),
            "name": self._name,
            "session": lambda rest: self._session(),
            "model": views.choose_model,
            "thinking": views.choose_level,
            "compact": self._compact,
            "export": self._export,
            "copy": lambda rest: self._copy(),
            "login": lambda rest: views.login(),
            "logout": lambda rest: views.logout(),
            "settings": lambda rest: views.settings(),
            "theme": self._theme,
            "hotkeys": lambda rest: self._hotkeys(),
            "reload": lambda rest: self._reload(),
        }

    # ------------------------------------------------------------ names

    def all(self) -> list[tuple[str, str]]:
        """Return the names and descriptions of all commands."""
        own = [*OWN.items()]
        return own + [item for item in self._server if item[0] not in OWN]

    async def load_commands(self) -> None:
        """Read the commands of extensions, templates, skills and MCP servers."""
        data = await self._app.session.ask("get_commands", 30.0) or {}
        self._server = [
            (str(each.get("name")), str(each.get("description") or ""))
            for each in data.get("commands", ())
        ]
        self._app.area.commands = self.all()
        self._app.area.completing = {
            str(each.get("name"))
            for each in data.get("commands", ())
            if each.get("source") == "extension" and each.get("name") not in OWN
        }
        await self._load_shortcuts()

    async def _load_shortcuts(self) -> None:
        """Read the keys of extensions; as in pi, they do not replace the most important ones."""
        data = await self._app.session.ask("get_shortcuts", 30.0) or {}
        bindings = self._app.bindings
        reserved = {key for action in RESERVED for key in bindings.keys(action)}
        self._shortcuts = {
            name: (str(each.get("key")), str(each.get("description") or ""))
            for each in data.get("shortcuts", ())
            if (name := key_name(str(each.get("key")))) is not None and name not in reserved
        }

    def obey_shortcut(self, key: KeyPress) -> bool:
        """Run the function of an extension's key; returns False if it is not one."""
        found = self._shortcuts.get(key.name)
        if found is not None:
            self._app.do(self._run_shortcut(found[0]))
        return found is not None

    async def _run_shortcut(self, key: str) -> None:
        await self._app.session.ask("run_shortcut", None, key=key)

    def obey(self, text: str) -> bool:
        """Obey a command; returns False if the text is a prompt."""
        found = _CALL.match(text)
        if found is None:
            return False
        name, rest = found[1], (found[2] or "").strip()
        if name == "quit":
            self._app.leave()
        elif name == "detach":
            self._app.leave(stays=True)
        elif name in self._handlers:
            self._app.do_when_started(self._handlers[name](rest))
        elif any(name == known for known, _ in self._server) or os.path.exists(f"/{name}"):
            return False
        else:
            self._app.area.put_back(text)
            self._app.say(f"Unknown command: /{name}. Type / to see them.", "error")
        return True

    def obey_key(self, key: KeyPress) -> None:
        """Obey a key that the editor does not use."""
        table: dict[str, Callable[[], Work]] = {
            "app.tools.expand": lambda: self.open_pager(at_tool=True),
            "app.pager.open": lambda: self.open_pager(at_tool=False),
            "app.thinking.toggle": self._toggle_thinking,
            "app.thinking.cycle": self._cycle_level,
            "app.model.select": lambda: self._views.choose_model(""),
            "app.model.cycleForward": self._cycle_model,
            "app.editor.external": self._edit_outside,
            "app.clipboard.pasteImage": self._paste_image,
            "app.session.new": lambda: self._ask("new_session"),
            "app.session.tree": self._views.tree,
            "app.session.fork": self._views.fork,
            "app.session.resume": self._views.resume,
        }
        for action, work in table.items():
            if self._app.bindings.matches(key, action):
                self._app.do_when_started(work())
                return

    # ------------------------------------------------------------ commands

    async def _ask(self, command: str, done: str = "This is a new session.") -> None:
        data = await self._app.session.ask(command, None) or {}
        if not data.get("cancelled"):
            self._app.say(done)

    async def _name(self, rest: str) -> None:
        name = rest or await self._views.ask_text("Name of this session")
        if name:
            await self._app.session.ask("set_session_name", 30.0, name=name)

    async def _session(self) -> None:
        stats = await self._app.session.ask("get_session_stats", 30.0) or {}
        info, tokens = self._app.conversation.info, stats.get("tokens") or {}
        asked, answers = stats.get("userMessages"), stats.get("assistantMessages")
        self._app.say(
            f"Session {info.id}\n"
            f"File: {info.path or 'not stored'}\n"
            f"Prompts: {asked}, answers: {answers}, tool calls: {stats.get('toolCalls')}\n"
            f"Tokens: {tokens.get('total', 0):,}, cost: ${stats.get('cost') or 0:.2f}"
        )

    async def _compact(self, rest: str) -> None:
        given = {"customInstructions": rest} if rest else {}
        await self._app.session.ask("compact", None, **given)

    async def _export(self, rest: str) -> None:
        given = {"outputPath": rest} if rest else {}
        data = await self._app.session.ask("export_html", None, **given) or {}
        self._app.say(f"Written: {data.get('path')}")

    async def _copy(self) -> None:
        data = await self._app.session.ask("get_last_assistant_text", 30.0) or {}
        text = data.get("text")
        if not text:
            raise LudolfError("There is no answer to copy yet.")
        self._app.terminal.write(clipboard_sequence(str(text)))
        self._app.say("The last answer was sent to the clipboard of the terminal.")

    async def _theme(self, rest: str) -> None:
        name = rest
        if not name:
            names = theme_names(self._app.view.folders)
            chosen = await self._views.choose("Theme", names, self._app.view.theme.name)
            name = chosen or ""
        if name:
            self._app.view.use_theme(name)
            self._app.conversation.resize(self._app.view.drawing)
            self._app.screen.resized()
            self._app.draw()

    async def _hotkeys(self) -> None:
        rows = [
            *KEYS,
            *((key, text or "of an extension") for key, text in self._shortcuts.values()),
        ]
        self._app.say("\n".join(("Keys:", *(f"{keys:<29}{action}" for keys, action in rows))))

    async def _reload(self) -> None:
        await self._app.session.ask("reload", None)
        await self.load_commands()
        self._app.say("Settings, skills, templates and extensions were read again.")

    # ------------------------------------------------------------ keys

    async def open_pager(self, *, at_tool: bool) -> None:
        """Show the pager until it is closed."""
        await self._views.pager(at_tool=at_tool)

    async def _toggle_thinking(self) -> None:
        conversation = self._app.conversation
        conversation.show_thinking = not conversation.show_thinking
        state = "shown" if conversation.show_thinking else "one line"
        self._app.say(f"Thinking from now on: {state}.")

    async def _cycle_level(self) -> None:
        data = await self._app.session.ask("cycle_thinking_level", 30.0)
        if not data:
            self._app.say("This model has one thinking level.")
        self._app.draw()

    async def _cycle_model(self) -> None:
        data = await self._app.session.ask("cycle_model", None)
        if data:
            self._app.conversation.set_model(data.get("model") or {})
            self._app.conversation.info.level = str(data.get("thinkingLevel"))
            self._app.draw()
        else:
            self._app.say("There is one model.")

    async def _edit_outside(self) -> None:
        editor, environ = self._app.area.editor, self._app.start.environ
        text = self._app.outside(lambda: edited_outside(editor.expanded(), environ))
        editor.text = text

    async def _paste_image(self) -> None:
        found = await clipboard_image(self._app.start.environ)
        if found is None:
            self._app.say("The clipboard has no image that wl-paste, xclip or pngpaste can read.")
        else:
            self._app.area.add_image(*found)
        self._app.draw()
