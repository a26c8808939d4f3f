"""Prompts of MCP servers as slash commands: `/mcp:server:prompt arguments`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ludolf.ai.messages import Part, Text
from ludolf.base import CommandError, Value
from ludolf.config.resources.sources import SourceDetails
from ludolf.engine.feature import PromptInput
from ludolf.engine.features.mcp.forms import shown_text
from ludolf.mcp.cleaning import is_clean
from ludolf.mcp.definitions import NAME_PREFIX, server_key
from ludolf.mcp.results import NO_OUTPUT, prompt_parts
from ludolf.mcp.wire import Json, McpError

COMMAND_PREFIX = "mcp:"
_MOST_DESCRIPTION = 400
_MOST_NAME = 200
_MOST_ARGUMENTS = 32


class PromptServers(Protocol):
    """The servers of a session, as far as prompts need them."""

    def known_prompts(self) -> Mapping[str, Sequence[Json]]:
        """Return the known definitions by server, empty for a server that was not asked yet."""

    async def list_prompts(self, server: str) -> Sequence[Json]:
        """Ask a server for its definitions, and start it if needed.

        Raises:
            McpError: it cannot be used.
        """

    async def get_prompt(self, server: str, name: str, args: Json) -> Json:
        """Return the result of `prompts/get`.

        Raises:
            McpError: it cannot be used, or refused.
        """


class McpCommandItem(Value, kw_only=True):
    """Prompt of a server as an item of `get_commands`."""

    name: str
    description: str | None = None
    source: Literal["mcp"]
    source_info: SourceDetails
    path: str


class ServerPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a server; `arguments` are names, and whether they are required."""

    server: str
    name: str
    word: str
    description: str
    arguments: tuple[tuple[str, bool], ...]

    @property
    def command(self) -> str:
        return f"{COMMAND_PREFIX}{self.server}:{self.word}"

    @property
    def usage(self) -> str:
        """Return the command with its arguments, optional ones in brackets."""
        shown = ((shown_text(name, _MOST_NAME), needed) for name, needed in self.arguments)
        names = (name if needed else f"[{name}]" for name, needed in shown)
        return " ".join((f"/{self.command}", *names))


class McpPrompts:
    """The prompts of all servers. Input that calls one is replaced by its messages.

    `folder` returns the folder for long texts and content that is neither text nor image.
    """

    def __init__(self, servers: PromptServers, folder: Callable[[], Path]) -> None:
        self._servers = servers
        self._folder = folder

    def items(self) -> tuple[McpCommandItem, ...]:
        """Return the items of `get_commands`."""
        known = self._servers.known_prompts()
        prompts = (one for server, raw in known.items() for one in read_prompts(server, raw))
        return tuple(map(_item, prompts))

    def matches(self, text: str) -> bool:
        """Return whether a text calls a prompt of a configured server."""
        return self._called(text) is not None

    async def expand(self, prompt: PromptInput) -> PromptInput:
        """Return the input with the messages of the prompt that it calls, else unchanged.

        Raises:
            CommandError: there is no such prompt, an argument is missing, or the server failed.
        """
        called = self._called(prompt.text) if prompt.expand else None
        if called is None:
            return prompt
        server, word, rest = called
        try:
            found = await self._find(server, word)
            args = prompt_arguments(found, rest)
            result = await self._servers.get_prompt(server, found.name, args)
        except McpError as error:
            raise CommandError(f"The prompt {word} of {server} cannot be used: {error}") from error
        parts = await prompt_parts(result, server=server, folder=self._folder())
        if parts == (Text(text=NO_OUTPUT),):
            raise CommandError(f"The prompt {word} of {server} is empty")
        return _with_parts(prompt, parts, "" if found.arguments else rest)

    def _called(self, text: str) -> tuple[str, str, str] | None:
        """Return server, prompt and the rest of a text that calls a prompt."""
        if not text.startswith((f"/{COMMAND_PREFIX}", f"/{NAME_PREFIX}")):
            return None
        head, *rest = text[1:].split(None, 1)
        for server in self._servers.known_prompts():
            word = _word_after(head, server)
            if word:
                return server, word, rest[0].strip() if rest else ""
        return None

    async def _find(self, server: str, word: str) -> ServerPrompt:
        prompts = read_prompts(server, self._servers.known_prompts().get(server, ()))
        found = _named(prompts, word)
        if found is None:
            prompts = read_prompts(server, await self._servers.list_prompts(server))
            found = _named(prompts, word)
        if found is None:
            names = ", ".join(one.word for one in prompts)
            has = f"its prompts are: {names}" if names else "it has none"
            raise CommandError(f"{server} has no prompt {shown_text(word, _MOST_NAME)}; {has}")
        return found


def _word_after(head: str, server: str) -> str | None:
    """Return the prompt that a command names, if it is one of this server."""
    if head.startswith(COMMAND_PREFIX):
        name, _, word = head.removeprefix(COMMAND_PREFIX).partition(":")
        return word if server_key(name) == server_key(server) else None
    prefix = f"{NAME_PREFIX}{server_key(server)}__"
    return head.removeprefix(prefix) if head.startswith(prefix) else None


def _named(prompts: Iterable[ServerPrompt], word: str) -> ServerPrompt | None:
    """Return the prompt with this word, else one whose word differs only in punctuation."""
    alike = [one for one in prompts if server_key(one.word) == server_key(word)]
    return next((one for one in alike if one.word == word), alike[0] if alike else None)


def _item(prompt: ServerPrompt) -> McpCommandItem:
    place = f"<mcp:{prompt.server}>"
    arguments = prompt.usage.partition(" ")[2]
    described = " ".join(filter(None, (prompt.description, arguments and f"({arguments})")))
    return McpCommandItem(
        name=prompt.command,
        description=described or None,
        source="mcp",
        source_info=SourceDetails(path=place, source="auto", scope="user", origin="top-level"),
        path=place,
    )


def read_prompts(server: str, raw: Iterable[Any]) -> tuple[ServerPrompt, ...]:
    """Return the usable prompts of a `prompts/list` result, each with a word of its own."""
    prompts: dict[str, ServerPrompt] = {}
    for each in raw:
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME:
            continue
        base = name if is_clean(name) and len(name.split()) == 1 else server_key(name)
        word, number = base, 2
        while word in prompts:
            word, number = f"{base}_{number}", number + 1
        prompts[word] = ServerPrompt(
            server=server,
            name=name,
            word=word,
            description=shown_text(each.get("description") or each.get("title"), _MOST_DESCRIPTION),
            arguments=_read_arguments(each.get("arguments")),
        )
    return tuple(prompts.values())


def _read_arguments(raw: Any) -> tuple[tuple[str, bool], ...]:
    listed = raw[:_MOST_ARGUMENTS] if isinstance(raw, list | tuple) else ()
    return tuple(
        (each["name"], each.get("required") is True)
        for each in listed
        if isinstance(each, Mapping) and isinstance(each.get("name"), str)
    )


# ---------------------------------------------------------------- arguments


def prompt_arguments(prompt: ServerPrompt, text: str) -> dict[str, str]:
    """Return the arguments in a text, by position; the last one takes the rest.

    Raises:
        CommandError: a required argument is missing; the text names it.
    """
    values: list[str] = []
    for left in range(len(prompt.arguments), 0, -1):
        value, text = _first_word(text) if left > 1 else (_unquoted(text), "")
        values.append(value)
    given = {
        name: value for (name, _), value in zip(prompt.arguments, values, strict=True) if value
    }
    missing = [name for name, needed in prompt.arguments if needed and name not in given]
    if missing:
        names = ", ".join(shown_text(name, _MOST_NAME) for name in missing)
        raise CommandError(f"Missing argument: {names}. Usage: {prompt.usage}")
    return given


def _first_word(text: str) -> tuple[str, str]:
    """Split off one word. Quotes around it join words; a quote without its pair is a letter."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        inside, end, rest = text[1:].partition(text[0])
        if end and (not rest or rest[0].isspace()):
            return inside, rest.strip()
    word, *others = text.split(None, 1) or ("",)
    return word, others[0] if others else ""


def _unquoted(text: str) -> str:
    word, rest = _first_word(text)
    return text.strip() if rest else word


# ---------------------------------------------------------------- messages


def _with_parts(prompt: PromptInput, parts: Sequence[Part], rest: str) -> PromptInput:
    """Return the input with this content; `rest` follows it."""
    if rest:
        *before, last = parts
        ends = (
            (Text(text=f"{last.text}\n\n{rest}"),)
            if isinstance(last, Text)
            else (last, Text(text=rest))
        )
        parts = (*before, *ends)
    first = parts[0]
    text = first.text if isinstance(first, Text) else ""
    extra = parts[1:] if isinstance(first, Text) else parts
    # The server's text must not call a template or a skill.
    return msgspec.structs.replace(prompt, text=text, extra=(*extra, *prompt.extra), expand=False)
