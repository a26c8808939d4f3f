"""Stream rules: an answer that breaks one is cut, the rule is shown, and the model asked again."""

from pathlib import Path

import pytest

from ludolf.client import Record
from tests.process.harness import Lab, messages, only, text_of, types
from tests.process.script import Gate, answer, bash, call, say

RULE = """---
description: no console output
condition: "console\\\\.log"
{more}---
Use the logger.
"""


def _rule(lab: Lab, more: str = "", name: str = "no-console") -> Path:
    folder = lab.work / ".pi" / "rules"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(RULE.format(more=more))
    return path


async def _run(lab: Lab, *arguments: str, text: str = "Go") -> list[Record]:
    async with lab.client(*arguments) as client:
        return await client.prompt_and_collect(text)


async def test_prose_that_breaks_a_rule_is_cut_and_asked_for_again(lab: Lab) -> None:
    path = _rule(lab, "scope: text\n")
    lab.server.add(answer(say("I add console.log(", Gate())), answer("With the logger."))
    told = await _run(lab)
    (hit,) = only(told, "ttsr_triggered")
    assert [rule["name"] for rule in hit["rules"]] == ["no-console"]
    assert hit["rules"][0]["path"] == str(path)
    assert hit["rules"][0]["content"] == "Use the logger."
    first, second = only(told, "agent_end")
    assert first["messages"][-1]["errorMessage"] == "TTSR matched rule: no-console"
    assert first["willRetry"] is True
    assert text_of(second["messages"][-1]) == "With the logger."
    asked = str(lab.server.requests[1])
    assert "Use the logger." in asked
    assert "I add console" not in asked


async def test_in_omp_the_cut_run_has_one_end(lab: Lab) -> None:
    _rule(lab, "scope: text\n")
    lab.server.add(answer(say("console.log(", Gate())), answer("With the logger."))
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
        data = await client.ask("get_messages")
    assert types(told).count("agent_end") == 1
    roles = [message["role"] for message in data["messages"]]
    assert roles == ["user", "custom", "assistant"]
    assert data["messages"][1]["customType"] == "ttsr-injection"


async def test_kept_context_shows_the_model_what_it_said(lab: Lab) -> None:
    lab.settings(ttsr={"contextMode": "keep"})
    _rule(lab, "scope: text\n")
    lab.server.add(answer(say("I add console.log(", Gate())), answer("With the logger."))
    await _run(lab)
    roles = [message["role"] for message in messages(lab.entries)]
    assert roles == ["user", "assistant", "assistant"]
    assert "custom_message" in [entry["type"] for entry in lab.entries]


async def test_arguments_are_checked_once_more_when_they_are_whole(lab: Lab) -> None:
    _rule(lab, 'scope: "tool:write(*.js)"\n')
    lab.server.add(
        answer(call("write", {"path": "a.js", "content": "console.log(1)"}, "c1"), size=4),
        answer(call("write", {"path": "b.txt", "content": "console.log(2)"}, "c2"), size=4),
        answer("Done."),
    )
    told = await _run(lab)
    assert len(only(told, "ttsr_triggered")) == 1
    assert not (lab.work / "a.js").exists()
    assert (lab.work / "b.txt").read_text() == "console.log(2)"


async def test_a_rule_that_never_cuts_is_shown_behind_the_answer(lab: Lab) -> None:
    _rule(lab, "scope: text\ninterruptMode: never\n")
    lab.server.add(answer("I add console.log( here."), answer("With the logger."))
    told = await _run(lab)
    assert not only(told, "ttsr_triggered")
    assert "message_end custom" in types(told)
    assert "Use the logger." in str(lab.server.requests[1])
    assert types(told).count("agent_start") == 1
    roles = [message["role"] for message in only(told, "agent_end")[0]["messages"]]
    assert roles == ["user", "assistant", "custom", "assistant"]


async def test_a_rule_that_never_cuts_is_put_before_the_result_of_the_tool(lab: Lab) -> None:
    _rule(lab, "scope: tool\ninterruptMode: never\n")
    lab.server.add(answer(bash("echo 'console.log(1)'")), answer("Done."))
    told = await _run(lab)
    assert len(only(told, "ttsr_triggered")) == 1
    (end,) = only(told, "tool_execution_end")
    note, said = end["result"]["content"]
    assert "Use the logger." in note["text"]
    assert said["text"] == "console.log(1)\n"


@pytest.mark.parametrize(
    ("settings", "hits"), [({}, 1), ({"repeatMode": "after-gap", "repeatGap": 1}, 2)]
)
async def test_a_rule_fires_once_unless_it_may_repeat(
    lab: Lab, settings: dict[str, object], hits: int
) -> None:
    lab.settings(ttsr=settings)
    _rule(lab, "scope: text\n")
    lab.server.add(
        answer("console.log( "), answer("Logger."), answer("console.log( again"), answer("Logger.")
    )
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
        told += await client.prompt_and_collect("Again")
    assert len(only(told, "ttsr_triggered")) == hits


async def test_several_rules_each_see_the_answer_as_it_is(lab: Lab) -> None:
    rules = lab.work / ".pi" / "rules"
    rules.mkdir(parents=True)
    for name, pattern in {"one": "xyz", "two": "aabb", "three": "b c"}.items():
        (rules / f"{name}.md").write_text(f"---\ncondition: {pattern}\nscope: text\n---\nNo.\n")
    lab.server.add(answer("ab c", size=1), answer("Fine."))
    told = await _run(lab)
    (hit,) = only(told, "ttsr_triggered")
    assert [rule["name"] for rule in hit["rules"]] == ["three"]


async def test_a_spoilt_rule_is_named_and_the_others_count(lab: Lab) -> None:
    _rule(lab, "scope: text\n")
    _rule(lab, "scope: everywhere\n", name="spoilt")
    lab.server.add(answer("console.log( "), answer("Logger."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    assert "spoilt.md" in client.process.stderr
    assert len(only(told, "ttsr_triggered")) == 1


async def test_without_rules_nothing_is_loaded_for_them(lab: Lab) -> None:
    lab.settings(ttsr={"enabled": False})
    _rule(lab)
    lab.server.add(answer("console.log( "))
    told = await _run(lab)
    assert not only(told, "ttsr_triggered")
    assert len(lab.server.requests) == 1
