"""Chat bot on a server: one session per chat, all of them on one connection.

    ludolf serve
    python bot.py ADDRESS [--folder FOLDER] [--state FILE]

ADDRESS is `unix:PATH`, `ws://HOST:PORT` or `wss://HOST:PORT`. A line on stdin is `chat: text`, a
line on stdout `chat> text`. The bot and the server can be restarted at any time: a cut connection
is opened again, and every chat continues in its session.

To connect it to Slack, Telegram or another service, keep `Bot` and replace `main`: call `receive`
with the messages of users, and pass a function that sends text to them.
"""

import argparse
import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from ludolf.client import ClientError, Refused, RemoteClient, RemoteSession, RunInterrupted

Say = Callable[[str, str], Awaitable[None]]
# Tools that users can trigger. The bot can still read all your files: run the server under a
# separate account or in a container before you open it to strangers.
OPTIONS = {"tools": ["read", "grep", "find", "ls"], "maxTurns": 20}


class Bot:
    """All chats; `state` is a file with the session of each chat."""

    def __init__(self, client: RemoteClient, folder: Path, state: Path, say: Say) -> None:
        self._client, self._folder, self._state, self._say = client, folder, state, say
        self._known: dict[str, str] = json.loads(state.read_text()) if state.exists() else {}
        self._sessions: dict[str, RemoteSession] = {}
        self._turns: dict[str, asyncio.Lock] = {}  # one message of a chat after another
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, chat: str, text: str) -> None:
        """Handle a message of a user in the background; `say` sends the answer."""
        task = asyncio.get_running_loop().create_task(self._attend(chat, text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Wait until all messages are answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _attend(self, chat: str, text: str) -> None:
        async with self._turns.setdefault(chat, asyncio.Lock()):
            try:
                await self._say(chat, await self._answer(chat, text))
            except ClientError as error:
                await self._say(chat, f"Error: {error}")

    async def _answer(self, chat: str, text: str) -> str:
        session = self._sessions.get(chat) or await self._open(chat)
        try:
            return (await session.prompt_and_wait(text)).text
        except RunInterrupted:  # the server was restarted; the message is in the session
            return (await session.prompt_and_wait("Continue.")).text

    async def _open(self, chat: str) -> RemoteSession:
        try:
            session = await self._client.attach(self._known.get(chat, "none"), last=0)
        except Refused as error:
            if error.code != "unknown_session":
                raise
            session = await self._client.open(cwd=self._folder, options=OPTIONS)
        self._sessions[chat] = session
        self._known[chat] = session.id
        self._state.write_text(json.dumps(self._known))
        return session


# ---------------------------------------------------------------- terminal


async def main(arguments: argparse.Namespace) -> None:
    async with RemoteClient(arguments.address, name="bot") as client:
        bot = Bot(client, arguments.folder, arguments.state, say)
        lines: asyncio.Queue[str] = asyncio.Queue()
        threading.Thread(target=read, args=(asyncio.get_running_loop(), lines), daemon=True).start()
        while line := await lines.get():
            chat, _, text = line.partition(":")
            if text.strip():
                bot.receive(chat.strip(), text.strip())
        await bot.idle()


def read(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str]") -> None:
    for line in itertools.chain(sys.stdin, [""]):
        loop.call_soon_threadsafe(lines.put_nowait, line)


async def say(chat: str, text: str) -> None:
    print("".join(f"{chat}> {line}\n" for line in text.splitlines()), end="", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", help="unix:PATH, ws://HOST:PORT or wss://HOST:PORT")
    parser.add_argument(
        "--folder", type=Path, default=Path.cwd(), help="folder that the bot can read"
    )
    parser.add_argument("--state", type=Path, default=Path("chats.json"), help="sessions of chats")
    asyncio.run(main(parser.parse_args()))
