"""Questions of MCP servers: what the host is shown, what servers get, what it costs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.scope import Tasks
from ludolf.ai.builtin.scripted import ScriptedReply
from ludolf.ai.messages import UserMessage
from ludolf.engine.feature import Feature, Send
from ludolf.engine.features.mcp.asking import SamplingMode, ServerQuestions
from ludolf.engine.features.mcp.forms import DECLINE, DONE, LEAVE_EMPTY
from ludolf.mcp.wire import Json, Refusal
from ludolf.protocol.commands import UiAnswer
from tests.loop.laws import Record
from tests.loop.stage import Stage, fails, say, stage, used

FORM = "elicitation/create"
SAMPLE = "sampling/createMessage"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)


class Asking(Feature):
    """The hooks that questions need."""

    def __init__(self, questions: ServerQuestions) -> None:
        self.questions = questions

    def connect(self, send: Send | None) -> None:
        self.questions.connect(send)

    def answer_dialog(self, answer: UiAnswer) -> None:
        self.questions.answer_dialog(answer)

    def abort(self) -> None:
        self.questions.abort()

    def disconnect(self) -> None:
        self.questions.disconnect()


class Play:
    """A stage on which the server `lab` asks, and a host whose user answers."""

    def __init__(self, s: Stage, mode: SamplingMode) -> None:
        self.stage = s
        self.questions = ServerQuestions(s.engine.requests, _always(mode))
        s.engine.features.add(Asking(self.questions))
        self.questions.connect(s.server.ask)
        self.tasks = Tasks()
        self._seen = 0

    def ask(self, method: str, params: Json) -> "asyncio.Task[Json]":
        return self.tasks.start(self.questions.answer("lab", method, params))

    async def shown(self) -> Record:
        """The next request to the host."""
        frame = await self.stage.until("extension_ui_request", self._seen)
        self._seen = self.stage.frames.index(frame, self._seen) + 1
        return {key: value for key, value in frame.items() if key != "type"}

    async def reply(self, **answer: Any) -> Record:
        """Answer the next dialog; returns what it showed."""
        request = await self.shown()
        self.stage.send("extension_ui_response", **answer, id=request.pop("id"))
        return request


@asynccontextmanager
async def play(
    root: Path, *replies: ScriptedReply, mode: SamplingMode = "off", **about: Any
) -> AsyncIterator[Play]:
    async with stage(root, *replies, lawful=False, **about) as s:
        made = Play(s, mode)
        try:
            yield made
        finally:
            await made.tasks.close()


def _form(*required: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"message": "Which\u202e colour?", "requestedSchema": schema}


# ---------------------------------------------------------------- forms


async def test_a_form_is_asked_field_by_field(tmp_path: Path) -> None:
    params = _form(
        "colour",
        "count",
        colour={"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        loud={"type": "boolean", "title": "Loud"},
        count={"type": "integer", "description": "How many", "default": 3},
        tags={"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 2, "maxItems": 2},
        extra={"type": "string", "enum": ["x"]},
    )
    async with play(tmp_path) as p:
        asked = p.ask(FORM, params)
        shown = [
            await p.reply(value="Green"),
            await p.reply(confirmed=False),
            await p.reply(value=""),
            await p.reply(value="c"),
            await p.reply(value="a"),
            await p.reply(value=LEAVE_EMPTY),
        ]
        answer = await asked
    assert answer == {
        "action": "accept",
        "content": {"colour": "g", "loud": False, "count": 3, "tags": ["c", "a"]},
    }
    message = "Which colour?"
    tags = f"lab (4 of 5): {message} - tags"
    assert shown == [
        {
            "method": "select",
            "title": f"lab (1 of 5): {message} - colour",
            "options": ["Red", "Green", DECLINE],
        },
        {"method": "confirm", "title": "lab (2 of 5): Loud", "message": message},
        {
            "method": "input",
            "title": f"lab (3 of 5): {message} - count: How many",
            "placeholder": "3",
        },
        {"method": "select", "title": tags, "options": ["a", "b", "c", DONE, DECLINE]},
        {"method": "select", "title": f"{tags} (chosen: c)", "options": ["a", "b", DECLINE]},
        {
            "method": "select",
            "title": f"lab (5 of 5): {message} - extra",
            "options": ["x", LEAVE_EMPTY, DECLINE],
        },
    ]


@pytest.mark.parametrize(
    ("shape", "answer", "result"),
    [
        ({"enum": ["r"]}, {"value": DECLINE}, {"action": "decline"}),
        ({"enum": ["r"]}, {"cancelled": True}, {"action": "cancel"}),
        ({"enum": ["r"]}, {"value": "other"}, {"action": "cancel"}),
        ({"enum": ["r"]}, {}, {"action": "cancel"}),
        ({"type": "boolean"}, {"cancelled": True}, {"action": "cancel"}),
        ({"type": "string"}, {"cancelled": True}, {"action": "cancel"}),
        ({"type": "string"}, {"value": 7}, {"action": "cancel"}),
        (None, {"confirmed": True}, {"action": "accept", "content": {}}),
        (None, {"confirmed": False}, {"action": "decline"}),
    ],
)
async def test_the_server_learns_whether_the_user_declined_or_dismissed(
    tmp_path: Path, shape: Any, answer: Any, result: Any
) -> None:
    async with play(tmp_path) as p:
        asked = p.ask(FORM, _form("it", it=shape) if shape else _form())
        await p.reply(**answer)
        assert await asked == result


async def test_an_answer_that_does_not_fit_is_asked_for_once_more(tmp_path: Path) -> None:
    params = _form("n", n={"type": "integer"})
    async with play(tmp_path) as p:
        asked = p.ask(FORM, params)
        await p.reply(value="two")
        again = await p.reply(value="2")
        assert await asked == {"action": "accept", "content": {"n": 2}}
        asked = p.ask(FORM, params)
        await p.reply(value="two")
        await p.reply(value="three")
        assert await asked == {"action": "cancel"}
    assert again["title"] == "lab: Which colour? - n (this must be a whole number)"


async def test_a_multiple_choice_with_a_default_may_be_done_at_once(tmp_path: Path) -> None:
    shape = {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "default": ["b"]}
    async with play(tmp_path) as p:
        asked = p.ask(FORM, _form("it", it=shape))
        request = await p.reply(value=DONE)
        assert await asked == {"action": "accept", "content": {"it": ["b"]}}
    assert request["title"] == "lab: Which colour? - it (default: b)"


async def test_forms_of_several_servers_come_one_after_another(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        first, second = (p.ask(FORM, _form("n", n={"type": kind})) for kind in ("string", "number"))
        request = await p.shown()
        assert p.stage.of_type("extension_ui_request")[1:] == []
        p.stage.send("extension_ui_response", id=request["id"], value="x")
        assert (await first)["content"] == {"n": "x"}
        await p.reply(value="1.5")
        assert (await second)["content"] == {"n": 1.5}


# ---------------------------------------------------------------- addresses


async def test_an_address_is_opened_after_the_user_has_seen_its_host(tmp_path: Path) -> None:
    url = "https://lab.example@evil.example:8443/pay"
    params = {"mode": "url", "message": "Pay\x07 here", "url": url, "elicitationId": "1"}
    async with play(tmp_path) as p:
        asked = p.ask(FORM, params)
        request = await p.reply(confirmed=True)
        opened = await p.shown()
        assert await asked == {"action": "accept"}
        for answer, action in (({"confirmed": False}, "decline"), ({"cancelled": True}, "cancel")):
            asked = p.ask(FORM, params)
            await p.reply(**answer)
            assert await asked == {"action": action}
        assert len([r for r in p.stage.frames if r.get("method") == "open_url"]) == 1
    assert request == {
        "method": "confirm",
        "title": "lab asks to open evil.example:8443",
        "message": f"Pay here\n{url}",
    }
    assert (opened["method"], opened["url"]) == ("open_url", url)


@pytest.mark.parametrize(
    "params",
    [
        {"mode": "url", "url": "file:///etc/passwd"},
        {"mode": "url", "url": "javascript:alert(1)"},
        {"mode": "url", "url": "https://"},
        {"mode": "url", "url": "https://[::1"},
        {"mode": "url", "url": "https://a.org:port/"},
        {"mode": "url", "url": "https://\u0430pple.com/"},
        {"mode": "url", "url": "https://a.org/\nx"},
        {"mode": "url"},
        {"mode": "hologram"},
        {"requestedSchema": {"properties": {"it": {"type": "object"}}}},
    ],
)
async def test_what_cannot_be_asked_is_refused_without_a_dialog(
    tmp_path: Path, params: Any
) -> None:
    async with play(tmp_path) as p:
        with pytest.raises(Refusal) as refused:
            await p.ask(FORM, params)
        assert refused.value.code == -32602
        assert p.stage.of_type("extension_ui_request") == []


# ---------------------------------------------------------------- ends


async def test_an_abort_closes_the_dialog_and_cancels_the_question(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        asked = p.ask(FORM, _form("n", n={"type": "string"}))
        request = await p.shown()
        await p.stage.data("abort")
        closed = await p.shown()
        assert await asked == {"action": "cancel"}
    assert (closed["method"], closed["targetId"]) == ("cancel", request["id"])


async def test_the_end_of_the_last_call_of_a_server_withdraws_its_question(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        with p.questions.calling("lab"):
            with p.questions.calling("other"), p.questions.calling("lab"):
                asked = p.ask(FORM, _form("n", n={"type": "string"}))
                request = await p.shown()
            await p.stage.data("get_state")
            assert len(p.stage.of_type("extension_ui_request")) == 1
        closed = await p.shown()
        assert await asked == {"action": "cancel"}
    assert (closed["method"], closed["targetId"]) == ("cancel", request["id"])


async def test_a_question_whose_task_is_cancelled_is_withdrawn(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        asked = p.ask(FORM, _form("n", n={"type": "string"}))
        request = await p.shown()
        asked.cancel()
        closed = await p.shown()
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert (closed["method"], closed["targetId"]) == ("cancel", request["id"])


async def test_a_host_that_leaves_dismisses_its_dialogs(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        asked = p.ask(FORM, _form("n", n={"type": "string"}))
        await p.shown()
        p.questions.disconnect()
        assert await asked == {"action": "cancel"}
        assert p.questions.capabilities() == {"roots": {}}


async def test_a_host_that_cannot_show_a_dialog_is_not_asked_again(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        p.questions.connect(lambda request: False)
        assert await p.ask(FORM, _form("n", n={"type": "string"})) == {"action": "cancel"}
        assert p.questions.capabilities() == {"roots": {}}


# ---------------------------------------------------------------- capabilities, folders


def _always(mode: SamplingMode) -> Callable[[], SamplingMode]:
    return lambda: mode


async def test_only_what_can_be_served_is_declared(tmp_path: Path) -> None:
    forms: Json = {"elicitation": {"form": {}, "url": {}}}
    cases: tuple[tuple[SamplingMode, Json, Json], ...] = (
        ("off", {}, {}),
        ("ask", {}, {"sampling": {}}),
        ("allow", {"sampling": {}}, {"sampling": {}}),
    )
    async with stage(tmp_path) as s:
        for mode, alone, hosted in cases:
            questions = ServerQuestions(s.engine.requests, _always(mode))
            assert questions.capabilities() == {"roots": {}, **alone}
            questions.connect(s.server.ask)
            assert questions.capabilities() == {"roots": {}, **forms, **hosted}
        questions.connect(None)
        for method in (FORM, "tasks/list", "ping"):
            with pytest.raises(Refusal, match="Method not found") as refused:
                await questions.answer("lab", method, {})
            assert refused.value.code == -32601


async def test_the_working_folder_is_the_only_root(tmp_path: Path) -> None:
    async with play(tmp_path) as p:
        answer = await p.ask("roots/list", {})
    assert answer == {"roots": [{"uri": (tmp_path / "work").as_uri(), "name": "work"}]}


# ---------------------------------------------------------------- sampling


def _sampling(*content: Any, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": one} for one in content]
    return {"messages": messages, "maxTokens": 50, **more}


HELLO = {"type": "text", "text": "Hello\u202e"}


async def test_a_server_asks_the_model_of_the_session_and_the_session_counts_it(
    tmp_path: Path,
) -> None:
    params = _sampling(
        HELLO,
        [HELLO, {"type": "image", "data": PIXEL, "mimeType": "image/png"}],
        systemPrompt="Be brief.",
        maxTokens=1_000_000,
    )
    params["messages"].insert(1, {"role": "assistant", "content": {"type": "text", "text": "Hi"}})
    async with play(tmp_path, say("Sampled", usage=used(7)), mode="allow") as p:
        answer = await p.ask(SAMPLE, params)
        stored = (await p.stage.until("entry_appended"))["entry"]
        (request,) = p.stage.script.requests
        total = (await p.stage.data("get_session_stats"))["tokens"]["total"]
    assert answer == {
        "role": "assistant",
        "content": {"type": "text", "text": "Sampled"},
        "model": "scripted",
        "stopReason": "endTurn",
    }
    assert (request.system, request.max_tokens, request.tools) == ("Be brief.", 4096, ())
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]
    (last,) = (m for m in request.messages[2:] if isinstance(m, UserMessage))
    assert [type(part).__name__ for part in last.parts] == ["Text", "Image"]
    assert (stored["type"], stored["kind"], stored["note"]) == ("usage", "mcp", "lab")
    assert stored["usage"]["totalTokens"] == total == 7


async def test_the_user_is_asked_before_the_model_is(tmp_path: Path) -> None:
    async with play(tmp_path, say("Sampled"), mode="ask") as p:
        for answer in ({"confirmed": False}, {"cancelled": True}):
            asked = p.ask(SAMPLE, _sampling(HELLO))
            request = await p.reply(**answer)
            with pytest.raises(Refusal, match="rejected"):
                await asked
        assert p.stage.script.requests == []
        asked = p.ask(SAMPLE, _sampling(HELLO))
        await p.reply(confirmed=True)
        assert (await asked)["content"]["text"] == "Sampled"
    assert request == {
        "method": "confirm",
        "title": "lab asks to use the model",
        "message": "Hello",
    }


async def test_a_server_may_sample_five_times_for_one_call(tmp_path: Path) -> None:
    async with play(tmp_path, *(say("S"),) * 6, mode="allow") as p:
        with p.questions.calling("lab"):
            for _ in range(5):
                await p.ask(SAMPLE, _sampling(HELLO))
            with pytest.raises(Refusal, match="limit of 5"):
                await p.ask(SAMPLE, _sampling(HELLO))
        with p.questions.calling("lab"):
            await p.ask(SAMPLE, _sampling(HELLO))
        assert len(p.stage.script.requests) == 6


async def test_a_failure_of_the_model_does_not_reveal_its_text(tmp_path: Path) -> None:
    async with play(tmp_path, fails("account 42 is empty"), mode="allow") as p:
        with pytest.raises(Refusal) as refused:
            await p.ask(SAMPLE, _sampling(HELLO))
    assert (refused.value.code, "42" in str(refused.value)) == (-32603, False)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"messages": []},
        {"messages": [None]},
        {"messages": [{"role": "system", "content": HELLO}]},
        _sampling({"type": "audio", "data": "", "mimeType": "audio/wav"}),
        _sampling(HELLO, tools=[{"name": "x"}]),
        _sampling(HELLO, maxTokens=0),
        _sampling(HELLO, maxTokens=float("nan")),
        _sampling(HELLO, maxTokens="many"),
    ],
)
async def test_an_invalid_request_for_a_completion_is_refused(tmp_path: Path, params: Any) -> None:
    async with play(tmp_path, say("Unasked"), mode="allow") as p:
        with pytest.raises(Refusal) as refused:
            await p.ask(SAMPLE, params)
        assert (refused.value.code, p.stage.script.requests) == (-32602, [])


async def test_an_abort_ends_a_completion(tmp_path: Path) -> None:
    async with play(tmp_path, say("slow", delay_ms=600_000), mode="allow") as p:
        asked = p.ask(SAMPLE, _sampling(HELLO))
        await p.stage.asked(1)
        await p.stage.data("abort")
        with pytest.raises(Refusal, match="aborted"):
            await asked
