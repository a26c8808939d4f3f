"""xcsh's dialect, as its client uses it: wait for ready, correlate ids, answer host tools."""

from collections.abc import Callable
from typing import Any

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.extending import asked, is_dialog, lay
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import Gate, answer, call, say

XCSH = ("--rpc-dialect", "xcsh")
PHASES = [
    {
        "id": "phase-1",
        "name": "Evaluation",
        "tasks": [
            {"id": "task-1", "content": "Map the read tool", "status": "in_progress", "extra": 1},
            {"content": "Exercise edits", "status": "pending"},
        ],
    }
]


async def _run_with_tools(
    client: Client, text: str, tools: dict[str, Callable[[Any], str]]
) -> list[Record]:
    """What a host does: prompt, answer each call of its tools, stop at the end."""
    await client.ask("prompt", message=text)
    told: list[Record] = []
    while not told or told[-1]["type"] != "agent_end":
        told += await client.collect(lambda item: item["type"] in ("agent_end", "host_tool_call"))
        if told[-1]["type"] == "host_tool_call":
            said = tools[told[-1]["toolName"]](told[-1]["arguments"])
            content = [{"type": "text", "text": said}]
            await client.send("host_tool_result", id=told[-1]["id"], result={"content": content})
    return told


async def test_a_host_waits_for_ready_and_answers_its_tools(lab: Lab) -> None:
    lab.server.add(answer(call("double", {"n": 21})), answer("It is 42."))
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    tool = {"name": "double", "description": "Twice", "parameters": schema}
    async with lab.client(*XCSH) as client:
        ready = await client.wait_for("ready")
        await client.ask("set_host_tools", tools=[tool])
        told = await _run_with_tools(client, "Go", {"double": lambda args: str(2 * args["n"])})
    assert ready["version"]
    assert types([loads(lab.lines[0])]) == ["ready"]
    assert text_of(only(told, "tool_execution_end")[0]["result"]) == "42"
    assert told[-1].keys() == {"type", "messages"}
    unheard = {"available_commands_update", "prompt_result", "model_changed", "queue_update"}
    assert not unheard & set(types(map(loads, lab.lines)))


async def test_todos_are_kept_whole_shown_and_cleared_with_the_session(lab: Lab) -> None:
    async with lab.client(*XCSH) as client:
        given = await client.ask("set_todos", phases=PHASES)
        state = await client.ask("get_state")
        bad = [
            await _complaint(client, phases=[{"name": "X"}]),
            await _complaint(client),
            await _complaint(client, phases=[{"name": "X", "tasks": [_task("odd")]}]),
        ]
        await client.ask("new_session")
        fresh = await client.ask("get_state")
    assert given["todoPhases"][0]["tasks"] == [
        {"id": "task-1", "content": "Map the read tool", "status": "in_progress"},
        {"id": "task-2", "content": "Exercise edits", "status": "pending"},
    ]
    assert state["todoPhases"] == given["todoPhases"]
    assert state["interruptMode"] == "wait"
    assert isinstance(state["systemPrompt"], str)
    assert fresh["todoPhases"] == []
    assert bad == [
        "Missing field: phases[0].tasks",
        "Missing field: phases",
        "Invalid todo status: odd",
    ]


def _task(status: str) -> dict[str, str]:
    return {"content": "a", "status": status}


async def _complaint(client: Client, **params: Any) -> str:
    return str((await client.request("set_todos", **params))["error"])


async def test_a_field_that_is_missing_costs_command_and_id(lab: Lab) -> None:
    async with lab.client(*XCSH) as client:
        await client.send("set_session_name", id="x")
        reply = await client.wait_for("response")
        named = await client.request("set_model", provider="no", modelId="such")
    assert reply["command"] == "parse"
    assert "id" not in reply
    assert named["error"] == "Model not found: no/such"


async def test_the_model_keeps_the_plan_and_finished_tasks_disappear(lab: Lab) -> None:
    lab.settings(tasks={"todoClearDelay": 0})
    init = {"op": "init", "list": [{"phase": "A", "items": ["one", "two"]}]}
    lab.server.add(
        answer(call("todo", init)),
        answer(call("todo", {"op": "done", "task": "one"}, "call_2")),
        answer("Shall I go on?"),
    )
    async with lab.client(*XCSH) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
        if not only(told, "todo_auto_clear"):
            await client.wait_for("todo_auto_clear")
        state = await client.ask("get_state")
    details = [end["result"]["details"] for end in only(told, "tool_execution_end")]
    assert [task["status"] for task in details[0]["phases"][0]["tasks"]] == [
        "in_progress",
        "pending",
    ]
    assert details[1]["completedTasks"] == [{"phase": "A", "content": "one"}]
    assert details[1]["storage"] == "session"
    assert [task["content"] for task in state["todoPhases"][0]["tasks"]] == ["two"]


async def test_open_todos_remind_once_until_something_is_done(lab: Lab) -> None:
    lab.server.add(answer("I stop here."), answer("Still nothing."))
    async with lab.client(*XCSH) as client:
        await client.ask("set_todos", phases=PHASES)
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    (reminder,) = only(told, "todo_reminder")
    assert (reminder["attempt"], reminder["maxAttempts"]) == (1, 3)
    assert [todo["content"] for todo in reminder["todos"]] == [
        "Map the read tool",
        "Exercise edits",
    ]
    assert types(told).count("agent_start") == 2
    assert "Reminder 1/3" in str(lab.server.requests[1])


async def test_settings_silence_the_reminders_and_the_tool(lab: Lab) -> None:
    lab.settings(todo={"enabled": False})
    lab.server.add(answer("I stop here."))
    async with lab.client(*XCSH) as client:
        await client.ask("set_todos", phases=PHASES)
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
        state = await client.ask("get_state")
    assert not only(told, "todo_reminder")
    assert "todo" not in {tool["name"] for tool in state["dumpTools"]}


async def test_pi_has_no_todo_tool_and_no_reminder_unless_asked(lab: Lab) -> None:
    lab.server.add(answer("I stop here."))
    async with lab.client() as client:
        before = await client.ask("get_state")
        await client.ask("set_todos", phases=PHASES)
        told = await client.prompt_and_collect("Go")
        after = await client.ask("get_state")
    assert "todoPhases" not in before
    assert len(after["todoPhases"][0]["tasks"]) == 2
    assert not only(told, "todo_reminder")
    assert '"todo"' not in str(lab.server.requests[0])


async def test_a_waiting_message_cuts_calls_behind_one_that_runs_alone(lab: Lab) -> None:
    results = {mode: await _steered(lab, mode) for mode in ("immediate", "wait")}
    assert results["immediate"][1]["isError"] is True
    assert text_of(results["immediate"][1]["result"]).startswith(
        "Skipped due to queued user message."
    )
    assert results["immediate"][1]["result"]["details"]["executed"] is False
    assert [end["isError"] for end in results["wait"]] == [False, False]
    assert results["immediate"][0]["isError"] is False


async def _steered(lab: Lab, mode: str) -> list[Record]:
    go = lab.work / f"go-{mode}"
    wait = f"while [ ! -e {go.name} ]; do sleep 0.01; done"
    calls = (call("bash", {"command": wait}, "c1"), call("todo", {"op": "view"}, "c2"))
    lab.server.add(answer(*calls), answer("Steered."))
    async with lab.client(*XCSH) as client:
        await client.ask("set_interrupt_mode", mode=mode)
        refused = await client.request("set_interrupt_mode", mode="bogus")
        await client.ask("prompt", message="Go")
        told = await client.collect("tool_execution_start")
        await client.ask("steer", message="Change course")
        go.touch()
        told += await client.collect("agent_end")
    assert refused["error"] == "Invalid mode: bogus"
    return only(told, "tool_execution_end")


async def test_results_of_tools_are_never_warnings(lab: Lab) -> None:
    lab.server.add(answer(call("read", {"path": "missing.txt"})), answer("Done."))
    async with lab.client(*XCSH) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    (end,) = only(told, "tool_execution_end")
    assert end["isWarning"] is False
    assert told[-1]["messages"][2]["isWarning"] is False


async def test_integrations_tell_whether_the_model_can_be_asked(lab: Lab) -> None:
    async with lab.client(*XCSH) as client:
        known = await client.ask("get_integrations")
    (lab.agent / "models.json").unlink()
    async with lab.client(*XCSH, LUDOLF_OFFLINE_MODEL="0") as client:
        unknown = await client.ask("get_integrations")
    assert known["model"] == {"state": "connected", "provider": "claude"}
    assert known["services"] == []
    assert known["version"]
    assert unknown["model"] == {"state": "no_provider"}


async def test_a_slash_and_a_word_go_to_the_model_and_a_locale_is_accepted(lab: Lab) -> None:
    lab.server.add(answer("Sure."))
    async with lab.client(*XCSH) as client:
        await client.ask("set_locale", locale="ko")
        await client.ask("prompt", message="/model", locale="ko")
        told = await client.collect("agent_end")
    assert text_of(told[-1]["messages"][0]) == "/model"
    assert not only(told, "command_output")


async def test_titles_are_kept_back_unless_the_host_wants_them(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("name", description="names the window")
            async def name(args, ctx):
                ctx.ui.set_title("a title")
                ctx.ui.notify("done", "info")
        """,
    )
    for wanted in ("", " Yes "):
        async with lab.client(*XCSH, PI_RPC_EMIT_TITLE=wanted) as client:
            await client.send("prompt", message="/name")
            await client.collect(is_dialog("notify"))
    methods = [one["method"] for one in asked(map(loads, lab.lines))]
    assert methods == ["notify", "setTitle", "notify"]


async def test_abort_and_prompt_begins_anew_in_one_step(lab: Lab) -> None:
    lab.server.add(answer(say("Endless", Gate(), ".")), answer("Instead."))
    async with lab.client(*XCSH) as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        await client.ask("abort_and_prompt", message="No, this")
        end = await client.wait_for("agent_end")
    assert text_of(end["messages"][-1]) == "Instead."
