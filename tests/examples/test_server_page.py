"""The page about the server: its transcripts are played, its programs and files are used."""

import re
import shlex
import shutil
import sys
from configparser import ConfigParser

import msgspec
import pytest

from ludolf.protocol.server import SERVER_ROWS
from ludolf.serve.figures import _COUNTERS, _GAUGES
from tests.examples.ground import ROOT, Ground
from tests.examples.server_stage import Transcript, served
from tests.process.harness import WAIT_SECONDS

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
    assert words[:2] == ["ludolf", "serve"]
    with served(place, *words[2:]) as server:
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
    with served(place, *words[1:3], *words[3:]) as server:
        assert server.end() == int(unit["Service"]["SuccessExitStatus"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_finds_nothing_wrong_in_the_unit(place: Ground) -> None:
    text = file_named("ludolf.service").replace("%h/.local", str(place.root))
    path = place.root / "ludolf.service"
    path.write_text(text)
    done = place.run("systemd-analyze", "--user", "verify", str(path))
    ours = [line for line in done.stderr.splitlines() if "ludolf" in line]
    assert ours == []


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
