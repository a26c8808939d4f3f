"""xcsh: the start, lines in and out, ids, errors and the end."""

import pytest

from ludolf.base import loads
from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import IMAGE, PIXEL, Stage, Story, is_piece, is_plain_success, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Gate, answer, call, say

RULE = '---\ncondition: "console\\\\.log"\nscope: text\n---\nUse the logger.\n'
STATE = b'{"type":"get_state"}\n'
PHASES = [{"name": "Plan", "tasks": [{"content": "one", "status": "pending"}]}]


async def _frames(stage: Stage) -> None:
    stage.lay(asking.PLACE, asking.SOURCE)
    stage.server.add(answer("Hello."), answer(say("Hold", Gate())), answer("Instead."))
    async with stage.client() as client:
        await client.send("set_session_name", id="without a name")
        await client.wait_for("response")
        await client.request("prompt", id="prompt", message="Hi")
        await client.wait_for("agent_end")
        await client.request("prompt", id="long", message="Go")
        await client.wait_for(is_piece)
        await client.request("abort_and_prompt", id="instead", message="This", images=[IMAGE])
        await client.wait_for("agent_end")
        bad = [{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]
        await client.request("abort_and_prompt", id="bad", message="See", images=bad)
        await client.reply_to("bad")
        await client.send("prompt", id="boom", message="/boom")
        await client.wait_for(lambda one: one.get("error") == "it failed")
        await client.request("get_state", id="last")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _frames)


# ---------------------------------------------------------------- frames


@proves("RPC0-out-04", "RPC0-event-11")
def test_a_failure_of_an_extension_is_a_record_of_its_own(story: Story) -> None:
    first, *_, last = story.events("extension_error")
    assert first == {
        **{"type": "extension_error", "event": "turn_start", "error": "no turn"},
        "extensionPath": str(story.stage.root / asking.PLACE),
    }
    assert (last["event"], last["error"]) == ("command", "it failed")
    assert story.data("last")["isStreaming"] is False


# ---------------------------------------------------------------- ids and errors


@proves("RPC0-id-05")
def test_a_handler_that_misses_a_field_is_answered_as_parse(story: Story) -> None:
    (missing,) = [one for one in only(story.records, "response") if "id" not in one]
    assert (missing["command"], missing["error"]) == ("parse", "Missing field: name")
    assert story.replies("without a name") == []


@proves("RPC0-id-07", "RPC0-prompt-02", "RPC0-prompt-04", "RPC0-command-05")
def test_abort_and_prompt_is_answered_and_only_the_new_prompt_ends(story: Story) -> None:
    assert is_plain_success(story.reply("instead"))
    names = types(story.records)
    place = names.index("response abort_and_prompt")
    assert names[place + 1] == "agent_start"
    assert names.count("agent_end") == 2
    failed = [(one["command"], one["success"]) for one in story.replies("bad")]
    assert failed == [("abort_and_prompt", True), ("abort_and_prompt", False)]
    assert PIXEL in str(story.requests[-1].body)
    (_, end) = story.events("agent_end")
    assert [text_of(one) for one in end["messages"]] == ["This", "Instead."]


# ---------------------------------------------------------------- start and end


@proves("RPC0-launch-03")
def test_no_model_is_asked_for_a_title(story: Story) -> None:
    said = [asked.body["messages"][-1] for asked in story.requests]
    assert len(said) == 3
    assert "sessionName" not in story.data("last")


@proves("RPC0-launch-04")
async def test_defaults_of_the_family_hold_where_nobody_chose(stage: Stage) -> None:
    async def tools() -> set[str]:
        async with stage.client("--no-session") as client:
            return {one["name"] for one in (await client.ask("get_state"))["dumpTools"]}

    assert {"todo", "task"} & await tools() == {"todo"}
    stage.settings(todo={"enabled": False}, task={"enabled": True})
    assert {"todo", "task"} & await tools() == {"task"}


@proves("RPC0-error-08")
async def test_an_extension_can_end_the_process(stage: Stage) -> None:
    stage.lay(asking.PLACE, asking.SOURCE)
    async with stage.client() as client:
        await client.send("prompt", message="/leave")
        assert await client.process.wait() == 0


# ---------------------------------------------------------------- stream rules


@proves("RPC0-event-08")
async def test_an_answer_that_breaks_a_rule_is_cut_and_asked_for_again(stage: Stage) -> None:
    stage.lay("work/.pi/rules/no-console.md", RULE)
    stage.server.add(answer(say("I add console.log(", Gate())), answer("With the logger."))
    async with stage.client() as client:
        await client.request("prompt", id="cut", message="Go")
        run = await client.collect("agent_end")
    (hit,) = only(run, "ttsr_triggered")
    assert [one["name"] for one in hit["rules"]] == ["no-console"]
    assert hit["rules"][0]["content"] == "Use the logger."
    assert text_of(run[-1]["messages"][-1]) == "With the logger."
    assert "Use the logger." in str(stage.server.requests[-1].body["messages"])
    assert types(run).count("agent_start") == 2


# ---------------------------------------------------------------- todos


async def _todos(stage: Stage) -> None:
    stage.settings(tasks={"todoClearDelay": 0})
    done = call("todo", {"op": "done", "task": "one"})
    stage.server.add(answer("I stop here."), answer(done), answer("Shall I go on?"))
    plan = {"id": "a", "name": "A", "tasks": [{"id": "t", "content": "one", "status": "pending"}]}
    more = {"content": "two", "status": "pending", "unknown": 1}
    async with stage.client() as client:
        await client.request("set_todos", id="first", phases=[plan])
        await client.request("set_todos", id="second", phases=[{**PHASES[0], "name": "B"}])
        odd = [{"content": "x", "status": "odd"}]
        await client.request("set_todos", id="odd", phases=[{"name": "C", "tasks": odd}])
        tasks = [*plan["tasks"], more]
        await client.request("set_todos", id="plan", phases=[{**plan, "tasks": tasks}])
        await client.request("get_state", id="before")
        await client.request("prompt", id="run", message="Go")
        await client.wait_for("agent_end")
        await client.request("get_state", id="after")
        if "todo_auto_clear" not in {loads(line)["type"] for line in stage.lines}:
            await client.wait_for("todo_auto_clear")
        await client.request("get_state", id="cleared")


@pytest.fixture(scope="module")
def todos(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _todos)


@proves("RPC0-todos-01", "RPC0-todos-02", "RPC0-command-08", "RPC0-state-12")
def test_a_plan_takes_the_place_of_the_one_before_and_is_made_whole(todos: Story) -> None:
    (phase,) = todos.data("second")["todoPhases"]
    assert phase["name"] == "B"
    assert phase["tasks"] == [{"id": "task-1", "content": "one", "status": "pending"}]
    assert todos.reply("odd")["error"] == "Invalid todo status: odd"
    assert todos.data("plan")["todoPhases"] == [
        {
            **{"id": "a", "name": "A"},
            "tasks": [
                {"id": "t", "content": "one", "status": "pending"},
                {"id": "task-2", "content": "two", "status": "pending"},
            ],
        }
    ]
    assert todos.data("before")["todoPhases"] == todos.data("plan")["todoPhases"]


@proves("RPC0-todos-03", "RPC0-event-09")
def test_a_plan_from_before_the_first_prompt_is_reminded_of(todos: Story) -> None:
    (reminder,) = only(todos.run("run"), "todo_reminder")
    assert (reminder["attempt"], reminder["maxAttempts"]) == (1, 3)
    assert [one["content"] for one in reminder["todos"]] == ["one", "two"]
    assert "two" in str(todos.requests[1].body["messages"])
    assert types(todos.run("run")).count("agent_end") == 1


@proves("RPC0-event-10")
def test_finished_tasks_leave_the_plan(todos: Story) -> None:
    assert todos.events("todo_auto_clear") == [{"type": "todo_auto_clear"}]
    (phase,) = todos.data("cleared")["todoPhases"]
    assert [one["content"] for one in phase["tasks"]] == ["two"]
