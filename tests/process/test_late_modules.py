"""Modules that the program loads late work as if they had been loaded at once."""

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.house.source import SOURCE
from tests.serve.certificates import make_certificate

LATE = """
import sys
from ludolf.cli.late_modules import LateModule, import_msgspec, load_late, read_modules_at_once
read_modules_at_once()
load_late()
import_msgspec()
import asyncio, ssl, textwrap
assert type(ssl) is LateModule and type(asyncio.sslproto) is LateModule
"""
HTTPS = """
async def main(certificate, key):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=certificate)
    await by_streams(server, client)
    await by_aiohttp(server, client)

async def by_streams(server, client):
    async def upgrade(reader, writer):
        await writer.start_tls(server)
        writer.write(await reader.readline())
        writer.close()
    async with await asyncio.start_server(upgrade, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await writer.start_tls(client, server_hostname="127.0.0.1")
        writer.write(b"over TLS\\n")
        print((await reader.read()).decode(), end="")
        writer.close()

async def by_aiohttp(server, client):
    import aiohttp
    from aiohttp import web
    async def reply(request):
        return web.Response(text=request.scheme)
    app = web.Application()
    app.router.add_get("/", reply)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
    await site.start()
    address = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    async with aiohttp.ClientSession() as session, session.get(address, ssl=client) as answer:
        print(await answer.text())
    await runner.cleanup()

asyncio.run(main(*sys.argv[1:]))
"""
PLAIN = """
import socket
async def main():
    async def reply(reader, writer):
        writer.write(b"plain")
        writer.close()
    async with await asyncio.start_server(reply, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        print((await reader.read()).decode(), type(ssl) is LateModule)
        writer.close()
    context = ssl.create_default_context()
    with context.wrap_socket(socket.socket(), server_hostname="localhost") as encrypted:
        encrypted.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_recv(encrypted, 1)
        except TypeError as error:
            print(error)
asyncio.run(main())
"""
THREADS = """
import threading
sys.setswitchinterval(1e-6)
ready = threading.Barrier(8)
found = []
def use():
    ready.wait()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.append((textwrap.shorten("a b", 9), context.verify_mode is ssl.CERT_REQUIRED))
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found == [("a b", True)] * 8, type(ssl) is type(sys))
"""


def _run(program: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-P", "-c", LATE + program, *words],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tls_works_if_ssl_is_loaded_late(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    assert _run(HTTPS, str(certificate), str(key)) == "over TLS\nhttps\n"


def test_a_connection_without_tls_does_not_load_ssl() -> None:
    assert _run(PLAIN) == "plain True\nSocket cannot be of type SSLSocket\n"


def test_threads_that_use_a_late_module_at_once_see_all_of_it() -> None:
    assert _run(THREADS) == "True True\n"


def test_a_late_module_can_be_imported_from_changed_and_reloaded() -> None:
    program = """
from textwrap import dedent
import importlib, inspect, tokenize, locale
locale.mine = 1
locale.getlocale()
print(dedent(" a"), locale.mine, importlib.reload(tokenize).NAME, inspect.getmodule(dedent))
print("SSLContext" in vars(ssl), ssl.__loader__ is ssl.__spec__.loader)
print("typing_extensions" in sys.modules)
import typing_extensions
"""
    assert _run(program) == f"a 1 1 {textwrap}\nTrue True\nFalse\n"


def test_modules_that_are_read_at_once_are_read_completely(tmp_path: Path) -> None:
    tmp_path.joinpath("empty_module.py").write_text("")
    tmp_path.joinpath("large_module.py").write_text(f"TEXT = '{'x' * 3_000_000}'\nEND = 1\n")
    program = """
sys.path.insert(0, sys.argv[1])
import empty_module, large_module
print(len(large_module.TEXT), large_module.END)
"""
    # The second run reads the compiled file.
    assert [_run(program, str(tmp_path)) for _ in range(2)] == ["3000000 1\n"] * 2
