"""Print and JSON mode: answer the prompts from arguments, files and stdin, then exit."""

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
from ludolf.cli.progress import ProgressLine, ProgressSink
from ludolf.cli.terminal import plain
from ludolf.config.settings.arguments import Arguments
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.protocol.dialects import make_dialect
from ludolf.rpc.connection import FrameSink
from ludolf.rpc.signals import Stop, watch_signals
from ludolf.rpc.stdio import Stdio


class OneShotPrompt(msgspec.Struct):
    """One prompt: its text and the images from `@file` arguments."""

    text: str
    extra: tuple[Part, ...] = ()


def run_one_shot(arguments: Arguments, *, dialect: str | None) -> int:
    """Run the prompts in order: with a dialect emit events, else print the last answer as text.

    Raises:
        ConfigError: the prompt is missing in print mode, or a file is missing.
    """
    prompts = gather_prompts(arguments)
    if not prompts and dialect is None:
        raise ConfigError('No prompt. Pass one, for example: ludolf -p "list the files here"')
    return asyncio.run(_main(arguments, prompts, dialect))


async def _main(options: Options, prompts: Sequence[OneShotPrompt], dialect: str | None) -> int:
    stop = Stop()
    with ProgressLine(dialect is None or not sys.stdout.isatty()) as progress:
        progress.show(lambda: "Loading")
        engine = build(options, progress.say)
        progress.hide()
        engine.conversation.hub.attach(ProgressSink(progress))
        return await _answer(engine, prompts, dialect, stop)


async def _answer(
    engine: Engine, prompts: Sequence[OneShotPrompt], dialect: str | None, stop: Stop
) -> int:
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


async def _converse(engine: Engine, prompts: Sequence[OneShotPrompt]) -> None:
    for prompt in prompts:
        await engine.prompting.prompt(PromptInput(text=prompt.text, extra=tuple(prompt.extra)))
        await engine.settled()


def _speak_last(engine: Engine, stdio: Stdio, make: Callable[[str], str]) -> int:
    """Print the last answer, one line per text block; errors go to stderr."""
    reached = engine.conversation.meter.reached
    if reached is not None:
        text = f"Stopped: the limit of {reached.maximum:g} for {reached.limit} was reached."
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


# ---------------------------------------------------------------- prompts


def gather_prompts(arguments: Arguments) -> list[OneShotPrompt]:
    """Join stdin, files and the first message to one prompt; each further message is another.

    Raises:
        ConfigError: a file is missing.
    """
    first = OneShotPrompt(_stdin_text())
    for name in arguments.files:
        _add_file(first, (arguments.cwd / os.path.expanduser(name)).absolute())
    messages = list(arguments.messages)
    if messages:
        first.text += messages.pop(0)
    prompts = [first] if first.text or first.extra else []
    return [*prompts, *map(OneShotPrompt, messages)]


def _stdin_text() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip()


def _add_file(prompt: OneShotPrompt, path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"File not found: {path}")
    data = path.read_bytes()
    if not data:
        return
    from ludolf.tools.images import sniff

    mime = sniff(data)
    if mime is None:
        text = data.decode("utf-8", "replace")
        prompt.text += f'<file name="{path}">\n{text}\n</file>\n'
    else:
        prompt.text += f'<file name="{path}"></file>\n'
        prompt.extra += (Image(data=base64.b64encode(data).decode(), mime_type=mime),)
