"""The guide for hosts tells the truth: what it quotes is there, what it shows happens."""

import re
import shlex
import shutil
import subprocess
import sys

import msgspec
import pytest

from tests.examples.ground import EXAMPLES, ROOT, Ground
from tests.process.harness import WAIT_SECONDS
from tests.process.test_protocol_page import Stage

PAGE = ROOT / "docs" / "embedding.md"
PICTURE = ROOT / "docs" / "images" / "example-web.png"
# What a command that contains this needs.
NEEDS = {"node ": "node", "go run": "go", ".sh": "jq"}
_FENCE = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Fence(msgspec.Struct, frozen=True):
    """A fenced block: `file=…` quotes a file, another word is the name of a file to be there."""

    kind: str
    about: str
    text: str
    under: str


def _fences() -> list[Fence]:
    page = PAGE.read_text()
    return [
        Fence(found[1], found[2] or "", found[3], _HEADING.findall(page[: found.start()])[-1])
        for found in _FENCE.finditer(page)
    ]


def _of(kind: str) -> list[object]:
    chosen = [fence for fence in _fences() if fence.kind == kind]
    return [pytest.param(fence, id=f"{at} {fence.under}") for at, fence in enumerate(chosen)]


QUOTES = [fence for fence in _fences() if fence.about.startswith("file=")]

pytestmark = pytest.mark.timeout(120)  # a compiler may have to begin at the beginning


@pytest.fixture
def place(ground: Ground) -> Ground:
    """A clone's folder with the files of the page, and the programs of this Python."""
    (ground.work / "examples").symlink_to(EXAMPLES)
    (ground.work / "a.txt").write_text("hi\n")
    for fence in _fences():
        if fence.about and not fence.about.startswith("file="):
            (ground.work / fence.about).write_text(fence.text)
    python = ground.root / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return ground


def test_every_block_is_quoted_or_run() -> None:
    for fence in _fences():
        known = fence.kind in ("console", "jsonl") or fence.about
        assert known, fence.text


def test_the_typed_example_uses_names_of_the_types() -> None:
    types = (ROOT / "docs/schema/ludolf.d.ts").read_text()
    (fence,) = (fence for fence in _fences() if fence.kind == "ts")
    imported = re.findall(r"import type {(.*?)}", fence.text)[0].split(",")
    header = types.partition("export")[0]

    for name in map(str.strip, imported):
        assert re.search(rf"^export (type|interface) {name}\b", types, re.MULTILINE), name
        assert f"`{name}" in header


@pytest.mark.parametrize("fence", QUOTES, ids=lambda fence: fence.about)
def test_a_quote_stands_in_its_file(fence: Fence) -> None:
    assert fence.text in (ROOT / fence.about.removeprefix("file=")).read_text()


@pytest.mark.parametrize("fence", _of("console"))
def test_a_command_prints_what_the_page_says(fence: Fence, place: Ground) -> None:
    shown: list[tuple[str, list[str]]] = []
    for line in fence.text.splitlines():
        if line.startswith("$ "):
            shown.append((line[2:], []))
        else:
            shown[-1][1].append(line)
    for command, lines in shown:
        _check(place, command, "".join(f"{line}\n" for line in lines))


def _check(place: Ground, command: str, expected: str) -> None:
    for sign, program in NEEDS.items():
        if sign in command and shutil.which(program) is None:
            pytest.skip(f"this needs {program}")
    # As on a terminal: both streams, in the order in which they were written.
    done = subprocess.run(
        ["sh", "-c", f"{{ {command} ; }} 2>&1"],
        cwd=place.work,
        env={**place.env, "GOCACHE": str(place.root / "go")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )
    printed = done.stdout.decode() + (f"[exit {done.returncode}]\n" if done.returncode else "")
    pattern = ".*".join(map(re.escape, expected.replace("…\n", "…").split("…")))
    assert re.fullmatch(pattern, printed, re.DOTALL), printed


@pytest.mark.parametrize("under", sorted({f.under for f in _fences() if f.kind == "jsonl"}))
def test_transcripts_happen_as_the_page_says(under: str, place: Ground) -> None:
    """Those of one heading in one folder, one after another."""
    for fence in _fences():
        if (fence.kind, fence.under) == ("jsonl", under):
            _play(fence.text, place)


def _play(text: str, place: Ground) -> None:
    first, *lines = text.splitlines()
    words = shlex.split(first.removeprefix("$ "))
    at = words.index("ludolf")
    place.env |= dict(word.split("=", 1) for word in words[:at])
    with place.started(*words[at:]) as process:
        stage = Stage(process, "pi-delta")
        for line in lines:
            stage.play(line)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(WAIT_SECONDS) == 0


def test_links_lead_to_a_heading_or_a_file() -> None:
    page = PAGE.read_text()
    anchors = {
        "#" + re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in _HEADING.findall(page)
    }
    for link in re.findall(r"\]\(([^)\s]+)\)", page):
        path = link.partition("#")[0]
        assert link in anchors or (path and (PAGE.parent / path).exists()), link


def test_every_example_is_on_the_page() -> None:
    page = PAGE.read_text()
    folders = sorted(path.name for path in EXAMPLES.glob("[a-z]*") if path.is_dir())
    folders.remove("project")  # not a host: docs/instructions.md describes it
    assert [name for name in folders if f"examples/{name}" not in page] == []


def test_the_picture_is_small() -> None:
    assert PICTURE.stat().st_size < 200_000


def test_the_page_tells_how_long_the_host_is() -> None:
    told = re.search(r"a host of (\d+) lines", PAGE.read_text())
    assert told is not None
    lines = len((EXAMPLES / "web" / "host.py").read_text().splitlines())
    assert abs(int(told[1]) - lines) <= 10
