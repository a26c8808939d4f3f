"""Recorded traffic: what is stored and what never is, and how it is played back."""

import asyncio
import base64
import os
import stat
import sys
import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.ai.access import Access, Patience
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError, retry_after
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Text, UserMessage
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import Request as ModelRequest
from ludolf.ai.record.recording import Recorder
from ludolf.ai.record.recording_file import (
    Exchange,
    RecordedData,
    RecordedRequest,
    RecordedResponse,
    Recording,
    RecordingFile,
    RecordingHeader,
    read_recording,
)
from ludolf.ai.record.replay import Replayer, difference, shape_of
from ludolf.ai.record.scrubbing import REMOVED, Scrubber, harmless_url
from ludolf.ai.registry import _MODULES, Providers
from ludolf.ai.stream import respond
from ludolf.base import ConfigError, dumps
from ludolf.engine.recording_setup import stand_in_for
from tests.loopback import JSON_BODY, Canned, Loopback, nobody

KEY = "sk-test-0123456789"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
PIECES = (b"data: one\n\n", b"data: two\n\nda", b"ta: caf\xc3", b"\xa9\n\n")
MODEL = Model(
    id="m",
    name="M",
    api="openai-completions",
    provider="mine",
    base_url="https://user:swordfish-99@models.test/v1?key=query-secret-1",
    reasoning=False,
    input=("text",),
    cost=ModelCost(),
    context_window=1000,
    max_tokens=100,
)


def _recorder(path: Path, *secrets: str) -> Recorder:
    recorder = Recorder(path, lambda: secrets, pytest.fail, os.environ)
    recorder.begin(MODEL, "low")
    return recorder


async def _events(
    transport: Transport, url: str, body: Any = BODY, headers: dict[str, str] | None = None
) -> list[bytes]:
    """The data of all events of one answer."""
    sent = body if isinstance(body, bytes) else dumps(body)
    async with transport.post(url, headers or {"x-api-key": KEY}, sent) as reply:
        return [data async for found in reply.events() for data in found]


async def _record(path: Path, *replies: Canned) -> str:
    """Ask once for each reply; the address is that of a server which is gone afterwards."""
    recorder = _recorder(path)
    with Loopback(*replies) as server:
        for _ in replies:
            try:
                await _events(recorder, f"{server.url}/v1/chat/completions")
            except ProviderError:
                continue
        await recorder.close()
        return f"{server.url}/v1/chat/completions"


def _asked(number: int, text: str, answer: str, **more: Any) -> Exchange:
    """An exchange of one user text and one event."""
    return Exchange(
        number=number,
        started_at="2026-01-01T00:00:00.000Z",
        request=RecordedRequest(
            method="POST", url="http://models.test/v1/messages", headers={}, **more
        )
        if more
        else RecordedRequest(
            method="POST",
            url="http://models.test/v1/messages",
            headers={},
            body=_body(text),
        ),
        answer=RecordedResponse(
            status=200, headers={}, ms=0, chunks=(RecordedData(text=f"data: {answer}\n\n"),)
        ),
        end="complete",
        end_ms=0,
    )


def _body(text: str, *tools: str) -> dict[str, Any]:
    return {
        "model": "m",
        "tools": [{"name": name, "input_schema": {"name": "x"}} for name in tools],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
    }


def _replayer(*exchanges: Exchange, **how: Any) -> tuple[Replayer, list[str]]:
    told: list[str] = []
    header = RecordingHeader(version=1, ludolf="1", started_at="")
    recording = Recording(path=Path("a.rec"), header=header, models=(), exchanges=exchanges)
    return Replayer(recording, told.append, **how), told


URL = "http://models.test/v1/messages"


# ---------------------------------------------------------------- there and back


async def test_an_answer_is_played_back_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    url = await _record(path, Canned(chunks=PIECES))
    replayer = Replayer(read_recording(path), pytest.fail)
    assert await _events(replayer, url) == [b"one", b"two", "café".encode()]
    (kept,) = read_recording(path).exchanges
    assert kept.end == "complete"
    assert kept.answer is not None
    assert b"".join(chunk.raw for chunk in kept.answer.chunks) == b"".join(PIECES)


async def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    binary = bytes(range(256))
    await _record(tmp_path / "a.rec", Canned(chunks=(binary, b"text")))
    (kept,) = read_recording(tmp_path / "a.rec").exchanges
    assert kept.answer is not None
    assert b"".join(chunk.raw for chunk in kept.answer.chunks) == binary + b"text"


async def test_a_body_that_is_no_json_is_kept(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    with Loopback(Canned()) as server:
        await _events(recorder, server.url, b"\xff" + KEY.encode())
    await recorder.close()
    (kept,) = read_recording(tmp_path / "a.rec").exchanges
    assert kept.request.data is not None
    assert kept.request.data.raw == b"\xff" + REMOVED.encode()


async def test_a_refusal_is_played_back_with_its_body_and_its_wait(tmp_path: Path) -> None:
    head = {**JSON_BODY, "retry-after": "7", "x-request-id": "r1", "set-cookie": "id=abcdefgh"}
    url = await _record(tmp_path / "a.rec", Canned(status=429, headers=head, chunks=(b"bu", b"sy")))
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail)
    async with replayer.post(url, {}, dumps(BODY)) as reply:
        assert (reply.status, await reply.text()) == (429, "busy")
        assert reply.headers.get("Content-Type") == "application/json"
        assert retry_after(reply.headers) == 7
        assert dict(reply.headers)["x-request-id"] == "r1"
        assert "set-cookie" not in reply.headers


async def test_a_wait_until_a_date_is_kept_as_seconds(tmp_path: Path) -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 50))
    await _record(tmp_path / "a.rec", Canned(status=503, headers={"retry-after": date}))
    (kept,) = read_recording(tmp_path / "a.rec").exchanges
    assert kept.answer is not None
    assert 40 < float(kept.answer.headers["retry-after"]) <= 50


async def test_a_broken_connection_breaks_again(tmp_path: Path) -> None:
    url = await _record(tmp_path / "a.rec", Canned(chunks=(b"data: one\n\n",), cut=True))
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail)
    found: list[bytes] = []
    with pytest.raises(ProviderError, match="terminated") as caught:
        async with replayer.post(url, {}, dumps(BODY)) as reply:
            async for events in reply.events():
                found += events
    assert found == [b"one"]
    assert caught.value.kind == "network"
    assert read_recording(tmp_path / "a.rec").exchanges[0].end == "cut"


async def test_a_server_that_is_not_there_is_not_there_again(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    with nobody() as url, pytest.raises(ProviderError) as first:
        await _events(recorder, url)
    await recorder.close()
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail)
    with pytest.raises(ProviderError) as second:
        await _events(replayer, url)
    assert (str(second.value), second.value.kind) == (str(first.value), first.value.kind)
    assert read_recording(tmp_path / "a.rec").exchanges[0].end == "no_answer"


async def test_silence_that_was_not_borne_is_told_again(tmp_path: Path) -> None:
    hold = threading.Event()
    recorder = _recorder(tmp_path / "a.rec")
    with Loopback(Canned(chunks=(b"data: one\n\n",), hold=hold)) as server:
        with pytest.raises(ProviderError, match="timed out"):
            async with recorder.post(
                server.url, {}, dumps(BODY), patience=Patience(first=0.05, between=0.05)
            ) as reply:
                async for events in reply.events():
                    list(events)
        hold.set()
    await recorder.close()
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail)
    with pytest.raises(ProviderError, match="timed out") as caught:
        await _events(replayer, server.url)
    assert caught.value.kind == "timeout"


async def test_an_aborted_exchange_is_kept_as_far_as_it_went_and_waits_for_its_abort(
    tmp_path: Path,
) -> None:
    hold, recorder = threading.Event(), _recorder(tmp_path / "a.rec")
    with Loopback(Canned(chunks=(b"data: one\n\n",), hold=hold)) as server:
        assert await _read_until_stopped(recorder, server.url) == [b"one"]
        hold.set()
    await recorder.close()
    (kept,) = read_recording(tmp_path / "a.rec").exchanges
    assert kept.end == "aborted"
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail)
    assert await _read_until_stopped(replayer, server.url) == [b"one"]


async def _read_until_stopped(transport: Transport, url: str) -> list[bytes]:
    """Read one event, and stop the reading of the next as an abort does."""
    found: list[bytes] = []
    first = asyncio.Event()

    async def read() -> None:
        async with transport.post(url, {}, dumps(BODY)) as reply:
            async for events in reply.events():
                found.extend(events)
                first.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(read())
        await first.wait()
        await asyncio.sleep(0)  # it goes on to the next read
        task.cancel()
    assert task.cancelled()
    return found


async def test_a_reader_that_has_enough_meets_a_good_end(tmp_path: Path) -> None:
    hold, recorder = threading.Event(), _recorder(tmp_path / "a.rec")
    with Loopback(Canned(chunks=(b"data: one\n\n",), hold=hold)) as server:
        async with recorder.post(server.url, {}, dumps(BODY)) as reply:
            async for events in reply.events():
                assert list(events) == [b"one"]
                await reply.finish(0.01)
                break
        hold.set()
    await recorder.close()
    assert read_recording(tmp_path / "a.rec").exchanges[0].end == "left"
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail)
    assert await _events(replayer, server.url) == [b"one"]


async def test_exchanges_come_in_the_order_in_which_their_requests_left(tmp_path: Path) -> None:
    hold, recorder = threading.Event(), _recorder(tmp_path / "a.rec")
    with Loopback(Canned(chunks=(b"data: slow\n\n",), hold=hold), Canned()) as server:
        async with recorder.post(server.url, {}, dumps(BODY)) as slow:
            await _events(recorder, server.url)
            hold.set()
            assert [data async for found in slow.events() for data in found] == [b"slow"]
    await recorder.close()
    lines = (tmp_path / "a.rec").read_text().splitlines()
    assert ['"number":2' in line for line in lines[1:]] == [True, False]
    assert [one.number for one in read_recording(tmp_path / "a.rec").exchanges] == [1, 2]


async def test_the_header_and_later_models_are_kept_once(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    other = MODEL.replace(id="n", base_url="https://other.test")
    for model in (MODEL, other, other, MODEL):
        recorder.will_ask(model)
    await recorder.close()
    kept = read_recording(tmp_path / "a.rec")
    assert (tmp_path / "a.rec").read_bytes().count(b"\n") == 2
    assert kept.models == (MODEL.replace(base_url=f"https://models.test/v1?key={REMOVED}"), other)
    assert kept.header.thinking_level == "low"


# Those that ask a server; a file is run by a child of its own.
_APIS = [name for name in _MODULES if not name.startswith("ludolf-")]


@pytest.mark.parametrize("api", _APIS)
async def test_every_api_finds_its_exchange_without_credentials(api: str, tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    refusal = Canned(status=400, headers=JSON_BODY, chunks=(b'{"error":{"message":"no such"}}',))
    with Loopback(refusal) as server:
        model = MODEL.replace(api=api, base_url=server.url)
        home = {
            "AZURE_OPENAI_BASE_URL": server.url,
            "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": f"{MODEL.id}=prod",
        }
        login = stand_in_for(()).key if "codex" in api else KEY
        before = await _ask(recorder, model, Access(key=login, environment=home))
    await recorder.close()
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail, strict=True)
    after = await _ask(replayer, model, stand_in_for([model]))
    assert "no such" in before
    assert after == before


async def test_a_signed_request_is_replayed_without_the_library_that_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    recorder = _recorder(tmp_path / "a.rec")
    refusal = Canned(status=400, headers=JSON_BODY, chunks=(b'{"message":"no such"}',))
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-of-aws"}
    with Loopback(refusal) as server:
        model = MODEL.replace(api="bedrock-converse-stream", id="a.b-v1:0", base_url=server.url)
        before = await _ask(recorder, model, Access(environment=keys))
        assert "AWS4-HMAC-SHA256" in server.requests[0].headers["authorization"]
    await recorder.close()
    monkeypatch.setitem(sys.modules, "botocore", None)
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail, strict=True)
    assert await _ask(replayer, model, stand_in_for([model])) == before


async def test_a_file_that_was_run_need_not_be_there_for_a_replay(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    refusal = Canned(status=400, headers=JSON_BODY, chunks=(b'{"error":{"message":"no such"}}',))
    with Loopback(refusal) as server:
        served = MODEL.replace(api="openai-completions", base_url=server.url)
        before = await _ask(recorder, served, Access(key=KEY))
    await recorder.close()
    replayer = Replayer(read_recording(tmp_path / "a.rec"), pytest.fail, strict=True)
    gone = MODEL.replace(api="ludolf-gguf", base_url="file:///nowhere/model.gguf")
    assert await _ask(replayer, gone, stand_in_for([gone])) == before


async def _ask(transport: Transport, model: Model, access: Access) -> str:
    """What a failed call says."""
    provider = Providers(transport).get(model.api)
    said = UserMessage(content=(Text(text="Hi"),), timestamp=1)
    asked = ModelRequest(
        provider=provider, model=model, access=access, system="Be kind.", messages=(said,)
    )

    async def take(events: Iterable[StreamEvent]) -> None:
        list(events)

    answer = await respond(asked, Draft(model), take)
    return answer.message.error_message or ""


# ---------------------------------------------------------------- the file


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.rec"
    empty.touch(mode=0o644)
    for path in (tmp_path / "new.rec", empty):
        RecordingFile(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_text("mine\n")
    with pytest.raises(ConfigError, match=r"not empty\. Remove it, or name another file"):
        RecordingFile(path)
    assert path.read_text() == "mine\n"


def test_only_regular_files_are_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/null"), tmp_path, tmp_path / "pipe", tmp_path / "no" / "a.rec"):
        with pytest.raises(ConfigError, match=f"Cannot record to {path}: "):
            RecordingFile(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "not a recording"),
        ("hello\n", "not a recording"),
        ('{"type":"session","version":3}\n', "not a recording"),
        ('{"type":"ludolf-recording","version":99}\n', "version 99.* Update ludolf"),
        ('{"type":"ludolf-recording","version":1,"ludolf":"1","startedAt":""}\n{}\n', "line 2"),
    ],
)
def test_a_file_that_cannot_be_played_is_refused(
    content: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    path.write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        read_recording(path)


async def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    await _record(path, Canned(), Canned())
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [one.number for one in read_recording(path).exchanges] == [1]


# ---------------------------------------------------------------- secrets

SECRET = st.text(
    st.characters(codec="utf-8", exclude_characters="[]", exclude_categories=("Cc", "Zs", "Zl")),
    min_size=8,
    max_size=24,
).filter(lambda text: not set(text) <= set("0123456789abcdefghijklmnopqrstuvwxyz"))


def _cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def _echoes(secret: str) -> bytes:
    """An answer that says the secret in every form in which a server might."""
    data = secret.encode()
    said = (data, quote(secret).encode(), base64.b64encode(data), dumps({"key": secret}))
    return b"data: " + b" and ".join(said) + b"\n\n"


@settings(max_examples=200)
@given(SECRET, st.lists(st.integers(0, 999), max_size=8))
def test_no_form_of_a_secret_is_left_however_it_was_cut(secret: str, places: list[int]) -> None:
    pieces = _cut(_echoes(secret), places)
    cleaned = Scrubber([secret]).chunks(pieces)
    assert len(cleaned) == len(pieces)
    said = REMOVED.encode()
    assert b"".join(cleaned) == b"data: %b and %b and %b and " % (said, said, said) + (
        dumps({"key": REMOVED}) + b"\n\n"
    )
    kept = Scrubber([secret]).value({secret: [f"a{secret}b", {"x": secret}, 1, None]})
    assert kept == {REMOVED: [f"a{REMOVED}b", {"x": REMOVED}, 1, None]}


@pytest.mark.parametrize("secret", ["sk-ant-api03-AbC_9.x", "a+b/c=d%41&e~", 'quo"te\\back/slash'])
async def test_no_secret_of_a_request_reaches_the_file(secret: str, tmp_path: Path) -> None:
    """Wherever it is sent, and though the server says it back and the model is told it."""
    path = tmp_path / "secret.rec"
    other = f"other-{secret}"
    recorder = _recorder(path, other)
    cookie = {"cookie": f"session={secret}; theme=dark"}
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    said = {"model": "m", "messages": [{"role": "user", "content": f"say {secret}, {other}"}]}
    with Loopback(Canned(chunks=_cut(_echoes(secret), (3, 30, 31)))) as server:
        query = f"{server.url}/v1?key={quote(secret, safe='')}&alt=sse"
        userinfo = server.url.replace("//", f"//me:{quote(secret, safe='')}@")
        gateway = f"{server.url}/to/https://me:{secret.replace('/', '-')}@models.test/v1"
        for url, headers in (
            (server.url, {"x-api-key": secret}),
            (server.url, {"Authorization": f"Bearer {secret}"}),
            (server.url, {"Authorization": f"Basic {basic}"}),
            (server.url, {"x-corp-token": secret}),
            (server.url, cookie),
            (query, {}),
            (userinfo, {}),
            (gateway, {"api-key": secret}),
        ):
            await _events(recorder, url, said, headers)
    await recorder.close()
    text = path.read_text()
    assert len(read_recording(path).exchanges) == 8
    for form in (secret, quote(secret, safe=""), basic, dumps(secret).decode()[1:-1]):
        assert form not in text
    assert base64.b64encode(secret.encode()).decode() not in text
    assert secret.replace("/", "-") not in text
    assert "alt=sse" in text
    assert "swordfish-99" not in text
    assert "query-secret-1" not in text


async def test_names_of_headers_stay_and_harmless_values_too(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    with Loopback(Canned(headers={"content-type": "text/event-stream", "x-org": "acme"})) as server:
        await _events(recorder, server.url, headers={"X-Api-Key": KEY, "anthropic-beta": "b1"})
    await recorder.close()
    (kept,) = read_recording(tmp_path / "a.rec").exchanges
    assert kept.request.headers["x-api-key"] == REMOVED
    assert kept.request.headers["anthropic-beta"] == "b1"
    assert kept.answer is not None
    assert kept.answer.headers["x-org"] == REMOVED
    assert kept.answer.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://a.test/v1/x", "https://a.test/v1/x"),
        ("https://u:p@a.test:8/x#k", "https://a.test:8/x"),
        ("https://token@[::1]:8/x", "https://[::1]:8/x"),
        ("https://a.test/x?key=1&alt=sse&sig=", f"https://a.test/x?key={REMOVED}&alt=sse&sig={REMOVED}"),
        ("https://a.test/to/http://u:p@b.test/x", "https://a.test/to/http://b.test/x"),
        ("https://[broken", REMOVED),
    ],
)  # fmt: skip
def test_an_address_loses_what_lets_in(url: str, kept: str) -> None:
    assert harmless_url(url) == kept


async def test_a_short_key_takes_no_words_from_the_conversation(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path / "a.rec")
    with Loopback(Canned(chunks=(b"data: none\n\n",))) as server:
        await _events(recorder, server.url, headers={"Authorization": "Bearer none"})
    await recorder.close()
    (kept,) = read_recording(tmp_path / "a.rec").exchanges
    assert kept.answer is not None
    assert kept.answer.chunks[0].text == "data: none\n\n"
    assert kept.request.headers["authorization"] == REMOVED


# ---------------------------------------------------------------- which answer


async def test_requests_in_another_order_find_their_own_answers() -> None:
    replayer, told = _replayer(_asked(1, "one", "A"), _asked(2, "two", "B"), _asked(3, "one", "C"))
    asked = ("two", "one", "one")
    assert [await _events(replayer, URL, _body(text)) for text in asked] == [[b"B"], [b"A"], [b"C"]]
    assert told == []


async def test_of_two_with_the_same_question_the_same_history_is_preferred() -> None:
    def body(result: str) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": "1", "content": result}
        said = _body("go")
        return {**said, "messages": [*said["messages"], {"role": "user", "content": [block]}]}

    replayer, told = _replayer(
        _asked(1, "", "A", body=body("this")), _asked(2, "", "B", body=body("that"))
    )
    assert await _events(replayer, URL, body("that")) == [b"B"]
    assert await _events(replayer, URL, body("another")) == [b"A"]
    assert told == []


async def test_a_gateway_may_stand_elsewhere() -> None:
    replayer, told = _replayer(_asked(1, "hi", "A"))
    assert await _events(replayer, "http://proxy.test/x/y/v1/messages", _body("hi")) == [b"A"]
    assert told == []


async def test_another_question_is_answered_in_order_and_told_once() -> None:
    replayer, told = _replayer(_asked(1, "Say hello", "A"), _asked(2, "Say hello", "B"))
    for answer in (b"A", b"B"):
        assert await _events(replayer, URL, _body("Say hallo")) == [answer]
    assert told == [
        "Warning: replay of a.rec: a request differs from recorded exchange 1: "
        'the last user text is "Say hallo", the recorded one is "Say hello"'
    ]


async def test_a_strict_replay_refuses_another_question_and_does_not_use_it_up() -> None:
    replayer, told = _replayer(_asked(1, "one", "A"), strict=True)
    text = 'last user text is "two", the recorded one is "one"'
    with pytest.raises(ProviderError, match=text) as error:
        await _events(replayer, URL, _body("two"))
    assert error.value.kind == "bad_request"
    assert await _events(replayer, URL, _body("one")) == [b"A"]
    assert told == []


@pytest.mark.parametrize(
    ("url", "body"),
    [
        (URL, _body("one")),
        (URL, {**_body("x"), "model": "n"}),
        ("http://models.test/v1/responses", _body("x")),
    ],
)
async def test_nothing_left_is_an_error_that_is_not_tried_again(
    url: str, body: dict[str, Any]
) -> None:
    replayer, _ = _replayer(_asked(1, "one", "A"))
    if body == _body("one"):
        await _events(replayer, URL, body)
    with pytest.raises(ProviderError) as error:
        await _events(replayer, url, body)
    assert error.value.kind == "bad_request"
    text = body["messages"][0]["content"][0]["text"]
    assert str(error.value) == (
        "Replay of a.rec: no recorded exchange is left for "
        f"POST {url[18:]} for model {body['model']}, "
        f'last user text "{text}"'
    )


async def test_other_servers_than_models_are_out_of_reach() -> None:
    replayer, _ = _replayer()
    with pytest.raises(ProviderError, match=r"no connection is made to https://id\.test/token"):
        await _renew(replayer)


async def _renew(transport: Transport) -> None:
    from ludolf.ai.http.transport import HttpRequest

    sent = HttpRequest(
        url="https://id.test/token", headers={}, body=b"", patience=Patience(first=1)
    )
    async with transport.exchange(sent):
        pytest.fail("it was reached")


async def test_a_removed_secret_in_the_question_is_no_difference() -> None:
    replayer, told = _replayer(_asked(1, f"use {REMOVED} now", "A"))
    assert await _events(replayer, URL, _body("use the-real-key now")) == [b"A"]
    assert told == []


async def test_the_pace_is_that_of_the_recorded_run_if_wanted() -> None:
    one = _asked(1, "hi", "A")
    assert one.answer is not None
    late = one.replace(
        answer=one.answer.replace(ms=40, chunks=(RecordedData(ms=120, text="data: A\n\n"),)),
        end_ms=160,
    )

    async def passed(speed: float) -> float:
        replayer, _ = _replayer(late, speed=speed)
        began = time.monotonic()
        assert await _events(replayer, URL, _body("hi")) == [b"A"]
        return time.monotonic() - began

    # The best of some: a busy machine makes everything slower, and nothing quicker.
    best = {speed: min([await passed(speed) for _ in range(5)]) for speed in (0, 1, 2)}
    assert best[0] < 0.08 <= best[2] < 0.16 <= best[1]


# ---------------------------------------------------------------- what a request asks

_PARTS = [{"type": "text", "text": "Look"}, {"type": "image", "source": {}}]
_BODIES: dict[str, tuple[str, Any]] = {
    "anthropic": (
        "https://a.test/v1/messages",
        {
            "model": "m",
            "system": [{"type": "text", "text": "today"}],
            "tools": [{"name": "read", "input_schema": {"properties": {"name": {}}}}],
            "messages": [
                {"role": "user", "content": _PARTS},
                {"role": "assistant", "content": [{"type": "tool_use", "name": "bash"}]},
                {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
            ],
        },
    ),
    "chat": (
        "https://a.test/v1/chat/completions",
        {
            "model": "m",
            "tools": [{"type": "function", "function": {"name": "read", "parameters": {}}}],
            "messages": [
                {"role": "system", "content": "today"},
                {"role": "user", "content": "Look"},
                {"role": "assistant", "tool_calls": [{"function": {"name": "bash"}}]},
                {"role": "tool", "content": "x"},
            ],
        },
    ),
    "responses": (
        "https://a.test/v1/responses",
        {
            "model": "m",
            "tools": [{"type": "function", "name": "read", "parameters": {"name": "x"}}],
            "input": [
                {"role": "developer", "content": "today"},
                {"role": "user", "content": [{"type": "input_text", "text": "Look"}]},
                {"type": "function_call", "name": "bash"},
                {"type": "function_call_output", "output": "x"},
            ],
        },
    ),
    "google": (
        "https://a.test/v1beta/models/m:streamGenerateContent?alt=sse",
        {
            "systemInstruction": {"parts": [{"text": "today"}]},
            "tools": [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": {}}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "Look"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "bash"}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "bash"}}]},
            ],
        },
    ),
    "pi": (
        "https://a.test/messages",
        {
            "model": "m",
            "context": {
                "messages": [
                    {"role": "system", "content": "today", "toolsAdded": [{"name": "read"}]},
                    {"role": "user", "content": [{"type": "text", "text": "Look"}]},
                    {"role": "assistant", "content": [{"type": "toolCall", "name": "bash"}]},
                    {"role": "toolResult", "content": [{"type": "text", "text": "x"}]},
                ],
            },
        },
    ),
    "bedrock": (
        "https://a.test/model/m/converse-stream",
        {
            "system": [{"text": "today"}],
            "toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {}}}]},
            "messages": [
                {"role": "user", "content": [{"text": "Look"}]},
                {"role": "assistant", "content": [{"toolUse": {"name": "bash"}}]},
                {"role": "user", "content": [{"toolResult": {"content": [{"text": "x"}]}}]},
            ],
        },
    ),
}


@pytest.mark.parametrize("family", _BODIES)
def test_a_request_of_any_family_is_understood(family: str) -> None:
    url, body = _BODIES[family]
    shape = shape_of("POST", url, body)
    assert (shape.model, shape.tools, shape.count, shape.last_text) == ("m", ("read",), 3, "Look")


def test_the_first_difference_is_told_in_words() -> None:
    recorded = shape_of("POST", URL, _body("a" * 100 + " end", "read", "bash"))
    other = _body("a" * 100 + " and", "read", "bash")
    longer = _body("a" * 100 + " end", "read", "bash")
    longer["messages"] = [*longer["messages"], {"role": "assistant", "content": []}]
    assert difference(recorded, shape_of("POST", URL, _body("x", "read", "grep"))) == (
        "the tools are not those recorded: with grep and without bash"
    )
    assert difference(recorded, shape_of("POST", URL, other)) == (
        f'the last user text is "…{"a" * 23} and", the recorded one is "…{"a" * 23} end"'
    )
    assert difference(recorded, shape_of("POST", URL, longer)) == (
        "it has 2 messages, the recorded one has 1"
    )
    assert difference(recorded, recorded) is None
