"""Read requests of three model APIs: the prompt, the results since, the shell tool, the size."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

WORD = "Bench "
# Names of the tool that runs a command, without the prefix of an extension.
_SHELLS = ("bash", "shell", "exec_command", "shell_command")
_COMMANDS = ("command", "cmd")
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")

Body = Mapping[str, Any]


class ShellTool(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Any]

    def arguments(self, command: str) -> str:
        """Return the arguments of a call as JSON: the command, and a word for each other one."""
        known = self.schema.get("properties", {})
        named = next((key for key in _COMMANDS if key in known), "command")
        is_list = known.get(named, {}).get("type") == "array"
        filled = {key: "run" for key in self.schema.get("required", ()) if key != named}
        return json.dumps({**filled, named: ["bash", "-c", command] if is_list else command})


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent asked.

    `overhead` is the number of bytes that the agent adds to the prompt: instructions, tools and
    further texts.
    """

    prompt: str
    results: int
    shell: ShellTool | None
    has_tools: bool
    overhead: int


def read_anthropic(body: Body) -> ModelRequest:
    """Read a request of Anthropic's Messages API."""
    parts = [("system", _texts(body.get("system", ""))), *_messages(body["messages"])]
    tools = [(tool["name"], tool.get("input_schema", {})) for tool in body.get("tools", ())]
    return _request(parts, tools, body)


def read_chat(body: Body) -> ModelRequest:
    """Read a request of OpenAI's Chat Completions API."""
    functions = [tool.get("function", {}) for tool in body.get("tools") or ()]
    tools = [(each.get("name", ""), each.get("parameters", {})) for each in functions]
    return _request(list(_messages(body["messages"])), tools, body)


def read_responses(body: Body) -> ModelRequest:
    """Read a request of OpenAI's Responses API."""
    parts = [("system", _texts(body.get("instructions") or "")), *_items(body["input"])]
    tools = [(tool.get("name", ""), tool.get("parameters", {})) for tool in body.get("tools", ())]
    return _request(parts, tools, body)


# ---------------------------------------------------------------- parts

# A part is the role and the texts of a message; a result of a tool has the role `tool`.
Part = tuple[str, list[str]]


def _messages(messages: Sequence[Body]) -> Iterator[Part]:
    for message in messages:
        content = message.get("content") or ""
        yield message["role"], _texts(content)
        if not isinstance(content, str):
            yield from (("tool", []) for block in content if block["type"] == "tool_result")


def _items(items: str | Sequence[Body]) -> Iterator[Part]:
    if isinstance(items, str):
        yield "user", [items]
        return
    for item in items:
        if item.get("type") in _RESULTS:
            yield "tool", []
        elif "role" in item:
            yield item["role"], _texts(item.get("content") or "")


def _texts(content: str | Sequence[Body]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if "text" in block]


def _request(
    parts: Sequence[Part], tools: Sequence[tuple[str, dict[str, Any]]], body: Body
) -> ModelRequest:
    shells = (ShellTool(*each) for each in tools if each[0].rpartition("__")[2].lower() in _SHELLS)
    prompt, results = _asked(parts)
    texts = [text for role, texts in parts if role != "assistant" for text in texts]
    added = sum(len(text.encode()) for text in texts if _prompt_in(text) is None)
    encoded = json.dumps(body["tools"], separators=(",", ":"), ensure_ascii=False) if tools else ""
    return ModelRequest(
        prompt=prompt,
        results=results,
        shell=next(shells, None),
        has_tools=bool(tools),
        overhead=added + len(encoded.encode()),
    )


def _asked(parts: Sequence[Part]) -> tuple[str, int]:
    """Return the last prompt and the number of results since."""
    results = 0
    for role, texts in reversed(parts):
        results += role == "tool"
        for text in reversed(texts if role == "user" else ()):
            found = _prompt_in(text)
            if found is not None:
                return found, results
    return "", results


def _prompt_in(text: str) -> str | None:
    _, word, rest = text.partition(WORD)
    return (word + rest).split("\n")[0].strip() if word else None
