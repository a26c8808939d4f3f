"""Print and JSON mode: answer the prompts from arguments, files and stdin, then exit."""

import asyncio
import base64
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

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


def run_one_shot(arguments: Arguments, *, dialect: str | None) -> int:
    """Run the prompts in order: with a dialect emit events, else print the last answer as text.

    Raises:
        ConfigError: the prompt is missing in print mode, or a file is missing.
    """
    prompts = gather_prompts(arguments)
    if not prompts and dialect is None:
        raise ConfigError('No prompt. Pass one, for example: ludolf -p "list the files here"')
    return asyncio.run(_main(arguments, prompts, dialect))


async def _main(options: Options, prompts: Sequence[PromptInput], dialect: str | None) -> int:
    stop = Stop()
    with ProgressLine(dialect is None or not sys.stdout.isatty()) as progress:
        progress.show(lambda: "Loading")
        engine = build(options, progress.say)
        progress.hide()
        engine.conversation.hub.attach(ProgressSink(progress))
        return await _answer(engine, prompts, dialect, stop)


async def _answer(
    engine: Engine, prompts: Sequence[PromptInput], dialect: str | None, stop: Stop
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


async def _converse(engine: Engine, prompts: Sequence[PromptInput]) -> None:
    for prompt in prompts:
        await engine.prompting.prompt(prompt)
        await engine.settled()
        _report_unseen(engine, prompt)


def _report_unseen(engine: Engine, prompt: PromptInput) -> None:
    """Warn that the model did not receive the images of a prompt."""
    model = engine.models.current
    has_images = any(isinstance(part, Image) for part in prompt.extra)
    if not has_images or model is None:
        return
    if not model.takes_images:
        reason = f"{model.key} does not take images"
    elif engine.workspace.settings.images.block_images:
        reason = "images.blockImages is set in settings.json"
    else:
        return
    sys.stderr.write(f"Warning: The images of the prompt were not sent: {reason}.\n")


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
        from ludolf.cli.failure_text import failure_text

        sys.stderr.write(failure_text(last) + "\n")
        return 1
    for block in last.content:
        if isinstance(block, Text):
            stdio.send(make(block.text).encode("utf-8", "replace") + b"\n")
    return 0


# ---------------------------------------------------------------- prompts


def gather_prompts(arguments: Arguments) -> list[PromptInput]:
    """Join stdin, files and the first message to one prompt; each further message is another.

    Raises:
        ConfigError: a file is missing.
    """
    text, images = _stdin_text(), list[Part]()
    for name in arguments.files:
        text += _file_text((arguments.cwd / os.path.expanduser(name)).absolute(), images)
    text += "".join(arguments.messages[:1])
    first = [PromptInput(text=text, extra=tuple(images))] if text or images else []
    return [*first, *(PromptInput(text=message) for message in arguments.messages[1:])]


def _stdin_text() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip()


def _file_text(path: Path, images: list[Part]) -> str:
    """Return the text for a file; an image is added to `images`."""
    if not path.is_file():
        raise ConfigError(f"File not found: {path}")
    data = path.read_bytes()
    if not data:
        return ""
    from ludolf.tools.images import sniff

    mime = sniff(data)
    if mime is None:
        text = data.decode("utf-8", "replace")
        return f'<file name="{path}">\n{text}\n</file>\n'
    images.append(Image(data=base64.b64encode(data).decode(), mime_type=mime))
    return f'<file name="{path}"></file>\n'
