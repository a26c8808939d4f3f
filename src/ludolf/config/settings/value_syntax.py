"""Value syntax of keys and headers: command, environment variables or literal text."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ludolf.base.patterns import lazy_pattern

COMMAND_LIMIT = 10.0
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = lazy_pattern(rf"\$(?:(\$)|(!)|\{{({_NAME})\}}|({_NAME}))")
_BARE_NAME = lazy_pattern(r"[A-Z][A-Z0-9_]*\Z")


class Resolver:
    """Resolve configured values.

    A value that is the name of an existing variable means that variable, as in files of early 2026.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.warnings: list[str] = []
        # Folders that commands in the sandbox can write: key commands do not run programs there.
        self.writable: tuple[Path, ...] = ()
        self._outputs: dict[str, str] = {}

    def resolve(
        self, value: str, *, over: Mapping[str, str] | None = None, cached: bool = False
    ) -> str | None:
        """Resolve a value; None if a variable is unset or a command prints nothing.

        `over` overrides the environment; `cached` runs a command only once per process.
        """
        if value.startswith("!"):
            return self._output(value[1:], over, cached=cached)
        if self._is_bare(value):
            return self.environ[value]
        missing = False

        def fill(match: re.Match[str]) -> str:
            nonlocal missing
            if match[1] or match[2]:
                return match[1] or match[2]
            text = self.variable(match[3] or match[4], over)
            missing = missing or not text
            return text or ""

        text = _TOKEN.sub(fill, value)
        return None if missing or not text else text

    def plain_text(self, value: str, *, over: Mapping[str, str] | None = None) -> str:
        """Resolve a value without running a command; "" if that is not possible."""
        return "" if value.startswith("!") else self.resolve(value, over=over) or ""

    def can_resolve(self, value: str, over: Mapping[str, str] | None = None) -> bool:
        """Return whether `resolve` has a result; a command counts as one and is not run."""
        return value.startswith("!") or self.resolve(value, over=over) is not None

    def variable(self, name: str, over: Mapping[str, str] | None = None) -> str | None:
        """Return an environment variable; an empty one counts as unset."""
        return (over or {}).get(name) or self.environ.get(name) or None

    def _is_bare(self, value: str) -> bool:
        if not _BARE_NAME.match(value) or not self.environ.get(value):
            return False
        text = f'"{value}" is read as an environment variable; write "${value}" instead'
        if text not in self.warnings:
            self.warnings.append(text)
        return True

    def _output(self, command: str, over: Mapping[str, str] | None, *, cached: bool) -> str | None:
        if cached and command in self._outputs:
            return self._outputs[command]
        environ = {**self.environ, **(over or {})}
        if self.writable and "PATH" in environ:
            from ludolf.base.programs import safe_path

            environ["PATH"] = safe_path(environ["PATH"], self.writable)
        output = run_command(command, environ)
        if output is None:
            self.warnings.append(
                f"the key command failed or printed nothing: {command.split(' ', 1)[0]}"
            )
        elif cached:
            self._outputs[command] = output
        return output


def literal(text: str) -> str:
    """Escape a text as a literal value."""
    escaped = text.replace("$", "$$")
    return f"$!{escaped[1:]}" if escaped.startswith("!") else escaped


def names_in(value: str) -> frozenset[str]:
    """Return the environment variables that a value refers to."""
    if value.startswith("!"):
        return frozenset()
    names = {match[3] or match[4] for match in _TOKEN.finditer(value) if match[3] or match[4]}
    if _BARE_NAME.match(value):
        names.add(value)
    return frozenset(names)


def run_command(
    command: str, environ: Mapping[str, str], *, limit: float = COMMAND_LIMIT
) -> str | None:
    """Run a shell command; return its trimmed output, None on failure, timeout or no output."""
    import subprocess

    process = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _kill_group(process.pid)
        process.communicate()
        return None
    text = output.decode("utf-8", "replace").strip()
    return text if process.returncode == 0 and text else None


def _kill_group(pid: int) -> None:
    import signal

    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
