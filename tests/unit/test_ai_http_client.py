"""The HTTP client against servers that follow the protocol, and against others."""

import asyncio
import errno
import os
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ludolf.ai.access import Patience
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.pool import ConnectionPool
from ludolf.ai.http.response import IncomingResponse
from ludolf.ai.http.sockets import AddressInfo, first_connected
from ludolf.ai.http.transport import HttpRequest, Transport
from tests.loopback import nobody
from tests.raw_servers import OK, PATIENCE, fetched, raw_server

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CUT = r"^terminated$"
INVALID = r"^Connection error: the server sent an invalid HTTP response: "


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    made = Transport({})
    yield made
    await made.close()


# ---------------------------------------------------------------- what servers send


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OK, (200, b"ok")),
        (CHUNKED + b"1\r\no\r\n1;x=y\r\nk\r\n0\r\nX-Trailer: a\r\n\r\n", (200, b"ok")),
        (HEAD + b"\r\nok", (200, b"ok")),
        (b"HTTP/1.0 200 OK\r\nContent-Type: a\r\n\r\nok", (200, b"ok")),
        (b"HTTP/1.1 200\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokmore", (200, b"ok")),
        (b"HTTP/1.1 204 No\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", (304, b"")),
        (b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", (302, b"")),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nA: b\r\n\r\n" + OK, (200, b"ok")),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", (200, b"ok")),
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
async def test_a_response_is_read_however_it_is_split(
    transport: Transport, answer: bytes, expected: tuple[int, bytes], step: int
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)

    async with raw_server(serve=serve) as server:
        assert await fetched(transport, server.url) == expected


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", r"^Connection error: Server disconnected$"),
        (b"SSH-2.0-OpenSSH\r\n", INVALID),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", INVALID),
        (CHUNKED[:-2] + b"Content-Length: 2\r\n\r\n0\r\n\r\n", INVALID),
        (HEAD + b"Content-Length: -1\r\n\r\n", INVALID),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", INVALID),
        (b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", INVALID),
        (b"HTTP/1.1 103 X\r\n\r\n" * 40, INVALID),
        (HEAD + b"X: " + b"a" * (70 << 10), INVALID),
        (HEAD + b"X: a\r\n" * (12 << 10), INVALID),
        (HEAD + b"X: a\0b\r\n\r\n", INVALID),
        (HEAD + b"Content-Length: 5\r\n\r\nok", CUT),
        (CHUNKED + b"2\r\nok\r\n", CUT),
        (CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", CUT),
        (CHUNKED + b"2\r\nokay\r\n0\r\n\r\n", CUT),
        (CHUNKED + b"ffffffffffffffffff\r\nok", CUT),
        (CHUNKED + b"2\r\nok\r\n0\r\nX: " + b"a" * (70 << 10), CUT),
    ],
)
async def test_a_response_that_violates_the_protocol_is_an_error_of_the_network(
    transport: Transport, answer: bytes, error: str
) -> None:
    async with raw_server(answer) as server:
        with pytest.raises(ProviderError, match=error) as caught:
            await fetched(transport, server.url)
    assert caught.value.kind == "network"


async def test_a_reset_before_the_answer_is_an_error_of_the_network(transport: Transport) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
        )

    async with raw_server(serve=serve) as server:
        with pytest.raises(ProviderError, match=r"^Connection error: .*reset by peer") as caught:
            await fetched(transport, server.url)
    assert caught.value.kind == "network"


class _NoWire:
    """A connection that does not exist."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


async def test_damaged_responses_end_or_are_errors_of_the_network() -> None:
    chance = random.Random(7)
    samples = (
        CHUNKED + b"2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        HEAD + b"Connection: close\r\n\r\nok",
    )
    for _ in range(2000):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(data))
            new = chance.choice((b"", b"\r", b"\n", b"\0", b":", b"9", bytes(data[:place])))
            data[place : place + chance.randrange(4)] = new
        response, start = IncomingResponse(_NoWire(), "POST"), 0
        while start < len(data):
            end = start + chance.randrange(1, 40)
            response.feed(memoryview(data)[start:end])
            start = end
        response.cut(None)
        try:
            await response.head()
            while await response.readany():
                pass
            assert response.at_eof()
        except ProviderError as error:
            assert error.kind == "network"
        response.close()


# ---------------------------------------------------------------- what is sent


async def _exchange(transport: Transport, url: str, headers: dict[str, str]) -> None:
    sent = HttpRequest(url=url, headers=headers, body=b"{}", patience=PATIENCE)
    async with transport.exchange(sent) as raw:
        await raw.content.readany()


async def test_a_request_is_sent_as_written(transport: Transport) -> None:
    async with raw_server(OK) as server:
        path = "/v1/a%3Ab%2fc/d e/ü?q=%20+&r=[1]"
        url = server.url.replace("://", "://me:p%40ss@") + path + "#part"
        await _exchange(transport, url, {"X-Key": "grün", "content-length": "99"})
    (head,) = server.heads
    assert head.decode().split("\r\n") == [
        "POST /v1/a%3Ab%2fc/d%20e/%C3%BC?q=%20+&r=[1] HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "X-Key: grün",
        "Authorization: Basic bWU6cEBzcw==",
        "Accept: */*",
        "Content-Type: application/octet-stream",
        "Content-Length: 2",
        "",
        "",
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Key": "a\r\nX-Other: b"},
        {"X-Key": "a\nb"},
        {"X-Key": "a\0b"},
        {"X-Key: a\r\nX-Other": "b"},
        {"X Key": "b"},
        {"": "b"},
        {"X-Key": "\ud800"},
    ],
)
async def test_a_header_that_would_change_the_request_is_refused(
    transport: Transport, headers: dict[str, str]
) -> None:
    with pytest.raises(ProviderError, match=r"^The request cannot be sent: ") as caught:
        await _exchange(transport, "http://127.0.0.1:1", headers)
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a\r\nX-Other: b",
        "http://127.0.0.1:1/a\0",
        "http://127.0.0.1:99999/",
        "http://",
        "http://a b/",
        "http://[::1/",
        "http://\u2026/",
        "ftp://127.0.0.1/",
        "nothing",
        "",
    ],
)
async def test_what_is_not_a_url_of_a_server_is_refused(transport: Transport, url: str) -> None:
    with pytest.raises(ProviderError, match=r"^Not a valid URL: ") as caught:
        await _exchange(transport, url, {})
    assert caught.value.kind == "bad_request"


async def test_a_host_name_is_sent_in_its_ascii_form() -> None:
    async with raw_server(OK) as proxy:
        through = Transport({"http_proxy": proxy.url})
        await fetched(through, "http://bücher.test:80/a")
        await through.close()
    assert proxy.heads[0].startswith(
        b"POST http://xn--bcher-kva.test/a HTTP/1.1\r\nHost: xn--bcher-kva.test\r\n"
    )


async def test_a_server_is_reached_by_its_ipv6_address(transport: Transport) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with raw_server(OK, host="::1") as server:
        assert await fetched(transport, f"http://[::1]:{server.port}/") == (200, b"ok")
    assert f"\r\nHost: [::1]:{server.port}\r\n".encode() in server.heads[0]


async def test_every_address_of_a_host_is_tried(transport: Transport) -> None:
    # `localhost` is ::1 and 127.0.0.1, and the server has only one of them.
    async with raw_server(OK) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        assert await fetched(transport, url) == (200, b"ok")


def _address(port: int) -> AddressInfo:
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))


@pytest.mark.parametrize("delay", [0.0, 30.0])
async def test_the_next_address_is_tried_after_a_failure_or_a_while(delay: float) -> None:
    with nobody() as url:
        closed = _address(int(url.rpartition(":")[2]))
        async with raw_server(OK) as server, asyncio.timeout(30):
            with await first_connected([closed, closed, _address(server.port)], delay) as made:
                assert made.getpeername()[1] == server.port
        with pytest.raises(OSError, match="Connect call failed") as caught:
            await first_connected([closed, closed], delay)
    assert caught.value.errno == errno.ECONNREFUSED


async def test_a_large_body_reaches_a_slow_server(transport: Transport) -> None:
    size = 8 << 20

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await server.request(reader) == b"x" * size
        writer.write(OK)
        await writer.drain()

    async with raw_server(serve=serve) as server:
        sent = HttpRequest(url=server.url, headers={}, body=b"x" * size, patience=PATIENCE)
        async with asyncio.timeout(30), transport.exchange(sent) as raw:
            assert await raw.content.readany() == b"ok"


# ---------------------------------------------------------------- connections


@pytest.mark.parametrize(
    ("answer", "method"),
    [
        (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "POST"),
        (OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), "POST"),
        (OK.replace(b"HTTP/1.1", b"HTTP/1.0"), "POST"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD"),
    ],
)
async def test_a_connection_is_not_used_again_unless_that_is_safe(
    transport: Transport, answer: bytes, method: str
) -> None:
    async with raw_server(answer, OK) as server:
        for _ in range(2):
            assert (await fetched(transport, server.url, method=method))[1] in (b"ok", b"")
        assert server.connections == 2


async def test_a_response_that_nothing_asked_for_closes_an_idle_connection(
    transport: Transport,
) -> None:
    speak, spoken = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        await speak.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        assert await reader.read() == b""
        spoken.set()

    async with raw_server(serve=serve) as server:
        assert await fetched(transport, server.url) == (200, b"ok")
        speak.set()
        await asyncio.wait_for(spoken.wait(), 30)
        assert await fetched(transport, server.url) == (200, b"ok")
    assert server.connections == 2


@pytest.mark.parametrize(("method", "is_repeated"), [("GET", True), ("POST", False)])
async def test_a_request_on_a_used_connection_is_sent_again_only_if_that_is_safe(
    transport: Transport, method: str, is_repeated: bool
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        await server.request(reader)  # left without an answer, and the connection ends

    async with raw_server(serve=serve) as server:
        await fetched(transport, server.url, method=method)
        if is_repeated:
            assert await fetched(transport, server.url, method=method) == (200, b"ok")
        else:
            with pytest.raises(ProviderError, match="Server disconnected"):
                await fetched(transport, server.url, method=method)
    assert server.connections == 1 + is_repeated


async def test_an_idle_connection_is_closed_after_its_time_and_no_descriptor_is_left() -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if os.path.isdir("/proc/self/fd") else 0
    transport = Transport({})
    transport._pool = ConnectionPool(idle_seconds=0.01)
    transport._pool._users = 1
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        assert await reader.read() == b""
        gone.set()

    async with raw_server(serve=serve) as server:
        await fetched(transport, server.url)
        await asyncio.wait_for(gone.wait(), 30)
        with pytest.raises(ProviderError):
            await fetched(transport, "http://127.0.0.1:1")
        await server.ended.wait()
    await transport.close()
    await asyncio.sleep(0)
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


# ---------------------------------------------------------------- limits


async def test_silence_has_a_limit_that_is_not_restarted_by_bytes_without_content(
    transport: Transport,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(CHUNKED + b"2\r\nok\r\n")
        writer.write(b"1;")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.005)

    async with raw_server(serve=serve) as server:
        patience = Patience(connect=30.0, first=0.1, between=30.0)
        with pytest.raises(ProviderError, match=r"^Request timed out: Timeout on read") as caught:
            await fetched(transport, server.url, patience=patience)
    assert caught.value.kind == "timeout"


async def test_time_in_which_nothing_is_read_does_not_count_and_memory_is_bounded(
    transport: Transport,
) -> None:
    size, written = 16 << 20, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await server.request(reader)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(b"x" * (64 << 10))
            written += 64 << 10
            await writer.drain()

    async with raw_server(serve=serve) as server:
        patience = Patience(connect=30.0, first=0.05, between=0.05)
        sent = HttpRequest(url=server.url, headers={}, body=b"{}", patience=patience)
        async with asyncio.timeout(30), transport.exchange(sent) as raw:
            total = len(await raw.content.read(10))
            await _idle(0.2)  # four times the limit, while the server waits for us
            assert written < size
            while piece := await raw.content.readany():
                assert len(piece) <= 256 << 10
                total += len(piece)
    assert total == size


async def _idle(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def test_a_server_that_does_not_answer_is_left_at_the_deadline(transport: Transport) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() != b""
        assert await reader.read() == b""  # the client has closed the connection

    async with raw_server(serve=serve) as server:
        patience = Patience(connect=30.0, first=0.05, between=30.0)
        with pytest.raises(ProviderError, match=r"^Request timed out: no answer from http"):
            await fetched(transport, server.url, patience=patience)
        await asyncio.wait_for(server.ended.wait(), 30)


async def test_an_abort_closes_the_socket_in_the_next_turns_of_the_loop(
    transport: Transport,
) -> None:
    answered = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(CHUNKED + b"2\r\nok\r\n")
        assert await reader.read() == b""

    async def read() -> None:
        sent = HttpRequest(url=server.url, headers={}, body=b"{}", patience=PATIENCE)
        async with transport.exchange(sent) as raw:
            assert await raw.content.readany() == b"ok"
            answered.set()
            await raw.content.readany()

    async with raw_server(serve=serve) as server, asyncio.timeout(30):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(read())
            await answered.wait()
            task.cancel()
        await server.ended.wait()
    assert transport._pool is not None
    assert not transport._pool._open
