"""A conversation through pidriver. Words: command, working folder, home, extension."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

# In the clients' own environment only, not in the one that checks types.
from pidriver import (  # type: ignore[import-not-found]
    AgentEnd,
    AutoApprove,
    Error,
    PiClient,
    PiConfig,
    ToolEnd,
    ToolStart,
    Usage,
    list_models,
)


def configure(command: str, home: Path, extension: str) -> Any:
    return PiConfig(
        binary=command,
        auto_install=False,
        provider="claude",
        model="large",
        thinking="low",
        tools=("read", "write", "bash"),
        exclude_tools=("read",),
        session_name="driven",
        system_prompt="Be brief.",
        append_system_prompt=("Be kind.",),
        home_dir=home,
        agent_dir=home / ".pi" / "agent",
        package_dir=home / "packages",
        offline=True,
        extra_args=("-e", extension),
        # Only where the program runs from its sources.
        extra_env={name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
    )


class Talk:
    """What was seen so far: the events of each run, its last text, the tools, the notices."""

    def __init__(self, session: Any, cwd: Path) -> None:
        self._session = session
        self._cwd = cwd
        self._next = ["Wait for the gate", "Sleep", "/ask"]
        self.runs: list[list[str]] = [[]]
        self.texts: list[str] = []
        self.tools: list[str] = []
        self.notices: list[str] = []

    async def hold(self) -> None:
        async for event in self._session:
            if isinstance(event, Error):
                raise RuntimeError(event.message)
            if not isinstance(event, Usage):
                self.runs[-1].append(event.type)
            await self._take(event)
            if event.raw.get("method") == "notify":
                self.notices.append(event.raw["message"])
                return

    async def _take(self, event: Any) -> None:
        if isinstance(event, ToolStart):
            await self._on_tool()
        elif isinstance(event, ToolEnd):
            self.tools.append(event.name)
        elif isinstance(event, AgentEnd):
            self.texts.append(event.final_text)
            self.runs.append([])
            await self._session.prompt(self._next.pop(0))

    async def _on_tool(self) -> None:
        """In the second run the tool waits for the host; the third one is stopped by it."""
        if len(self.runs) == 2:
            await asyncio.to_thread((self._cwd / "gate").write_text, "open\n")
        elif len(self.runs) == 3:
            await self._session.cancel()


async def main() -> None:
    command, cwd, home, extension = sys.argv[1:]
    config = configure(command, Path(home), extension)
    models = [model.id for model in await list_models(config)]
    client = PiClient(config)
    session = await client.start("Write hello.txt", cwd=cwd, interaction_handler=AutoApprove())
    async with session:
        talk = Talk(session, Path(cwd))
        await talk.hold()
    report: dict[str, Any] = {"models": models, "input": session.usage.input_tokens}
    report |= {"runs": talk.runs, "texts": talk.texts, "tools": talk.tools}
    sys.stdout.write(json.dumps({**report, "notices": talk.notices}) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
