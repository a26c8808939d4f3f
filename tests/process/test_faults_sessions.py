"""Session files that are damaged, foreign or shared: what is readable is read, nothing is lost."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from tests.process.faults import MIB, peak_bytes
from tests.process.harness import Lab, messages, only, read_entries, text_of
from tests.process.script import answer

_USAGE = {
    **{"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2},
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}


def _entry(number: int, kind: str, parent: str | None, message: Record) -> bytes:
    return dumps(
        {
            "type": "message",
            "id": f"{number:07x}{kind}",
            "parentId": parent,
            "timestamp": "2026-10-01T00:00:01.000Z",
            "message": {**message, "timestamp": number},
        }
    )


def _lines(lab: Lab, count: int = 3) -> list[bytes]:
    """A session of questions and answers: q0, a0, q1, a1 and so on."""
    header = {"type": "session", "version": 3, "id": "00000000-0000-7000-8000-000000000001"}
    lines = [dumps({**header, "timestamp": "2026-10-01T00:00:00.000Z", "cwd": str(lab.work)})]
    parent: str | None = None
    for number in range(count):
        asked = {"role": "user", "content": [{"type": "text", "text": f"q{number}"}]}
        said: dict[str, Any] = {
            **{"role": "assistant", "content": [{"type": "text", "text": f"a{number}"}]},
            **{"api": "anthropic-messages", "provider": "claude", "model": "large"},
            **{"usage": _USAGE, "stopReason": "stop"},
        }
        lines.append(_entry(number, "a", parent, asked))
        lines.append(_entry(number, "b", f"{number:07x}a", said))
        parent = f"{number:07x}b"
    return lines


def _lay(lab: Lab, data: bytes, name: str = "s.jsonl") -> Path:
    path = lab.root / name
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def _whole(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


async def _texts(client: Client) -> list[str]:
    return [text_of(message) for message in (await client.ask("get_messages"))["messages"]]


def _warnings(lab: Lab) -> list[str]:
    return [record["message"] for record in only(map(loads, lab.lines), "warning")]


# ---------------------------------------------------------------- damage

ALL = ["q0", "a0", "q1", "a1", "q2", "a2"]
Spoil = Callable[[list[bytes]], bytes]


def _torn(lines: list[bytes]) -> bytes:
    return _whole(lines)[:-60]


def _unended(lines: list[bytes]) -> bytes:
    return _whole(lines)[:-1]


def _garbage(lines: list[bytes]) -> bytes:
    return _whole([lines[0], b"\x00\x00garbage{{{", *lines[1:4], b"\xff" * 40, *lines[4:]])


def _nul_tail(lines: list[bytes]) -> bytes:
    return _whole(lines) + b"\x00" * 4096


def _bad_utf8(lines: list[bytes]) -> bytes:
    return _whole(lines).replace(b'"q1"', b'"q\xff\xfe1"')


def _circle(lines: list[bytes]) -> bytes:
    return _whole(lines).replace(b'"parentId":null', b'"parentId":"0000002b"')


def _twice(lines: list[bytes]) -> bytes:
    return _whole(lines).replace(b'"0000001a"', b'"0000000a"')


def _orphaned(lines: list[bytes]) -> bytes:
    return _whole([*lines[:3], *lines[4:]])


@pytest.mark.parametrize(
    ("spoil", "shown", "told"),
    [
        (_torn, ALL[:5], "1 unreadable line(s) skipped"),
        (_unended, ALL, None),
        (_garbage, ALL, "2 unreadable line(s) skipped"),
        (_nul_tail, ALL, "1 unreadable line(s) skipped"),
        (_bad_utf8, [*ALL[:2], "q\ufffd\ufffd1", *ALL[3:]], None),
        (_circle, ALL, "1 circle(s) of parents cut"),
        (_twice, ALL, "1 repeated id(s) renamed"),
        (_orphaned, ALL[3:], "1 entry(ies) without their parent"),
    ],
)
async def test_a_damaged_session_is_read_told_of_continued_and_kept(
    lab: Lab, spoil: Spoil, shown: list[str], told: str | None
) -> None:
    path = _lay(lab, spoil(_lines(lab)))
    before = path.read_bytes()
    lab.server.add(answer("Fine."))
    async with lab.client() as client:
        assert (await client.request("switch_session", sessionPath=str(path)))["success"]
        assert await _texts(client) == shown
        warned = _warnings(lab)
        assert [told in text for text in warned] == [True] if told else warned == []
        await client.prompt_and_collect("More")
    after = path.read_bytes()
    assert after.startswith(before)
    async with lab.client("--session", str(path)) as client:
        assert await _texts(client) == [*shown, "More", "Fine."]


async def test_damage_found_at_the_start_is_told_in_the_first_event(lab: Lab) -> None:
    path = _lay(lab, _garbage(_lines(lab)))
    async with lab.client("--session", str(path)) as client:
        await client.ask("get_state")
    assert "2 unreadable" in client.process.stderr
    assert "2 unreadable line(s) skipped" in loads(lab.lines[0])["message"]


async def test_hundred_thousand_circles_are_cut_in_linear_time(lab: Lab) -> None:
    lines = _lines(lab, 1)[:1]
    for number in range(50_000):
        own = {"role": "user", "content": [{"type": "text", "text": f"q{number}"}]}
        lines.append(_entry(number, "a", f"{number:07x}b", own))
        lines.append(_entry(number, "b", f"{number:07x}a", own))
    path = _lay(lab, _whole(lines))
    async with lab.client() as client:
        reply = await client.request("switch_session", sessionPath=str(path))
        assert reply["success"]
        assert len(await _texts(client)) == 2
    assert "50000 circle(s)" in _warnings(lab)[0]


# ---------------------------------------------------------------- what is no session of ours


async def test_a_newer_version_is_shown_but_not_continued(lab: Lab) -> None:
    path = _lay(lab, _whole(_lines(lab)).replace(b'"version":3', b'"version":99'))
    before = path.read_bytes()
    async with lab.client() as client:
        await client.ask("switch_session", sessionPath=str(path))
        assert await _texts(client) == ALL
        refused = await client.request("prompt", message="Go")
        assert "version 99" in refused["error"]
        assert "not continued" in refused["error"]
        # A choice of the host counts all the same; it goes along to the next session.
        assert (await client.request("set_thinking_level", level="low"))["success"]
        assert "version 99" in (await client.request("compact"))["error"]
        assert "version 99" in (await client.request("set_session_name", name="x"))["error"]
        await client.ask("new_session")
        assert (await client.ask("get_state"))["thinkingLevel"] == "low"
    assert path.read_bytes() == before
    assert lab.server.requests == []


@pytest.mark.parametrize(
    "data", [b"precious notes\nline two\n", b'{"a":1}\n', bytes(range(256)) * 16]
)
async def test_other_peoples_files_are_refused_and_left_as_they_are(lab: Lab, data: bytes) -> None:
    path = _lay(lab, data, "notes.txt")
    lab.server.add(answer("Fine."))
    async with lab.client() as client:
        refused = await client.request("switch_session", sessionPath=str(path))
        assert "not a valid" in refused["error"]
        await client.prompt_and_collect("Go")
    assert path.read_bytes() == data


async def test_pipes_devices_and_folders_are_refused_at_once(lab: Lab) -> None:
    os.mkfifo(lab.root / "fifo")
    lab.server.add(answer("Ready."))
    async with lab.client() as client:
        # What the program loads beside its first replies has been loaded then.
        await client.prompt_and_collect("Are you there?")
        before = peak_bytes(client.process.pid)
        for path in (lab.root / "fifo", Path("/dev/zero"), lab.work):
            refused = await client.request("switch_session", sessionPath=str(path))
            assert "not a regular file" in refused["error"]
        assert peak_bytes(client.process.pid) - before < 16 * MIB


# ---------------------------------------------------------------- two programs, one file


async def test_the_second_program_reads_is_told_why_and_may_fork(lab: Lab) -> None:
    path = _lay(lab, _whole(_lines(lab)))
    lab.server.add(answer("First."), answer("Forked."), answer("After."))
    async with lab.client("--session", str(path)) as first:
        await first.ask("get_state")
        async with lab.client("--session", str(path)) as second:
            assert await _texts(second) == ALL
            await first.prompt_and_collect("Mine")
            refused = await second.request("prompt", message="Go")
            assert "in use by another process" in refused["error"]
            assert "Fork it" in refused["error"]
            assert (await second.request("bash", command="echo hi"))["data"]["output"] == "hi\n"
            clone = await second.request("clone")
            assert clone["data"] == {"cancelled": False}
            await second.prompt_and_collect("Go")
            assert (await _texts(second))[-2:] == ["Go", "Forked."]
        assert (await _texts(first))[-2:] == ["Mine", "First."]
    # Freed with the first program, it can be written again.
    async with lab.client("--session", str(path)) as third:
        await third.prompt_and_collect("Again")
    texts = [text_of(message) for message in messages(read_entries(path))]
    assert texts == [*ALL, "Mine", "First.", "Again", "After."]
    assert any("The output of a command was not stored" in text for text in _warnings(lab))


async def test_growth_by_others_is_noticed_before_the_next_entry(lab: Lab) -> None:
    path = _lay(lab, _whole(_lines(lab)))
    lab.server.add(answer("Fine."))
    async with lab.client("--session", str(path)) as client:
        await client.ask("get_state")
        foreign = _entry(9, "a", "0000002b", {"role": "user", "content": "from elsewhere"})
        with path.open("ab") as file:
            file.write(foreign[:-5])
        await client.prompt_and_collect("Go")
    (warned,) = _warnings(lab)
    assert "changed by another program" in warned
    lines = path.read_bytes().splitlines()
    assert foreign[:-5] in lines
    texts = [text_of(loads(line)["message"]) for line in lines[-2:]]
    assert texts == ["Go", "Fine."]


async def test_a_file_replaced_under_the_program_is_followed(lab: Lab) -> None:
    path = _lay(lab, _whole(_lines(lab)))
    lab.server.add(answer("Fine."))
    async with lab.client("--session", str(path)) as client:
        await client.ask("get_state")
        copy = _lay(lab, path.read_bytes(), "copy.jsonl")
        await asyncio.to_thread(copy.replace, path)
        await client.prompt_and_collect("Go")
    assert [text_of(m) for m in messages(read_entries(path))] == [*ALL, "Go", "Fine."]


# ---------------------------------------------------------------- modes


async def test_files_are_private_whatever_the_umask(lab: Lab) -> None:
    lab.server.add(answer("Fine."))
    before = os.umask(0)
    try:
        async with lab.client() as client:
            await client.prompt_and_collect("Go")
            await client.ask("login", providerId="openai", apiKey="sk-a-key-for-the-modes")
            await client.ask("export_html", outputPath=str(lab.root / "page.html"))
            whole = await client.ask("bash", command="seq 1 5000")
    finally:
        os.umask(before)
    (session,) = lab.sessions
    files = (session, lab.agent / "auth.json", lab.root / "page.html", whole["fullOutputPath"])
    assert [_mode(Path(file)) for file in files] == [0o600] * 4
    folders = (session.parent, session.parent.parent, Path(whole["fullOutputPath"]).parent)
    assert [_mode(folder) for folder in folders] == [0o700] * 3


async def test_a_host_receives_no_warning_for_the_mode_that_pi_gives_to_session_files(
    lab: Lab,
) -> None:
    with TemporaryDirectory() as folder:  # the folders of tests are private as a whole
        path = Path(folder) / "s.jsonl"
        path.write_bytes(_whole(_lines(lab)))
        path.chmod(0o644)
        path.parent.chmod(0o755)
        async with lab.client() as client:
            await client.ask("switch_session", sessionPath=str(path))
            assert "Other users" not in client.process.stderr
        assert _mode(path) == 0o644
    assert _warnings(lab) == []


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
