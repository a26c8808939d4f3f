"""AWS's own library reads what we read, signs what we sign, and sends what we send."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ludolf.ai.access import Access
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Image, Text, Thinking, ToolCall, UserMessage
from ludolf.ai.provider import Provider, ToolSpec
from ludolf.ai.providers.bedrock.provider import FrameParser, make
from tests.anthropic_wire import ask, assistant, result, user
from tests.bedrock_wire import EVENT_STREAM, RICH, model
from tests.loopback import Asked, Canned, Loopback

pytest.importorskip("botocore")

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "session-token",
    "AWS_REGION": "eu-west-3",
}
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


def client(url: str) -> Any:
    from botocore.config import Config  # type: ignore[import-untyped]  # it has none
    from botocore.session import Session  # type: ignore[import-untyped]  # it has none

    return Session().create_client(
        "bedrock-runtime",
        region_name=KEYS["AWS_REGION"],
        endpoint_url=url,
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=KEYS["AWS_SESSION_TOKEN"],
        config=Config(retries={"max_attempts": 0}),
    )


def resigned(url: str, asked: Asked) -> str:
    """The signature that botocore computes for a request that has arrived."""
    from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # it has none
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # it has none
    from botocore.credentials import Credentials  # type: ignore[import-untyped]  # it has none

    class AtTheSameTime(SigV4Auth):  # type: ignore[misc]  # botocore has no types
        def _modify_request_before_signing(self, request: Any) -> None:
            request.context["timestamp"] = asked.headers["x-amz-date"]
            super()._modify_request_before_signing(request)

    proof = asked.headers["authorization"]
    names = proof.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    covered = {name: asked.headers[name] for name in names if name != "x-amz-date"}
    request = AWSRequest("POST", url + asked.path, data=asked.body, headers=covered)
    keys = [KEYS[name] for name in list(KEYS)[:3]]
    AtTheSameTime(Credentials(*keys), "bedrock", KEYS["AWS_REGION"]).add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize(
    "model_id",
    [
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:eu-west-3:123456789012:application-inference-profile/abc",
    ],
)
async def test_a_signature_holds_for_the_request_that_arrives(
    provider: Provider, model_id: str
) -> None:
    with Loopback(Canned(headers=EVENT_STREAM, chunks=[RICH])) as server:
        access = Access(base_url=server.url, environment=KEYS)
        told = await ask(provider, server, model=model(id=model_id), access=access)
    assert told.message.error_message is None
    (asked,) = server.requests
    assert asked.headers["authorization"] == resigned(server.url, asked)
    assert asked.headers["x-amz-security-token"] == "session-token"
    assert "content-type;host;x-amz-date;x-amz-security-token" in asked.headers["authorization"]


async def test_a_signature_covers_what_a_watcher_made_of_the_request() -> None:
    class Meddler:
        async def sending(
            self, body: bytes, headers: dict[str, str]
        ) -> tuple[bytes, dict[str, str]]:
            return b'{"messages":[]}', headers

        async def answered(self, status: int, headers: Any) -> None:
            return

    transport = Transport({})
    transport.watcher = Meddler()
    with Loopback(Canned(headers=EVENT_STREAM, chunks=[RICH])) as server:
        access = Access(base_url=server.url, environment=KEYS)
        await ask(make(transport), server, model=model(), access=access)
    await transport.close()
    (asked,) = server.requests
    assert asked.body == b'{"messages":[]}'
    assert asked.headers["authorization"] == resigned(server.url, asked)


def test_frames_are_split_where_botocore_splits_them() -> None:
    from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped]  # it has none

    buffer = EventStreamBuffer()
    buffer.add_data(RICH)
    theirs = [(message.headers, message.payload) for message in buffer]
    ours = [(frame.headers, frame.payload) for frame in FrameParser().feed(RICH)]
    assert ours == theirs
    assert len(ours) > 15


async def test_an_answer_is_read_as_botocore_reads_it(provider: Provider) -> None:
    with Loopback(Canned(headers=EVENT_STREAM, chunks=[RICH])) as server:
        told = await ask(provider, server, model=model())
        reply = client(server.url).converse_stream(
            modelId=model().id, messages=[{"role": "user", "content": [{"text": "hello"}]}]
        )
        events = list(reply["stream"])
    deltas = [
        event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event
    ]
    thoughts = [piece["reasoningContent"] for piece in deltas if "reasoningContent" in piece]
    shown, hidden = (block for block in told.message.content if isinstance(block, Thinking))
    assert shown.thinking == "".join(piece.get("text", "") for piece in thoughts)
    assert shown.thinking_signature == "".join(piece.get("signature", "") for piece in thoughts)
    assert [piece["redactedContent"] for piece in thoughts if "redactedContent" in piece] == [
        b"\x00\x01\x02"
    ]
    assert hidden.thinking_signature == "AAEC"
    (text,) = (block.text for block in told.message.content if isinstance(block, Text))
    assert text == "".join(piece.get("text", "") for piece in deltas)
    starts = [
        event["contentBlockStart"]["start"] for event in events if "contentBlockStart" in event
    ]
    assert [(call.id, call.name) for call in told.message.tool_calls] == [
        (start["toolUse"]["toolUseId"], start["toolUse"]["name"]) for start in starts
    ]
    inputs = "".join(piece["toolUse"]["input"] for piece in deltas if "toolUse" in piece)
    assert told.message.tool_calls[0].arguments == json.loads(inputs)
    usage = next(event["metadata"]["usage"] for event in events if "metadata" in event)
    assert told.message.usage.total_tokens == usage["totalTokens"]
    assert told.message.usage.cache_write_1h == usage["cacheDetails"][0]["inputTokens"]
    (stop,) = (event["messageStop"]["stopReason"] for event in events if "messageStop" in event)
    assert told.message.raw_stop_reason == stop


async def test_botocore_accepts_and_sends_the_same_request(provider: Provider) -> None:
    """Its own check of parameters, against AWS's description of the API, finds nothing wrong."""
    said = assistant(
        Thinking(thinking="hm", thinking_signature="sig"),
        Thinking(thinking="[Reasoning redacted]", thinking_signature="AAEC", redacted=True),
        Text(text="ok"),
        ToolCall(id="a", name="read", arguments={"path": "x"}),
    ).replace(api="bedrock-converse-stream", provider="amazon-bedrock", model=model().id)
    picture = Image(data="QUJD", mime_type="image/png")
    history = (
        UserMessage(content=(Text(text="look"), picture), timestamp=1),
        said,
        result("a", Text(text="one"), picture),
        user("go on"),
    )
    with Loopback(Canned(headers=EVENT_STREAM, chunks=[RICH])) as server:
        access = Access(base_url=server.url, environment=KEYS)
        await ask(
            provider,
            server,
            model=model(),
            access=access,
            messages=history,
            tools=(READ,),
            thinking="low",
            cache="long",
        )
        ours = server.requests[0]
        list(client(server.url).converse_stream(modelId=model().id, **_native(ours.json))["stream"])
        theirs = server.requests[1]
    assert ours.json == theirs.json
    assert ours.path == theirs.path
    assert ours.headers["content-type"] == theirs.headers["content-type"]


def _native(value: Any) -> Any:
    """The same request in Python's terms: what is base64 on the wire is bytes."""
    from base64 import b64decode

    if isinstance(value, list):
        return [_native(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: b64decode(item) if name in ("bytes", "redactedContent") else _native(item)
        for name, item in value.items()
    }
