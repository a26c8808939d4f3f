"""A session whose tools work in another folder, over a command."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ludolf.ai.messages import text_of
from ludolf.base import ConfigError
from ludolf.sdk import (
    CommandWorkplace,
    ModelContext,
    ToolCall,
    ToolResultMessage,
    create_session,
)

CALLS = (
    ToolCall(id="1", name="write", arguments={"path": "new.txt", "content": "pear\n"}),
    ToolCall(id="2", name="bash", arguments={"command": "cat new.txt; pwd"}),
    ToolCall(id="3", name="read", arguments={"path": "new.txt"}),
)


@pytest.fixture
def place(tmp_path: Path) -> CommandWorkplace:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    return CommandWorkplace(["env", "PLACE=there"], str(tmp_path / "there"))


async def test_tools_prompt_and_commands_of_a_session_are_those_of_its_workplace(
    tmp_path: Path, place: CommandWorkplace
) -> None:
    systems = []

    async def model(context: ModelContext) -> AsyncIterator[str | ToolCall]:
        systems.append(context.system_prompt)
        done = sum(isinstance(each, ToolResultMessage) for each in context.messages)
        yield CALLS[done] if done < len(CALLS) else "done"

    async with create_session(model=model, cwd=tmp_path / "here", workplace=place) as session:
        answer = await session.prompt("Go")
        results = [text_of(m.content) for m in answer.messages if isinstance(m, ToolResultMessage)]
        shell = await session.bash("echo $PLACE; exit 3")
    assert results == ["Successfully wrote to new.txt", f"pear\n{place.cwd}\n", "pear\n"]
    assert (shell.output, shell.exit_code) == ("there\n", 3)
    assert f"<cwd>\n{place.cwd}\n</cwd>" in systems[0]
    assert os.listdir(tmp_path / "here") == []


async def test_a_sandbox_of_this_machine_is_refused(place: CommandWorkplace) -> None:
    with pytest.raises(ConfigError, match="remove sandbox or workplace"):
        await create_session(workplace=place, sandbox="workspace").open()


async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    place = CommandWorkplace([str(tmp_path / "missing")], "/")
    async with create_session(model="ludolf/offline", workplace=place) as session:
        answer = await session.prompt("run pwd")
    texts = [text_of(m.content) for m in answer.messages if isinstance(m, ToolResultMessage)]
    assert "Cannot run commands in /" in texts[0] and "missing" in texts[0]


async def test_a_server_that_a_command_leaves_does_not_hold_it_up(tmp_path: Path) -> None:
    place = CommandWorkplace(["env"], str(tmp_path))
    async with create_session(model="ludolf/offline", workplace=place) as session:
        code = "import time; print('up', flush=True); time.sleep(600)"
        result = await session.bash(f'{sys.executable} -c "{code}" & echo $! >pid; sleep 0.1')
    assert result.exit_code == 0
    os.kill(int((tmp_path / "pid").read_text()), 9)
