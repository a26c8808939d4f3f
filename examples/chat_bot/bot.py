"""Chat bot: one session per chat, many at once, in one process.

    python bot.py [--folder FOLDER] [--state FOLDER] [--model MODEL]

A line on stdin is `chat: text`, a line on stdout `chat> text`. `chat: /stop` aborts the answer of a
chat, `chat: /new` starts a new conversation. A message during an answer is sent to the model with
its next request. Every chat continues after a restart of the bot.

To connect it to Slack, Telegram or another service, keep `Bot` and replace `main`: call `receive`
with the messages of users, and pass a function that sends text to them.
"""

import argparse
import asyncio
import contextlib
import hashlib
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self, Unpack

from ludolf import AgentSession, create_session
from ludolf.sdk import AssistantMessage, LudolfError, MessageEnd, SessionOptions, Text

Say = Callable[[str, str], Awaitable[None]]
MOST_OPEN = 100


class Chat:
    """One conversation, stored in a session file; it can be closed and reopened at any time."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self.session: AgentSession | None = None
        self.turn = asyncio.Lock()  # one prompt after another

    async def open(self) -> AgentSession:
        if self.session is None:
            session = create_session(**self._options)
            await session.open()
            self.session = session
        return self.session

    async def stop(self) -> None:
        if self.session is not None:
            await self.session.abort()

    async def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            await session.close()


class Bot:
    """All chats. Use it with `async with`; on exit it aborts all runs and saves the sessions."""

    def __init__(
        self, state: Path, say: Say, *, at_once: int = 4, **options: Unpack[SessionOptions]
    ) -> None:
        self._state, self._say, self._options = state, say, options
        self._chats: dict[str, Chat] = {}  # the most recently used chat is last
        self._places = asyncio.Semaphore(at_once)  # limits concurrent answers
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()  # a run without a reader is aborted
        await self.idle()
        for chat in self._chats.values():
            await chat.close()

    async def idle(self) -> None:
        """Wait until all messages are answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def receive(self, name: str, text: str) -> None:
        """Handle a message of a user in the background; `say` sends the answer."""
        task = asyncio.get_running_loop().create_task(self._attend(name, text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, name: str, text: str) -> None:
        chat = self._chats.pop(name) if name in self._chats else Chat(self._place(name))
        self._chats[name] = chat
        try:
            if text in ("/stop", "/new"):
                await chat.stop()
            if chat.session is not None and chat.session.running:
                await chat.session.steer(text)
            elif text != "/stop":
                async with chat.turn, self._places:
                    await self._answer(name, await chat.open(), text)
                await self._forget_old_ones()
        except LudolfError as error:
            await self._say(name, f"Error: {error}")

    async def _answer(self, name: str, session: AgentSession, text: str) -> None:
        if text == "/new":
            await session.new_session()
            return await self._say(name, "New conversation.")
        run = session.prompt(text)
        async for event in run:
            # A slow `say` slows down only this run.
            if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
                texts = [each.text for each in event.message.content if isinstance(each, Text)]
                await self._say(name, "".join(texts))
        if run.answer.aborted:
            await self._say(name, "Stopped.")
        elif run.answer.error is not None:
            await self._say(name, f"Error: {run.answer.error}")

    async def _forget_old_ones(self) -> None:
        idle = [chat for chat in self._chats.values() if chat.session and not chat.turn.locked()]
        for chat in idle[:-MOST_OPEN]:
            await chat.close()

    def _place(self, name: str) -> SessionOptions:
        # Names of chats are untrusted: never use them as a path.
        folder = self._state / hashlib.sha256(name.encode()).hexdigest()[:32]
        return {**self._options, "session": "last", "session_dir": folder}


# ---------------------------------------------------------------- terminal


async def main(arguments: argparse.Namespace) -> None:
    options: SessionOptions = {
        "cwd": arguments.folder,
        # Tools that users can trigger. The bot can still read all your files: run it under a
        # separate account or in a container before you open it to strangers.
        "builtin_tools": ("read", "grep", "find", "ls"),
        "max_turns": 20,
    }
    if arguments.model:
        options["model"] = arguments.model
    async with Bot(arguments.state, say, **options) as bot:
        listening = asyncio.create_task(listen(bot))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, listening.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await listening


async def say(chat: str, text: str) -> None:
    print("".join(f"{chat}> {line}\n" for line in text.splitlines()), end="", flush=True)


async def listen(bot: Bot) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        chat, _, text = line.partition(":")
        if text.strip():
            bot.receive(chat.strip(), text.strip())
    await bot.idle()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--folder", type=Path, default=Path.cwd(), help="folder that the bot can read"
    )
    parser.add_argument("--state", type=Path, default=Path("chats"), help="folder of stored chats")
    parser.add_argument("--model")
    asyncio.run(main(parser.parse_args()))
