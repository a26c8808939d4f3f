"""Each shipped extension does through the real program what its text says."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.process.extending import EXAMPLES, asked, dialog, example, notes, reply, told
from tests.process.harness import Lab, messages, only, text_of
from tests.process.script import answer, bash, call

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "__init__")
MOST_LINES = 120


def _results(lab: Lab) -> list[tuple[str, bool]]:
    found = [one for one in messages(lab.entries) if one["role"] == "toolResult"]
    return [(text_of(one), one["isError"]) for one in found]


def _git(lab: Lab, *args: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    command = ["git", *who, *args]
    done = subprocess.run(command, cwd=lab.work, env=lab.env, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_how_to_install_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) <= MOST_LINES
    head = text.split('"""')[1]
    assert "Install: copy it to ~/.pi/agent/extensions/" in head
    assert name in (EXAMPLES / "__init__.py").read_text()


async def test_all_examples_load_together(lab: Lab) -> None:
    for name in NAMES:
        target = lab.agent / "extensions" / f"{name}.py"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(example(name), target)
    async with lab.client() as client:
        commands = (await client.ask("get_commands"))["commands"]
    assert {one["name"] for one in commands} == {"demo", "plan", "todos"}
    assert only(told(lab), "extension_error") == []


# ---------------------------------------------------------------- permission gate


async def test_the_gate_runs_a_dangerous_command_that_was_allowed(lab: Lab) -> None:
    (lab.work / "old").mkdir()
    lab.server.add(answer(bash("rm -rf old")), answer(bash("rm -rf old")), answer("Done."))
    async with lab.client("-e", example("permission_gate")) as client:
        await client.ask("prompt", message="Go")
        request = await dialog(client, "select")
        assert request["title"].endswith("rm -rf old")
        assert (lab.work / "old").exists()
        await reply(client, request, value="Allow in this session")
        await client.wait_for("agent_settled")
    assert not (lab.work / "old").exists()
    assert len(asked(told(lab))) == 1


async def test_the_gate_blocks_what_was_refused_and_lets_harmless_commands_pass(lab: Lab) -> None:
    (lab.work / "old").mkdir()
    lab.server.add(answer(bash("rm -rf old", "a"), bash("echo hi", "b")), answer("Done."))
    async with lab.client("-e", example("permission_gate")) as client:
        await client.ask("prompt", message="Go")
        await reply(client, await dialog(client, "select"), value="Refuse")
        await client.wait_for("agent_settled")
    assert (lab.work / "old").exists()
    refused, passed = _results(lab)
    assert refused[1] and "the user refused it" in refused[0]
    assert passed == ("hi\n", False)


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_the_gate_fails_closed_with_nobody_there(lab: Lab, mode: tuple[str, ...]) -> None:
    (lab.work / "old").mkdir()
    lab.server.add(answer(bash("sudo rm -rf old")), answer("Done."))
    assert lab.run("-e", example("permission_gate"), *mode, "Go").code == 0
    assert (lab.work / "old").exists()
    assert "no host is connected to allow it" in _results(lab)[0][0]


# ---------------------------------------------------------------- protected paths


async def test_protected_paths_cannot_be_written_also_not_through_a_link(lab: Lab) -> None:
    (lab.work / ".env").write_text("KEY=1")
    (lab.work / "innocent").symlink_to(".env")
    paths = (".env", "innocent", ".git/config", "dump.sql", "fine.txt")
    calls = [call("write", {"path": path, "content": "x"}, path) for path in paths]
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client("-e", example("protected_paths"), "--protect", "*.sql") as client:
        await client.prompt_and_collect("Go")
    assert [failed for _, failed in _results(lab)] == [True, True, True, True, False]
    assert (lab.work / ".env").read_text() == "KEY=1"
    assert (lab.work / "fine.txt").read_text() == "x"
    assert len(notes(lab)) == 4


# ---------------------------------------------------------------- plan mode


async def test_plan_mode_plans_first_and_acts_when_told_to(lab: Lab) -> None:
    lab.server.add(answer("1. Write it."), answer("Written."))
    async with lab.client("-e", example("plan_mode"), "--plan") as client:
        await client.ask("prompt", message="Go")
        request = await dialog(client, "select")
        await reply(client, request, value="Carry out the plan.")
        await client.wait_for("agent_settled")
    planning, acting = lab.server.requests
    assert {tool["name"] for tool in planning.body["tools"]} == {"read", "grep", "find", "ls"}
    assert "You are in plan mode" in str(planning.body["messages"])
    assert "write" in {tool["name"] for tool in acting.body["tools"]}


async def test_plan_mode_is_on_again_when_its_session_is_resumed(lab: Lab) -> None:
    lab.server.add(answer("Hello."), answer("A plan."))
    async with lab.client("-e", example("plan_mode")) as client:
        await client.prompt_and_collect("Hi")
        await client.ask("prompt", message="/plan")
    async with lab.client("-e", example("plan_mode"), "-c") as client:
        await client.ask("prompt", message="Go")
        await reply(client, await dialog(client, "select"), cancelled=True)
    assert "bash" not in {tool["name"] for tool in lab.server.requests[-1].body["tools"]}


# ---------------------------------------------------------------- todo


async def test_the_list_of_tasks_follows_the_branches_of_a_session(lab: Lab) -> None:
    add = call("todo", {"action": "add", "text": "Sweep"}, "a")
    done = call("todo", {"action": "done", "number": 1}, "b")
    wrong = call("todo", {"action": "done", "number": 7}, "c")
    lab.server.add(answer(add), answer("One."), answer(done, wrong), answer("Two."))
    async with lab.client("-e", example("todo")) as client:
        await client.prompt_and_collect("First")
        await client.prompt_and_collect("Second")
        await client.ask("prompt", message="/todos")
        second = (await client.ask("get_fork_messages"))["messages"][1]
        await client.ask("fork", entryId=second["entryId"])
        await client.ask("prompt", message="/todos")
    assert notes(lab) == ["1. [x] Sweep", "1. [ ] Sweep"]
    widgets = [one.get("widgetLines") for one in asked(told(lab), "setWidget")]
    assert widgets == [None, ["1. [ ] Sweep"], ["1. [x] Sweep"], ["1. [ ] Sweep"]]
    results = [one for one in only(told(lab), "tool_execution_end") if one["isError"]]
    assert text_of(results[0]["result"]) == "Task 7 does not exist; the list has 1"


# ---------------------------------------------------------------- git checkpoint


async def test_a_fork_brings_back_the_files_of_before_the_prompt(lab: Lab) -> None:
    _git(lab, "init", "-q")
    (lab.work / "a.txt").write_text("one")
    _git(lab, "add", ".")
    _git(lab, "commit", "-qm", "start")
    (lab.work / "a.txt").write_text("mine")
    (lab.work / "new.txt").write_text("untracked")
    lab.server.add(answer(bash("echo theirs > a.txt; rm new.txt")), answer("Done."))
    async with lab.client("-e", example("git_checkpoint")) as client:
        await client.prompt_and_collect("Change it")
        assert (lab.work / "a.txt").read_text() == "theirs\n"
        entry = (await client.ask("get_fork_messages"))["messages"][0]["entryId"]
        await client.send("fork", id="fork", entryId=entry)
        await reply(client, await dialog(client, "confirm"), confirmed=True)
        assert (await client.reply_to("fork"))["data"]["cancelled"] is False
    assert (lab.work / "a.txt").read_text() == "mine"
    assert (lab.work / "new.txt").read_text() == "untracked"
    assert _git(lab, "log", "--format=%s") == "start"


async def test_outside_of_a_repository_no_checkpoint_is_taken(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    async with lab.client("-e", example("git_checkpoint")) as client:
        await client.prompt_and_collect("Hi")
    assert only(told(lab), "entry_appended") == []
    assert only(told(lab), "extension_error") == []


# ---------------------------------------------------------------- custom provider

_MODEL = """\
import json, sys
said = json.load(sys.stdin)
last = said["messages"][-1]
if last["role"] == "toolResult":
    print("It says", last["text"].strip())
elif "fail" in last["text"]:
    sys.exit("no such thing")
else:
    call = {"id": "1", "name": "read", "arguments": {"path": "a.txt"}}
    print("Looking.")
    print(json.dumps({"type": "toolcall_end", "tool_call": call}))
"""


@pytest.fixture
def program(lab: Lab) -> str:
    (lab.work / "model.py").write_text(_MODEL)
    (lab.work / "a.txt").write_text("hi")
    return "python3 model.py"


def test_a_program_can_be_the_model(lab: Lab, program: str) -> None:
    done = lab.run("-e", example("custom_provider"), "-p", "Go", MODEL_COMMAND=program)
    assert (done.code, done.stdout, done.stderr) == (0, b"It says hi\n\n", "")
    assert lab.server.requests == []


def test_a_program_that_fails_is_a_failed_request(lab: Lab, program: str) -> None:
    lab.settings(retry={"enabled": False})
    done = lab.run("-e", example("custom_provider"), "-p", "fail", MODEL_COMMAND=program)
    assert done.code == 1
    assert "no such thing" in done.stderr


async def test_models_of_a_program_are_listed(lab: Lab, program: str) -> None:
    async with lab.client("-e", example("custom_provider"), MODEL_COMMAND=program) as client:
        models = (await client.ask("get_available_models"))["models"]
        assert "program/local" in {f"{one['provider']}/{one['id']}" for one in models}
        told_first = await client.prompt_and_collect("Go")
        assert await client.ask("get_last_assistant_text") == {"text": "It says hi"}
    (first, second) = [one["message"] for one in only(told_first, "turn_end")]
    assert [block["type"] for block in first["content"]] == ["text", "toolCall"]
    assert second["provider"] == "program"


# ---------------------------------------------------------------- structured output

_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_the_final_answer_fits_the_schema_and_ends_the_run(lab: Lab) -> None:
    (lab.work / "schema.json").write_text(json.dumps(_SCHEMA))
    wrong = call("final_answer", {"name": "Ada"}, "a")
    right = call("final_answer", {"name": "Ada", "age": 36}, "b")
    lab.server.add(answer("It is Ada, 36."), answer(wrong), answer(right))
    done = lab.run(
        *("-e", example("structured_output"), "--schema", "schema.json"),
        *("--answer", "answer.json", "--mode", "json", "Who?"),
    )
    assert (done.code, done.stderr) == (0, "")
    assert json.loads((lab.work / "answer.json").read_text()) == {"name": "Ada", "age": 36}
    last = only(done.records, "tool_execution_end")[-1]
    assert last["result"]["details"] == {"name": "Ada", "age": 36}
    assert len(lab.server.requests) == 3
    assert "call final_answer" in str(lab.server.requests[1].body["messages"][-1])


def test_a_model_that_never_gives_the_answer_is_not_reminded_for_ever(lab: Lab) -> None:
    (lab.work / "schema.json").write_text(json.dumps(_SCHEMA))
    lab.server.add(*(answer("It is Ada.") for _ in range(5)))
    done = lab.run("-e", example("structured_output"), "--schema=schema.json", "-p", "Who?")
    assert done.code == 0
    assert len(lab.server.requests) == 3


# ---------------------------------------------------------------- sandboxed bash


def _can_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    command = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork"]
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


def _folder_without(lab: Lab, *names: str) -> str:
    """A folder to search for programs, with all but these."""
    folder = lab.root / "bin"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            target = folder / program.name
            if program.name not in names and not target.is_symlink():
                target.symlink_to(program)
    return str(folder)


@pytest.mark.skipif(not _can_unshare(), reason="this machine lets nobody make namespaces")
async def test_sandboxed_commands_write_to_the_project_only(lab: Lab) -> None:
    command = 'echo in > a.txt; echo out > "$HOME/b.txt" || echo kept out; exit 3'
    lab.server.add(answer(bash(command)), answer("Done."))
    async with lab.client("-e", example("sandboxed_bash")) as client:
        await client.prompt_and_collect("Go")
        data = await client.ask("bash", command="pwd; cat a.txt; ls /sys/class/net 2>/dev/null")
    (result,) = _results(lab)
    assert result[1]
    assert "kept out" in result[0]
    assert result[0].endswith("Command exited with code 3")
    assert data["output"].startswith(f"{lab.work}\nin\n")
    assert not (lab.root / "home" / "b.txt").exists()
    assert (lab.work / "a.txt").read_text() == "in\n"


async def test_without_a_sandbox_commands_are_refused(lab: Lab) -> None:
    search = _folder_without(lab, "bwrap", "unshare")
    lab.server.add(answer(bash("touch a.txt")), answer("Done."))
    async with lab.client("-e", example("sandboxed_bash"), PATH=search) as client:
        await client.prompt_and_collect("Go")
        refused = await client.request("bash", command="touch a.txt")
    assert _results(lab)[0][1]
    assert "Install bubblewrap" in _results(lab)[0][0]
    assert not refused["success"]
    assert "Install bubblewrap" in refused["error"]
    assert not (lab.work / "a.txt").exists()


async def test_no_sandbox_leaves_commands_as_they_are(lab: Lab) -> None:
    search = _folder_without(lab, "bwrap", "unshare")
    async with lab.client("-e", example("sandboxed_bash"), "--no-sandbox", PATH=search) as client:
        assert (await client.ask("bash", command="echo hi"))["output"] == "hi\n"


# ---------------------------------------------------------------- prompt customiser


async def test_the_prompt_has_the_parts_that_were_added(lab: Lab) -> None:
    (lab.work / "STYLE.md").write_text("Write short words.")
    lab.server.add(answer("Hello."), answer("Hello."))
    async with lab.client("-e", example("prompt_customiser"), "--approve") as client:
        await client.prompt_and_collect("Hi")
    async with lab.client("-e", example("prompt_customiser"), "--no-approve") as client:
        await client.prompt_and_collect("Hi")
    trusted, other = (str(one.body["system"]) for one in lab.server.requests)
    for system in (trusted, other):
        assert "Say what you are unsure of." in system
        assert "Today is " in system
    assert "Write short words." in trusted
    assert "Write short words." not in other


# ---------------------------------------------------------------- rpc demo


async def test_the_demo_asks_and_tells_everything(lab: Lab) -> None:
    async with lab.client("-e", example("rpc_demo")) as client:
        await client.send("prompt", id="demo", message="/demo")
        await reply(client, await dialog(client, "select"), value="Green")
        await reply(client, await dialog(client, "confirm"), confirmed=True)
        await reply(client, await dialog(client, "input"), value="Ada")
        await reply(client, await dialog(client, "editor"), value="line 3")
        await client.reply_to("demo")
    assert notes(lab)[:5] == [
        *('select: "Green"', "confirm: true", 'input: "Ada"', 'editor: "line 3"'),
        "timeout: false",
    ]
    methods = [one["method"] for one in asked(told(lab))]
    assert methods[-10:] == [
        *("notify", "notify", "notify", "setStatus", "setStatus"),
        *("setWidget", "setWidget", "setWidget", "setTitle", "set_editor_text"),
    ]
