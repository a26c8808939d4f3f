"""Model backend: any program that reads a conversation and writes an answer.

Install: copy it to ~/.pi/agent/extensions/, then
    MODEL_COMMAND="python my_model.py" ludolf -p "Hello"

The program receives one JSON object on stdin: system, tools, and messages with role and text. Its
stdout is the answer, streamed line by line. A line that is a JSON object is an event instead, for
example a tool call: {"type": "toolcall_end", "tool_call": {"id": "1", "name": "read",
"arguments": {"path": "a.txt"}}}. With an exit code other than 0 the request fails.
"""

import asyncio
import json
import os
import shlex
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from typing import Any

from ludolf.ext import (
    Api,
    Context,
    Model,
    ModelContext,
    ModelOptions,
    ProviderError,
    SessionStart,
)

COMMAND = "MODEL_COMMAND"


class Program:
    id = "program"

    def models(self) -> list[dict[str, Any]]:
        return [{"id": "local", "name": "A program", "context_window": 32_000, "max_tokens": 4_000}]

    async def stream(
        self, model: Model, context: ModelContext, options: ModelOptions
    ) -> AsyncIterator[str | dict[str, Any]]:
        command = os.environ.get(COMMAND)
        if not command:
            raise ProviderError(f"{COMMAND} is not set")
        child = await asyncio.create_subprocess_exec(
            *shlex.split(command), stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert child.stdin and child.stdout and child.stderr
        try:
            child.stdin.write(json.dumps(conversation(context)).encode())
            child.stdin.close()
            async for line in child.stdout:
                text = line.decode("utf-8", "replace")
                yield json.loads(text) if text.startswith("{") else text
            if await child.wait() != 0:
                raise ProviderError((await child.stderr.read()).decode("utf-8", "replace").strip())
            yield {"type": "done"}
        finally:
            if child.returncode is None:
                child.kill()


def conversation(context: ModelContext) -> dict[str, Any]:
    messages = [{"role": each.role, "text": text_of(each.content)} for each in context.messages]
    tools = [{"name": tool.name, "description": tool.description} for tool in context.tools]
    return {"system": context.system_prompt, "tools": tools, "messages": messages}


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(getattr(b, "text", "") for b in content)


def extension(api: Api) -> None:
    api.provider(Program)

    @api.on("session_start")
    def choose(event: SessionStart, ctx: Context) -> None:
        if COMMAND in os.environ and event.reason == "startup":
            ctx.set_model("program/local")
