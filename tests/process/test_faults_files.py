"""Files that hurt: devices, pipes, giants, odd bytes, links, and patterns without end."""

import asyncio
import os
import time
from base64 import b64encode
from pathlib import Path

import pytest

from ludolf.client import Record
from tests.process.faults import MIB, peak_bytes
from tests.process.harness import Lab, only, text_of
from tests.process.script import answer, call


async def _use(lab: Lab, name: str, *wishes: Record) -> tuple[list[tuple[bool, str]], int]:
    """Have the model call a tool several times; errors and texts, and by how much memory grew."""
    calls = [call(name, wish, f"c{number}") for number, wish in enumerate(wishes)]
    lab.server.add(answer("Ready."), answer(*calls), answer("Done."))
    async with lab.client("--tools", "read,write,edit,bash,grep,find,ls") as client:
        await client.prompt_and_collect("Are you there?")
        before = peak_bytes(client.process.pid)
        told = await client.prompt_and_collect("Go")
        grown = peak_bytes(client.process.pid) - before
    ends = {end["toolCallId"]: end for end in only(told, "tool_execution_end")}
    results = [ends[f"c{number}"] for number in range(len(wishes))]
    return [(end["isError"], text_of(end["result"])) for end in results], grown


# ---------------------------------------------------------------- reading


async def test_devices_pipes_and_folders_are_refused_at_once(lab: Lab) -> None:
    os.mkfifo(lab.work / "fifo")
    places = ("/dev/zero", "fifo", "/dev/stdin", ".", "/proc/self/mem")
    began = time.monotonic()
    results, grown = await _use(lab, "read", *({"path": path} for path in places))
    assert time.monotonic() - began < 15
    assert all(failed for failed, _ in results)
    assert "character device" in results[0][1]
    assert "named pipe" in results[1][1]
    assert grown < 16 * MIB


async def test_giants_are_refused_or_cut_within_little_memory(lab: Lab) -> None:
    with (lab.work / "sparse").open("wb") as file:
        file.truncate(3 << 30)
    with (lab.work / "oneline").open("wb") as file:
        for _ in range(100):
            await asyncio.to_thread(file.write, b"x" * MIB)
    results, grown = await _use(lab, "read", {"path": "sparse"}, {"path": "oneline"})
    assert results[0][0]
    assert "too large" in results[0][1]
    assert "Line 1 is 100.0MB" in results[1][1]
    assert grown < 32 * MIB


async def test_a_prompt_image_that_is_none_is_left_out_and_starts_no_program(lab: Lab) -> None:
    folder = lab.work / "bin"
    folder.mkdir()
    (folder / "gs").write_text(f"#!/bin/sh\ntouch {lab.work}/ran\n")
    (folder / "gs").chmod(0o755)
    data = b64encode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n").decode()
    image = {"type": "image", "data": data, "mimeType": "image/png"}
    lab.server.add(answer("Nothing to see."))
    lab.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    async with lab.client() as client:
        told = await client.prompt_and_collect("What is this?", images=[image])
    said = only(told, "message_end")[0]["message"]
    assert said["role"] == "user"
    assert [part["type"] for part in said["content"]] == ["text"]
    assert "[Image omitted: could not be converted" in text_of(said)
    assert not (lab.work / "ran").exists()


# ---------------------------------------------------------------- changing


@pytest.mark.parametrize(
    ("data", "changed"),
    [
        (b"one\r\nhello world\r\nthree\r\n", True),
        (b"\xef\xbb\xbfhello world\nx\n", True),
        (b"a\x00b\nhello world\n", True),
        (b"caf\xe9 line\nhello world\n", False),
    ],
    ids=["crlf", "bom", "nul", "latin1"],
)
async def test_an_edit_changes_its_own_bytes_or_none(lab: Lab, data: bytes, changed: bool) -> None:
    path = lab.work / "a.txt"
    path.write_bytes(data)
    edits = [{"oldText": "hello world", "newText": "HELLO"}]
    ((failed, text),), _ = await _use(lab, "edit", {"path": "a.txt", "edits": edits})
    assert failed is not changed
    assert path.read_bytes() == (data.replace(b"hello world", b"HELLO") if changed else data)
    assert changed or "not UTF-8" in text


async def test_the_mode_of_a_script_survives_a_write(lab: Lab) -> None:
    path = lab.work / "run.sh"
    path.write_text("#!/bin/sh\necho 1\n")
    path.chmod(0o750)
    await _use(lab, "write", {"path": "run.sh", "content": "#!/bin/sh\necho 2\n"})
    assert path.read_text() == "#!/bin/sh\necho 2\n"
    assert path.stat().st_mode & 0o777 == 0o750


async def test_a_path_that_leads_outside_is_shown_as_what_it_is(lab: Lab) -> None:
    target = lab.root / "secret.txt"
    target.write_text("original")
    (lab.work / "link.txt").symlink_to(target)
    wishes = ({"path": "link.txt", "content": "x"}, {"path": "../out.txt", "content": "x"})
    results, _ = await _use(lab, "write", *wishes)
    assert [str(place) in text for (_, text), place in zip(results, _real(lab), strict=True)] == [
        True,
        True,
    ]
    assert (lab.work / "link.txt").is_symlink()


def _real(lab: Lab) -> tuple[Path, Path]:
    root = lab.root.resolve()
    return root / "secret.txt", root / "out.txt"


# ---------------------------------------------------------------- searching


async def test_a_pattern_without_end_takes_no_time(lab: Lab) -> None:
    (lab.work / "f.txt").write_text("a" * 40 + "!\n")
    began = time.monotonic()
    ((failed, text),), _ = await _use(lab, "grep", {"pattern": "(a+)+$", "path": "."})
    assert (failed, text) == (False, "No matches found")
    assert time.monotonic() - began < 15
