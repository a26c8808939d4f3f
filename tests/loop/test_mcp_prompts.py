"""Prompts of MCP servers as commands: listed for hosts, expanded before the model is asked."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.messages import Image, Text, UserMessage
from ludolf.engine.feature import Feature, PromptInput
from ludolf.engine.features.mcp.prompts import McpPrompts
from ludolf.mcp.wire import Json, McpError
from tests.loop.stage import Stage, say, stage, texts

GREET: Json = {
    "name": "greet",
    "description": "A greeting.",
    "arguments": [{"name": "who", "required": True}],
}


SHOW: Json = {"name": "show"}
EMPTY: Json = {"name": "empty"}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)


class Lab:
    """Servers with prompts: one that is known, and one that was not asked yet."""

    def known_prompts(self) -> Mapping[str, Sequence[Json]]:
        return {"lab-one": [GREET], "late": []}

    def _messages(self, name: str) -> list[Json]:
        if name == "empty":
            return []
        image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        said = (("user", {"type": "text", "text": "Look:"}), ("user", image))
        answered = ("assistant", {"type": "text", "text": "A pixel."})
        return [{"role": role, "content": content} for role, content in (*said, answered)]

    async def list_prompts(self, server: str) -> Sequence[Json]:
        return [GREET, SHOW, EMPTY]

    async def get_prompt(self, server: str, name: str, args: Json) -> Json:
        if name != "greet":
            return {"messages": self._messages(name)}
        if args["who"] == "nobody":
            raise McpError("The server has ended")
        text = f"/skill:x Greet {args['who']} from {server}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


class Prompts(Feature):
    def __init__(self, folder: Path) -> None:
        self._commands = McpPrompts(Lab(), lambda: folder)

    def commands(self) -> tuple[Any, ...]:
        return self._commands.items()

    def handles_input(self, text: str) -> bool:
        return True

    async def before_input(self, prompt: PromptInput) -> PromptInput:
        return await self._commands.expand(prompt)


@asynccontextmanager
async def prompting(root: Path, *replies: Any, dialect: str = "pi-delta") -> AsyncIterator[Stage]:
    async with stage(root, *replies, dialect=dialect, lawful=False) as s:
        s.engine.features.add(Prompts(root))
        yield s


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/mcp:lab-one:greet Ada L", "/skill:x Greet Ada L from lab-one."),
        ("/mcp__lab_one__greet Ada", "/skill:x Greet Ada from lab-one."),
        ("/mcp:late:greet\nAda", "/skill:x Greet Ada from late."),
        ("/mcp:other:greet Ada", "/mcp:other:greet Ada"),
        ("see /mcp:lab-one:greet", "see /mcp:lab-one:greet"),
    ],
)
async def test_a_command_becomes_the_prompt_of_the_server(
    tmp_path: Path, text: str, expected: str
) -> None:
    async with prompting(tmp_path, say("Done")) as s:
        assert texts(await s.run(text)) == [expected]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("/mcp:lab-one:greet", "Missing argument: who. Usage: /mcp:lab-one:greet who"),
        ("/mcp:lab-one:nope x", "lab-one has no prompt nope; its prompts are: greet, show, empty"),
        (
            "/mcp:lab-one:greet nobody",
            "The prompt greet of lab-one cannot be used: The server has ended",
        ),
        ("/mcp:late:empty", "The prompt empty of late is empty"),
    ],
)
async def test_a_command_that_fails_is_refused_with_the_reason(
    tmp_path: Path, text: str, error: str
) -> None:
    async with prompting(tmp_path) as s:
        assert await s.refusal("prompt", message=text) == error


async def test_images_and_roles_of_a_prompt_reach_the_model_before_the_users_own_words(
    tmp_path: Path,
) -> None:
    own = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    async with prompting(tmp_path, say("Done")) as s:
        await s.run("/mcp:late:show and explain", images=[own])
        (message,) = (m for m in s.script.requests[0].messages if isinstance(m, UserMessage))
    image, *_ = (part for part in message.parts if isinstance(part, Image))
    assert message.parts == (
        Text(text="Look:"),
        image,
        Text(text="[assistant]\nA pixel.\n\nand explain"),
        image,
    )


@pytest.mark.parametrize(("dialect", "source"), [("pi-delta", "mcp"), ("pi-0.79", "prompt")])
async def test_hosts_list_prompts_with_a_source_that_they_know(
    tmp_path: Path, dialect: str, source: str
) -> None:
    async with prompting(tmp_path, dialect=dialect) as s:
        (item,) = (await s.data("get_commands"))["commands"]
    assert item.pop("path", "<mcp:lab-one>") == "<mcp:lab-one>"
    assert item == {
        "name": "mcp:lab-one:greet",
        "description": "A greeting. (who)",
        "source": source,
        "sourceInfo": {
            "path": "<mcp:lab-one>",
            "source": "auto",
            "scope": "user",
            "origin": "top-level",
        },
    }
