"""Run npm and git for packages: find the programs, print their output on stderr."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import CommandError, ConfigError
from ludolf.base.project_files import read_text

NO_NPM = (
    "npm was not found. Install Node.js, or install Ludolf with the extra that contains npm: "
    'uv tool install "ludolf[pi]" or pip install "ludolf[pi]".'
)
# The lock file of a large tree of packages.
_LOCK_LIMIT = 64 * 1024 * 1024


class NpmProgram(msgspec.Struct, frozen=True, kw_only=True):
    """The command of npm, pnpm or bun, and the environment that it needs."""

    words: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        """The package manager; a command such as `mise exec -- pnpm` runs the word after `--`."""
        after = self.words[self.words.index("--") + 1 :] if "--" in self.words else ()
        return Path((after or self.words)[0]).stem

    def install(self, specs: Sequence[str], prefix: Path, *, scripts: bool) -> None:
        """Install packages into a prefix.

        Raises:
            CommandError: the program failed.
        """
        match self.name:
            case "bun":
                more = ["--cwd", str(prefix), "--omit=peer"]
            case "pnpm":
                more = ["--prefix", str(prefix), "--config.auto-install-peers=false"]
            case _:
                # Packages name pi's libraries as peers, which Ludolf provides.
                more = ["--prefix", str(prefix), "--legacy-peer-deps", "--no-audit", "--no-fund"]
        more += [] if scripts else ["--ignore-scripts"]
        self._run(["install", *specs, *more], prefix)

    def install_dependencies(self, folder: Path, *, scripts: bool) -> None:
        """Install what the `package.json` of a folder names, without its development tools.

        Raises:
            CommandError: the program failed.
        """
        more = [] if self.name in ("bun", "pnpm") else ["--omit=dev", "--legacy-peer-deps"]
        more += [] if scripts else ["--ignore-scripts"]
        self._run(["install", *more], folder)

    def uninstall(self, name: str, prefix: Path) -> None:
        """Remove a package from a prefix.

        Raises:
            CommandError: the program failed.
        """
        place = ["--cwd", str(prefix)] if self.name == "bun" else ["--prefix", str(prefix)]
        more = [] if self.name in ("bun", "pnpm") else ["--legacy-peer-deps", "--ignore-scripts"]
        self._run(["uninstall", name, *place, *more], prefix)

    def _run(self, words: Sequence[str], folder: Path) -> None:
        run_program((*self.words, *words), folder, self.environ)


def find_npm(command: Sequence[str], environ: Mapping[str, str], wheel: Path | None) -> NpmProgram:
    """Return the command of the setting `npmCommand`, npm on PATH, or the npm of a wheel.

    Raises:
        CommandError: there is none; the text names the extra that contains it.
    """
    from shutil import which

    first = command[0] if command and command[0] else "npm"
    if which(first, path=environ.get("PATH", os.defpath)) is not None:
        return NpmProgram(words=tuple(command) or ("npm",), environ=environ)
    if first != "npm":
        raise CommandError(f'The program "{first}" of the setting npmCommand was not found.')
    script = None if wheel is None else wheel / "lib/node_modules/npm/bin/npm-cli.js"
    if wheel is None or script is None or not script.is_file():
        raise CommandError(NO_NPM)
    path = f"{wheel / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    words = (str(wheel / "bin/node"), str(script))
    return NpmProgram(words=words, environ={**environ, "PATH": path})


def run_git(words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Run git; hooks are off.

    Raises:
        CommandError: git is missing or failed.
    """
    run_program(("git", "-c", "core.hooksPath=/dev/null", *words), folder, environ)


def git_commit(folder: Path, environ: Mapping[str, str], name: str = "HEAD") -> str:
    """Return the commit of a name in a repository.

    Raises:
        CommandError: git is missing or failed.
    """
    words = ("git", "rev-parse", "--verify", f"{name}^{{commit}}")
    return run_program(words, folder, environ, read=True).strip()


def run_program(
    words: Sequence[str], folder: Path, environ: Mapping[str, str], *, read: bool = False
) -> str:
    """Run a program; its output goes to stderr, or is returned with `read`.

    Raises:
        CommandError: the program is missing or failed.
    """
    sys.stderr.flush()
    shown = " ".join(words)
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if read else sys.__stderr__,
            check=False,
        )
    except OSError as error:
        raise CommandError(f"{words[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        raise CommandError(f"{shown} failed with code {done.returncode}. See its output above.")
    return (done.stdout or b"").decode("utf-8", "replace")


def make_npm_project(prefix: Path) -> None:
    """Create the files that make a folder an npm prefix, as pi does.

    Raises:
        ConfigError: they cannot be written.
    """
    try:
        prefix.mkdir(parents=True, exist_ok=True)
        hide_from_git(prefix)
        if not (prefix / "package.json").exists():
            text = json.dumps({"name": "pi-extensions", "private": True}, indent=2)
            (prefix / "package.json").write_text(text)
    except OSError as error:
        raise ConfigError(f"{prefix} cannot be written: {error.strerror}") from error


def hide_from_git(folder: Path) -> None:
    """Keep the files of a folder out of the repository around it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n!.gitignore\n")


def with_install_scripts(prefix: Path) -> frozenset[str]:
    """Return the installed packages that have scripts for the installation."""
    try:
        text = read_text(prefix / "node_modules/.package-lock.json", within=None, limit=_LOCK_LIMIT)
        value: Any = json.loads(text or "{}")
    except (ConfigError, ValueError, RecursionError):
        return frozenset()
    packages = value.get("packages") if isinstance(value, dict) else None
    if not isinstance(packages, dict):
        return frozenset()
    return frozenset(
        path.rpartition("node_modules/")[2]
        for path, one in packages.items()
        if isinstance(one, dict) and one.get("hasInstallScript") is True
    )
