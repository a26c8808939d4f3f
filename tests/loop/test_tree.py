"""Moving about in the tree of a conversation, with and without a summary of what is left."""

from pathlib import Path
from typing import Any

from tests.loop.stage import Stage, asked, call, calls, fails, say, stage, story, texts


async def talk(s: Stage) -> list[dict[str, Any]]:
    """Two prompts and their answers; the message entries."""
    s.script.add(say("one"), say("two"))
    await s.run("first")
    await s.run("second")
    return await entries(s)


async def entries(s: Stage) -> list[dict[str, Any]]:
    found = (await s.data("get_entries"))["entries"]
    return [entry for entry in found if entry["type"] == "message"]


async def context(s: Stage) -> list[str]:
    messages = (await s.data("get_messages"))["messages"]
    return [message["role"] for message in messages]


async def test_going_back_to_an_answer_continues_from_there(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        assert await s.data("navigate_tree", targetId=answer["id"]) == {"cancelled": False}
        assert await context(s) == ["user", "assistant"]
        s.script.add(say("three"))
        await s.run("third")
        assert asked(s.script.requests[-1]) == ["user first", "assistant one", "user third"]


async def test_going_back_to_a_message_of_the_user_gives_its_text(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        *_, question, _ = await talk(s)
        moved = await s.data("navigate_tree", targetId=question["id"])
        assert moved == {"cancelled": False, "text": "second"}
        assert await context(s) == ["user", "assistant"]


async def test_going_before_everything_leaves_an_empty_context(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        question, *_ = await talk(s)
        await s.data("navigate_tree", targetId=question["id"])
        assert await context(s) == []
        assert len(await entries(s)) == 4


async def test_a_branch_that_is_left_is_summarised_on_demand(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(say("## Goal\nThe second."))
        moved = await s.data("navigate_tree", targetId=answer["id"], summarize=True)
        assert await context(s) == ["user", "assistant", "branchSummary"]
        assert "second" in asked(s.script.requests[-1])[0]
        leaf = (await s.data("get_entries"))["leafId"]
        assert moved["summaryEntryId"] == leaf
        s.script.add(say("three"))
        await s.run("third")
        assert "The second." in asked(s.script.requests[-1])[2]


async def test_instructions_are_added_to_or_replace_the_usual_ones(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(say("## A"), say("## B"))
        go = {"targetId": answer["id"], "summarize": True, "customInstructions": "in rhyme"}
        last = (await s.data("get_entries"))["leafId"]
        await s.data("navigate_tree", **go)
        added = asked(s.script.requests[-1])[0]
        await s.data("navigate_tree", targetId=last)
        await s.data("navigate_tree", **go, replaceInstructions=True)
        replaced = asked(s.script.requests[-1])[0]
        assert "in rhyme" in added
        assert "in rhyme" in replaced
        assert len(replaced) < len(added)


async def test_a_place_can_be_labelled(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        await s.data("navigate_tree", targetId=answer["id"], label="here")
        tree = (await s.data("get_tree"))["tree"]
        assert [node["entry"]["id"] for node in _walk(tree) if node.get("label") == "here"] == [
            answer["id"]
        ]


async def test_a_label_goes_to_the_summary_if_there_is_one(tmp_path: Path) -> None:
    async with stage(tmp_path, say("")) as s:
        _, answer, *_ = await talk(s)
        s.script.add(say("## Goal"))
        go = {"targetId": answer["id"], "summarize": True, "label": "tried"}
        moved = await s.data("navigate_tree", **go)
        tree = (await s.data("get_tree"))["tree"]
        labelled = [node["entry"]["id"] for node in _walk(tree) if node.get("label")]
        assert labelled == [moved["summaryEntryId"]]


async def test_going_to_where_one_stands_does_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        leaf = (await s.data("get_entries"))["leafId"]
        assert await s.data("navigate_tree", targetId=leaf, summarize=True) == {"cancelled": False}
        assert len(s.script.requests) == 2


async def test_an_unknown_place_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        assert await s.refusal("navigate_tree", targetId="x") == "Entry not found: x"


async def test_an_abort_of_the_summary_stays_where_one_was(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(say("## Go", hang=True))
        leaf = (await s.data("get_entries"))["leafId"]
        number = s.send("navigate_tree", targetId=answer["id"], summarize=True)
        await s.asked(3)
        assert (await s.data("get_state"))["isCompacting"]
        await s.data("abort")
        assert (await s.reply(number))["data"] == {"cancelled": True}
        assert (await s.data("get_entries"))["leafId"] == leaf


async def test_a_failed_summary_stays_where_one_was(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(fails("401 bad key"))
        leaf = (await s.data("get_entries"))["leafId"]
        error = await s.refusal("navigate_tree", targetId=answer["id"], summarize=True)
        assert "401 bad key" in error
        assert (await s.data("get_entries"))["leafId"] == leaf


async def test_a_branch_summary_is_tried_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(fails("overloaded"), say("## Goal"))
        await s.data("navigate_tree", targetId=answer["id"], summarize=True)
        (start,) = s.of_type("summarization_retry_attempt_start")
        assert start == {"type": start["type"], "source": "branchSummary"}


async def test_a_prompt_behind_a_summary_waits_for_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(say("## Goal", delay_ms=1), say("three"))
        s.send("navigate_tree", targetId=answer["id"], summarize=True)
        await s.run("third")
        told = story(s.frames)
        assert told.index("reply navigate_tree") < len(told) - told[::-1].index("agent_start")
        assert asked(s.script.requests[-1])[-1] == "user third"
        assert len(asked(s.script.requests[-1])) == 4


async def test_navigating_stops_the_run_first(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        s.script.add(calls(call("hold", "c1", name="gate")))
        await s.data("prompt", message="third")
        await s.gates.reached("gate")
        await s.data("navigate_tree", targetId=answer["id"])
        assert not (await s.data("get_state"))["isStreaming"]
        assert await context(s) == ["user", "assistant"]
        assert texts(s.frames)[-1] == "third"


async def test_a_reopened_session_stands_where_the_last_entry_was_added(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        await s.data("navigate_tree", targetId=answer["id"])
        s.script.add(say("three"))
        await s.run("third")
        before = (await s.data("get_messages"))["messages"]
        await s.data("switch_session", sessionPath=str(s.path))
        assert (await s.data("get_messages"))["messages"] == before


async def test_the_place_where_one_stands_can_be_labelled(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        leaf = (await s.data("get_entries"))["leafId"]
        await s.data("navigate_tree", targetId=leaf, label="here")
        tree = (await s.data("get_tree"))["tree"]
        assert [node["label"] for node in _walk(tree) if node.get("label")] == ["here"]


def _walk(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [found for node in nodes for found in (node, *_walk(node["children"]))]


async def test_entries_come_in_pages_of_the_active_path(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        _, answer, *_ = await talk(s)
        await s.data("navigate_tree", targetId=answer["id"])
        s.script.add(say("three"))
        await s.run("third")
        every = (await s.data("get_entries"))["entries"]
        newest = await s.data("get_entries", limit=3)
        assert [entry["id"] for entry in newest["entries"][:1]] == [answer["id"]]
        assert newest["more"] is True
        assert newest["leafId"] == newest["entries"][-1]["id"]
        older = await s.data("get_entries", before=answer["id"])
        assert "more" not in older
        assert [*older["entries"], *newest["entries"]] == [
            *every[: len(older["entries"]) + 1],
            *every[-2:],
        ]


async def test_a_wrong_page_of_entries_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        question, *_ = await talk(s)
        for params, text in (
            ({"limit": 0}, 'get_entries: missing or invalid "limit"'),
            ({"limit": 1001}, 'get_entries: missing or invalid "limit"'),
            ({"limit": True}, 'get_entries: missing or invalid "limit"'),
            ({"before": 7}, 'get_entries: missing or invalid "before"'),
            ({"before": "nothing"}, "Entry not found: nothing"),
            (
                {"since": question["id"], "limit": 5},
                "since cannot be combined with before or limit",
            ),
        ):
            reply = await s.ask("get_entries", **params)
            assert text in reply["error"]
