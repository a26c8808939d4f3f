"""The sandbox of a session: what shuts commands in here, proven before the first one runs."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ludolf.agent.tool import ToolError
from ludolf.programs import find_program
from ludolf.tools.sandbox import places
from ludolf.tools.sandbox.bubblewrap import SHOWN_TMP, Bubblewrap
from ludolf.tools.sandbox.landlock import Landlock, lacking
from ludolf.tools.sandbox.policy import Ground, Policy, real
from ludolf.tools.sandbox.walls import FileWalls, Tmp
from ludolf.tools.spill import spill_folder

Using = Literal["auto", "bwrap", "landlock"]
Means = Bubblewrap | Landlock
_PROOF_SECONDS = 10
# Temporary files can be written, and a folder outside cannot; the redirection fails in a subshell.
_PROOF = 'echo x > "$TMPDIR/proof" || exit 3; (echo x > "$1") 2>/dev/null && exit 4; exit 0'


class NoSandbox(ToolError):
    """No sandbox can be made as it was asked for; the text says why and what to do."""


class Sandbox:
    """Close it when done: its temporary files go with it."""

    def __init__(self, ground: Ground, cwd: Path, using: Using = "auto") -> None:
        """Raises:
        NoSandbox: nothing here can do it. Nothing runs without the walls that were asked for.
        """
        self.ground = ground
        self._walls: dict[Path, FileWalls] = {}
        policy = self._policy(cwd)
        self._box = _make_box()
        try:
            self._means = self._choose(policy, using)
        except BaseException:
            _remove(self._box)
            raise

    @property
    def name(self) -> str:
        """What shuts commands in: `bwrap` or `landlock`."""
        return self._means.name

    @property
    def tmp(self) -> Tmp:
        return self._means.tmp

    def walls(self, cwd: Path) -> FileWalls:
        """Raises:
        NoSandbox: this folder cannot be worked in so.
        """
        if cwd not in self._walls:
            policy = self._policy(cwd)
            if isinstance(self._means, Landlock) and (reason := lacking(policy)):
                raise NoSandbox(f"No sandbox for {cwd}: {reason}.")
            self._walls[cwd] = FileWalls(policy, self)
        return self._walls[cwd]

    def enclose(
        self, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        return enclosed(self._means, policy, argv, cwd, env)

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        """Where commands can write: nothing from there may run outside."""
        return (*Policy(ground=self.ground, cwd=cwd).writable, self._box)

    def sweep(self) -> tuple[Path, ...]:
        """Remove what a command left that would run code outside; returns what that was."""
        return self._means.sweep()

    def close(self) -> None:
        self._means.close()
        _remove(self._box)

    def _policy(self, cwd: Path) -> Policy:
        policy = Policy(ground=self.ground, cwd=cwd)
        folder, reason = policy.folder, ""
        if policy.is_hidden(folder):
            reason = "it is a place that the sandbox hides"
        elif self.ground.mode == "workspace":
            for held in real((self.ground.home, self.ground.agent)):
                if held.is_relative_to(folder):
                    reason = f"it holds {held}. Start in a folder of its own, or read-only"
            if (folder / ".pi").is_symlink():
                reason = "its .pi is a link, which commands could replace"
        if reason:
            raise NoSandbox(f"No sandbox for {cwd}: {reason}.")
        return policy

    def _choose(self, policy: Policy, using: Using) -> Means:
        reasons: list[str] = []
        for name, make in (("bwrap", self._bubblewrap), ("landlock", self._landlock)):
            if using not in ("auto", name):
                continue
            means = make(policy)
            if isinstance(means, str):
                reasons.append(means)
            elif failed := disproof(means, policy):
                reasons.append(f"{name} does not work here ({failed})")
                means.close()
            else:
                return means
        raise NoSandbox(
            f"No sandbox can be made here: {'; '.join(reasons)}. Install bubblewrap "
            "(for example: apt install bubblewrap), or start with --sandbox off."
        )

    def _bubblewrap(self, policy: Policy) -> Bubblewrap | str:
        closed = (policy.cwd, *policy.writable)
        program = find_program("bwrap", closed) if sys.platform.startswith("linux") else None
        if program is None:
            return "bubblewrap (bwrap) is not installed"
        return Bubblewrap(program, Tmp(self._box, SHOWN_TMP, self._box.parent))

    def _landlock(self, policy: Policy) -> Landlock | str:
        return lacking(policy) or Landlock(Tmp(self._box, self._box, self._box.parent))


def enclosed(
    means: Means, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
) -> tuple[tuple[str, ...], Path, dict[str, str]]:
    """The command that runs this one within the walls, and where and with what to start it."""
    kept = {name: value for name, value in env.items() if name not in places.LEADING_OUT}
    tmp = str(means.tmp.shown)
    cache = os.path.join(tmp, "cache")
    kept |= {"TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}
    # Tools keep caches in the home folder, which cannot be written to.
    kept |= {"XDG_CACHE_HOME": cache, "npm_config_cache": os.path.join(cache, "npm")}
    kept["LUDOLF_SANDBOX"] = policy.ground.mode
    return means.enclose(policy, argv, cwd, kept)


def disproof(means: Means, policy: Policy) -> str | None:
    """What shows that the walls do not stand; None if they do."""
    ground = policy.ground
    outside = ground.agent if ground.agent.is_dir() else ground.home
    target = outside / f".sandbox-proof-{os.urandom(6).hex()}"
    command = ("/bin/sh", "-c", _PROOF, "sh", str(target))
    argv, cwd, env = enclosed(means, policy, command, policy.folder, os.environ)
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROOF_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    (means.tmp.real / "proof").unlink(missing_ok=True)
    if target.exists():
        target.unlink()
        return "it lets commands write outside"
    said = done.stderr.decode("utf-8", "replace").strip()
    return None if done.returncode == 0 else said[:200] or f"exit code {done.returncode}"


def _make_box() -> Path:
    """A private folder for temporary files; those of programs that are gone are removed."""
    base = Path(os.path.realpath(spill_folder()))
    for old in base.glob("box-*"):
        owner = old.name.split("-")[1]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            _remove(old)
    box = base / f"box-{os.getpid()}-{os.urandom(6).hex()}"
    box.mkdir(mode=0o700)
    return box


def _remove(box: Path) -> None:
    from shutil import rmtree

    rmtree(box, ignore_errors=True)
