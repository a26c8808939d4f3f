"""Habits of pi that hosts and users may count on, found by comparing both programs."""

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Record
from tests.process.harness import Lab, read_entries
from tests.process.script import answer

pytestmark = pytest.mark.exec


def _thinking(lab: Lab, place: int = -1) -> Record:
    config: Record = lab.server.requests[place].body["generationConfig"]["thinkingConfig"]
    return config


async def test_gemini_chooses_its_thinking_budget_unless_the_user_does(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."))
    lab.settings(thinkingBudgets={"high": 5000})
    async with lab.client("--model", "gemini/large", "--thinking", "low") as client:
        await client.prompt_and_collect("Hi")
        await client.ask("set_thinking_level", level="high")
        await client.prompt_and_collect("Hi")
    assert _thinking(lab, 0)["thinkingBudget"] == -1
    assert _thinking(lab, 1)["thinkingBudget"] == 5000


async def test_a_session_at_a_path_without_a_file_names_its_model(lab: Lab) -> None:
    path = lab.work / "new.jsonl"
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.ask("switch_session", sessionPath=str(path))
        await client.prompt_and_collect("Hi")
    kinds = [entry["type"] for entry in read_entries(path)]
    assert kinds == ["model_change", "thinking_level_change", "message", "message"]


async def test_from_outside_the_scope_cycling_goes_to_its_second_model(lab: Lab) -> None:
    async with lab.client("--models", "claude/large,chat/large,responses/large") as client:
        await client.ask("set_model", provider="gemini", modelId="large")
        cycled = [(await client.ask("cycle_model"))["model"]["provider"] for _ in range(2)]
    assert cycled == ["chat", "responses"]


async def test_a_template_without_a_header_is_said_as_it_stands(lab: Lab) -> None:
    prompts = lab.agent / "prompts"
    prompts.mkdir()
    (prompts / "plain.md").write_text("\nSay $1.\n\n")
    lab.server.add(answer("Hi."))
    async with lab.client() as client:
        await client.prompt_and_collect("/plain it")
        (said, _) = (await client.ask("get_messages"))["messages"]
    assert said["content"][0]["text"] == "\nSay it.\n\n"


async def test_what_was_queued_does_not_go_along_to_another_session(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.ask("follow_up", message="said to the old session")
        await client.ask("new_session")
        assert (await client.ask("get_state"))["pendingMessageCount"] == 0
        await client.prompt_and_collect("Hi")
        said = (await client.ask("get_messages"))["messages"]
    assert [message["role"] for message in said] == ["user", "assistant"]


async def test_a_model_that_cannot_think_does_not_lose_the_level(lab: Lab) -> None:
    models = lab.agent / "models.json"
    known = loads(models.read_bytes())
    known["providers"]["chat"]["models"][0]["reasoning"] = False
    models.write_bytes(dumps(known))
    async with lab.client() as client:
        await client.ask("set_thinking_level", level="high")
        levels = []
        for provider in ("chat", "claude"):
            await client.ask("set_model", provider=provider, modelId="large")
            levels.append((await client.ask("get_state"))["thinkingLevel"])
    assert levels == ["off", "high"]
