"""Logins at a terminal: questions on stderr, answers on stdin, and logins of extensions."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ludolf.ai.http.oauth import LoginError
from ludolf.base import CommandError
from ludolf.base.near import did_you_mean
from ludolf.config.auth.provider_logins import LoginAsker
from ludolf.config.models.registry import ModelRegistry


class TerminalAsker(LoginAsker):
    """Asks the user of a login on stderr and reads answers from stdin, terminal or not."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str] | None = None

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        _say(f"Open this address:\n\n  {launch or url}\n\n{instructions}\n")

    def progress(self, text: str) -> None:
        _say(f"{_printable(text)}\n")

    async def paste(self, question: str, example: str) -> str | None:
        return (await self._line(f"{question} ")).strip() or None

    async def ask(self, question: str, example: str | None) -> str:
        shown = f"{_printable(question)}{f' ({_printable(example)})' if example else ''} "
        line = await self._line(shown)
        if not line:
            raise LoginError("stdin has ended")
        return line.strip()

    async def choose(self, question: str, labels: Sequence[str]) -> str | None:
        rows = (f"  {place}  {_printable(label)}\n" for place, label in enumerate(labels, 1))
        _say(f"{_printable(question)}\n{''.join(rows)}")
        answer = (await self._line("Number: ")).strip()
        place = int(answer) if answer.isascii() and answer.isdigit() else 0
        return labels[place - 1] if 0 < place <= len(labels) else None

    async def _line(self, question: str) -> str:
        """Return the next line; it is empty at the end of the input."""
        _say(question)
        if self._lines is None:
            self._lines = _start_reading()
        return await self._lines.get()


def _start_reading() -> "asyncio.Queue[str]":
    """Read stdin in one thread, so that a question that was withdrawn takes no later line."""
    import threading

    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        line = "-"
        with suppress(RuntimeError):  # the login is over, and the loop is closed
            while line:
                line = sys.stdin.readline()
                loop.call_soon_threadsafe(lines.put_nowait, line)

    # The thread may wait for a line forever; as a daemon it does not block the exit.
    threading.Thread(target=read, daemon=True).start()
    return lines


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


async def log_in_by_extension(provider: str, method: str | None) -> str:
    """Log in to a provider that an extension registers; returns its name.

    Raises:
        CommandError: no extension registers it, or the login failed.
        ConfigError: an extension or the credentials cannot be used.
    """
    from ludolf.config.auth.credentials import choose_way
    from ludolf.config.settings.options import Options
    from ludolf.engine.build import build
    from ludolf.engine.host.logins import credential_of

    options = Options(cwd=Path(os.getcwd()), no_session=True, no_mcp=True, no_tools=True)
    engine = build(options, lambda text: _say(f"{text}\n"))
    try:
        await engine.start("sdk")
        registry = engine.models.registry
        login = registry.logins.get(provider)
        if login is None:
            raise unknown_provider(registry, provider)
        way = choose_way(registry, provider, method)
        if way == "api-key":
            raise CommandError(f"{provider} comes from an extension: log in without --method.")
        credential = await credential_of(registry, provider, way, TerminalAsker(), None)
        registry.keyring.store_login(provider, credential)
        return login.name
    finally:
        await engine.close()


def unknown_provider(registry: ModelRegistry, provider: str) -> CommandError:
    """Return the error for a provider that does not exist."""
    from ludolf.config.auth.credentials import login_providers

    names = login_providers(registry)
    near = did_you_mean(provider, names)
    return CommandError(f"Unknown provider.{near} Choose one of: {', '.join(sorted(names))}")
