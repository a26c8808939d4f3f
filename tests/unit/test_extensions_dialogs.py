"""Dialogs over the wire: exact records, answers by id, defaults when nobody answers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludolf.agent.questions import AnswerClock
from ludolf.base import dumps, loads
from ludolf.engine.host.dialogs import HostDialogs
from ludolf.extensions.dialogs import Dialogs
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest
from tests.extension_host import Bench

Ask = Callable[[Any], Awaitable[Any]]
ASKS: list[tuple[Ask, dict[str, Any], Any]] = [
    (
        lambda ui: ui.select("Pick", ["a", "b"], timeout=300),
        {"method": "select", "title": "Pick", "options": ["a", "b"], "timeout": 300},
        None,
    ),
    (
        lambda ui: ui.confirm("Sure?", "Really."),
        {"method": "confirm", "title": "Sure?", "message": "Really."},
        False,
    ),
    (lambda ui: ui.input("Name?"), {"method": "input", "title": "Name?"}, None),
    (
        lambda ui: ui.input("Name?", "here"),
        {"method": "input", "title": "Name?", "placeholder": "here"},
        None,
    ),
    (
        lambda ui: ui.editor("Edit", "old", timeout=5),
        {"method": "editor", "title": "Edit", "prefill": "old"},
        None,
    ),
]


class Wire:
    """A host at the other end: `answer` is what it says to every dialog."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.sent: list[UiRequest] = []
        self._answer = answer
        self.host = HostDialogs(AnswerClock(), self._send, withdraws=False)
        self.dialogs = Dialogs(self.host)

    def _send(self, request: UiRequest) -> None:
        self.sent.append(request)
        if self._answer is not None:
            response = msgspec.convert({"id": request.id, **self._answer}, UiAnswer)
            asyncio.get_running_loop().call_soon(self.host.answer, response)

    def records(self) -> list[dict[str, Any]]:
        """What was sent, without type and id."""
        records = [loads(dumps(request)) for request in self.sent]
        assert all(record.pop("type") == "extension_ui_request" for record in records)
        assert all(len(record.pop("id")) == 36 for record in records)
        return records


@pytest.mark.parametrize(("ask", "record", "default"), ASKS)
async def test_a_dialog_sends_its_fields_and_nothing_else(
    ask: Ask, record: dict[str, Any], default: Any
) -> None:
    wire = Wire({"cancelled": True})
    assert await ask(wire.dialogs) is default
    assert wire.records() == [record]


@pytest.mark.parametrize(
    ("ask", "answer", "result"),
    [
        (ASKS[0][0], {"value": "b"}, "b"),
        (ASKS[0][0], {"confirmed": True}, None),
        (ASKS[0][0], {"value": 3}, None),
        (ASKS[1][0], {"confirmed": True}, True),
        (ASKS[1][0], {"confirmed": False}, False),
        (ASKS[1][0], {"confirmed": "yes"}, False),
        (ASKS[1][0], {"value": "yes"}, False),
        (ASKS[2][0], {"value": "Ada"}, "Ada"),
        (ASKS[4][0], {"value": "new\ntext"}, "new\ntext"),
        (ASKS[4][0], {"value": "x", "cancelled": True}, None),
    ],
)
async def test_an_answer_counts_if_it_fits_the_dialog(
    ask: Ask, answer: dict[str, Any], result: Any
) -> None:
    assert await ask(Wire(answer).dialogs) == result


async def test_a_dialog_times_out_and_a_late_answer_is_ignored() -> None:
    wire = Wire()
    assert await wire.dialogs.select("Quick", ["a"], timeout=1) is None
    assert await wire.dialogs.editor("Quick", timeout=1) is None
    wire.host.answer(UiAnswer(id=wire.sent[0].id, value="a"))
    assert wire.host.waiting() == ()


async def test_unknown_ids_and_second_answers_change_nothing() -> None:
    wire = Wire()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(wire.dialogs.select("Pick", ["a", "b"]))
        await asyncio.sleep(0)
        for name, value in (("nobody", "x"), (wire.sent[0].id, "a"), (wire.sent[0].id, "b")):
            wire.host.answer(UiAnswer(id=name, value=value))
    assert asked.result() == "a"


async def test_cancelling_the_await_withdraws_the_dialog() -> None:
    wire = Wire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await wire.dialogs.select("Pick", ["a"])
    assert wire.host.waiting() == ()


async def test_settling_gives_every_open_dialog_its_default_and_closing_all_later_ones() -> None:
    wire = Wire()
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_result(ask(wire.dialogs))) for ask, _, _ in ASKS]
        await asyncio.sleep(0)
        wire.host.dismiss_all()
    assert [task.result() for task in asked] == [default for _, _, default in ASKS]
    wire.host.close()
    assert [await ask(wire.dialogs) for ask, _, _ in ASKS] == [default for _, _, default in ASKS]
    assert len(wire.sent) == len(ASKS)
    wire.dialogs.notify("last words are still said")
    assert len(wire.sent) == len(ASKS) + 1


async def _result(work: Awaitable[Any]) -> Any:
    return await work


async def test_one_way_methods_send_their_fields_and_nothing_else() -> None:
    wire = Wire()
    ui = wire.dialogs
    ui.notify("plain")
    ui.notify("bad", "error")
    ui.set_status("k", "on")
    ui.set_status("k", None)
    ui.set_widget("w", ["a", "b"], placement="belowEditor")
    ui.set_widget("w", None)
    ui.set_widget("w", lambda: None)
    ui.set_title("t")
    ui.set_editor_text("e")
    ui.paste_to_editor("p")
    assert wire.records() == [
        {"method": "notify", "message": "plain"},
        {"method": "notify", "message": "bad", "notifyType": "error"},
        {"method": "setStatus", "statusKey": "k", "statusText": "on"},
        {"method": "setStatus", "statusKey": "k"},
        {
            "method": "setWidget",
            "widgetKey": "w",
            "widgetLines": ["a", "b"],
            "widgetPlacement": "belowEditor",
        },
        {"method": "setWidget", "widgetKey": "w"},
        {"method": "setTitle", "title": "t"},
        {"method": "set_editor_text", "text": "e"},
        {"method": "set_editor_text", "text": "p"},
    ]


@pytest.mark.parametrize(
    ("ui", "error"),
    [
        (Wire().dialogs, "Theme switching not supported in RPC mode"),
        (Dialogs(None), "UI not available"),
    ],
)
async def test_what_needs_a_terminal_is_answered_with_a_constant(ui: Any, error: str) -> None:
    for name in ("working_message", "working_visible", "footer", "header", "tools_expanded"):
        assert getattr(ui, f"set_{name}")(True) is None
    assert await ui.custom(lambda: {}) is None
    assert (ui.get_editor_text(), ui.get_tools_expanded()) == ("", False)
    assert (ui.get_all_themes(), ui.get_theme("dark")) == ([], None)
    assert ui.set_theme("dark") == {"success": False, "error": error}
    assert ui.on_terminal_input(print)() is None


async def test_with_nobody_there_every_dialog_gives_its_default_at_once() -> None:
    assert [await ask(Dialogs(None)) for ask, _, _ in ASKS] == [default for _, _, default in ASKS]


async def test_other_extensions_hear_of_the_outermost_dialog(tmp_path: Path) -> None:
    source = """
def extension(api):
    seen = []
    @api.on("ui_prompt_start")
    async def start(event, ctx):
        seen.append(f"start {event.kind} {event.title}")
        await ctx.ui.input("inner")
    @api.on("ui_prompt_end")
    async def end(event, ctx):
        seen.append(f"end {event.kind}")
        api.set_session_name("; ".join(seen))
    @api.command("ask")
    async def ask(args, ctx): await ctx.ui.select("Outer", ["a"])
"""
    bench = Bench(tmp_path)
    await bench.load(source)
    called = bench.extensions.find_command("/ask")
    assert called is not None
    await bench.extensions.run_command(called)
    assert bench.host.session.name == "start select Outer; end select"
