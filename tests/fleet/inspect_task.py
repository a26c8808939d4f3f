"""A task for Inspect and the model that solves it, in the environment of Inspect.

The model follows the conversation: it writes a file, reads it by a command, then answers with what
the command printed. So each answer depends on the results of tools in the sandbox.
"""

import os
import signal
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.scorer import match
from inspect_ai.tool import Tool, ToolCall, ToolChoice, ToolInfo, bash, tool
from inspect_ai.util import sandbox


@task
def words(samples: int = 50, mode: str = "plain") -> Task:
    return Task(
        dataset=[Sample(input=f"{mode} word{n}", target=f"word{n}") for n in range(samples)],
        scorer=match(location="exact"),
        sandbox="local",
    )


class Follower(ModelAPI):
    """Answers from the conversation alone."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        **args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        _kill_once(input)
        prompt = next(message.text for message in input if message.role == "user")
        mode, word = prompt.split()
        results = [message for message in input if isinstance(message, ChatMessageTool)]
        message = _answer(mode, word, results)
        output = ModelOutput(
            model=self.model_name,
            choices=[
                ChatCompletionChoice(
                    message=message, stop_reason="tool_calls" if message.tool_calls else "stop"
                )
            ],
            usage=ModelUsage(
                input_tokens=100, output_tokens=10, input_tokens_cache_read=5, total_tokens=115
            ),
        )
        return output


def _answer(mode: str, word: str, results: list[ChatMessageTool]) -> ChatMessageAssistant:
    if mode == "shout":
        return _shouting(results)
    if mode == "endless":
        return _call(len(results), "bash", {"command": "true"})
    if mode == "slow":
        return _call(len(results), "bash", {"command": "sleep 600"})
    if mode == "broken":
        raise RuntimeError("the model is out of order")
    if not results:
        return _call(0, "write", {"path": "word.txt", "content": word})
    if len(results) == 1:
        return _call(1, "bash", {"command": "cat word.txt"})
    if len(results) == 2:
        return _call(2, "read", {"path": "missing.txt"})
    assert results[2].error is not None
    assert "ENOENT" in results[2].error.message
    return ChatMessageAssistant(content=results[1].text, source="generate")


def _call(number: int, name: str, arguments: dict[str, Any]) -> ChatMessageAssistant:
    thought = ContentReasoning(reasoning=f"step {number}", signature="signed")
    return ChatMessageAssistant(
        content=[thought, ContentText(text=f"Step {number}.")],
        tool_calls=[ToolCall(id=f"call_{number}", function=name, arguments=arguments)],
        source="generate",
    )


def _kill_once(input: list[ChatMessage]) -> None:
    """Kill this process in the middle of a sample, if the test asks for it."""
    flag = os.environ.get("TEST_KILL_FLAG")
    sample = os.environ.get("TEST_KILL_SAMPLE", "")
    if flag and len(input) > 3 and any(message.text.endswith(sample) for message in input):
        if Path(flag).exists():
            return
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)


@modelapi(name="follower")
def follower() -> type[ModelAPI]:
    return Follower


# ---------------------------------------------------------------- a conversation with more in it


@tool
def shout() -> Tool:
    async def execute(text: str) -> str:
        """Return a text in capitals.

        Args:
            text: Any text.
        """
        return text.upper()

    return execute


@task
def conversation() -> Task:
    """A conversation that has begun, instructions of the sample, and a tool of Inspect."""
    from ludolf.adapters.inspect_agent import agent

    begun = [
        ChatMessageSystem(content="Instructions of the sample."),
        ChatMessageUser(content="shout pear"),
        ChatMessageAssistant(content="With pleasure."),
        ChatMessageUser(content="Go on."),
    ]
    return Task(
        dataset=[Sample(input=begun, target="PEAR and a.txt")],
        solver=agent(tools=[shout()], builtin_tools=["ls", "write"], max_turns=5),
        scorer=match(location="exact"),
        sandbox="local",
    )


def _shouting(results: list[ChatMessageTool]) -> ChatMessageAssistant:
    """Two calls at once: one of Inspect's tools and one of Ludolf's; then a call of ls."""
    if not results:
        both = [_call(0, "shout", {"text": "pear"}), _call(1, "write", {"path": "a.txt"})]
        both[1].tool_calls[0].arguments["content"] = "x"
        calls = [call for message in both for call in message.tool_calls]
        return ChatMessageAssistant(content="Both.", tool_calls=calls, source="generate")
    if len(results) == 2:
        return _call(2, "ls", {})
    return ChatMessageAssistant(content=f"{results[0].text} and {results[2].text}")


# ---------------------------------------------------------------- the loop of Inspect, to compare


@tool
def write() -> Tool:
    async def execute(path: str, content: str) -> str:
        """Write a file.

        Args:
            path: File to write.
            content: Its content.
        """
        await sandbox().write_file(path, content)
        return f"Successfully wrote to {path}"

    return execute


@tool
def read() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: File to read.
        """
        raise FileNotFoundError("ENOENT")

    return execute


@task
def words_by_inspect(samples: int = 50) -> Task:
    made: Task = words(samples)
    made.solver = react(tools=[bash(), write(), read()], submit=False)
    return made
