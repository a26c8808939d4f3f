"""The server over HTTP: who may enter, and what each path answers."""

import asyncio
import json
import os
import socket as sockets
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ludolf.base import ConfigError
from ludolf.serve.gate import GateLimits
from ludolf.serve.options import ClientLimits
from ludolf.serve.web import WebWaits
from tests.serve.web_stage import WebStage, close_code, frames, reply, served, soon, until

PATHS = ("/", "/ws", "/command", "/events", "/metrics", "/healthz", "/readyz", "/nothing")
POLICY = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
PING = '{"id":"p","type":"ping"}\n'


# ---------------------------------------------------------------- names, paths, methods


async def test_foreign_names_are_refused_on_every_path(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        for path in PATHS:
            method = "POST" if path == "/command" else "GET"
            for headers in (
                {"Host": "evil.example"},
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                headers |= stage.bearer
                assert await stage.status(path, method, headers=headers) == 403, (path, headers)


async def test_two_host_headers_and_requests_that_are_none_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        two = await stage.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n")
        same = await stage.raw(
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"
        )
        none = await stage.raw("GET /healthz HTTP/1.0\r\n\r\n")
        for answer in (two, same, none):
            assert answer.split()[1] in (b"400", b"403"), answer
        for text in ("\x16\x03\x01\x02\0", "NO\r\n\r\n", "GET / HTTP/1.1\r\na b: c\r\n\r\n"):
            answer = await stage.raw(text)
            assert answer.startswith(b"HTTP/1.0 400 "), answer
            assert b"X-Frame-Options: DENY" in answer
            assert b"Not a valid HTTP request." in answer


HOSTILE = (
    "CONNECT localhost:80 HTTP/1.1\r\n{host}\r\n",
    "OPTIONS * HTTP/1.1\r\n{host}\r\n",
    "GET http://evil.example/metrics HTTP/1.1\r\n{host}\r\n",
    "GET /../../etc/passwd HTTP/1.1\r\n{host}\r\n",
    "GET /%00%ff HTTP/1.1\r\n{host}\r\n",
    "GET /events?session=%ff&session=\xff HTTP/1.1\r\n{host}{bearer}\r\n",
    "GET /events?session=x HTTP/1.1\r\n{host}{bearer}Last-Event-ID: \xff\r\n\r\n",
    "POST /command HTTP/1.1\r\n{host}{bearer}Content-Length: -1\r\n\r\n",
    "POST /command HTTP/1.1\r\n{host}{bearer}Content-Length: 9e9\r\n\r\n",
    "POST /command HTTP/1.1\r\n{host}{bearer}Content-Length: 99999999999999999999\r\n\r\n",
    "POST /command HTTP/1.1\r\n{host}{bearer}Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "POST /command HTTP/1.1\r\n{host}{bearer}Transfer-Encoding: gzip\r\n\r\n",
    "POST /command HTTP/1.1\r\n{host}{bearer}Content-Length: 2\r\n"
    "Transfer-Encoding: chunked\r\n\r\n{{}}",
    "POST /command HTTP/1.1\r\n{host}{bearer}Content-Encoding: gzip\r\n"
    "Content-Length: 2\r\n\r\n{{}}",
    "GET /ws HTTP/1.1\r\n{host}{bearer}Connection: upgrade\r\nUpgrade: websocket\r\n"
    "Content-Length: 5\r\n\r\nhello",
    "{healthz}" * 100,
    "\0" * 1000,
)


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_request_disturbs_the_server(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as stage:
        answer = await stage.raw(
            text.format(
                host="Host: localhost\r\n",
                bearer=f"Authorization: Bearer {stage.token}\r\nConnection: close\r\n",
                healthz="GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            )
        )
        assert answer.split()[1][:1] in (b"2", b"4"), answer
        assert await stage.status("/healthz") == 200
        await until(lambda: not stage.server.connections)
    assert not caplog.records


async def test_every_answer_has_the_headers_of_a_strict_policy(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        for path in PATHS:
            async with stage.web.get(stage.url + path) as answer:
                assert POLICY.items() <= answer.headers.items(), path
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
                assert "Access-Control-Allow-Origin" not in answer.headers
                assert answer.headers["Server"] == "ludolf"


async def test_unknown_paths_and_other_methods_are_named_as_such(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        for path in ("/nothing", "/ws/", "/command/x", "//", "/WS", "/metrics.txt"):
            assert await stage.status(path, headers=stage.bearer) == 404
        for path in PATHS[:-1]:
            for method in ("DELETE", "PUT", "HEAD", "OPTIONS"):
                assert await stage.status(path, method, headers=stage.bearer) == 405
        assert await stage.status("/command", headers=stage.bearer) == 405
        assert await stage.status("/events", "POST", headers=stage.bearer) == 405


async def test_the_page_has_no_data_and_needs_no_token(tmp_path: Path) -> None:
    async with served(tmp_path) as stage, stage.web.get(stage.url) as answer:
        assert answer.status == 200
        text = await answer.text()
        assert text.startswith("<!doctype html>")
        assert stage.token not in text


async def test_an_allowed_origin_may_read_answers_and_no_other(tmp_path: Path) -> None:
    page = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    async with served(tmp_path, origins=("https://app.example",)) as stage:
        asked = {**page, "Access-Control-Request-Method": "POST"}
        async with stage.web.options(f"{stage.url}/command", headers=asked) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
            assert "authorization" in answer.headers["Access-Control-Allow-Headers"]
        both = {**page, **stage.bearer}
        async with stage.web.post(f"{stage.url}/command", data=PING, headers=both) as answer:
            assert answer.status == 200
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
            assert answer.headers["Vary"] == "Origin"
        own = {"Origin": stage.url, **stage.bearer}
        async with stage.web.post(f"{stage.url}/command", data=PING, headers=own) as answer:
            assert answer.status == 200
            assert "Access-Control-Allow-Origin" not in answer.headers


# ---------------------------------------------------------------- the token


async def test_without_the_token_nothing_about_sessions_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        session = await stage.open()
        wrong: tuple[dict[str, Any], ...] = (
            {},
            {"headers": {"Authorization": "Bearer " + "x" * 43}},
            {"headers": {"Authorization": f"Basic {stage.token}"}},
            {"headers": {"Cookie": f"token={stage.token}; Authorization={stage.token}"}},
            {"params": {"token": stage.token, "access_token": stage.token}},
        )
        for more in wrong:
            for method, path in (("POST", "/command"), ("GET", "/events"), ("GET", "/metrics")):
                async with stage.web.request(method, stage.url + path, **more) as answer:
                    assert answer.status == 401
                    assert answer.headers["WWW-Authenticate"] == "Bearer"
                    assert session not in await answer.text()
        assert stage.server.figures.refused_logins == 3 * len(wrong)
        twice = f"POST /command HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(PING)}\r\n"
        bearer = f"Authorization: Bearer {stage.token}\r\n"
        assert b" 401 " in (await stage.raw(twice + bearer + bearer + "\r\n" + PING))[:20]


async def test_a_wrong_token_opens_no_websocket(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        headers = {"Authorization": "Bearer wrong"}
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            async with stage.web.ws_connect(f"{stage.url}/ws", headers=headers):
                pass
        assert caught.value.status == 401
        async with stage.socket(token=False) as socket:
            await socket.send_str('{"type":"hello","token":"wrong"}')
            assert not (await frames(socket))[0]["success"]
            assert await close_code(socket) == 4401
        async with stage.socket(token=False) as socket:
            await socket.send_str('{"id":"1","type":"list"}\n{"id":"2","type":"list"}')
            (refused,) = await frames(socket)
            assert refused["code"] == "unauthorized"
            assert "sessions" not in json.dumps(refused)
            assert await close_code(socket) == 4401
        assert stage.server.connections == set()


async def test_the_first_frame_may_bring_the_token(tmp_path: Path) -> None:
    limits = GateLimits(seconds=0.5, connections=1)
    async with served(tmp_path, gate_limits=limits) as stage, stage.socket(token=False) as socket:
        await socket.send_str(json.dumps({"id": "h", "type": "hello", "token": stage.token}))
        assert (await reply(socket, "h"))["success"]
        # It does not count among the strangers any more, and has more than their time.
        assert await stage.status("/healthz") == 200
        async with stage.socket(token=False) as stranger:
            assert await close_code(stranger) == 4401
        await socket.send_str(PING)
        assert (await reply(socket, "p"))["success"]


async def test_strangers_have_little_time_and_room(tmp_path: Path) -> None:
    limits = GateLimits(seconds=0.1, connections=3)
    async with served(tmp_path, gate_limits=limits) as stage:
        assert await stage.raw("GET / HTTP/1.1\r\n") == b""  # a head without an end
        assert await stage.raw("") == b""
    async with served(tmp_path, gate_limits=GateLimits(connections=3)) as stage:
        many = [await asyncio.open_connection("127.0.0.1", stage.port) for _ in range(20)]
        answers = [await soon(reader.read(100)) for reader, _ in many[3:]]
        assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
        for _, writer in many:
            writer.close()
        await until(lambda: not stage.is_in_use)
        assert await stage.raw("GET / HTTP/1.1\r\nX: " + "x" * 20_000) == b""


async def test_a_flood_before_the_token_is_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        async with stage.socket(token=False) as socket:
            await socket.send_str(json.dumps({"type": "hello", "token": "x" * 5000}))
            assert await close_code(socket) == 4401
        async with stage.socket(token=False) as socket:
            with pytest.raises((ConnectionError, AssertionError)):
                for _ in range(100):
                    await socket.send_str("x" * 1_000_000)
                    assert not socket.closed
                assert await close_code(socket) != 4401
        assert stage.server.connections == set()


# ---------------------------------------------------------------- WebSocket


async def test_a_message_has_one_or_more_frames(tmp_path: Path) -> None:
    async with served(tmp_path) as stage, stage.socket() as socket:
        assert socket.compress == 0
        await socket.send_str('{"id":"1","type":"ping"}\n{"id":"2","type":"ping"}\n\n' + PING[:-1])
        found: list[Any] = []
        while len(found) < 3:
            found += [frame["id"] for frame in await frames(socket)]
        assert found == ["1", "2", "p"]


async def test_broken_lines_get_an_error_and_the_connection_lives(tmp_path: Path) -> None:
    limits = ClientLimits(remote_frame=100_000)
    async with served(tmp_path, limits=limits) as stage, stage.socket() as socket:
        for text in ("{", "[]", "null", '{"type":1}', '{"type":"nothing"}', "\ufeff", "\0" * 9):
            await socket.send_str(text)
            (frame,) = await frames(socket)
            assert not frame["success"]
        await socket.send_str('{"type":"ping","x":"' + "x" * 200_000 + '"}\n' + PING)
        refused = (await frames(socket))[0]
        assert not refused["success"]
        await socket.send_str(PING)
        assert (await reply(socket, "p"))["success"]


async def test_a_giant_frame_is_dropped_and_the_connection_lives(tmp_path: Path) -> None:
    async with served(tmp_path) as stage, stage.socket() as socket:
        await socket.send_str('{"type":"ping","x":"' + "x" * (17 << 20) + '"}')
        (refused,) = await frames(socket)
        assert not refused["success"]
        await socket.send_str('{"id":"1","type":"ping","x":"' + "x" * (15 << 20) + '"}')
        assert (await reply(socket, "1"))["success"]


async def test_what_is_not_text_closes_the_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        async with stage.socket() as socket:
            await socket.send_bytes(b"{}")
            assert await close_code(socket) == 1003
        async with stage.web.get(f"{stage.url}/ws", headers=stage.bearer) as answer:
            assert answer.status == 426
        assert stage.server.connections == set()


async def test_pings_are_answered_and_sent(tmp_path: Path) -> None:
    waits = WebWaits(ping=0.01)
    async with served(tmp_path, waits=waits) as stage, stage.socket(autoping=False) as socket:
        await socket.ping(b"there?")
        kinds: dict[aiohttp.WSMsgType, Any] = {}
        while len(kinds) < 2:
            message = await soon(socket.receive())
            kinds[message.type] = message.data
        assert kinds == {aiohttp.WSMsgType.PONG: b"there?", aiohttp.WSMsgType.PING: b""}


async def test_a_client_that_reads_nothing_is_closed_and_delays_no_other(tmp_path: Path) -> None:
    limits = GateLimits(stuck_seconds=0.5, linger_seconds=0.1)
    async with served(tmp_path, gate_limits=limits) as stage:
        session = await stage.open()
        async with stage.socket() as reader, stage.socket() as writer:
            lazy = await _lazy_socket(stage)
            attach = json.dumps({"id": "a", "type": "attach", "session": session})
            await lazy.send(attach)
            await reader.send_str(attach)
            assert (await reply(reader, "a"))["success"]
            before = len(stage.server.connections)
            for number in range(12):
                name = str(number) + "x" * 1_000_000
                command = {"id": str(number), "type": "set_session_name", "name": name}
                await writer.send_str(json.dumps(command | {"session": session}))
                assert (await reply(writer, str(number)))["success"]
                while not any("seq" in frame for frame in await frames(reader)):
                    pass
            await until(lambda: len(stage.server.connections) < before)
            lazy.close()


async def test_the_end_of_the_server_is_announced(tmp_path: Path) -> None:
    async with served(tmp_path) as stage, stage.socket() as socket:
        await socket.send_str(PING)
        await reply(socket, "p")
        assert await stage.status("/readyz") == 200
        await stage.server.close(0)
        assert await stage.status("/readyz") == 503
        assert await stage.status("/healthz") == 200
        assert (await frames(socket))[0]["type"] == "server_closing"
        assert await close_code(socket) == 1001
        assert await stage.status("/command", "POST", data=PING, headers=stage.bearer) == 503
        with pytest.raises(aiohttp.WSServerHandshakeError):
            async with stage.socket():
                pass


async def test_a_thousand_connections_leave_nothing_open(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        await _come_and_go(stage, 10)
        before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc") else 0
        await _come_and_go(stage, 1000)
        assert stage.server.connections == set()
        if before:
            await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def _come_and_go(stage: WebStage, count: int) -> None:
    for number in range(count):
        if number % 3:
            head = f"GET /{'ws' if number % 3 == 1 else ''} HTTP/1.1\r\nHost: localhost\r\n"
            upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
            writer.write((head + upgrade + key).encode())
            await soon(reader.readuntil(b"\r\n\r\n"))
            writer.transport.abort()
        else:
            assert b"ok" in await stage.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: not stage.is_in_use)


class _Lazy:
    """A WebSocket that sends and never reads, with a small buffer for what arrives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, text: str) -> None:
        data = text.encode()
        assert len(data) < 126
        self._writer.write(bytes((0x81, 0x80 | len(data), 0, 0, 0, 0)) + data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.transport.abort()


async def _lazy_socket(stage: WebStage) -> _Lazy:
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", stage.port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    writer.write(
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        + f"Authorization: Bearer {stage.token}\r\n\r\n".encode()
    )
    await soon(reader.readuntil(b"\r\n\r\n"))
    return _Lazy(reader, writer)


# ---------------------------------------------------------------- single commands


async def test_one_frame_gets_one_reply(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        session = await stage.open()
        state = await stage.post({"id": "1", "type": "get_state", "session": session})
        assert (state["session"], state["id"], state["success"]) == (session, "1", True)
        refused = await stage.post({"id": "2", "type": "get_state", "session": "unknown"})
        assert not refused["success"]
        assert stage.server.connections == set()


async def test_a_named_client_repeats_a_command_without_doing_it_twice(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        command = {"id": "1", "type": "open", "options": {"noSession": True}}
        first = await stage.post(command, client="me")
        again = await stage.post(command, client="me")
        assert again == {**first, "repeated": True}
        other = await stage.post(command, client="you")
        assert other["data"]["session"] != first["data"]["session"]


async def test_a_body_that_is_not_one_frame_is_refused(tmp_path: Path) -> None:
    limits = ClientLimits(remote_frame=1000)
    async with served(tmp_path, limits=limits) as stage:

        async def status(body: bytes | str, **headers: str) -> int:
            more = {"data": body, "headers": {**stage.bearer, **headers}}
            return await stage.status("/command", "POST", **more)

        for body in ("", "\n", "{", "[]", "null", "{}", '{"type":1}', PING + PING, b"\xff\xfe"):
            assert await status(body) == 400, body
        long = '{"type":"ping","x":"' + "x" * 1000 + '"}'
        assert await status(long) == 413
        assert await status(PING.rstrip() + "\r\n") == 200
        assert await status(PING, Expect="100-continue") == 200
        chunks = "".join(f"1f4\r\n{'x' * 500}\r\n" for _ in range(4))
        head = f"POST /command HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {stage.token}"
        raw = f"{head}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunks}0\r\n\r\n"
        assert b" 413 " in (await stage.raw(raw))[:20]


async def test_a_command_without_a_reply_has_an_empty_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        session = await stage.open()
        answer = {"type": "extension_ui_response", "id": "x", "session": session, "value": "y"}
        more: dict[str, Any] = {"data": json.dumps(answer), "headers": stage.bearer}
        assert await stage.status("/command", "POST", **more) == 204


# ---------------------------------------------------------------- events


class Events:
    """The events of a stream, as a browser reads them; comments are counted."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._content = answer.content
        self.comments = 0

    async def next(self) -> dict[str, str]:
        event: dict[str, str] = {}
        while True:
            line = (await soon(self._content.readline())).decode()
            assert line, "the stream has ended"
            if line == "\n":
                if event:
                    return event
            elif line.startswith(":"):
                self.comments += 1
            else:
                name, _, value = line.rstrip("\n").partition(": ")
                event[name] = value


async def test_events_begin_with_a_snapshot_and_have_cursors(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        session = await stage.open()
        path = f"{stage.url}/events?session={session}"
        async with stage.web.get(path, headers=stage.bearer) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            events = Events(answer)
            first = await events.next()
            snapshot = json.loads(first["data"])
            assert first["event"] == "snapshot"
            assert (snapshot["session"], snapshot["type"]) == (session, "resync")
            assert snapshot["data"]["role"] == "view"
            assert snapshot["data"]["cursor"] == first["id"]
            for name in ("one", "two"):
                await stage.post({"type": "set_session_name", "session": session, "name": name})
            seen = [await _numbered(events) for _ in range(2)]
            epoch = first["id"].rpartition("-")[0]
            for event in seen:
                frame = json.loads(event["data"])
                assert event["id"] == f"{epoch}-{frame['seq']}"
        for given in (
            {"params": {"cursor": first["id"]}},
            {"headers": {"Last-Event-ID": first["id"]}},
        ):
            more: dict[str, Any] = {
                **given,
                "headers": {**stage.bearer, **given.get("headers", {})},
            }
            async with stage.web.get(path, **more) as answer:
                events = Events(answer)
                assert [await _numbered(events), await _numbered(events)] == seen


async def _numbered(events: Events) -> dict[str, str]:
    while "id" not in (event := await events.next()):
        pass
    assert "event" not in event
    return event


async def test_a_stream_shows_signs_of_life_and_ends_with_the_server(tmp_path: Path) -> None:
    async with served(tmp_path, waits=WebWaits(beat=0.01)) as stage:
        session = await stage.open()
        path = f"{stage.url}/events?session={session}"
        async with stage.web.get(path, headers=stage.bearer) as answer:
            events = Events(answer)
            await events.next()
            assert (await soon(answer.content.readuntil(b":\n\n"))).endswith(b":\n\n")
            await stage.server.close(0)
            assert b"server_closing" in await soon(answer.read())
        assert stage.server.connections == set()


async def test_a_reader_of_events_that_leaves_is_detached(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        session = await stage.open()
        path = f"{stage.url}/events?session={session}"
        async with stage.web.get(path, headers=stage.bearer) as answer:
            await Events(answer).next()
            assert len(stage.server.connections) == 1
            answer.close()
        await until(lambda: not stage.server.connections)


async def test_events_of_no_session_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        assert await stage.status("/events", headers=stage.bearer) == 400
        assert await stage.status("/events?session=x", headers=stage.bearer) == 404
        assert stage.server.connections == set()


# ---------------------------------------------------------------- figures, limits, TLS


async def test_figures_are_shown_to_who_has_the_token(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        await stage.open()
        await stage.status("/metrics")
        async with stage.web.get(f"{stage.url}/metrics", headers=stage.bearer) as answer:
            lines = (await answer.text()).splitlines()
        values = dict(line.split() for line in lines if not line.startswith("#"))
        assert values["ludolf_sessions_loaded"] == "1"
        assert values["ludolf_sessions_running"] == "0"
        assert values["ludolf_refused_logins_total"] == "1"
        assert float(values["ludolf_resident_memory_bytes"]) > 1 << 20


async def test_too_many_clients_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, limits=ClientLimits(clients=1)) as stage, stage.socket():
        assert await stage.status("/command", "POST", data=PING, headers=stage.bearer) == 503
        assert await stage.status("/events?session=x", headers=stage.bearer) == 503
        with pytest.raises(aiohttp.WSServerHandshakeError):
            async with stage.socket():
                pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "box.example"])
async def test_beyond_this_machine_encryption_is_needed(host: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--tls CERT KEY.*--tls-by-proxy"):
        async with served(tmp_path, http=(host, 0)):
            pass


async def test_a_proxy_may_do_the_encryption(tmp_path: Path) -> None:
    anywhere = ("0.0.0.0", 0)
    async with served(tmp_path, http=anywhere, tls_by_proxy=True, hosts=("box.example",)) as stage:
        page = {"Host": "box.example", "Origin": "https://box.example"}
        assert await stage.status("/healthz", headers=page) == 200
        assert await stage.status("/healthz", headers={"Host": "evil.example"}) == 403


async def test_a_port_or_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1:\d+: Address already in use\. Choose"):
            async with served(tmp_path, http=("127.0.0.1", stage.port)):
                pass
    (tmp_path / "cert.pem").write_text("not a certificate")
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(ConfigError, match=r"cert\.pem with the key .*key\.pem"):
        async with served(tmp_path, tls=files):
            pass


async def test_a_certificate_encrypts_the_connection(tmp_path: Path) -> None:
    files = _certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=files[0])
    async with served(tmp_path, tls=files) as stage:
        assert stage.url.startswith("https://127.0.0.1:")
        assert await stage.status("/healthz", ssl=trusting) == 200
        async with stage.socket(ssl=trusting) as socket:
            await socket.send_str('{"type":"ping","x":"' + "x" * 1_000_000 + '"}\n' + PING)
            assert (await reply(socket, "p"))["success"]
        assert await stage.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is signed with its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ludolf")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(*kinds, serialization.NoEncryption()))
    return files
