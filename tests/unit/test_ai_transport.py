"""The way to model servers: deadlines for servers that send byte by byte, and proxies."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from ludolf.ai.access import Patience
from ludolf.ai.errors import RETRYABLE, ProviderError
from ludolf.ai.http.oauth import ask
from ludolf.ai.http.proxy import Proxy, proxies, proxy_for, proxy_secrets, use_proxy
from ludolf.ai.http.transport import HttpRequest, HttpResponse, Transport, check
from ludolf.ai.secrets import redact
from tests.loopback import Canned, Loopback, nobody

PATIENCE = Patience(connect=5.0, first=0.2, between=0.2)
LONG = 10.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
REFUSED = b"HTTP/1.1 500 X\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def _no_proxy() -> object:
    yield
    use_proxy(None)


@asynccontextmanager
async def _dripping(
    first: bytes, drop: bytes, begun: asyncio.Event | None = None
) -> AsyncIterator[str]:
    """A server that sends a beginning at once and then one drop after another, without end."""

    ending, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            if begun is not None:
                begun.set()
            while not ending.is_set():
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        ending.set()
        server.close()
        await ended.wait()


async def _read_all(reply: HttpResponse) -> None:
    await check(reply, lambda status, body: f"{status} {body}")
    async for found in reply.events():
        list(found)


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"HTTP/1.1 200 ", b"O"),
        (b"HTTP/1.1 200 OK\r\nx-a: ", b"a"),
        (b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
        (HEAD, b": ping\n\n"),
        (HEAD, b"\n"),
        (HEAD + b"data: ", b"a"),
        (HEAD + b"data: ", b"\r"),
    ],
)
async def test_an_answer_byte_by_byte_has_a_deadline(first: bytes, drop: bytes) -> None:
    transport = Transport({})
    async with _dripping(first, drop) as url, asyncio.timeout(LONG):
        with pytest.raises(ProviderError, match=r"^Request timed out: no "):
            async with transport.post(url, {}, b"{}", patience=PATIENCE) as reply:
                await _read_all(reply)
    await transport.close()


async def test_an_error_byte_by_byte_is_told_as_far_as_it_came() -> None:
    transport = Transport({})
    async with _dripping(REFUSED + b"broken", b".") as url, asyncio.timeout(LONG):
        with pytest.raises(ProviderError, match=r"^500 broken\.+$"):
            async with transport.post(url, {}, b"{}", patience=PATIENCE) as reply:
                await _read_all(reply)
    await transport.close()


async def test_an_answer_that_is_slow_within_the_limits_is_taken() -> None:
    transport = Transport({})
    async with _dripping(HEAD, b"data: x\n\n") as url, asyncio.timeout(LONG):
        seen = 0
        async with transport.post(url, {}, b"{}", patience=PATIENCE) as reply:
            async for found in reply.events():
                seen += len(list(found))
                if seen > 20:  # for twice the limit between two events
                    break
    await transport.close()
    assert seen > 20


async def test_an_abort_does_not_wait_for_the_deadline() -> None:
    transport, begun = Transport({}), asyncio.Event()

    async def send() -> None:
        async with transport.post(url, {}, b"{}", patience=Patience()) as reply:
            await _read_all(reply)

    async with (
        _dripping(b"HTTP/1.1 200 ", b"O", begun) as url,
        asyncio.timeout(LONG),
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(send())
        await begun.wait()
        task.cancel()
    await transport.close()


# ---------------------------------------------------------------- which proxy


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


def test_the_setting_counts_for_both_schemes() -> None:
    use_proxy(" http://me:p%40ss@proxy.test ")
    expected = Proxy("http://proxy.test:80", "me", "p@ss")
    assert proxy_for("https://api.test/v1", os.environ) == expected
    assert proxy_for("http://api.test", os.environ) == expected
    assert proxies(os.environ) == dict.fromkeys(("http", "https"), "http://me:p%40ss@proxy.test:80")
    assert proxy_for("http://127.0.0.1:11434/v1", os.environ) is None
    assert proxy_for("http://localhost/v1", os.environ) is None
    assert proxy_for("http://[::1]:8080/v1", os.environ) is None


def test_the_environment_goes_before_the_setting(variables: Callable[..., None]) -> None:
    use_proxy("http://setting.test:1")
    variables(HTTPS_PROXY="https://variable.test:2")
    assert proxy_for("https://api.test", os.environ) == Proxy("https://variable.test:2")
    assert proxy_for("http://api.test", os.environ) == Proxy("http://setting.test:1")
    variables(ALL_PROXY="all.test:3")
    assert proxy_for("http://api.test", os.environ) == Proxy("http://all.test:3")


@pytest.mark.parametrize(
    ("listed", "direct"),
    [
        ("api.test", True),
        ("other.test, api.test", True),
        ("other.test api.test", True),
        ("API.test", True),
        ("test", True),
        (".test", True),
        ("*.test", True),
        ("*", True),
        ("api.test:443", True),
        ("api.test:8443", False),
        ("pi.test", False),
        ("other.test", False),
        ("", False),
    ],
)
def test_no_proxy_names_hosts_that_are_reached_directly(
    variables: Callable[..., None], listed: str, direct: bool
) -> None:
    use_proxy("http://proxy.test:1")
    variables(NO_PROXY=listed)
    assert (proxy_for("https://api.test/v1", os.environ) is None) is direct


@pytest.mark.parametrize(
    "address", ["socks5://me:hidden-1@proxy.test:1", "http://", "http://a:b:c"]
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(address: str) -> None:
    use_proxy(address)
    with pytest.raises(ProviderError, match="cannot be used") as error:
        proxy_for("https://api.test", os.environ)
    assert "hidden-1" not in str(error.value)


# ---------------------------------------------------------------- through a proxy


async def test_requests_go_through_the_proxy_with_its_password() -> None:
    transport = Transport({})
    with Loopback(Canned(chunks=[b"data: x\n\n"])) as proxy:
        use_proxy(proxy.url.replace("://", "://me:p%40ss-word@"))
        async with transport.post("http://model.test/v1/chat", {"x-key": "k"}, b"{}") as reply:
            found = [event async for read in reply.events() for event in read]
        answer = await ask(transport, "http://login.test/token", {"a": "b"})
    await transport.close()
    assert found == [b"x"]
    assert answer.status == 200
    login = base64.b64encode(b"me:p@ss-word").decode()
    asked = [(one.path, one.headers["proxy-authorization"]) for one in proxy.requests]
    assert asked == [
        ("http://model.test/v1/chat", f"Basic {login}"),
        ("http://login.test/token", f"Basic {login}"),
    ]


async def test_a_proxy_that_cannot_be_reached_is_named_without_its_password() -> None:
    transport = Transport({})
    with nobody() as url:
        use_proxy(url.replace("://", "://me:hidden-word@"))
        sent = HttpRequest(url="https://api.test", headers={}, body=b"", patience=PATIENCE)
        with pytest.raises(
            ProviderError, match=r"Connection error: .*proxy 127\.0\.0\.1:"
        ) as error:
            async with transport.exchange(sent):
                pass
    await transport.close()
    assert "hidden-word" not in str(error.value)


async def test_a_tunnel_is_asked_for_with_the_password_and_a_refusal_is_named() -> None:
    heads: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    transport = Transport({})
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        use_proxy(f"http://me:hidden-word@127.0.0.1:{port}")
        sent = HttpRequest(
            url="https://api.test", headers={"x-key": "k"}, body=b"", patience=PATIENCE
        )
        with pytest.raises(ProviderError) as error:
            async with transport.exchange(sent):
                pass
    await transport.close()
    assert str(error.value) == "The proxy refused the connection: 407 Who are you"
    assert error.value.kind == "auth"
    (head,) = heads
    login = base64.b64encode(b"me:hidden-word")
    assert head.startswith(b"CONNECT api.test:443 HTTP/1.1\r\n")
    assert b"proxy-authorization: basic " + login.lower() in head.lower()
    assert b"x-key" not in head.lower()


def test_what_a_proxy_sends_back_is_redacted() -> None:
    use_proxy("http://me:hidden-word@proxy.test:1")
    login = base64.b64encode(b"me:hidden-word").decode()
    assert login in set(proxy_secrets(os.environ))
    shown = redact(f"407 you sent Basic {login}, that is me:hidden-word or hidden-word", (), {})
    assert "hidden-word" not in shown
    assert login not in shown


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_port_of_this_machine_is_not_worth_a_retry(host: str) -> None:
    transport = Transport({})
    with nobody() as url, pytest.raises(ProviderError, match=r"^Connection error: ") as caught:
        async with transport.post(url.replace("127.0.0.1", host), {}, b"{}"):
            pass
    await transport.close()
    assert caught.value.kind == "unreachable"
    assert caught.value.kind not in RETRYABLE


# ---------------------------------------------------------------- shared connections


async def _post(transport: Transport, url: str) -> None:
    async with transport.post(url, {}, b"x") as reply:
        await reply.text()


async def test_transports_of_one_loop_share_connections_until_the_last_one_closes() -> None:
    with Loopback(Canned(chunks=(b"a",))) as server:
        transports = [Transport({}) for _ in range(5)]
        for transport in transports:
            await _post(transport, server.url)
        assert server.connections == 1
        for transport in transports[1:]:
            await transport.close()
            await transport.close()
        await _post(transports[0], server.url)
        assert server.connections == 1
        await transports[0].close()
        await _post(transports[0], server.url)
        assert server.connections == 2
        await transports[0].close()


def test_each_loop_has_its_own_connections() -> None:
    async def ask_once(url: str) -> None:
        transport = Transport({})
        await _post(transport, url)
        await transport.close()

    with Loopback(Canned(chunks=(b"a",))) as server:
        for _ in range(3):
            asyncio.run(ask_once(server.url))
        assert server.connections == 3


async def test_a_shared_pool_keeps_proxies_and_their_passwords_apart() -> None:
    with Loopback(Canned(chunks=(b"a",))) as proxy, Loopback(Canned(chunks=(b"b",))) as server:
        direct = Transport({})
        address = proxy.url.removeprefix("http://")
        logins = ("one:secret", "two:other")
        through = [Transport({"http_proxy": f"http://{login}@{address}"}) for login in logins]
        for transport in (*through, direct, *through):
            await _post(transport, server.url if transport is direct else "http://model.test/v1")
        sent = [asked.headers.get("proxy-authorization") for asked in proxy.requests]
        expected = ["Basic " + base64.b64encode(login.encode()).decode() for login in logins]
        assert sent == expected * 2
        assert len(server.requests) == 1
        assert "proxy-authorization" not in server.requests[0].headers
        for transport in (*through, direct):
            await transport.close()
