"""get_session_stats."""

import pytest

from ludolf.base import loads
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, ask, tell
from tests.process.harness import only
from tests.process.script import Tokens, answer, bash


async def _stats(stage: Stage) -> None:
    stage.server.add(
        answer(bash("echo a", "a"), bash("echo b", "b"), tokens=Tokens(1_000, 20, 300)),
        answer("Done.", tokens=Tokens(1_500, 30, 500)),
        answer("Again.", tokens=Tokens(4_000, 40, 1_000)),
    )
    async with stage.client() as client:
        await ask(stage, client, "Go")
        await ask(stage, client, "And again")
        await client.request("get_session_stats", id="stats")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _stats)


@proves("RPC4-stats-01", "RPC4-stats-02")
@proves("RPC2-stats-01")
@proves("RPC0-command-24")
def test_the_session_is_named(story: Story) -> None:
    (path,) = story.stage.sessions
    header = loads(path.read_bytes().splitlines()[0])
    stats = story.data("stats")
    assert (stats["sessionFile"], stats["sessionId"]) == (str(path), header["id"])


@proves("RPC4-stats-03", "RPC4-stats-04", "RPC4-stats-05", "RPC4-stats-06", "RPC4-stats-07")
@proves("RPC2-stats-02", "RPC2-stats-03", "RPC2-stats-04")
@proves("RPC0-command-24")
def test_messages_and_calls_are_counted(story: Story) -> None:
    names = ("userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages")
    assert [story.data("stats")[name] for name in names] == [2, 3, 2, 2, 7]


@proves("RPC4-stats-08", "RPC4-stats-09")
@proves("RPC2-stats-05")
@proves("RPC0-command-24")
def test_tokens_of_all_answers_are_added_up(story: Story) -> None:
    tokens = story.data("stats")["tokens"]
    assert {name: tokens[name] for name in ("input", "output", "total")} == {
        **{"input": 6_500, "output": 90, "total": 8_390},
    }
    assert (tokens["cacheRead"], tokens["cacheWrite"]) == (1_800, 0)


@proves("RPC4-stats-10")
@proves("RPC2-stats-06")
@proves("RPC0-command-24")
def test_the_cost_of_all_answers_is_added_up(story: Story) -> None:
    answers = [one["message"] for one in only(story.records, "turn_end")]
    costs = [one["usage"]["cost"]["total"] for one in answers]
    assert story.data("stats")["cost"] == pytest.approx(sum(costs))
    assert sum(costs) == pytest.approx((6_500 * 1 + 90 * 2 + 1_800 * 0.5) / 1e6)


@proves("RPC4-stats-11", "RPC4-stats-12", "RPC4-stats-13")
def test_the_use_of_the_context_is_that_of_the_last_answer(story: Story) -> None:
    usage = story.data("stats")["contextUsage"]
    assert (usage["tokens"], usage["contextWindow"]) == (5_040, 200_000)
    assert usage["percent"] == pytest.approx(2.52)


@proves("RPC4-stats-14")
async def test_without_a_model_the_use_of_the_context_is_left_out(stage: Stage) -> None:
    stage.keep_providers()
    async with stage.client(LUDOLF_OFFLINE_MODEL="0") as client:
        stats = await client.ask("get_session_stats")
    assert "contextUsage" not in stats
    assert stats["totalMessages"] == 0
