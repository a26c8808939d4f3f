"""A trial of Harbor with the agent of Ludolf: `python harbor_trial.py FOLDER PROMPT`.

Runs in the environment of Harbor. The environment of the trial is this machine: it has the methods
that the agent calls. Prints the context of the trial as JSON.
"""

import asyncio
import json
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext

from ludolf.adapters.harbor import Ludolf


class ThisMachine:
    """Runs the commands of an agent in a folder of this machine."""

    default_user = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commands: list[str] = []

    async def exec(self, command: str, env: dict[str, str] | None = None, **_: Any) -> ExecResult:
        import os

        self.commands.append(command)
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command),
            cwd=self._folder,
            env={**os.environ, **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        return ExecResult(
            stdout=output.decode(), stderr=errors.decode(), return_code=process.returncode
        )

    async def upload_file(self, source: Path, target: str) -> None:
        shutil.copy(source, target)


async def main(folder: Path, prompt: str) -> None:
    logs = folder / "logs"
    logs.mkdir()
    agent = Ludolf(logs_dir=logs, model_name="ludolf/offline", max_turns=3)
    agent.environment_logs_dir = PurePosixPath(logs)
    environment = ThisMachine(folder)
    context = AgentContext()
    await agent.run(prompt, environment, context)
    agent.populate_context_post_run(context)
    shown = {"context": context.model_dump(mode="json"), "commands": environment.commands}
    sys.stdout.write(json.dumps(shown))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
