"""Questions to the user: their clock, which of them are open, and answers that fit."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from ludolf.agent.scope import Tasks
from ludolf.agent.tool import ToolContext, ToolFailure
from ludolf.base import CommandError
from ludolf.engine.host.approvals import APPROVE
from ludolf.engine.host.host_tools import Definition
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest, fits
from tests.loop.laws import Record
from tests.loop.stage import Stage, call, calls, say, stage, texts

QUICK = {"approval": {"mode": "always", "timeoutMs": 1}}
ALWAYS = {"approval": {"mode": "always"}}
FORM = {
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


class _Asking:
    """An extension with the command `/ask`, which shows a dialog for a millisecond."""

    def __init__(self) -> None:
        self.answers: list[str | None] = []

    def __call__(self, api: Any) -> None:
        api.command("ask")(self._ask)

    async def _ask(self, args: str, ctx: Any) -> None:
        self.answers.append(await ctx.ui.input("Name?", timeout=1))


@asynccontextmanager
async def _asking(root: Path, *replies: Any, **about: Any) -> AsyncIterator[tuple[Stage, _Asking]]:
    """A stage whose host shows dialogs, with the clock stopped."""
    asking = _Asking()
    options = {"factories": (asking,)}
    async with stage(root, *replies, options=options, lawful=False, **about) as s:
        await s.engine.start("rpc", s.server.ask)
        s.engine.conversation.answer_clock.stop()
        yield s, asking


async def _dialog(s: Stage, title: str) -> Record:
    return await s.until(lambda one: str(one.get("title", "")).startswith(title))


async def _late_tool(s: Stage) -> None:
    """Wait until a call of a host tool has got no result in a millisecond."""

    async def report(output: Any) -> None: ...

    tool = Definition(name="peek", label="", description="", parameters={}, timeout_ms=1)
    with pytest.raises(ToolFailure, match=r'"peek" gave no result in 0\.001 s'):
        ctx = ToolContext(call_id="c", cwd=s.root, report=report)
        await s.engine.own_host.tools.run(tool, {}, ctx)


def _cancelled(s: Stage) -> list[str]:
    shown = s.of_type("extension_ui_request")
    return [one["targetId"] for one in shown if one["method"] == "cancel"]


async def test_a_stopped_clock_holds_dialogs_but_not_host_tools(tmp_path: Path) -> None:
    replies = (calls(call("read", "c1", path="a"), call("read", "c2", path="b")), say("Done."))
    async with _asking(tmp_path, *replies, settings=QUICK) as (s, asking):
        clock = s.engine.conversation.answer_clock
        await s.data("prompt", message="Go")
        approval = await _dialog(s, "Allow read: a")
        s.send("prompt", message="/ask")
        name = await _dialog(s, "Name?")
        await _late_tool(s)
        s.send("extension_ui_response", id=name["id"], value="Ada")
        s.send("extension_ui_response", id=approval["id"], value=APPROVE)
        later = await _dialog(s, "Allow read: b")
        await _late_tool(s)
        assert _cancelled(s) == []
        clock.start()
        await s.settled()
        assert _cancelled(s) == [later["id"]]
    assert asking.answers == ["Ada"]
    assert [text[:18] for text in texts(s.frames, "toolResult")][1] == "Not run: this call"


async def test_an_engine_lists_the_dialogs_that_wait_for_an_answer(tmp_path: Path) -> None:
    replies = (calls(call("read", "c1", path="a")), say("Done."))
    async with _asking(tmp_path, *replies, settings=ALWAYS) as (s, _):
        assert s.engine.open_dialogs() == ()
        tasks = Tasks()
        form = tasks.start(s.engine.mcp.questions.answer("lab", "elicitation/create", FORM))
        login = tasks.start(s.engine.logins.login("openai", "api-key", None))
        await s.data("prompt", message="Go")
        s.send("prompt", message="/ask")
        titles = ["Name?", "Allow read: a", "lab: Which?", "API key for"]
        shown = [await _dialog(s, title) for title in titles]
        assert {one.id for one in s.engine.open_dialogs()} == {one["id"] for one in shown}
        for one in shown:
            s.send("extension_ui_response", id=one["id"], cancelled=True)
            # It is answered from now on, though the code that asked has not run yet.
            assert one["id"] not in {each.id for each in s.engine.open_dialogs()}
        await s.settled()
        assert await form == {"action": "cancel"}
        with pytest.raises(CommandError, match="Login cancelled"):
            await login


class _Forms:
    """A host that fills in every form at once."""

    async def fill_form(self, message: str, schema: Mapping[str, Any]) -> tuple[str, Any]:
        return "accept", {"name": message}

    async def visit_address(self, message: str, url: str) -> None: ...


async def test_forms_of_the_host_are_used_for_servers_that_come_later(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        s.engine.forms = _Forms()
        await s.engine.start("acp", s.server.ask)
        await s.engine.reload()
        answer = await s.engine.mcp.questions.answer("lab", "elicitation/create", FORM)
    assert answer == {"action": "accept", "content": {"name": "lab asks: Which?"}}


@pytest.mark.parametrize(
    ("method", "answer", "expected"),
    [
        ("select", {"value": "a"}, True),
        ("select", {"value": "c"}, False),
        ("select", {"value": ["a"]}, False),
        ("select", {}, False),
        ("confirm", {"confirmed": False}, True),
        ("confirm", {"confirmed": 1}, False),
        ("confirm", {"value": "yes"}, False),
        ("input", {"value": ""}, True),
        ("input", {"value": 3}, False),
        ("editor", {"value": "text"}, True),
        ("editor", {"confirmed": True}, False),
        ("notify", {"value": "a"}, False),
        ("select", {"cancelled": True, "value": 3}, True),
    ],
)
def test_an_answer_fits_if_the_dialog_offers_it(
    method: Any, answer: dict[str, Any], expected: bool
) -> None:
    request = UiRequest(id="1", method=method, title="Pick", options=("a", "b"))
    assert fits(request, convert({"id": "1", **answer}, UiAnswer)) is expected
