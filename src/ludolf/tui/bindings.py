"""The keys of actions: pi's defaults, and the file `keybindings.json` of the agent folder."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ludolf.tui.keys import KeyPress

FILE_NAME = "keybindings.json"
MOST_FILE_BYTES = 1024 * 1024
DEFAULTS: dict[str, tuple[str, ...]] = {
    "tui.editor.cursorUp": ("up",),
    "tui.editor.cursorDown": ("down",),
    "tui.editor.historyPrevious": (),
    "tui.editor.historyNext": (),
    "tui.editor.cursorLeft": ("left", "ctrl+b"),
    "tui.editor.cursorRight": ("right", "ctrl+f"),
    "tui.editor.cursorWordLeft": ("alt+left", "ctrl+left", "alt+b"),
    "tui.editor.cursorWordRight": ("alt+right", "ctrl+right", "alt+f"),
    "tui.editor.cursorLineStart": ("home", "ctrl+a"),
    "tui.editor.cursorLineEnd": ("end", "ctrl+e"),
    "tui.editor.jumpForward": ("ctrl+]",),
    "tui.editor.jumpBackward": ("ctrl+alt+]",),
    "tui.editor.pageUp": ("pageUp",),
    "tui.editor.pageDown": ("pageDown",),
    "tui.editor.deleteCharBackward": ("backspace", "shift+backspace"),
    "tui.editor.deleteCharForward": ("delete", "ctrl+d"),
    "tui.editor.deleteWordBackward": ("ctrl+w", "alt+backspace", "ctrl+backspace"),
    "tui.editor.deleteWordForward": ("alt+d", "alt+delete", "ctrl+delete"),
    "tui.editor.deleteToLineStart": ("ctrl+u",),
    "tui.editor.deleteToLineEnd": ("ctrl+k",),
    "tui.editor.yank": ("ctrl+y",),
    "tui.editor.yankPop": ("alt+y",),
    "tui.editor.undo": ("ctrl+-",),
    "tui.input.newLine": ("shift+enter", "ctrl+j"),
    "tui.input.submit": ("enter",),
    "tui.input.tab": ("tab",),
    "tui.input.copy": ("ctrl+c",),
    "tui.select.up": ("up",),
    "tui.select.down": ("down",),
    "tui.select.pageUp": ("pageUp",),
    "tui.select.pageDown": ("pageDown",),
    "tui.select.confirm": ("enter",),
    "tui.select.cancel": ("escape", "ctrl+c"),
    "app.interrupt": ("escape",),
    "app.clear": ("ctrl+c",),
    "app.exit": ("ctrl+d",),
    "app.suspend": ("ctrl+z",),
    "app.editor.external": ("ctrl+g",),
    "app.clipboard.pasteImage": ("ctrl+v",),
    "app.history.search": ("ctrl+r",),
    "app.pager.open": ("pageUp",),
    "app.session.new": (),
    "app.session.tree": (),
    "app.session.fork": (),
    "app.session.resume": (),
    "app.session.togglePath": ("ctrl+p",),
    "app.session.toggleSort": ("ctrl+s",),
    "app.session.toggleNamedFilter": ("ctrl+n",),
    "app.session.rename": ("ctrl+r",),
    "app.session.delete": ("ctrl+d",),
    "app.session.deleteNoninvasive": ("ctrl+backspace",),
    "app.model.select": ("ctrl+l",),
    "app.model.cycleForward": ("ctrl+p",),
    "app.model.cycleBackward": ("shift+ctrl+p",),
    "app.thinking.cycle": ("shift+tab",),
    "app.thinking.toggle": ("ctrl+t",),
    "app.tools.expand": ("ctrl+o",),
    "app.message.followUp": ("alt+enter",),
    "app.message.dequeue": ("alt+up",),
    "app.tree.foldOrUp": ("ctrl+left", "alt+left"),
    "app.tree.unfoldOrDown": ("ctrl+right", "alt+right"),
    "app.tree.editLabel": ("shift+l",),
    "app.tree.toggleLabelTimestamp": ("shift+t",),
    "app.tree.filter.default": ("ctrl+d",),
    "app.tree.filter.noTools": ("ctrl+t",),
    "app.tree.filter.userOnly": ("ctrl+u",),
    "app.tree.filter.labeledOnly": ("ctrl+l",),
    "app.tree.filter.all": ("ctrl+a",),
    "app.tree.filter.cycleForward": ("ctrl+o",),
    "app.tree.filter.cycleBackward": ("shift+ctrl+o",),
}
# Names before pi put them into groups, where the last part of the name has changed too.
_OLD_NAMES = {
    "externalEditor": "app.editor.external",
    "pasteImage": "app.clipboard.pasteImage",
    "newSession": "app.session.new",
    "tree": "app.session.tree",
    "fork": "app.session.fork",
    "resume": "app.session.resume",
    "selectModel": "app.model.select",
    "cycleModelForward": "app.model.cycleForward",
    "cycleModelBackward": "app.model.cycleBackward",
    "cycleThinkingLevel": "app.thinking.cycle",
    "expandTools": "app.tools.expand",
    "toggleThinking": "app.thinking.toggle",
    "followUp": "app.message.followUp",
    "dequeue": "app.message.dequeue",
    "interrupt": "app.interrupt",
    "clear": "app.clear",
    "exit": "app.exit",
    "suspend": "app.suspend",
    "newLine": "tui.input.newLine",
    "submit": "tui.input.submit",
    "tab": "tui.input.tab",
    "copy": "tui.input.copy",
    "selectUp": "tui.select.up",
    "selectDown": "tui.select.down",
    "selectPageUp": "tui.select.pageUp",
    "selectPageDown": "tui.select.pageDown",
    "selectConfirm": "tui.select.confirm",
    "selectCancel": "tui.select.cancel",
    "toggleSessionPath": "app.session.togglePath",
    "toggleSessionSort": "app.session.toggleSort",
    "toggleSessionNamedFilter": "app.session.toggleNamedFilter",
    "renameSession": "app.session.rename",
    "deleteSession": "app.session.delete",
    "deleteSessionNoninvasive": "app.session.deleteNoninvasive",
}
_KEY_NAMES = {"esc": "escape", "return": "enter", "_": "-"}
_MODIFIERS = ("ctrl", "alt", "shift", "super")
_KEY = re.compile(
    r"\S|escape|enter|tab|space|backspace|delete|insert|clear|home|end|pageup|pagedown"
    r"|up|down|left|right|f[0-9]{1,2}"
)


def key_name(written: str) -> str | None:
    """Return the name of a key press as `KeyPress` has it, or None if the text names no key."""
    text = written.strip()
    modifiers, key = (text[:-2], "+") if text.endswith("++") else _parts(text)
    held = {each.strip().lower() for each in modifiers.split("+") if each}
    key = key if len(key) == 1 and not held else key.lower()
    if held:
        key = _KEY_NAMES.get(key, key)
    key = {"esc": "escape", "return": "enter", " ": "space"}.get(key, key)
    if not _KEY.fullmatch(key) or held - set(_MODIFIERS):
        return None
    if held <= {"shift", "alt"} and "shift" in held and len(key) == 1:
        held, key = held - {"shift"}, key.upper()
    return "+".join((*(each for each in _MODIFIERS if each in held), key))


def _parts(text: str) -> tuple[str, str]:
    modifiers, _, key = text.rpartition("+")
    return (modifiers, key) if key else ("", text)


class Bindings:
    """Which keys start which action.

    Args:
        changes: Keys of some actions, in place of the defaults.
    """

    def __init__(self, changes: Mapping[str, Iterable[str]] | None = None) -> None:
        keys = {**DEFAULTS, **(changes or {})}
        self._keys = {
            action: tuple(name for each in written if (name := key_name(each)))
            for action, written in keys.items()
        }

    def keys(self, action: str) -> tuple[str, ...]:
        """Return the names of the keys of an action."""
        return self._keys.get(action, ())

    def matches(self, key: KeyPress, action: str) -> bool:
        """Return whether the key starts the action."""
        return key.name in self._keys.get(action, ())

    def action(self, key: KeyPress, prefix: str = "") -> str | None:
        """Return the first action of the key whose name begins with the prefix."""
        for action, keys in self._keys.items():
            if key.name in keys and action.startswith(prefix):
                return action
        return None


def load_bindings(agent_dir: Path) -> tuple[Bindings, list[str]]:
    """Return the bindings of the agent folder, and what is wrong in its file, one line each."""
    path = agent_dir / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        return Bindings(), []
    except OSError as error:
        return Bindings(), [f"Cannot read {path}: {error.strerror}. The default keys are used."]
    if len(data) > MOST_FILE_BYTES:
        return Bindings(), [f"{path} is larger than 1 MiB. The default keys are used."]
    try:
        wanted = msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Bindings(), [f"Cannot read {path}: {error}. The default keys are used."]
    return _read(wanted, path)


def _read(wanted: dict[str, object], path: Path) -> tuple[Bindings, list[str]]:
    changes: dict[str, Iterable[str]] = {}
    wrong = []
    for name, value in wanted.items():
        action = _action_name(name)
        keys = [value] if isinstance(value, str) else value
        if action is None and name.startswith(("app.", "tui.")):
            continue  # an action that only pi has
        if action is None:
            wrong.append(f"{path}: {name!r} is not an action of Ludolf.")
        elif not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            wrong.append(f"{path}: {name!r} must be a key or a list of keys.")
        else:
            wrong += [
                f"{path}: {name!r} has {key!r}, which is not a key. Write keys as in 'ctrl+k'."
                for key in keys
                if key_name(key) is None
            ]
            changes[action] = keys
    return Bindings(changes), wrong


def _action_name(name: str) -> str | None:
    if name in DEFAULTS:
        return name
    old = _OLD_NAMES.get(name, f"tui.editor.{name}")
    return old if old in DEFAULTS else None
