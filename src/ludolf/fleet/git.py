"""Run git for workspaces: without prompts, hooks, or variables that point to another repository."""

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ludolf.base import CommandError

# Absolute addresses, and the form user@host:path of ssh.
_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:(?!//)\S+", re.ASCII)
_CREDENTIALS = re.compile(r"^(https?://)[^/@]*@", re.ASCII)
_PROTOCOLS = "http:https:ssh:git:file"
_QUOTED = 500


def is_url(source: str) -> bool:
    """Return whether a repository is named by an address and not by a path."""
    return _URL.fullmatch(source) is not None


def without_credentials(url: str) -> str:
    """Return an address without a user and a password in it."""
    return _CREDENTIALS.sub(r"\1", url)


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of git: never asks, and finds only the repository that it is given."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    for name in ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL"):
        if name in environ:
            kept[name] = environ[name]
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


async def git(
    *words: str, cwd: Path, variables: Mapping[str, str] | None = None, lock: int | None = None
) -> bytes:
    """Run git and return its output. It inherits the descriptor of a lock, if one is given.

    Raises:
        CommandError: git is not installed, or it failed; the text quotes its error.
    """
    options = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
    pipe = asyncio.subprocess.PIPE
    try:
        child = await asyncio.create_subprocess_exec(
            *("git", *options, *words),
            cwd=cwd,
            env={**git_environment(os.environ), **(variables or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            pass_fds=() if lock is None else (lock,),
        )
    except OSError as error:
        raise CommandError(f"git cannot be started in {cwd}: {error.strerror}.") from error
    try:
        output, errors = await child.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        raise
    if child.returncode:
        text = errors.decode("utf-8", "replace").strip() or f"exit code {child.returncode}"
        raise CommandError(f"git {words[0]} in {cwd}: {text[-_QUOTED:]}")
    return output


async def read_git(*words: str, cwd: Path) -> str | None:
    """Return the output of git as a line of text; None if it failed."""
    try:
        return (await git(*words, cwd=cwd)).decode("utf-8", "replace").strip()
    except CommandError:
        return None
