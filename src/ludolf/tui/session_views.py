"""Pickers and the pager of a session: what they show, and what a choice does."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ludolf.tui.conversation import message_text
from ludolf.tui.pager import EntryTree, Pager, clipboard_sequence, entry_text
from ludolf.tui.pickers import Picker, PickerChoice, PickerItem

if TYPE_CHECKING:
    from ludolf.tui.app import TerminalApp

_Entry = dict[str, Any]
# Entries that are printed after the user went to another branch.
_SHOWN_AFTER_MOVE = 4
GO, GO_WITH_SUMMARY, LABEL = "Go there", "Go there, summarise the branch I leave", "Label it"
_TREE_ACTIONS = (GO, GO_WITH_SUMMARY, LABEL)


class SessionViews:
    """Shows views of the session of one terminal."""

    def __init__(self, app: "TerminalApp") -> None:
        self._app = app

    # ------------------------------------------------------------ simple choices

    async def pick(
        self, title: str, items: Sequence[PickerItem], actions: dict[str, str] | None = None
    ) -> PickerChoice:
        """Let the user choose one of some items."""
        app = self._app
        return await app.show(Picker(title, items, app.bindings, app.view.drawing.styled, actions))

    async def choose(self, title: str, names: Sequence[str], current: str = "") -> str | None:
        """Let the user choose one of some texts."""
        items = [PickerItem(name, name, is_current=name == current) for name in names]
        chosen = (await self.pick(title, items)).item
        return None if chosen is None else str(chosen.value)

    async def ask_text(self, title: str, prefill: str = "") -> str:
        """Let the user write a line; empty if it was dismissed."""
        return await self._app.ask({"method": "input", "title": title, "prefill": prefill})

    # ------------------------------------------------------------ model and level

    async def choose_model(self, wanted: str) -> None:
        """Choose the model; a text that fits one model needs no picker."""
        app = self._app
        models = (await app.session.ask("get_available_models", None) or {}).get("models", ())
        fits = [each for each in models if wanted and wanted.lower() in _model_key(each).lower()]
        exact = [each for each in fits if wanted in (_model_key(each), each.get("id"))]
        chosen = (exact or fits)[0] if len(exact) == 1 or len(fits) == 1 else None
        if chosen is None:
            info = app.conversation.info
            current = f"{info.provider}/{info.model}"
            items = [
                PickerItem(
                    each,
                    _model_key(each),
                    str(each.get("name") or ""),
                    is_current=_model_key(each) == current,
                )
                for each in fits or models
            ]
            item = (await self.pick("Model", items)).item
            chosen = None if item is None else item.value
        if chosen is not None:
            data = await app.session.ask(
                "set_model", None, provider=chosen.get("provider"), modelId=chosen.get("id")
            )
            app.conversation.set_model(data or chosen)
            app.draw()

    async def choose_level(self, wanted: str) -> None:
        """Choose the thinking level."""
        session = self._app.session
        level: str | None = wanted
        if not level:
            data = await session.ask("get_available_thinking_levels", 30.0) or {}
            level = await self.choose(
                "Thinking level", data.get("levels", ()), self._app.conversation.info.level
            )
        if level:
            await session.ask("set_thinking_level", 30.0, level=level)
            self._app.draw()

    # ------------------------------------------------------------ sessions

    async def resume(self) -> None:
        """Continue a stored session; also renames and deletes them."""
        everywhere = False
        while True:
            choice = await self._pick_session(everywhere=everywhere)
            if choice.item is None:
                return
            path = choice.item.value["path"]
            session = self._app.session
            if choice.action == "other folders":
                everywhere = not everywhere
            elif choice.action == "rename":
                name = await self.ask_text("New name", str(choice.item.value.get("name") or ""))
                if name:
                    await session.ask("rename_session", 30.0, sessionPath=path, name=name)
            elif choice.action == "delete":
                if await self.choose(f"Delete {choice.item.text}?", ("No", "Yes")) == "Yes":
                    await session.ask("delete_session", 30.0, sessionPath=path)
            else:
                await session.ask("switch_session", None, sessionPath=path)
                return

    async def _pick_session(self, *, everywhere: bool) -> PickerChoice:
        data = await self._app.session.ask("list_sessions", None, all=everywhere) or {}
        current = self._app.conversation.info.path
        items = [
            PickerItem(
                each,
                str(each.get("name") or each.get("firstMessage") or each.get("id")),
                _session_detail(each, with_folder=everywhere),
                is_current=each.get("path") == current,
            )
            for each in data.get("sessions", ())
        ]
        actions = {"ctrl+a": "other folders", "ctrl+r": "rename", "ctrl+d": "delete"}
        title = "Sessions of all folders" if everywhere else "Sessions of this folder"
        return await self.pick(title, items, actions)

    async def fork(self) -> None:
        """Begin a session before a message of the user, which returns to the editor."""
        app = self._app
        messages = (await app.session.ask("get_fork_messages", 30.0) or {}).get("messages", ())
        items = [PickerItem(each, str(each.get("text"))) for each in reversed(messages)]
        item = (await self.pick("Fork before", items)).item
        if item is None:
            return
        data = await app.session.ask("fork", None, entryId=item.value.get("entryId")) or {}
        if not data.get("cancelled"):
            app.say("This is a new session, up to this message.")
            app.area.put_back(str(data.get("text") or ""))
            app.draw()

    # ------------------------------------------------------------ tree

    async def tree(self) -> None:
        """Go to another entry of the session, on any branch."""
        app = self._app
        data = await app.session.ask("get_entries", None) or {}
        entries, leaf = data.get("entries", []), data.get("leafId")
        item = (await self.pick("Tree", tree_items(entries, leaf))).item
        if item is None:
            return
        action = await self.choose("What to do there", _TREE_ACTIONS)
        if action is None:
            return
        given: dict[str, Any] = {"summarize": action == GO_WITH_SUMMARY}
        if action == LABEL:
            given["label"] = await self.ask_text("Label")
        moved = await app.session.ask("navigate_tree", None, targetId=item.value, **given) or {}
        if moved.get("cancelled"):
            return
        await self._show_place()
        if moved.get("text"):
            app.area.put_back(str(moved["text"]))
        app.draw()

    async def _show_place(self) -> None:
        app = self._app
        data = await app.session.ask("get_entries", None, limit=_SHOWN_AFTER_MOVE) or {}
        app.say("Another place of the session. Its last entries:", "accent")
        app.conversation.show_entries(data.get("entries", ()))

    # ------------------------------------------------------------ logins and settings

    async def login(self) -> None:
        """Log in to a provider; its dialogs follow."""
        session = self._app.session
        found = (await session.ask("get_login_providers", 30.0) or {}).get("providers", ())
        items = [
            PickerItem(
                each, str(each.get("name")), "logged in" if each.get("authenticated") else ""
            )
            for each in found
        ]
        item = (await self.pick("Log in to", items)).item
        if item is None:
            return
        methods = list(item.value.get("methods") or ())
        method = methods[0] if len(methods) == 1 else await self.choose("How", methods)
        if method is not None:
            await session.ask("login", None, providerId=item.value["id"], method=method)
            self._app.say(f"Logged in to {item.text}.")

    async def logout(self) -> None:
        """Remove stored credentials."""
        session = self._app.session
        found = (await session.ask("get_login_providers", 30.0) or {}).get("providers", ())
        names = [str(each.get("id")) for each in found if each.get("authenticated")]
        chosen = await self.choose("Log out of", names)
        if chosen is not None:
            await session.ask("logout", None, providerId=chosen)
            self._app.say(f"The credentials of {chosen} are removed.")

    async def settings(self) -> None:
        """Change what a session can change; `ludolf settings` has the rest."""
        session = self._app.session
        state = await session.ask("get_state", 30.0) or {}
        steering, later = state.get("steeringMode"), state.get("followUpMode")
        compacts = bool(state.get("autoCompactionEnabled"))
        items = [
            PickerItem("set_steering_mode", "Steering messages of a turn", str(steering)),
            PickerItem("set_follow_up_mode", "Messages at the end of a run", str(later)),
            PickerItem("set_auto_compaction", "Automatic compaction", "on" if compacts else "off"),
        ]
        item = (await self.pick("Settings (Enter changes; more: ludolf settings)", items)).item
        if item is None:
            return
        if item.value == "set_auto_compaction":
            await session.ask(item.value, 30.0, enabled=not compacts)
        else:
            mode = "all" if item.detail != "all" else "one-at-a-time"
            await session.ask(item.value, 30.0, mode=mode)
        await self.settings()

    # ------------------------------------------------------------ pager

    async def pager(self, *, at_tool: bool) -> None:
        """Show all entries of the session until the user closes the pager."""
        from ludolf.tui.whole_entries import WholeEntries  # not for the first screen

        app = self._app
        data = await app.session.ask("get_entries", None) or {}
        entries = [each for each in data.get("entries", ()) if isinstance(each, dict)]
        tree = await asyncio.to_thread(EntryTree, entries, data.get("leafId"))
        drawing = app.view.drawing
        view = Pager(
            tree,
            WholeEntries(drawing, entries).rows,
            drawing.styled,
            lambda text: app.terminal.write(clipboard_sequence(text)),
        )
        await app.show(view.at_last_tool() if at_tool else view)


def tree_items(entries: Sequence[_Entry], leaf: str | None) -> list[PickerItem]:
    """Return the messages of all branches, the newest last, each branch further right."""
    labels = {e.get("targetId"): e.get("label") for e in entries if e.get("type") == "label"}
    current = _listed(entries, leaf)
    children: dict[Any, int] = {}
    depth: dict[Any, int] = {}
    items = []
    for entry in entries:
        parent = entry.get("parentId")
        number = children.get(parent, 0)
        children[parent] = number + 1
        depth[entry.get("id")] = depth.get(parent, 0) + (1 if number else 0)
        text = _tree_text(entry)
        if text:
            label = labels.get(entry.get("id"))
            shown = "  " * min(20, depth[entry.get("id")]) + text
            is_current = entry.get("id") == current
            items.append(
                PickerItem(entry.get("id"), shown, str(label or ""), is_current=is_current)
            )
    return items


def _listed(entries: Sequence[_Entry], leaf: str | None) -> str | None:
    """Return the last entry up to the leaf that the tree lists: names and labels are not."""
    current = leaf
    for entry in reversed(entries):
        if entry.get("id") == current and not _tree_text(entry):
            current = entry.get("parentId")
    return current


def _tree_text(entry: _Entry) -> str:
    message = entry.get("message")
    if isinstance(message, dict):
        signs = {"user": "> ", "assistant": "", "bashExecution": "! "}
        role = message.get("role")
        if role == "bashExecution":
            return f"! {message.get('command')}"
        text = message_text(message)[:300] if role in signs else ""
        return f"{signs.get(str(role), '')}{text}" if text.strip() else ""
    summary = entry_text(entry)[:300]
    return f"[{entry.get('type')}] {summary}" if summary else ""


def _login_state(provider: _Entry) -> str:
    return "logged in" if provider.get("authenticated") else ""


def _model_key(model: _Entry) -> str:
    return f"{model.get('provider')}/{model.get('id')}"


def _session_detail(record: _Entry, *, with_folder: bool) -> str:
    modified = record.get("modified")
    moment = time.localtime(modified / 1000) if isinstance(modified, int | float) else None
    when = "" if moment is None else time.strftime("%Y-%m-%d %H:%M", moment)
    count = record.get("messageCount")
    parts = [str(record.get("cwd")) if with_folder else "", f"{count} messages" if count else ""]
    return "  ".join(part for part in (*parts, when) if part)
