"""Commands of a session in somebody else's program: they end, and the program stays as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, ctypes, os, subprocess, sys, time
from pathlib import Path
from ludolf import create_session
from ludolf.sdk import ToolCall, ToolResultMessage

SLEEP = sys.argv[1]

async def model(context):
    if isinstance(context.messages[-1], ToolResultMessage):
        yield "done"
    else:
        command, timeout = context.messages[-1].content[0].text, 0.5
        yield ToolCall(id="c", name="bash", arguments={"command": command, "timeout": timeout})

def is_subreaper():
    told = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(37, ctypes.byref(told), 0, 0, 0)
    return told.value

def sleeping(seconds):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(int(pid))
    return found

async def main():
    async with create_session(model=model, settings={}, agent_dir=Path("home")) as session:
        await session.prompt(f"(setsid sleep {SLEEP} &) ; sleep {SLEEP}")
        assert sleeping(SLEEP) == [], "a command that was stopped left something"
        started = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'
        await session.prompt(f"sleep {SLEEP} & {started}; echo $!")
        (left,) = sleeping(SLEEP)
        (result,) = [m for m in session.messages[-2:] if isinstance(m, ToolResultMessage)]
        assert list(result.details["background"]) == [{"pid": left, "name": "sleep"}], result
        assert is_subreaper() == 0
        adopted = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        assert str(left) not in adopted
    os.write(1, b"fine")

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_commands_are_ended_and_the_program_adopts_no_orphans(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "3417.25"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("fine", 0), done.stderr
