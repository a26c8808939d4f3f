"""Print and JSON mode: prompts from the command line, files and stdin; then the end."""

import asyncio
import base64
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ludolf.ai.messages import AssistantMessage, Image, Part, Text
from ludolf.base import ConfigError, dumps
from ludolf.cli.progress import Progress, ProgressSink
from ludolf.cli.terminal import plain
from ludolf.config.settings.arguments import Arguments
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.protocol.dialects import make_dialect
from ludolf.rpc.frame_sink import FrameSink
from ludolf.rpc.signals import Stop, watch_signals
from ludolf.rpc.stdio import Stdio


class Said(msgspec.Struct):
    """One prompt: its text, and images that came as files."""

    text: str
    extra: tuple[Part, ...] = ()


def run_one_shot(arguments: Arguments, *, dialect: str | None) -> int:
    """Answer the prompts one after another. With a dialect as events, else as plain text."""
    prompts = gather_prompts(arguments)
    if not prompts and dialect is None:
        raise ConfigError('Nothing to do: say what, as in `ludolf -p "list the files here"`.')
    return asyncio.run(_main(arguments, prompts, dialect))


async def _main(options: Options, prompts: Sequence[Said], dialect: str | None) -> int:
    stop = Stop()
    with Progress(dialect is None or not sys.stdout.isatty()) as progress:
        progress.show(lambda: "Loading")
        engine = build(options, progress.say)
        progress.hide()
        engine.conversation.hub.attach(ProgressSink(progress))
        return await _answer(engine, prompts, dialect, stop)


async def _answer(engine: Engine, prompts: Sequence[Said], dialect: str | None, stop: Stop) -> int:
    make = plain if sys.stdout.isatty() else str
    with Stdio(on_broken=lambda: stop(1)) as stdio:
        watch_signals(stop)
        if dialect is not None:
            stdio.send(dumps(engine.session.header) + b"\n")
            engine.conversation.hub.attach(FrameSink(make_dialect(dialect), stdio))
            engine.conversation.hub.begin()
        await engine.start("print" if dialect is None else "json")
        code = await stop.race(_converse(engine, prompts))
        if code is None:
            code = 0 if dialect is not None else _speak_last(engine, stdio, make)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await engine.close()
        await stdio.drain(5)
        return code


async def _converse(engine: Engine, prompts: Sequence[Said]) -> None:
    for said in prompts:
        await engine.prompting.prompt(PromptInput(text=said.text, extra=tuple(said.extra)))
        await engine.settled()


def _speak_last(engine: Engine, stdio: Stdio, make: Callable[[str], str]) -> int:
    """The text of the last answer, a block a line; a failed one goes to stderr."""
    reached = engine.conversation.meter.reached
    if reached is not None:
        text = f"Stopped: the limit of {reached.maximum:g} for {reached.limit} is reached."
        sys.stderr.write(text + "\n")
        return 1
    messages = engine.session.context.messages()
    last = messages[-1] if messages else None
    if not isinstance(last, AssistantMessage):
        return 0
    if last.failed:
        sys.stderr.write((last.error_message or f"Request {last.stop_reason}") + "\n")
        return 1
    for block in last.content:
        if isinstance(block, Text):
            stdio.send(make(block.text).encode("utf-8", "replace") + b"\n")
    return 0


# ---------------------------------------------------------------- what was said


def gather_prompts(arguments: Arguments) -> list[Said]:
    """Stdin, files and the first message make one prompt; further messages follow as their own.

    Raises:
        ConfigError: a file is missing.
    """
    first = Said(_stdin_text())
    for name in arguments.files:
        _add_file(first, (arguments.cwd / os.path.expanduser(name)).absolute())
    messages = list(arguments.messages)
    if messages:
        first.text += messages.pop(0)
    prompts = [first] if first.text or first.extra else []
    return [*prompts, *map(Said, messages)]


def _stdin_text() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip()


def _add_file(said: Said, path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"File not found: {path}")
    data = path.read_bytes()
    if not data:
        return
    from ludolf.tools.images import sniff

    mime = sniff(data)
    if mime is None:
        text = data.decode("utf-8", "replace")
        said.text += f'<file name="{path}">\n{text}\n</file>\n'
    else:
        said.text += f'<file name="{path}"></file>\n'
        said.extra += (Image(data=base64.b64encode(data).decode(), mime_type=mime),)
