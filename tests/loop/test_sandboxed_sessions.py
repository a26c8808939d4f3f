"""Sessions under a sandbox: a session file, which may be of others, cannot move the walls."""

import os
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import CommandError, dumps
from ludolf.tools.sandbox.guard import NoSandbox
from ludolf.tools.sandbox.policy import Ground
from ludolf.tools.sandbox.sandbox import Sandbox
from tests.loop.stage import Stage, stage

SANDBOX: dict[str, Any] = {"sandbox": {"mode": "workspace", "network": False}}
STAMP = "2026-01-01T00:00:00.000Z"


@pytest.fixture(autouse=True)
def _sandbox(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    ground = Ground(
        environ=os.environ,
        mode="workspace",
        network=False,
        home=tmp_path / "h",
        agent=tmp_path / "agent",
    )
    try:
        Sandbox(ground, tmp_path / "work").close()
    except NoSandbox as error:
        pytest.skip(str(error))


def _session(root: Path, cwd: Path | str) -> str:
    message = {"role": "user", "content": "Hello", "timestamp": 1}
    header = {"type": "session", "version": 3, "id": "stranger", "timestamp": STAMP}
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": STAMP}
    path = root / "foreign" / "stranger.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = dumps({**header, "cwd": str(cwd)}), dumps({**entry, "message": message})
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


async def _output(s: Stage, command: str) -> str:
    return str((await s.data("bash", command=command))["output"])


async def _is_still_here(s: Stage, before: Path) -> None:
    assert s.path == before
    assert await _output(s, "pwd") == f"{s.root / 'work'}\n"
    outside = s.root / "outside" / "new"
    assert (await s.data("bash", command=f"echo x > {outside}"))["exitCode"]
    assert not outside.exists()


async def test_a_session_of_another_folder_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with stage(tmp_path, settings=dict(SANDBOX)) as s:
        before = s.path
        (tmp_path / "work" / "link").symlink_to(outside)
        (tmp_path / "work" / ".git" / "hooks").mkdir(parents=True)
        for cwd in (outside, tmp_path, tmp_path / "work" / "link", f"{tmp_path}/work/../outside"):
            text = await s.refusal("switch_session", sessionPath=_session(tmp_path, cwd))
            assert f"Start ludolf in {cwd}" in text
            assert "--fork" in text
        hooks = _session(tmp_path, tmp_path / "work" / ".git" / "hooks")
        assert "protects" in await s.refusal("switch_session", sessionPath=hooks)
        folder = str(Path(_session(tmp_path, outside)).parent)
        assert "Start ludolf in" in await s.refusal("open_session", sessionDir=folder)
        await _is_still_here(s, before)


async def test_a_session_of_a_folder_below_works_within_the_same_walls(tmp_path: Path) -> None:
    below = tmp_path / "work" / "below"
    below.mkdir()
    (tmp_path / "outside").mkdir()
    async with stage(tmp_path, settings=dict(SANDBOX)) as s:
        await s.data("switch_session", sessionPath=_session(tmp_path, below))
        assert await _output(s, "pwd; echo x > new; echo y > ../new") == f"{below}\n"
        assert (await s.data("bash", command="echo x > ../../outside/new"))["exitCode"]
        assert (await s.data("bash", command="mkdir -p ../.claude/x"))["exitCode"]
    assert (below / "new").exists()
    assert (tmp_path / "work" / "new").exists()
    assert not list((tmp_path / "outside").iterdir())


async def test_a_start_with_a_session_of_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    options = {"session": _session(tmp_path, tmp_path / "outside")}
    with pytest.raises(CommandError, match="Start ludolf in"):
        async with stage(tmp_path, settings=dict(SANDBOX), options=options):
            pass


async def test_a_copy_of_a_session_of_another_folder_works_in_the_folder_of_the_start(
    tmp_path: Path,
) -> None:
    (tmp_path / "outside").mkdir()
    options = {"fork": _session(tmp_path, tmp_path / "outside")}
    async with stage(tmp_path, settings=dict(SANDBOX), options=options) as s:
        await _is_still_here(s, s.path)


async def test_settings_that_are_read_again_do_not_move_the_walls(tmp_path: Path) -> None:
    """A session moved the folder before the sandbox was switched on."""
    outside = tmp_path / "outside"
    outside.mkdir()
    async with stage(tmp_path) as s:
        await s.data("switch_session", sessionPath=_session(tmp_path, outside))
        (tmp_path / "agent" / "settings.json").write_bytes(dumps(SANDBOX))
        await s.data("reload")
        assert "outside" in await s.refusal("bash", command="echo x > new")
    assert not list(outside.iterdir())
