"""Print and JSON mode: answer the prompts from arguments, files and stdin, then exit."""

import asyncio
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from ludolf.ai.messages import AssistantMessage, Image, Text
from ludolf.base import CommandError, ConfigError, dumps
from ludolf.cli.progress import AnswerSink, ProgressLine, ProgressSink, is_watched
from ludolf.cli.run_result import RunRecord, read_answer_tool
from ludolf.config.settings.arguments import Arguments
from ludolf.engine.build import build
from ludolf.engine.bundles import Bundles
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.hub import Sink
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.events import Event, ExtensionError
from ludolf.rpc.connection import FrameSink
from ludolf.rpc.signals import Stop, watch_signals
from ludolf.rpc.stdio import Stdio

NO_ANSWER = "The model gave no answer: its last message has no text."
CUT_OFF = "Warning: the answer reached the limit of output tokens and was cut off."
NO_RUN = "There is no structured answer: an extension handled the prompt, and no run started."
INTERRUPTED = "Interrupted before the answer was complete."
WAITING = (
    "Reading the prompt from stdin until it ends. To leave stdin out, start the program with "
    "</dev/null."
)
_PATIENCE_SECONDS = 2.0
_COMMAND = re.compile(r"/([A-Za-z][\w:.-]*)(?=\s|$)")


def run_one_shot(
    arguments: Arguments,
    *,
    dialect: str | None,
    prepare: Callable[[Bundles], None] | None = None,
) -> int:
    """Run the prompts in order: with a dialect emit events, else print the last answer as text.

    `prepare` is that of `build`.

    Raises:
        ConfigError: the prompt is missing in print mode, a file is missing, or a question before
            tool calls was asked for and no user can answer it.
    """
    prompts = _with_schema(gather_prompts(arguments), arguments)
    if not prompts and dialect is None:
        raise ConfigError('No prompt. Pass one, for example: ludolf -p "list the files here"')
    if dialect is None and arguments.approval is not None:
        from ludolf.cli.approval import check_approval

        check_approval(arguments.approval)
    return asyncio.run(_main(arguments, prompts, dialect, prepare))


def _with_schema(prompts: list[PromptInput], arguments: Arguments) -> list[PromptInput]:
    """Let the last prompt, whose answer is printed, return a value that fits the schema."""
    if arguments.output_schema is None or not prompts:
        return prompts
    tool = read_answer_tool(arguments.cwd, arguments.output_schema)
    return [*prompts[:-1], structs.replace(prompts[-1], answer_tool=tool)]


async def _main(
    options: Arguments,
    prompts: Sequence[PromptInput],
    dialect: str | None,
    prepare: Callable[[Bundles], None] | None,
) -> int:
    stop = Stop()
    with ProgressLine(dialect is None or not sys.stdout.isatty()) as progress:
        progress.show(lambda: "Loading")
        engine = build(options, progress.say, prepare)
        progress.hide()
        run = OneShot(engine, prompts, dialect, progress, as_json=options.output_format == "json")
        return await run.answer(stop)


class CommandFailures(Sink):
    """Event sink that notes whether a command of an extension failed; the error is on stderr."""

    def __init__(self) -> None:
        self.any = False

    def take(self, event: Event) -> None:
        if isinstance(event, ExtensionError) and event.event == "command":
            self.any = True


class OneShot:
    """One run of print or JSON mode; `dialect` is None in print mode."""

    def __init__(
        self,
        engine: Engine,
        prompts: Sequence[PromptInput],
        dialect: str | None,
        progress: ProgressLine,
        *,
        as_json: bool = False,
    ) -> None:
        self._engine = engine
        self._prompts = prompts
        self._dialect = dialect
        self._failures = CommandFailures()
        self._progress = progress
        # At a terminal answers are written as they arrive, else the last one at the end.
        self._as_json = as_json
        self._is_structured = any(prompt.answer_tool for prompt in prompts)
        is_text = dialect is None and not as_json and not self._is_structured
        self._streams = is_text and sys.stdout.isatty()
        self._record = RunRecord()

    async def answer(self, stop: Stop) -> int:
        """Run the prompts and return the exit code."""
        engine = self._engine
        screen = os.dup(1) if self._streams else -1
        broken = False

        def on_broken() -> None:
            nonlocal broken
            broken = True
            stop(1)

        with Stdio(on_broken) as stdio:
            watch_signals(stop)
            self._attach(stdio, screen, on_broken)
            await engine.start("print" if self._dialect is None else "json")
            self._offer_approval()
            code = await stop.race(self._converse())
            self._progress.hide()
            code = self._finish(stdio, code)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await engine.close()
            await stdio.drain(5)
            return code or int(broken)

    def _attach(self, stdio: Stdio, screen: int, on_broken: Callable[[], None]) -> None:
        hub = self._engine.conversation.hub
        hub.attach(self._failures)
        hub.attach(self._record)
        if self._dialect is not None:
            hub.attach(ProgressSink(self._progress))
            stdio.send(dumps(self._engine.session.header) + b"\n")
            hub.attach(FrameSink(make_dialect(self._dialect), stdio))
            hub.begin()
            return
        hub.attach(ProgressSink(self._progress, self._model_name))
        if self._streams:
            hub.attach(AnswerSink(screen, self._progress, on_broken))

    def _model_name(self) -> str:
        model = self._engine.models.current
        return f"{model.provider}/{model.id}" if model else ""

    def _offer_approval(self) -> None:
        if self._dialect is not None or not is_watched():
            return
        from ludolf.cli.approval import TerminalApproval, can_ask

        if can_ask():
            asking = TerminalApproval(self._progress, self._engine.answer_dialog)
            self._engine.ask_approval(asking.ask)

    async def _converse(self) -> None:
        for prompt in self._prompts:
            if self._dialect is None and prompt.text.startswith("/"):
                self._check_command(prompt.text)
            await self._engine.prompting.prompt(prompt)
            await self._engine.settled()
            _report_unseen(self._engine, prompt)

    def _check_command(self, text: str) -> None:
        """Raises:
        CommandError: the text calls a command that does not exist.
        """
        call = _COMMAND.match(text)
        if call is None or os.path.exists(call[0]) or self._engine.handles(text):
            return
        from difflib import get_close_matches

        from ludolf.cli.pi_commands import INSTEAD

        if call[1] in INSTEAD:
            raise CommandError(f"{call[0]} is a command of pi's terminal. {INSTEAD[call[1]]}")
        names = [command.name for command in self._engine.commands()]
        near = get_close_matches(call[1], names, 3) or names[:10]
        known = ", ".join(f"/{name}" for name in near)
        hint = f" Commands: {known}." if known else ""
        workspace = self._engine.workspace
        if not workspace.files.trusted and workspace.home.project.is_dir():
            hint += " Commands of an untrusted project are not loaded (see --approve)."
        raise CommandError(f"Unknown command: {call[0]}.{hint}")

    def _finish(self, stdio: Stdio, code: int | None) -> int:
        """Print the result, and return the exit code; `code` is that of a run that was stopped."""
        text = self._failure() if code is None else INTERRUPTED
        if self._as_json:
            stdio.send(dumps(self._record.result(self._engine, text)) + b"\n")
        if code is not None:
            return code
        if self._dialect is None:
            self._print(stdio, text)
        return int(text is not None or self._failures.any)

    def _print(self, stdio: Stdio, failure: str | None) -> None:
        """Write the last answer, or why there is none, unless it has been written already."""
        last, output = self._last_answer(), self._record.output
        if failure is not None:
            sys.stderr.write(failure + "\n")
            return
        if last is not None and last.stop_reason == "length":
            sys.stderr.write(CUT_OFF + "\n")
        if self._as_json or self._streams:
            return
        if output is not None:
            stdio.send(dumps(output.value) + b"\n")
        elif last is not None:
            for block in last.content:
                if isinstance(block, Text):
                    stdio.send(block.text.encode("utf-8", "replace") + b"\n")

    def _failure(self) -> str | None:
        """Return why there is not an answer; None if there is one, or none was asked for."""
        output = self._record.output
        if output is not None and output.error is None:
            return None
        reached = self._engine.conversation.meter.reached
        if reached is not None:
            return f"Stopped: the limit of {reached.maximum:g} for {reached.limit} was reached."
        last = self._last_answer()
        if last is not None and last.failed:
            from ludolf.ai.failure_text import failure_text

            return failure_text(last, option="--model")
        if self._is_structured:
            return output.error if output is not None else NO_RUN
        if last is None:
            return None
        has_text = any(isinstance(block, Text) and block.text.strip() for block in last.content)
        return None if has_text else NO_ANSWER

    def _last_answer(self) -> AssistantMessage | None:
        messages = self._engine.session.context.messages()
        last = messages[-1] if messages else None
        return last if isinstance(last, AssistantMessage) else None


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


# ---------------------------------------------------------------- prompts


def gather_prompts(arguments: Arguments) -> list[PromptInput]:
    """Join stdin, files and the first message to one prompt; each further message is another.

    Raises:
        ConfigError: a file is missing.
    """
    text, images = _stdin_text(), list[Image]()
    messages = _messages(arguments.messages)
    for name in arguments.files:
        text += _file_text((arguments.cwd / os.path.expanduser(name)).absolute(), images)
    # The text of a file ends with a tag and a line end, which separate it already, as in pi.
    blank = "\n\n" if text and messages and not text.endswith("\n") else ""
    text += blank + "".join(messages[:1])
    first = [PromptInput(text=text, extra=tuple(images))] if text or images else []
    return [*first, *(PromptInput(text=message) for message in messages[1:])]


def _messages(words: list[str]) -> list[str]:
    """Join several words to one message, which the user did not quote."""
    if len(words) <= 1 or any(len(word.split()) != 1 for word in words):
        return words
    if any(word.startswith("/") for word in words[1:]):
        return words
    message = " ".join(words)
    sys.stderr.write(
        f'Note: these words are one prompt: "{message}". To avoid this note, quote it.\n'
    )
    return [message]


def _stdin_text() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    reminder = threading.Timer(_PATIENCE_SECONDS, lambda: sys.stderr.write(f"{WAITING}\n"))
    reminder.daemon = True
    reminder.start()
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    finally:
        reminder.cancel()


def _file_text(path: Path, images: list[Image]) -> str:
    """Return the text for a file; an image is added to `images`."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. @ takes files; name a folder in the message.")
    if not path.is_file():
        raise ConfigError(f"File not found: {path}")
    data = path.read_bytes()
    if not data:
        return ""
    from ludolf.tools.images import file_in_prompt

    return file_in_prompt(path, data, images)
