"""Where conformance tests play: the program in one dialect, and the story of what it said."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from tests.loop.program import ThreadLab
from tests.process.harness import text_of
from tests.process.model_server import Asked, ModelServer

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
PI = ("pi", "pi-delta")
# What a host of the family takes for the end of a prompt; of the older ones, `agent_end`.
END = {"pi": "agent_settled", "pi-delta": "agent_settled"}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
ATTACHED_IMAGE = {
    **{"id": "img1", "type": "image", "fileName": "dot.png", "mimeType": "image/png"},
    **{"size": 70, "content": PIXEL, "extractedText": None, "preview": None},
}
ATTACHED_DOCUMENT = {
    **{"id": "doc1", "type": "document", "fileName": "notes.txt", "mimeType": "text/plain"},
    **{"size": 11, "content": "cmVtZW1iZXI=", "extractedText": "remember me", "preview": None},
}


class Stage(ThreadLab):
    """A lab whose programs all speak one dialect."""

    def __init__(self, root: Path, server: ModelServer, dialect: str) -> None:
        self.dialect = dialect
        self.asked: list[str] = []
        super().__init__(root, server)

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "LUDOLF_RPC_DIALECT": self.dialect}

    @property
    def end(self) -> str:
        """The event that ends a prompt."""
        return END.get(self.dialect, "agent_end")

    @property
    def models_file(self) -> Path:
        return self.agent / "models.json"

    def add_model(self, provider: str, **model: Any) -> None:
        """One more model of a provider."""
        listed = loads(self.models_file.read_bytes())
        listed["providers"][provider]["models"].append(model)
        self.models_file.write_bytes(dumps(listed))

    def keep_providers(self, *names: str) -> None:
        """Only these providers are configured."""
        listed = loads(self.models_file.read_bytes())
        kept = {name: listed["providers"][name] for name in names}
        self.models_file.write_bytes(dumps({"providers": kept}))

    def lay(self, place: str, text: str) -> Path:
        """A file below the root of the stage."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


Act = Callable[[Stage], Awaitable[None]]


class Story(msgspec.Struct, frozen=True):
    """All that the program said on a stage, in order, and all that it asked the model."""

    records: list[Record]
    requests: list[Asked]
    stage: Stage

    def replies(self, command_id: str) -> list[Record]:
        return [one for one in self.records if _is_reply(one, command_id)]

    def reply(self, command_id: str) -> Record:
        """The only reply to a command."""
        (reply,) = self.replies(command_id)
        return reply

    def data(self, command_id: str) -> Any:
        """What a command returned."""
        reply = self.reply(command_id)
        assert reply["success"], reply
        return reply["data"]

    def events(self, kind: str | None = None) -> list[Record]:
        """All events, or all of one type."""
        events = [one for one in self.records if one["type"] != "response"]
        return [one for one in events if kind is None or one["type"] == kind]

    def run(self, command_id: str) -> list[Record]:
        """What came after the reply to a prompt until the agent was at rest."""
        if self.stage.dialect == "pi-early":
            return self._run_without_reply(self.stage.asked.index(command_id))
        start = next(n for n, one in enumerate(self.records) if _is_reply(one, command_id))
        later = self.records[start + 1 :]
        end = next(n for n, one in enumerate(later) if one["type"] == self.stage.end)
        return later[: end + 1]

    def _run_without_reply(self, number: int) -> list[Record]:
        ends = [n for n, one in enumerate(self.records) if one["type"] == "agent_end"]
        before = 0 if number == 0 else ends[number - 1] + 1
        start = self.records.index({"type": "agent_start"}, before)
        return self.records[start : ends[number] + 1]


async def do(stage: Stage, client: Client, command: str, **params: Any) -> None:
    """Send a command, and wait for its reply where the dialect has replies."""
    if stage.dialect == "pi-early":
        await client.send(command, **params)
    else:
        await client.request(command, **params)


async def begin(
    stage: Stage, client: Client, name: str, text: str | None = None, **more: Any
) -> None:
    """Prompt, by default with the id as the text."""
    stage.asked.append(name)
    message = name if text is None else text
    await do(stage, client, "prompt", id=name, message=message, **more)


async def ask(
    stage: Stage, client: Client, name: str, text: str | None = None, **more: Any
) -> None:
    """Prompt, and wait for the end of it."""
    await begin(stage, client, name, text, **more)
    await client.wait_for(stage.end)


def tell(stage: Stage, act: Act) -> Story:
    """Play an act; the story of it."""

    async def play() -> None:
        await act(stage)

    asyncio.run(play())
    return Story([loads(line) for line in stage.lines], list(stage.server.requests), stage)


def is_plain_success(reply: Mapping[str, Any]) -> bool:
    """Whether a reply tells success and nothing else."""
    return set(reply) == {"id", "type", "command", "success"} and reply["success"] is True


def is_piece(record: Mapping[str, Any]) -> bool:
    """Whether a record brings a piece of an answer, and not only its beginning."""
    return "delta" in record.get("assistantMessageEvent", {})


def prompts(asked: Asked) -> list[str]:
    """The texts of the user in a request to the Anthropic model; a block each."""
    messages = [m for m in asked.body["messages"] if m["role"] == "user"]
    blocks = [block for message in messages for block in _blocks(message["content"])]
    return [block["text"] for block in blocks if block["type"] == "text"]


def users(records: list[Record]) -> list[str]:
    """The texts of the user's messages that events have told as complete."""
    ends = [one["message"] for one in records if one["type"] == "message_end"]
    return [text_of(message) for message in ends if message["role"] == "user"]


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_reply(record: Record, command_id: str) -> bool:
    return record["type"] == "response" and record.get("id") == command_id
