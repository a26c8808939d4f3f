"""Two engines of one process, each with an environment of its own."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path

from ludolf.agent.scope import Tasks
from ludolf.ai.builtin.scripted import Scripted
from ludolf.ai.http.proxy import proxy_for
from ludolf.base import dumps
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from tests.loop.mcp_stage import configure, entry, starts
from tests.loop.stage import WAIT_SECONDS, Stage, text_of, texts

SHOW = 'echo "$MARKER|$HOME|${ANTHROPIC_API_KEY-none}|$(own-tool)"; cat ~/note'


async def test_each_engine_sees_its_own_environment_and_none_changes(tmp_path: Path) -> None:
    before, kernel = dict(os.environ), Path("/proc/self/environ").read_bytes()
    async with _session(tmp_path / "one") as one, _session(tmp_path / "two") as two:
        both = ((one, "one"), (two, "two"))
        runs = await asyncio.gather(one.run("Go"), two.run("Go"))
        for (session, name), said in zip(both, runs, strict=True):
            expected = f"{name}|{session.root}|none|tool of {name}\nnote of {name}\n"
            assert (await session.data("bash", command=SHOW))["output"] == expected
            results = [text_of(r["result"]) for r in said if r["type"] == "tool_execution_end"]
            assert sorted(results) == sorted((expected, f"note of {name}\n"))
            assert texts(said, "assistant")[-1] == f"Answer of {name}"
            _check_engine(session, name)
    assert dict(os.environ) == before
    assert Path("/proc/self/environ").read_bytes() == kernel


def _check_engine(session: Stage, name: str) -> None:
    root, engine = session.root, session.engine
    assert session.path.is_relative_to(root / ".pi" / "agent" / "sessions")
    access = engine.models.registry.keyring.access("anthropic")
    assert access is not None
    assert access.key == f"key of {name}"
    proxy = proxy_for("https://api.test", engine.models.transport.environ)
    assert proxy is not None
    assert proxy.url == f"http://{name}.test:80"
    assert len(starts(root / "starts")) == 1


@asynccontextmanager
async def _session(root: Path) -> AsyncIterator[Stage]:
    engine = build(
        Options(cwd=_furnished(root), environ=_environment(root), model="ludolf/scripted"),
        warn=lambda text: None,
    )
    session = Stage(root, engine, Scripted(), repeat(0))
    serving = Tasks().start(session.server.serve())
    await asyncio.sleep(0)
    try:
        yield session
    finally:
        session.end()
        await asyncio.wait_for(serving, WAIT_SECONDS)


def _environment(root: Path) -> dict[str, str]:
    return {
        "HOME": str(root),
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        "MARKER": root.name,
        "ANTHROPIC_API_KEY": f"key of {root.name}",
        "LUDOLF_SCRIPT": "~/script.json",
        "STARTS": str(root / "starts"),
        "HTTPS_PROXY": f"{root.name}.test",
    }


def _furnished(root: Path) -> Path:
    """Fill a home: a program, a note, a script for the model and an MCP server."""
    work, tool = root / "work", root / "bin" / "own-tool"
    work.mkdir(parents=True)
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho tool of {root.name}\n")
    tool.chmod(0o755)
    (root / "note").write_text(f"note of {root.name}\n")
    tools = [{"tool": "bash", "args": {"command": SHOW}}]
    tools += [{"tool": "read", "args": {"path": "~/note"}}]
    script = [{"content": tools}, {"text": f"Answer of {root.name}"}]
    (root / "script.json").write_bytes(dumps(script))
    configure(root / ".pi" / "agent" / "mcp.json", {"own": entry("usual")})
    return work
