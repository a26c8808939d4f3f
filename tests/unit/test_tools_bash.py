"""The bash tool: texts, updates, limits, abort."""

import asyncio
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools import BuiltinToolOptions
from ludolf.tools.bash import AT_ONCE, BashTool
from ludolf.tools.process_tree import WARDEN
from tests.samples import run_tool


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    WARDEN.end_all()


class Bash:
    """The tool with a record of its updates."""

    def __init__(self, cwd: Path, options: BuiltinToolOptions | None = None) -> None:
        self.updates: list[ToolOutput] = []
        self._tool = BashTool(options or BuiltinToolOptions())
        self._cwd = cwd

    async def report(self, partial: ToolOutput) -> None:
        self.updates.append(partial)

    async def execute(self, args: dict[str, Any], env: Mapping[str, str]) -> ToolOutput:
        ctx = ToolContext(call_id="c", cwd=self._cwd, report=self.report, environment=lambda: env)
        return await run_tool(self._tool, args, ctx)

    def run(self, command: str, env: Mapping[str, str] | None = None, **rest: Any) -> ToolOutput:
        return asyncio.run(self.execute({"command": command, **rest}, env or {}))


def test_output_is_the_result_without_details(tmp_path: Path) -> None:
    result = Bash(tmp_path).run("echo one; echo two >&2; pwd")
    assert text_of(result.content) == f"one\ntwo\n{tmp_path}\n"
    assert result.details is UNSET


def test_silence_is_told(tmp_path: Path) -> None:
    assert text_of(Bash(tmp_path).run("true").content) == "(no output)"


def test_a_non_zero_exit_is_an_error_after_the_output(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure) as error:
        Bash(tmp_path).run("echo oops; exit 3")
    assert str(error.value) == "oops\n\n\nCommand exited with code 3"


def test_a_signal_is_named_and_is_an_exit_code(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure) as error:
        Bash(tmp_path).run("kill -9 $$")
    words = "(no output)\n\n[Killed by SIGKILL]\n\nCommand exited with code 137"
    assert str(error.value) == words


def test_the_first_update_is_empty_and_the_last_holds_all(tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    bash.run("echo one; echo two")
    assert bash.updates[0] == ToolOutput(content=())
    assert text_of(bash.updates[-1].content) == "one\ntwo\n"
    assert bash.updates[-1].details == {}


def test_updates_are_rare_however_chatty_the_command(tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    start = time.monotonic()
    bash.run("for i in $(seq 40); do echo $i; sleep 0.01; done")
    assert 2 <= len(bash.updates) <= (time.monotonic() - start) / 0.1 + 3


def test_a_pending_update_goes_out_while_the_command_is_silent(tmp_path: Path) -> None:
    bash = Bash(tmp_path)

    async def report(partial: ToolOutput) -> None:
        if text_of(partial.content) == "one\ntwo\n":
            (tmp_path / "go").touch()

    bash.report = report  # type: ignore[method-assign]
    # The command goes on only when both lines have been shown.
    wait = "until test -e go; do sleep 0.01; done"
    result = bash.run(f"echo one; sleep 0.02; echo two; {wait}; echo three", timeout=15)
    assert text_of(result.content) == "one\ntwo\nthree\n"


def test_long_output_shows_its_tail_and_names_the_file(tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    result = bash.run("seq 1 5000")
    path = result.details["fullOutputPath"]
    lines = "\n".join(str(number) for number in range(3001, 5001))
    notice = f"[Showing lines 3001-5000 of 5000. Full output: {path}]"
    assert text_of(result.content) == f"{lines}\n\n{notice}"
    assert re.fullmatch(r"pi-bash-[0-9a-f]{16}\.log", os.path.basename(path))
    assert Path(path).read_text().splitlines()[0] == "1"
    assert result.details["truncation"]["totalBytes"] == 23893
    assert bash.updates[-1].details == result.details
    assert text_of(bash.updates[-1].content) == lines


def test_one_long_line_shows_its_end(tmp_path: Path) -> None:
    result = Bash(tmp_path).run("head -c 200000 /dev/zero | tr '\\0' x")
    path = result.details["fullOutputPath"]
    notice = f"[Showing last 50.0KB of line 1 (line is 195.3KB). Full output: {path}]"
    assert text_of(result.content) == "x" * 51200 + f"\n\n{notice}"


def test_wide_output_names_the_byte_limit(tmp_path: Path) -> None:
    text = text_of(
        Bash(tmp_path).run("yes $(head -c 999 /dev/zero | tr '\\0' y) | head -60").content
    )
    assert "[Showing lines 10-60 of 60 (50.0KB limit). Full output: " in text


def test_escape_sequences_reach_nobody(tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    result = bash.run(r"printf '\033]52;c;c2VjcmV0\007\033[31mred\033[0m\000\r\n'")
    assert text_of(result.content) == "red\n"
    assert text_of(bash.updates[-1].content) == "red\n"


def test_the_time_limit_kills_and_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure) as error:
        Bash(tmp_path).run("echo started; sleep 60", timeout=1.5)
    assert str(error.value) == "started\n\n\nCommand timed out after 1.5 seconds"


@pytest.mark.parametrize(
    ("timeout", "text"),
    [
        (0, "Invalid timeout: must be a finite number of seconds"),
        (-1, "Invalid timeout: must be a finite number of seconds"),
        (float("inf"), "Invalid timeout: must be a finite number of seconds"),
        (2_147_484, "Invalid timeout: maximum is 2147483.647 seconds"),
    ],
)
def test_impossible_time_limits_are_refused(timeout: float, text: str, tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    with pytest.raises(ToolFailure) as error:
        bash.run("touch ran", timeout=timeout)
    assert str(error.value) == text
    assert bash.updates == [ToolOutput(content=())]
    assert not (tmp_path / "ran").exists()


def test_abort_carries_the_output_so_far(tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    shown = asyncio.Event()

    async def report(partial: ToolOutput) -> None:
        if partial.content:
            shown.set()

    bash.report = report  # type: ignore[method-assign]

    async def scenario() -> str:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(bash.execute({"command": "echo started; sleep 60"}, {}))
            await shown.wait()
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                return str(error.args[0])
        raise AssertionError("not cancelled")

    assert asyncio.run(scenario()) == "started\n\n\nCommand aborted"


def test_environment_and_settings_reach_the_shell(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "COLOUR": "blue"}
    options = BuiltinToolOptions(shell_path="/bin/sh", command_prefix="greeting=hello")
    text = text_of(Bash(tmp_path, options).run("echo $greeting $COLOUR $0 $HOME", env).content)
    assert text == "hello blue /bin/sh\n"


def test_a_vanished_working_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure) as error:
        Bash(tmp_path / "gone").run("true")
    assert str(error.value) == (
        f"Working directory does not exist: {tmp_path}/gone\nCannot execute bash commands."
    )


async def test_a_limited_number_of_commands_runs_at_the_same_time(tmp_path: Path) -> None:
    bash = Bash(tmp_path)
    command = 'touch "$N"; while [ ! -e go ]; do sleep 0.01; done'
    work = [
        asyncio.create_task(bash.execute({"command": command}, {**os.environ, "N": f"n{number}"}))
        for number in range(AT_ONCE + 3)
    ]
    async with asyncio.timeout(20):
        while len(list(tmp_path.glob("n*"))) < AT_ONCE:  # noqa: ASYNC110  # files appear unannounced
            await asyncio.sleep(0.01)
        for waiting in work[AT_ONCE:]:
            waiting.cancel()
        (tmp_path / "go").touch()
        await asyncio.wait(work)
    assert sorted(path.name for path in tmp_path.glob("n*")) == sorted(
        f"n{number}" for number in range(AT_ONCE)
    )
