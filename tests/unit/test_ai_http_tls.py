"""The HTTP client over TLS and through proxies."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import HttpRequest, Transport
from tests.raw_servers import OK, PATIENCE, fetched, proxy_server, raw_server, server_tls
from tests.serve.certificates import make_certificate


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    made = Transport({})
    yield made
    await made.close()


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server for 127.0.0.1 and api.test whose authority is trusted."""
    certificate = make_certificate(tmp_path, "api.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    return server_tls(certificate)


# ---------------------------------------------------------------- certificates


async def test_a_connection_over_tls_is_used_again(
    transport: Transport, tls: ssl.SSLContext
) -> None:
    async with raw_server(OK, OK, tls=tls) as server:
        for _ in range(2):
            assert await fetched(transport, server.url) == (200, b"ok")
        assert server.connections == 1


async def test_a_folder_of_authorities_is_trusted_too(
    transport: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    folder = tmp_path / "authorities"
    folder.mkdir()
    program = ("openssl", "x509", "-hash", "-noout", "-in", str(certificate[0]))
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    name = (await process.communicate())[0].decode().strip()
    (folder / f"{name}.0").write_bytes(certificate[0].read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    async with raw_server(OK, tls=server_tls(certificate)) as server:
        assert await fetched(transport, server.url) == (200, b"ok")


@pytest.mark.parametrize("fault", ["unknown authority", "other name", "expired"])
async def test_a_certificate_that_is_not_valid_is_refused(
    transport: Transport, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path, days=-1 if fault == "expired" else 1)
    if fault != "unknown authority":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    host = "localhost" if fault == "other name" else "127.0.0.1"
    async with raw_server(OK, tls=server_tls(certificate)) as server:
        url = server.url.replace("127.0.0.1", host)
        with pytest.raises(ProviderError, match=r"^Connection error: .*certificate") as caught:
            await fetched(transport, url)
        assert str(caught.value).endswith(f"({url})")
    assert server.heads == []


async def test_a_server_without_tls_is_an_error_that_names_it(transport: Transport) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with raw_server(serve=serve) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(ProviderError, match=r"^Connection error: .*\(https://127") as caught:
            await fetched(transport, url)
    assert caught.value.kind == "network"


async def test_a_cut_in_an_answer_over_tls_is_noticed(
    transport: Transport, tls: ssl.SSLContext
) -> None:
    async with raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", tls=tls) as server:
        with pytest.raises(ProviderError, match=r"^terminated$"):
            await fetched(transport, server.url)


async def test_a_slow_reader_pauses_a_server_over_tls(
    transport: Transport, tls: ssl.SSLContext
) -> None:
    size = 4 << 20
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with raw_server(answer, tls=tls) as server:
        sent = HttpRequest(url=server.url, headers={}, body=b"{}", patience=PATIENCE)
        async with asyncio.timeout(30), transport.exchange(sent) as raw:
            total = 0
            while piece := await raw.content.readany():
                assert len(piece) <= 512 << 10
                total += len(piece)
                await asyncio.sleep(0)
    assert total == size


# ---------------------------------------------------------------- proxies


@pytest.mark.parametrize("secure_proxy", [False, True])
async def test_a_tunnel_leads_to_the_server_and_is_used_again(
    tls: ssl.SSLContext, secure_proxy: bool
) -> None:
    async with (
        raw_server(OK, OK, tls=tls) as server,
        proxy_server(server.port, tls if secure_proxy else None) as proxy,
    ):
        login = proxy.url.replace("://", "://me:p%40ss@")
        transport = Transport({"HTTPS_PROXY": login})
        for _ in range(2):
            assert await fetched(transport, "https://api.test/v1") == (200, b"ok")
        await transport.close()
        assert (proxy.connections, server.connections) == (1, 1)
    (asked,) = proxy.heads
    assert asked.startswith(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in asked
    assert b"roxy-" not in server.heads[0]
    assert server.heads[0].startswith(b"POST /v1 HTTP/1.1\r\nHost: api.test\r\n")


async def test_the_name_of_the_server_is_checked_inside_a_tunnel(tls: ssl.SSLContext) -> None:
    async with raw_server(OK, tls=tls) as server, proxy_server(server.port) as proxy:
        transport = Transport({"HTTPS_PROXY": proxy.url})
        with pytest.raises(ProviderError, match=r"certificate.*\(https://other\.test\)$"):
            await fetched(transport, "https://other.test/")
        await transport.close()
    assert server.heads == []


async def test_a_plain_request_reaches_a_proxy_over_tls(tls: ssl.SSLContext) -> None:
    async with raw_server(OK, tls=tls) as proxy:
        transport = Transport({"HTTP_PROXY": proxy.url})
        assert await fetched(transport, "http://model.test:8080/v1") == (200, b"ok")
        await transport.close()
    assert proxy.heads[0].startswith(
        b"POST http://model.test:8080/v1 HTTP/1.1\r\nHost: model.test:8080\r\n"
    )


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\n\r\nevil", b"HTTP/1.1 502 No\r\n\r\n", b"", b"SSH-2.0\r\n"]
)
async def test_a_proxy_that_opens_no_tunnel_is_an_error_of_the_network(answer: bytes) -> None:
    async with raw_server(answer) as proxy:
        transport = Transport({"HTTPS_PROXY": proxy.url})
        with pytest.raises(ProviderError) as caught:
            await fetched(transport, "https://api.test/")
        await transport.close()
    assert caught.value.kind == "network"
