"""Odd descriptors and places to start from: files, full devices, non-blocking and closed ends."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from ludolf.client.options import PROGRAM
from tests.process.harness import (
    RPC,
    WAIT_SECONDS,
    Bell,
    Finished,
    Lab,
    messages,
    types,
    write_all,
)
from tests.process.script import answer

STATE = b'{"id":1,"type":"get_state"}\n'


def _shell(lab: Lab, script: str) -> Finished:
    """Run a script in which `$LUDOLF` starts RPC mode and `in` holds three commands."""
    (lab.work / "in").write_bytes(STATE * 3)
    program = script.replace("$LUDOLF", shlex.join(RPC))
    return lab.run("-c", program, program=("/bin/bash",))


def test_input_and_output_may_be_files(lab: Lab) -> None:
    done = _shell(lab, "$LUDOLF < in > out")
    assert (done.code, done.stderr) == (0, "")
    assert (lab.work / "out").read_bytes().count(b'"success":true') == 3


def test_an_output_that_takes_nothing_ends_the_program_with_one_line(lab: Lab) -> None:
    done = _shell(lab, "$LUDOLF < in > /dev/full")
    assert (done.code, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(("closed", "codes"), [("2>&-", {0}), ("0<&-", {0, 1}), (">&-", {1})])
def test_a_descriptor_that_is_closed_at_the_start_does_no_harm(
    lab: Lab, closed: str, codes: set[int]
) -> None:
    done = _shell(lab, f"$LUDOLF < in {closed}")
    assert done.code in codes
    assert "Traceback" not in done.stderr
    assert "never awaited" not in done.stderr
    assert types(done.records) == (["response get_state"] * 3 if closed == "2>&-" else [])


def test_a_working_folder_that_is_gone_ends_the_start_with_one_line(lab: Lab) -> None:
    done = _shell(lab, "mkdir gone; cd gone; rmdir ../gone; $LUDOLF < ../in")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


def test_a_home_that_cannot_be_written_is_told_and_the_run_goes_on(lab: Lab) -> None:
    done = lab.run("-p", "help", HOME="/dev/null")
    assert done.code == 0
    assert done.stdout
    assert "Session is not being saved" in done.stderr


def test_a_non_blocking_input_is_waited_for(lab: Lab) -> None:
    with _pipe(non_blocking=0) as (theirs, ours), _start(lab, stdin=theirs) as process:
        assert process.stdout is not None
        for _ in range(20):
            write_all(ours, STATE)
            assert b'"success":true' in process.stdout.readline()
        ours.close()
        assert process.wait(WAIT_SECONDS) == 0


def test_a_non_blocking_output_that_is_full_is_waited_for(lab: Lab) -> None:
    count = 6000
    bell = Bell(lab.work / "bell")
    with _pipe(non_blocking=1) as (ours, theirs), _start(lab, stdout=theirs) as process:
        assert process.stdin is not None
        theirs.close()
        write_all(process.stdin, STATE * count + b'{"type":"bash","command":"echo > bell"}\n')
        # By then there is more to say than the pipe takes.
        assert bell.rings()
        told = b""
        while told.count(b"\n") <= count and (chunk := ours.read(1 << 20)):
            told += chunk
        process.stdin.close()
        assert process.wait(WAIT_SECONDS) == 0
    assert told.count(b'"get_state","success":true') == count


def test_nothing_in_the_working_folder_is_run_by_starting_there(lab: Lab) -> None:
    names = (
        "contextlib",
        "json",
        "asyncio",
        "msgspec",
        "sitecustomize",
        "aiohttp",
        "ssl",
        "ludolf",
    )
    for name in names:
        (lab.work / f"{name}.py").write_text("open('ran', 'w').close()\nraise SystemExit(9)\n")
    (lab.work / ".env").write_text("LUDOLF_SCRIPT=/nowhere\n")
    lab.server.add(answer("Hi."))
    program = (*PROGRAM[: PROGRAM.index("--mode")], "-p")
    done = lab.run("Go", program=program)
    assert (done.code, done.stdout, done.stderr) == (0, b"Hi.\n", "")
    assert not (lab.work / "ran").exists()
    assert len(messages(lab.entries)) == 2


@contextmanager
def _pipe(*, non_blocking: int) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The end to read and the end to write, one of them non-blocking."""
    ends = os.pipe()
    os.set_blocking(ends[non_blocking], False)
    with os.fdopen(ends[0], "rb", buffering=0) as first, os.fdopen(ends[1], "wb", 0) as second:
        yield first, second


def _start(
    lab: Lab, stdin: int | IO[bytes] = subprocess.PIPE, stdout: int | IO[bytes] = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(RPC, cwd=lab.work, env=lab.env, stdin=stdin, stdout=stdout, bufsize=0)
