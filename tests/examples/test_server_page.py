"""The page about the server: its transcripts are played, its programs and files are used."""

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import msgspec
import pytest

from ludolf.client import RemoteClient
from ludolf.protocol.server import SERVER_ROWS
from ludolf.serve.figures import _COUNTERS, _GAUGES
from tests.examples.ground import ROOT, Ground, read_until
from tests.examples.server_stage import Transcript, nginx, served, tls_relay
from tests.process.harness import WAIT_SECONDS
from tests.serve.certificates import make_certificate

PAGE = (ROOT / "docs" / "server.md").read_text()
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Fence(msgspec.Struct, frozen=True):
    """A fenced block: `file=…` quotes a file, another word is the name of a file to be there."""

    language: str
    about: str
    text: str
    heading: str


FENCES = [
    Fence(found[1], found[2] or "", found[3], _HEADING.findall(PAGE[: found.start()])[-1])
    for found in _FENCE.finditer(PAGE)
]
TRANSCRIPTS = [
    pytest.param(fence.text, id=fence.heading) for fence in FENCES if fence.language == "jsonl"
]


@pytest.fixture
def place(ground: Ground) -> Ground:
    """A ground with the files of the page."""
    for fence in FENCES:
        if fence.about and not fence.about.startswith("file="):
            (ground.work / fence.about).write_text(fence.text)
    return ground


def file_named(name: str) -> str:
    (text,) = [fence.text for fence in FENCES if fence.about == name]
    return text


# ---------------------------------------------------------------- transcripts


@pytest.mark.timeout(4 * WAIT_SECONDS)
@pytest.mark.parametrize("example", TRANSCRIPTS)
def test_a_transcript_happens_as_the_page_says(example: str, place: Ground) -> None:
    first, *lines = example.splitlines()
    words = shlex.split(first.removeprefix("$ "))
    program = words.index("ludolf")
    assert words[program + 1] == "serve"
    place.env |= dict(word.split("=", 1) for word in words[:program])
    with served(place, *words[program + 2 :]) as server:
        transcript = Transcript(server.socket, place.work)
        try:
            for line in lines:
                transcript.play(line)
        finally:
            transcript.close()
        assert server.end() == 143


def test_the_client_of_the_page_shows_the_answer(place: Ground) -> None:
    with served(place) as server:
        done = place.run(sys.executable, "talk.py", server.socket, "read a.txt")
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout.decode() == "I will read a.txt.Here is a.txt:\n```\nhi\n```"


# ---------------------------------------------------------------- a unit of systemd


def test_the_unit_starts_the_server_and_takes_its_exit_code_for_success(place: Ground) -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    unit.read_string(file_named("ludolf.service"))
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/ludolf")
    assert words[0] == "serve"
    with served(place, *(word.replace("8765", "0") for word in words[1:])) as server:
        assert server.end() == int(unit["Service"]["SuccessExitStatus"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_finds_nothing_wrong_in_the_unit(place: Ground) -> None:
    text = file_named("ludolf.service").replace("%h/.local", str(place.root))
    path = place.root / "ludolf.service"
    path.write_text(text)
    done = place.run("systemd-analyze", "--user", "verify", str(path))
    ours = [line for line in done.stderr.splitlines() if "ludolf" in line]
    assert ours == []


# ---------------------------------------------------------------- HTTP

NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


def token_of(place: Ground) -> Path:
    return place.home / ".pi" / "agent" / "serve-token"


@NEEDS_CURL
def test_curl_follows_a_session_and_continues_after_a_cursor(place: Ground) -> None:
    with served(place, "--http", "0") as server:
        token, work = str(token_of(place)), str(place.work)
        done = place.run("sh", "follow.sh", server.url, token, work, "read a.txt")
        assert (done.code, done.stderr) == (0, "")
        assert b'"disposition":"started"' in done.stdout
        events = (place.work / "events.txt").read_text()
        first, *others = [event for event in events.split("\n\n") if "data: " in event]
        assert "\nevent: snapshot\ndata: {" in first
        assert '"seq":1,"type":"agent_start"' in others[0]
        cursor = others[0].removeprefix("id: ").partition("\n")[0]
        session = re.findall(r'"session":"([^"]+)"', first)[0]
        header = f"Authorization: Bearer {token_of(place).read_text().strip()}"
        address = f"{server.url}/events?session={session}"
        after = ("-H", f"Last-Event-ID: {cursor}")
        with place.started("curl", "-fsSN", "-H", header, *after, address) as again:
            assert b'"seq":1,' not in read_until(again.stdout, b'"seq":2,"type":"turn_start"}')
        assert server.end() == 143


@NEEDS_CURL
async def test_the_proxy_of_the_page_leads_to_the_server(place: Ground) -> None:
    text = file_named("nginx.conf")
    (start,) = re.findall(r"^\$ ludolf serve (--http 8765 --host \S+)$", PAGE, re.MULTILINE)
    name = start.rpartition(" ")[2]
    assert f"server_name {name};" in text
    assert file_named("Caddyfile").startswith(f"{name} {{\n    reverse_proxy 127.0.0.1:8765\n")
    files = make_certificate(place.root, name)
    with served(place, *start.replace("8765", "0").split()) as server:
        inner = int(server.url.rpartition(":")[2])
        proxy = nginx if shutil.which("nginx") is not None else tls_relay
        async with proxy(text, inner, files) as port:
            await _check_names(name, port, files[0], token_of(place).read_text().strip())
            await _check_prompt(place, port, files[0])


async def _check_names(name: str, port: int, authority: Path, token: str) -> None:
    resolve = f"{name}:{port}:127.0.0.1"
    curl = ("-sS", "--cacert", str(authority), "--resolve", resolve)
    bearer = ("-H", f"Authorization: Bearer {token}")
    send = ("-d", '{"type":"list"}', f"https://{name}:{port}/command")
    assert await _curl(*curl, f"https://{name}:{port}/healthz") == "ok\n"
    assert "missing or wrong" in await _curl(*curl, *send)
    assert '"success":true' in await _curl(*curl, *bearer, *send)
    assert '"success":true' not in await _curl(*curl, *bearer, "-H", "Host: other.example", *send)


async def _check_prompt(place: Ground, port: int, authority: Path) -> None:
    token = token_of(place).read_text().strip()
    where = f"wss://127.0.0.1:{port}"
    async with RemoteClient(where, ca=str(authority), token=token) as client:
        session = await client.open(cwd=place.work)
        answer = await session.prompt_and_wait("read a.txt")
        assert answer.text.startswith("Here is a.txt")


async def _curl(*words: str) -> str:
    process = await asyncio.create_subprocess_exec("curl", *words, stdout=subprocess.PIPE)
    stdout, _ = await process.communicate()
    return stdout.decode()


# ---------------------------------------------------------------- clients in Python


def test_the_program_with_a_remote_client_shows_the_answer(place: Ground) -> None:
    with served(place) as server:
        done = place.run(sys.executable, "remote.py", f"unix:{server.socket}")
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout.startswith(b"Here is a.txt")


def test_a_host_of_rpc_mode_uses_a_session_of_the_server(place: Ground) -> None:
    with served(place) as server:
        where = f"unix:{server.socket}"
        prompt = b'{"id":"1","type":"get_state"}\n'
        done = place.run("ludolf", "--mode", "rpc", "--connect", where, stdin=prompt)
        assert (done.code, done.stderr) == (0, "")
        assert done.records[0]["command"] == "get_state"
        listed = place.run("ludolf", "attach")
        assert done.records[0]["data"]["sessionId"] in listed.stdout.decode()


# ---------------------------------------------------------------- completeness


@pytest.mark.parametrize("row", SERVER_ROWS, ids=lambda row: row.name)
def test_every_command_and_its_parameters_have_a_row(row: object) -> None:
    name, params = row.name, row.params  # type: ignore[attr-defined]  # a CommandSpec
    (text,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
    for field in params.__struct_encode_fields__:
        assert re.search(rf"`{field}\??`", text), field


@pytest.mark.parametrize(
    "name", [f"ludolf_{n}_total" for n in _COUNTERS] + [f"ludolf_{n}" for n in _GAUGES]
)
def test_every_figure_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_option_of_the_command_is_on_the_page(place: Ground) -> None:
    options = set(
        re.findall(r"(--[a-z-]+)", place.run("ludolf", "serve", "--help").stdout.decode())
    )
    rows = set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.MULTILINE))
    assert options - {"--help"} == rows


def test_quotes_stand_in_their_files() -> None:
    quotes = [fence for fence in FENCES if fence.about.startswith("file=")]
    assert quotes
    for fence in quotes:
        assert fence.text in (ROOT / fence.about.removeprefix("file=")).read_text()
