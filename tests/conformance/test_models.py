"""Models and thinking levels."""

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, ask, is_plain_success, tell
from tests.process.script import answer

MODEL = {
    *("id", "name", "api", "provider", "baseUrl", "reasoning", "input", "cost"),
    *("contextWindow", "maxTokens"),
}
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")


def _lay_models(stage: Stage) -> None:
    # One that knows the highest level, and one that does not think.
    stage.add_model("claude", id="deep", reasoning=True, thinkingLevelMap={"xhigh": "max"})
    stage.add_model("claude", id="plain", reasoning=False)


async def _models(stage: Stage) -> None:
    _lay_models(stage)
    stage.server.add(answer("By chat."), answer("Thought."), answer("Quick."))
    async with stage.client() as client:
        await client.request("get_available_models", id="all")
        await client.request("set_model", id="set", provider="chat", modelId="large")
        await ask(stage, client, "Who are you?")
        for number in range(6):
            await client.request("cycle_model", id=f"cycle {number}")
        await client.request("get_state", id="after")
        await client.request("set_model", provider="claude", modelId="deep")
        for level in LEVELS:
            await client.request("set_thinking_level", id=f"deep {level}", level=level)
            await client.request("get_state", id=f"deep is {level}")
        for number in range(6):
            await client.request("cycle_thinking_level", id=f"level {number}")
        await ask(stage, client, "Think.")
        await client.request("set_model", provider="claude", modelId="large")
        await client.request("set_thinking_level", id="too high", level="xhigh")
        await client.request("get_state", id="high")
        await client.request("set_thinking_level", level="off")
        await ask(stage, client, "Do not think.")
        await client.request("set_model", provider="claude", modelId="plain")
        await client.request("cycle_thinking_level", id="no levels")


@pytest.fixture(scope="module")
def models(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _models)


@proves("RPC4-models-01", "RPC4-models-02")
@proves("RPC2-models-01", "RPC2-models-02")
@proves("RPC0-command-12")
def test_all_configured_models_are_listed_whole(models: Story) -> None:
    listed = models.data("all")["models"]
    assert {(one["provider"], one["id"]) for one in listed} == {
        *(("claude", "large"), ("claude", "deep"), ("claude", "plain")),
        *(("chat", "large"), ("responses", "large"), ("gemini", "large")),
    }
    assert all(one.keys() >= MODEL for one in listed)


@proves("RPC4-model-01", "RPC4-model-02", "RPC4-model-03", "RPC4-model-04", "RPC4-model-05")
def test_a_model_object_has_all_its_fields(models: Story) -> None:
    model = models.data("set")
    assert model == {
        **{"id": "large", "name": "large", "api": "openai-completions", "provider": "chat"},
        "baseUrl": models.stage.server.url + "/v1",
        **{"reasoning": True, "input": ["text", "image"]},
        **{"contextWindow": 200_000, "maxTokens": 8_000},
        "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 0},
    }


@proves("RPC4-set-model-01", "RPC4-set-model-02")
@proves("RPC2-set-model-01", "RPC2-set-model-02")
@proves("RPC0-command-10")
def test_the_model_that_was_set_answers(models: Story) -> None:
    assert models.data("set") in models.data("all")["models"]
    assert models.requests[0].path.endswith("/chat/completions")


@proves("RPC4-cycle-model-01", "RPC4-cycle-model-03", "RPC4-cycle-model-04")
@proves("RPC2-cycle-model-01", "RPC2-cycle-model-03")
@proves("RPC0-command-11")
def test_cycling_goes_through_all_models(models: Story) -> None:
    rounds = [models.data(f"cycle {number}") for number in range(6)]
    listed = models.data("all")["models"]
    here = listed.index(models.data("set")) + 1
    assert [one["model"] for one in rounds] == [*listed[here:], *listed[:here]]
    assert all(one.keys() == {"model", "thinkingLevel", "isScoped"} for one in rounds)
    assert all(one["thinkingLevel"] in LEVELS for one in rounds)
    after = models.data("after")
    assert (after["model"], after["thinkingLevel"]) == (
        rounds[-1]["model"],
        rounds[-1]["thinkingLevel"],
    )


@proves("RPC4-cycle-model-05")
@proves("RPC2-cycle-model-03")
async def test_cycling_says_whether_the_models_were_narrowed(stage: Stage) -> None:
    async with stage.client() as client:
        assert (await client.ask("cycle_model"))["isScoped"] is False
    async with stage.client("--models", "claude/large,gemini/large") as client:
        cycled = [await client.ask("cycle_model") for _ in range(2)]
    assert [one["isScoped"] for one in cycled] == [True, True]
    assert {one["model"]["provider"] for one in cycled} == {"claude", "gemini"}


@proves("RPC4-cycle-model-02")
@proves("RPC2-cycle-model-02")
async def test_with_one_model_there_is_nothing_to_cycle(stage: Stage) -> None:
    stage.keep_providers("claude")
    async with stage.client() as client:
        reply = await client.request("cycle_model")
    assert (reply["success"], reply["data"]) == (True, None)


# ---------------------------------------------------------------- thinking


@proves("RPC4-thinking-01", "RPC4-thinking-02", "RPC4-thinking-04")
@proves("RPC2-thinking-01", "RPC2-thinking-02", "RPC2-thinking-04")
@proves("RPC0-command-13", "RPC0-state-02")
def test_each_level_can_be_set(models: Story) -> None:
    levels = [models.data(f"deep is {level}")["thinkingLevel"] for level in LEVELS]
    assert levels == list(LEVELS)
    assert all(is_plain_success(models.reply(f"deep {level}")) for level in LEVELS)


@proves("RPC4-thinking-01")
@proves("RPC2-thinking-01")
def test_the_level_reaches_the_model(models: Story) -> None:
    _, thinking, quick = (asked.body for asked in models.requests)
    assert thinking["thinking"]["type"] == "enabled"
    assert quick.get("thinking", {"type": "disabled"})["type"] == "disabled"


@proves("RPC4-thinking-03")
@proves("RPC2-thinking-03")
def test_the_highest_level_is_for_models_that_have_it(models: Story) -> None:
    assert models.reply("too high")["success"] is True
    assert models.data("high")["thinkingLevel"] == "high"


@proves("RPC4-cycle-thinking-01", "RPC4-cycle-thinking-03")
@proves("RPC2-cycle-thinking-01", "RPC2-cycle-thinking-03")
@proves("RPC0-command-14")
def test_cycling_goes_through_the_models_levels(models: Story) -> None:
    cycled = [models.data(f"level {number}") for number in range(6)]
    assert cycled == [{"level": level} for level in LEVELS]


@proves("RPC4-cycle-thinking-02")
@proves("RPC2-cycle-thinking-02")
def test_a_model_that_does_not_think_has_no_levels_to_cycle(models: Story) -> None:
    assert models.data("no levels") is None
