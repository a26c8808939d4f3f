"""A real model on this machine: prompt, tool call, result and answer, in three API families.

Runs only where a model is at hand: `LUDOLF_TEST_GGUF=path/to/model.gguf make test-local-model`,
with the extra `local` installed. Qwen2.5-Coder-1.5B-Instruct (Q4_K_M) is known to pass.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludolf.base import dumps
from ludolf.client import Client, Record
from ludolf.config.models.local import can_run_files
from tests.local_model import many_tools
from tests.process.harness import RPC, SOURCE, only, survivors, text_of

GGUF = os.environ.get("LUDOLF_TEST_GGUF", "")
pytestmark = [
    pytest.mark.skipif(not GGUF, reason="LUDOLF_TEST_GGUF names no GGUF file"),
    pytest.mark.skipif(bool(GGUF) and not can_run_files(), reason="the extra local is missing"),
    pytest.mark.timeout(400),
]
SECONDS = 300.0
KEY = "key-of-the-test"
SECRET = "marigold"
SYSTEM = "You are a coding agent. Look into files with the tool before you answer."
QUESTION = "Read the file notes.txt and tell me the password that is written in it."
OFFICE_SYSTEM = "You are a helpful agent. Call tools; then answer from their results."
# In two prompts: after a search this small model names the tool and seldom calls it.
SEARCH_PROMPT = "Use tool_search to find a tool that gets the door code of a room."
CALL_PROMPT = "Call that tool now for the room Aurora."
FAMILIES = {
    "chat": ("openai-completions", "/v1"),
    "responses": ("openai-responses", "/v1"),
    "claude": ("anthropic-messages", ""),
}


class Served(msgspec.Struct, frozen=True):
    url: str


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One server for all families."""
    program = [sys.executable, str(Path(__file__).with_name("serve.py")), GGUF, KEY]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        yield Served(process.stdout.readline().strip())
        process.kill()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text(f"The password is {SECRET}.\n")
    return tmp_path


def client(home: Path, model: str, providers: dict[str, Any], *, system: str = SYSTEM) -> Client:
    (home / "agent" / "models.json").write_bytes(dumps({"providers": providers}))
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LUDOLF_DIR": str(home / "agent"),
        "LUDOLF_LOCAL_SERVERS": "0",
        "PYTHONPATH": str(SOURCE),
    }
    return Client(
        *("--model", model, "--tools", "read", "--max-turns", "6", "--system-prompt", system),
        program=RPC,
        cwd=home / "work",
        env=env,
    )


def check(events: list[Record]) -> None:
    """The file was read by the tool, the answer holds what only the file says, and it ended."""
    results = only(events, "tool_execution_end")
    assert any(SECRET in text_of(end["result"]) and not end["isError"] for end in results)
    last = only(events, "turn_end")[-1]["message"]
    assert last["stopReason"] == "stop", last
    assert SECRET in text_of(last).lower()
    assert last["usage"]["output"] > 0
    assert not only(events, "limit_reached")


@pytest.mark.parametrize("provider", FAMILIES)
async def test_a_question_that_needs_a_tool_is_answered_in_each_family(
    provider: str, served: Served, home: Path
) -> None:
    api, path = FAMILIES[provider]
    model = {"id": "real", "contextWindow": 8192, "maxTokens": 512}
    entry = {"baseUrl": served.url + path, "api": api, "apiKey": KEY, "models": [model]}
    async with client(home, f"{provider}/real", {provider: entry}) as host:
        check(await host.prompt_and_collect(QUESTION, SECONDS))


async def test_the_file_itself_answers_without_any_server_and_leaves_nothing_running(
    home: Path,
) -> None:
    change = {"contextWindow": 8192, "maxTokens": 512, "samplingParams": {"temperature": 0}}
    providers = {"gguf": {"modelOverrides": {GGUF: change}}}
    async with client(home, GGUF, providers) as host:
        model = (await host.ask("get_state"))["model"]
        check(await host.prompt_and_collect(QUESTION, SECONDS))
        again = await host.prompt_and_collect("Say the password once more.", SECONDS)
        children = _children(host.process.pid)
        assert len(children) == 1
    assert (model["provider"], model["contextWindow"]) == ("gguf", 8192)
    assert SECRET in text_of(only(again, "turn_end")[-1]["message"]).lower()
    assert survivors(children) == []


async def test_the_model_finds_one_of_two_hundred_tools_of_a_server_and_calls_it(
    served: Served, home: Path
) -> None:
    program = str(Path(many_tools.__file__))
    entry = {"command": sys.executable, "args": ["-I", program]}
    (home / "agent" / "mcp.json").write_bytes(dumps({"mcpServers": {"office": entry}}))
    model = {"id": "real", "contextWindow": 8192, "maxTokens": 512}
    chat = {"baseUrl": served.url + "/v1", "api": FAMILIES["chat"][0], "apiKey": KEY}
    providers = {"chat": {**chat, "models": [model]}}
    async with client(home, "chat/real", providers, system=OFFICE_SYSTEM) as host:
        found = await host.prompt_and_collect(SEARCH_PROMPT, SECONDS)
        events = await host.prompt_and_collect(CALL_PROMPT, SECONDS)
    called = [start["toolName"] for start in only(found, "tool_execution_start")]
    assert called[:1] == ["tool_search"], called
    calls = only([*found, *events], "tool_execution_start")
    assert f"mcp__office__{many_tools.WANTED}" in [start["toolName"] for start in calls]
    last = only(events, "turn_end")[-1]["message"]
    assert last["stopReason"] == "stop", last
    assert many_tools.CODE in text_of(last)


async def test_a_killed_program_takes_its_model_with_it(home: Path) -> None:
    async with client(home, GGUF, {}) as host:
        await host.ask("prompt", message="Count to a thousand.")
        await host.wait_for("message_update", SECONDS)
        children = _children(host.process.pid)
        await host.process.kill()
    assert children
    assert survivors(children) == []


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
