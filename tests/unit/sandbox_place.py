"""A home with credentials, a working folder and commands in a sandbox around it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ludolf.tools.sandbox.guard import NoSandbox
from ludolf.tools.sandbox.policy import Confinement, Ground
from ludolf.tools.sandbox.sandbox import Sandbox, Using

SECRET = "the-secret-key"


class Place:
    """Not below /tmp, which is another folder to commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work, self.home, self.outside = root / "work", root / "home", root / "outside"
        self.agent = self.home / ".pi" / "agent"
        for folder in (self.work, self.agent, self.home / ".ssh", self.outside):
            folder.mkdir(parents=True)
        (self.agent / "auth.json").write_text(SECRET)
        (self.home / ".ssh" / "id").write_text(SECRET)
        (self.outside / "open.txt").write_text("open")
        self._made: list[Sandbox] = []

    def ground(
        self, mode: Confinement = "workspace", *, network: bool = True, **more: Any
    ) -> Ground:
        made = Ground(
            environ=os.environ, mode=mode, network=network, home=self.home, agent=self.agent
        )
        return structs.replace(made, **more)

    def sandbox(self, using: Using, mode: Confinement = "workspace", **more: Any) -> Sandbox:
        """Raises:
        NoSandbox: the sandbox refuses the folder, though it works elsewhere.
        """
        ground = self.ground(mode, **{"network": False, **more})
        try:
            made = Sandbox(ground, self.work, using)
        except NoSandbox as error:
            if "No sandbox is available here" not in str(error):
                raise
            pytest.skip(str(error))
        self._made.append(made)
        return made

    def close(self) -> None:
        for sandbox in self._made:
            sandbox.close()


class Shell:
    def __init__(self, place: Place, sandbox: Sandbox) -> None:
        self._place = place
        self.sandbox = sandbox

    def run(self, command: str, **env: str) -> "subprocess.CompletedProcess[str]":
        walls = self.sandbox.walls(self._place.work)
        given = {"PATH": os.environ["PATH"], "HOME": str(self._place.home), **env}
        argv, cwd, made = walls.enclose(("/bin/bash", "-c", command), self._place.work, given)
        return subprocess.run(
            argv, cwd=cwd, env=made, capture_output=True, text=True, timeout=20, check=False
        )

    def fails(self, command: str) -> bool:
        return self.run(command).returncode != 0

    def says(self, command: str, **env: str) -> str:
        done = self.run(command, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout
