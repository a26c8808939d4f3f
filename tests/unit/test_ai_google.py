"""Google's API over a real connection: what is sent, what an answer becomes, how failures read."""

import asyncio
import json
import os
import threading
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft, StreamEvent
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import ModelAnswer, Request, ToolSpec
from ludolf.ai.providers.google.provider import GoogleRequestBuilder, make, thinking_config
from ludolf.ai.stream import respond
from tests.loopback import JSON_BODY, Canned, Loopback

READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {}})
USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}


def model(**changes: Any) -> Model:
    plain = Model(
        id="gem-model",
        name="Gem",
        api="google-generative-ai",
        provider="google",
        base_url="http://127.0.0.1:1/v1beta",
        reasoning=True,
        input=("text", "image"),
        cost=ModelCost(input=1, output=10, cache_read=0.5),
        context_window=1_000_000,
        max_tokens=65_536,
    )
    return structs.replace(plain, **changes)


def user(*parts: Text | Image) -> UserMessage:
    return UserMessage(content=parts or (Text(text="Hi"),), timestamp=1)


def assistant(*blocks: Block, by: str = "gem-model") -> AssistantMessage:
    return AssistantMessage(
        content=blocks,
        api="google-generative-ai",
        provider="google",
        model=by,
        usage=NO_USAGE,
        stop_reason="toolUse",
        timestamp=2,
    )


def result(call_id: str, *parts: Text | Image, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="read", content=parts, is_error=is_error, timestamp=3
    )


def request(*messages: Message, **changes: Any) -> Request:
    plain = Request(
        environ=os.environ,
        provider=make(Transport({})),
        model=model(),
        access=Access(key="secret"),
        system="Be brief.",
        messages=messages or (user(),),
    )
    return structs.replace(plain, **changes)


def chunk(*parts: dict[str, Any], stop: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {"candidates": [candidate], "usageMetadata": USAGE, "responseId": "r1", **more}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: %b\r\n\r\n" % msgspec.json.encode(event) for event in events)


def ask(asked: Request, *replies: Canned) -> tuple[Loopback, ModelAnswer, list[StreamEvent]]:
    told: list[StreamEvent] = []

    async def take(events: Iterable[StreamEvent]) -> None:
        told.extend(events)

    async def run(url: str) -> ModelAnswer:
        transport = Transport({})
        access = structs.replace(asked.access, base_url=f"{url}/v1beta")
        here = structs.replace(asked, provider=make(transport), access=access)
        try:
            return await respond(here, Draft(here.model), take)
        finally:
            await transport.close()

    with Loopback(*replies) as server:
        return server, asyncio.run(run(server.url)), told


def answered(*events: Any) -> AssistantMessage:
    return ask(request(), Canned(chunks=[sse(*events)]))[1].message


def contents(*messages: Message, by: Model | None = None) -> Any:
    asked = request(*messages, model=by or model())
    return json.loads(GoogleRequestBuilder().build(asked))["contents"]


# ---------------------------------------------------------------- the request


def test_a_request_goes_to_the_models_address_with_the_key_in_a_header() -> None:
    reply = Canned(chunks=[sse(chunk({"text": "Yes"}, stop="STOP"))])
    asked = request(tools=(READ,), thinking="medium")
    server, _, _ = ask(asked, reply)
    sent = server.requests[0]
    assert sent.path == "/v1beta/models/gem-model:streamGenerateContent?alt=sse"
    assert sent.headers["x-goog-api-key"] == "secret"
    assert sent.headers["user-agent"].startswith("ludolf/")
    assert sent.json == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read",
                        "description": "Reads a file.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "generationConfig": {
            "maxOutputTokens": 65_536,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},
        },
    }


def test_without_a_key_nothing_is_sent() -> None:
    server, answer, _ = ask(request(access=Access()), Canned())
    assert answer.message.error_message == "No API key for provider: google"
    assert answer.kind == "auth"
    assert server.requests == []


def test_a_configured_authorization_header_stands_in_for_the_key() -> None:
    access = Access(headers={"Authorization": "Bearer t", "X-Extra": "1"})
    reply = Canned(chunks=[sse(chunk({"text": "Yes"}, stop="STOP"))])
    server, answer, _ = ask(request(access=access), reply)
    assert answer.message.stop_reason == "stop"
    assert server.requests[0].headers["authorization"] == "Bearer t"
    assert server.requests[0].headers["x-extra"] == "1"
    assert "x-goog-api-key" not in server.requests[0].headers


def test_an_answer_of_the_same_model_goes_back_with_its_signatures() -> None:
    said = assistant(
        Thinking(thinking="Hm.", thinking_signature="c2ln"),
        Text(text="Look:", text_signature="dGV4"),
        ToolCall(id="c1", name="read", arguments={"path": "a"}, thought_signature="Y2Fs"),
        Text(text=""),
    )
    assert contents(user(), said, result("c1", Text(text="file a")))[1:] == [
        {
            "role": "model",
            "parts": [
                {"thought": True, "text": "Hm.", "thoughtSignature": "c2ln"},
                {"text": "Look:", "thoughtSignature": "dGV4"},
                {
                    "functionCall": {"name": "read", "args": {"path": "a"}},
                    "thoughtSignature": "Y2Fs",
                },
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "read", "response": {"output": "file a"}}}],
        },
    ]


def test_a_signature_that_is_no_base64_is_left_out() -> None:
    said = assistant(Text(text="Hi", text_signature="not base64!"))
    assert contents(user(), said)[1]["parts"] == [{"text": "Hi"}]


def test_an_answer_of_another_model_becomes_plain_text_and_calls() -> None:
    said = assistant(
        Thinking(thinking="Hm.", thinking_signature="c2ln"),
        ToolCall(id="c1", name="read", arguments={}, thought_signature="Y2Fs"),
        by="other",
    )
    parts = contents(user(), said, result("c1", Text(text="x")))[1]["parts"]
    assert parts == [{"text": "Hm."}, {"functionCall": {"name": "read", "args": {}}}]


def test_results_of_one_turn_share_a_message_and_failures_are_errors() -> None:
    said = assistant(
        ToolCall(id="c1", name="read", arguments={}), ToolCall(id="c2", name="read", arguments={})
    )
    turns = contents(
        user(), said, result("c1", Text(text="one")), result("c2", Text(text="no"), is_error=True)
    )
    assert len(turns) == 3
    assert [part["functionResponse"]["response"] for part in turns[2]["parts"]] == [
        {"output": "one"},
        {"error": "no"},
    ]


def test_gemini_3_gets_ids_pictures_inside_results_and_a_pass_for_unsigned_calls() -> None:
    said = assistant(ToolCall(id="call|1", name="read", arguments={}), by="other")
    picture = Image(data="AAAA", mime_type="image/png")
    newer = model(id="gemini-3-flash-preview")
    turns = contents(user(), said, result("call|1", picture), by=newer)
    call = turns[1]["parts"][0]
    assert call["functionCall"]["id"] == "call_1"
    assert call["thoughtSignature"] == "skip_thought_signature_validator"
    assert turns[2]["parts"] == [
        {
            "functionResponse": {
                "name": "read",
                "response": {"output": "(see attached image)"},
                "id": "call_1",
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
            }
        }
    ]
    assert len(turns) == 3


def test_older_models_get_pictures_of_results_in_a_turn_of_their_own() -> None:
    said = assistant(
        ToolCall(id="c1", name="read", arguments={}), ToolCall(id="c2", name="read", arguments={})
    )
    picture = Image(data="AAAA", mime_type="image/png")
    older = model(id="gemini-2.5-flash")
    turns = contents(user(), said, result("c1", picture), result("c2", Text(text="two")), by=older)
    assert len(turns[2]["parts"]) == 2
    assert turns[3] == {
        "role": "user",
        "parts": [
            {"text": "Tool result image:"},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        ],
    }


def test_models_of_other_names_get_pictures_inside_results() -> None:
    said = assistant(ToolCall(id="c1", name="read", arguments={}))
    picture = Image(data="AAAA", mime_type="image/png")
    turns = contents(user(), said, result("c1", picture))
    assert len(turns) == 3
    assert turns[2]["parts"][0]["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    ]


def test_pictures_of_the_user_are_sent_beside_the_text() -> None:
    picture = Image(data="AAAA", mime_type="image/png")
    assert contents(user(Text(text="See"), picture))[0]["parts"] == [
        {"text": "See"},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
    ]


def test_the_form_of_a_message_follows_a_change_of_the_model() -> None:
    bodies = GoogleRequestBuilder()
    said = assistant(ToolCall(id="c1", name="read", arguments={}), by="other")
    messages = (user(), said, result("c1", Text(text="x")))
    older = json.loads(bodies.build(request(*messages)))
    newer = json.loads(bodies.build(request(*messages, model=model(id="gemini-3-pro"))))
    assert "id" not in older["contents"][1]["parts"][0]["functionCall"]
    assert newer["contents"][1]["parts"][0]["functionCall"]["id"] == "c1"


@pytest.mark.parametrize(
    ("model_id", "level", "expected"),
    [
        ("gem-model", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "xhigh", {"includeThoughts": True, "thinkingBudget": 32_768}),
        ("gemini-2.5-flash", "minimal", {"includeThoughts": True, "thinkingBudget": 128}),
        ("gemini-2.5-flash-lite", "minimal", {"includeThoughts": True, "thinkingBudget": 512}),
        ("gemini-3-pro-preview", "off", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-flash-latest", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemma-4-31b-it", "low", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
    ],
)
def test_each_family_is_told_in_its_own_way_how_much_to_think(
    model_id: str, level: ThinkingLevel, expected: dict[str, Any]
) -> None:
    assert thinking_config(model(id=model_id), level, {}) == expected


def test_a_budget_of_the_user_goes_before_the_usual_one() -> None:
    config = thinking_config(model(id="gemini-2.5-pro"), "low", {"low": 4_000})
    assert config["thinkingBudget"] == 4_000


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    body = json.loads(
        GoogleRequestBuilder().build(request(model=model(reasoning=False), thinking="high"))
    )
    assert "thinkingConfig" not in body["generationConfig"]


# ---------------------------------------------------------------- the answer


def test_thinking_and_text_arrive_as_blocks_of_their_own() -> None:
    counted = {**USAGE, "cachedContentTokenCount": 40, "thoughtsTokenCount": 7}
    _, answer, told = ask(
        request(),
        Canned(
            chunks=[
                sse(chunk({"text": "Some ", "thought": True, "thoughtSignature": "c2ln"})),
                sse(chunk({"text": "thought", "thought": True}), chunk({"text": "Then"})),
                sse(chunk({"text": ""}, stop="STOP", usageMetadata=counted)),
            ]
        ),
    )
    thought = Thinking(thinking="Some thought", thinking_signature="c2ln")
    assert told == [
        BlockStart("thinking", 0),
        BlockDelta("thinking", 0, "Some ", b"Some "),
        BlockDelta("thinking", 0, "thought", b"thought"),
        BlockEnd("thinking", 0, thought),
        BlockStart("text", 1),
        BlockDelta("text", 1, "Then", b"Then"),
        BlockDelta("text", 1, "", b""),
        BlockEnd("text", 1, Text(text="Then")),
    ]
    message = answer.message
    assert message.content == (thought, Text(text="Then"))
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "STOP")
    assert (message.response_id, message.response_model) == ("r1", None)
    usage = message.usage
    assert (usage.input, usage.cache_read, usage.output) == (60, 40, 27)
    assert (usage.reasoning, usage.total_tokens) == (7, 120)
    assert usage.cost.output == pytest.approx(27e-5)


def test_a_call_comes_whole_and_ends_the_answer_with_tool_use() -> None:
    call = {"functionCall": {"name": "read", "args": {"path": "a.txt"}, "id": "g4"}}
    _, answer, told = ask(
        request(),
        Canned(
            chunks=[
                sse(chunk({"text": "Four."}), chunk({**call, "thoughtSignature": "c2lnVA=="})),
                sse(chunk({"text": ""}, stop="STOP")),
            ]
        ),
    )
    whole = ToolCall(
        id="g4", name="read", arguments={"path": "a.txt"}, thought_signature="c2lnVA=="
    )
    assert told[3:6] == [
        BlockStart("toolcall", 1, "g4", "read"),
        BlockDelta("toolcall", 1, '{"path":"a.txt"}', b'{\\"path\\":\\"a.txt\\"}'),
        BlockEnd("toolcall", 1, whole),
    ]
    assert answer.message.stop_reason == "toolUse"
    assert answer.message.content == (Text(text="Four."), whole, Text(text=""))


def test_missing_and_repeated_call_ids_are_replaced_by_distinct_ones() -> None:
    calls: list[dict[str, Any]] = [{"functionCall": {"name": "read", "id": "x"}}] * 2
    calls.append({"functionCall": {"name": "read"}})
    ids = [call.id for call in answered(chunk(*calls, stop="STOP")).tool_calls]
    assert ids[0] == "x"
    assert len(set(ids)) == 3
    assert all(new.startswith("read_") for new in ids[1:])


def test_the_token_limit_ends_the_answer_with_length() -> None:
    message = answered(chunk({"text": "Cut"}, stop="MAX_TOKENS"))
    assert (message.stop_reason, message.raw_stop_reason) == ("length", "MAX_TOKENS")


def test_a_refusal_keeps_the_text_and_names_the_reason() -> None:
    _, answer, _ = ask(request(), Canned(chunks=[sse(chunk({"text": "I"}, stop="SAFETY"))]))
    assert answer.message.error_message == "Provider stopped with: SAFETY"
    assert (answer.kind, answer.message.raw_stop_reason) == ("refused", "SAFETY")
    assert answer.message.content == (Text(text="I"),)


def test_a_blocked_prompt_is_told_with_its_reason() -> None:
    _, answer, _ = ask(
        request(), Canned(chunks=[sse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})])
    )
    assert answer.message.error_message == "Provider stopped with: PROHIBITED_CONTENT"
    assert answer.kind == "refused"


def test_lone_surrogates_in_an_answer_do_not_stop_it() -> None:
    raw = (
        b'data: {"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]},"finishReason":"STOP"}]}'
    )
    _, answer, _ = ask(request(), Canned(chunks=[raw + b"\n\n"]))
    assert answer.message.content == (Text(text="a\ud83d"),)


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (503, "The model is overloaded. Please try again later.", "overloaded"),
        (429, "Resource has been exhausted (e.g. check quota).", "rate_limit"),
        (429, "You exceeded your current quota, please check your plan.", "bad_request"),
        (400, "API key not valid. Please pass a valid API key.", "auth"),
        (400, "The input token count (9) exceeds the maximum number of tokens (5).", "overflow"),
        (400, "Request contains an invalid argument.", "bad_request"),
    ],
)
def test_a_failure_is_told_with_googles_error_object(status: int, words: str, kind: str) -> None:
    body = {"error": {"code": status, "message": words, "status": "SOME"}}
    reply = Canned(status=status, headers=JSON_BODY, chunks=[json.dumps(body).encode()])
    _, answer, told = ask(request(), reply)
    assert told == []
    assert answer.message.error_message == json.dumps(body, separators=(",", ":"))
    assert (answer.message.stop_reason, answer.kind) == ("error", kind)


def test_a_failure_without_an_error_object_still_names_its_status() -> None:
    assert make(Transport({})).describe(502, "<html>Bad gateway") == (
        '{"error":{"message":"<html>Bad gateway","code":502}}'
    )


def test_a_stream_without_a_reason_to_end_is_a_failure_worth_a_retry() -> None:
    _, answer, told = ask(request(), Canned(chunks=[sse(chunk({"text": "Half"}))]))
    assert told[-1] == BlockEnd("text", 0, Text(text="Half"))
    assert answer.message.error_message == "Google stream ended without a finish reason"
    assert answer.kind == "network"
    assert answer.message.content == (Text(text="Half"),)


def test_a_broken_connection_keeps_what_has_arrived() -> None:
    _, answer, _ = ask(request(), Canned(chunks=[sse(chunk({"text": "Half"}))], cut=True))
    assert answer.message.content == (Text(text="Half"),)
    assert answer.kind == "network"


def test_an_error_inside_the_stream_is_retried_unless_that_is_in_vain() -> None:
    busy = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    _, answer, _ = ask(request(), Canned(chunks=[sse(chunk({"text": "Half"}), busy)]))
    assert answer.message.error_message == "Google stream ended without a finish reason"
    assert answer.kind == "overloaded"
    wrong = {"error": {"code": 400, "message": "Bad argument.", "status": "INVALID_ARGUMENT"}}
    _, answer, _ = ask(request(), Canned(chunks=[sse(wrong)]))
    assert answer.message.error_message == json.dumps(wrong, separators=(",", ":"))
    assert answer.kind == "bad_request"


@pytest.mark.parametrize("data", [b"{no json", b'{"candidates":7}', b"[1]"])
def test_a_broken_event_never_passes_for_a_whole_answer(data: bytes) -> None:
    body = sse(chunk({"text": "Half"})) + b"data: " + data + b"\n\n"
    whole = sse(chunk({"text": "Rest"}, stop="STOP"))
    _, answer, _ = ask(request(), Canned(chunks=[body, whole]))
    assert answer.message.stop_reason == "error"
    assert (answer.message.error_message or "").startswith("Broken event from Google: ")
    assert answer.kind == "garbled"


def test_an_aborted_answer_closes_its_connection_at_once() -> None:
    gate = threading.Event()
    first = asyncio.Event()

    async def take(events: Iterable[StreamEvent]) -> None:
        if list(events):
            first.set()

    async def run(url: str) -> None:
        transport = Transport({})
        asked = request(access=Access(key="k", base_url=url), provider=make(transport))
        async with asyncio.timeout(30):
            async with asyncio.TaskGroup() as group:
                task = group.create_task(respond(asked, Draft(asked.model), take))
                await first.wait()
                task.cancel()
        assert task.cancelled()
        await transport.close()

    with Loopback(Canned(chunks=[sse(chunk({"text": "Half"}))], hold=gate)) as server:
        try:
            asyncio.run(run(server.url))
        finally:
            gate.set()
