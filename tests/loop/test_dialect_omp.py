"""oh-my-pi's dialect: what its hosts wait for, in the order in which they wait for it."""

import re
from typing import Any

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.extending import dialog, reply
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import Failure, Gate, answer, bash, call, say

OMP = ("--rpc-dialect", "omp", "--no-session")


async def _ready(client: Client) -> Record:
    return await client.wait_for("ready")


async def test_the_first_records_are_ready_and_the_commands(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        greeting = await client.collect("available_commands_update")
    assert types(greeting) == ["ready", "available_commands_update"]
    assert greeting[0]["protocolVersion"] == 1
    assert greeting[0]["supportedProtocolVersions"] == [1, 2]
    commands = greeting[1]["commands"]
    assert {"session", "model", "rename"} <= {command["name"] for command in commands}
    assert {command["source"] for command in commands} == {"builtin"}


async def test_one_prompt_has_one_end_though_an_attempt_failed(lab: Lab) -> None:
    lab.server.add(Failure(status=529), answer("Now it works."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("prompt_result")
    assert types(told).count("agent_start") == 2
    assert types(told).count("agent_end") == 1
    assert types(told)[-2:] == ["agent_end", "prompt_result"]
    assert types(told).index("auto_retry_start") < types(told).index("agent_end")
    end = only(told, "agent_end")[0]
    assert end["isTerminal"] is True
    assert [message["role"] for message in end["messages"]] == ["assistant"]


async def test_a_refused_prompt_is_acknowledged_and_refused_under_one_id(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Wait", gate, ".")))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        await client.send("prompt", id="second", message="Me too")
        first = await client.reply_to("second")
        second = await client.reply_to("second")
        gate.open()
        await client.wait_for("agent_end")
    assert first["success"] is True
    assert "data" not in first
    assert second["success"] is False
    assert second["error"].startswith("Agent is already processing. Use steer() or followUp()")


async def test_abort_is_answered_between_the_turn_and_the_end(lab: Lab) -> None:
    lab.server.add(answer(say("Endless", Gate(), ".")))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        await client.send("abort", id="a")
        await client.reply_to("a")
        end = await client.wait_for("agent_end")
    told = types(map(loads, lab.lines))
    last = [kind for kind in told if kind in ("turn_end", "response abort", "agent_end")]
    assert last == ["turn_end", "response abort", "agent_end"]
    assert end["messages"][-1]["errorMessage"] == "Interrupted by user"


async def test_after_abort_and_prompt_only_the_new_run_ends(lab: Lab) -> None:
    lab.server.add(answer(say("Endless", Gate(), ".")), answer("Instead."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        await client.ask("abort_and_prompt", message="No, this")
        await client.wait_for("agent_end")
    told = [loads(line) for line in lab.lines]
    ends = only(told, "agent_end")
    assert len(ends) == 1
    assert text_of(ends[0]["messages"][-1]) == "Instead."
    kinds = types(told)
    assert kinds.index("response abort_and_prompt") < kinds.index("agent_end")
    assert kinds[kinds.index("response abort_and_prompt") + 1 :].count("agent_start") == 1


async def test_results_of_parallel_tools_are_told_as_they_come(lab: Lab) -> None:
    wait = "while [ ! -e go ]; do sleep 0.01; done; echo slow"
    calls = (bash(wait, "slow"), bash("echo fast", "fast"))
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        first = await client.collect(_is_result)
        (lab.work / "go").touch()
        rest = await client.collect("agent_end")
    assert first[-1]["message"]["toolCallId"] == "fast"
    assert types(first)[-3:-1] == ["tool_execution_end fast", "message_start toolResult"]
    later = [record["message"]["toolCallId"] for record in rest if _is_result(record)]
    assert later == ["slow"]
    assert len(only(rest, "turn_end")[0]["toolResults"]) == 2
    assert first[-1]["message"]["details"].keys() == {"timeoutSeconds", "wallTimeMs"}
    assert re.fullmatch(r"fast\n\n\nWall time: [\d.]+ seconds", text_of(first[-1]["message"]))


def _is_result(record: Record) -> bool:
    return bool(record["type"] == "message_end" and record["message"]["role"] == "toolResult")


async def test_unknown_commands_and_odd_frames_are_answered_without_an_id(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        await client.send("no_such_thing", id="x")
        unknown = await client.wait_for("response")
        await client.process.write(b"[1]\nnull\n{broken\n")
        odd = [await client.wait_for("response") for _ in range(3)]
    assert unknown["error"] == "Unknown command: no_such_thing"
    assert "id" not in unknown
    assert odd[0] == {"type": "response", "success": False, "error": "Unknown command: undefined"}
    assert [record["command"] for record in odd[1:]] == ["parse", "parse"]


async def test_a_missing_field_is_named_under_the_command_and_its_id(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        reply = await client.request("set_session_name")
    assert reply["command"] == "set_session_name"
    assert reply["error"] == "Missing field: name"


async def test_steering_an_idle_agent_starts_it(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client(*OMP) as client:
        await client.ask("steer", message="S")
        first = await client.collect("agent_end")
        await client.ask("follow_up", message="F")
        second = await client.collect("agent_end")
    assert first[-1]["messages"][0]["steering"] is True
    assert "steering" not in second[-1]["messages"][0]
    assert text_of(second[-1]["messages"][-1]) == "Two."


async def test_the_state_tells_modes_todos_tools_and_context(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        state = await client.ask("get_state")
    assert state["interruptMode"] == "immediate"
    assert state["queuedMessageCount"] == 0
    assert "pendingMessageCount" not in state
    assert state["todoPhases"] == []
    assert {tool["name"] for tool in state["dumpTools"]} >= {"read", "bash", "todo"}
    assert isinstance(state["systemPrompt"], list)
    assert state["contextUsage"]["contextWindow"] == 200_000
    assert state["model"]["thinking"]["mode"] == "budget"
    assert state["model"]["thinking"]["minLevel"] == "minimal"
    assert "sessionFile" not in state


async def test_a_model_change_is_told_before_its_reply(lab: Lab) -> None:
    async with lab.client(*OMP, "--thinking", "high") as client:
        await client.ask("set_model", provider="chat", modelId="large")
        await client.ask("set_thinking_level", level="low")
        changed = await client.wait_for("thinking_level_changed")
    told = types(map(loads, lab.lines))
    assert told.index("model_changed") < told.index("response set_model")
    assert changed["thinkingLevel"] == "low"


async def test_bash_counts_lines_and_bytes(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        short = await client.ask("bash", command="echo hi; echo é >&2")
        none = await client.ask("bash", command="true")
        long = await client.ask("bash", command="seq 1 3000")
    counts = ("totalLines", "totalBytes", "outputLines", "outputBytes")
    assert [short[name] for name in counts] == [3, 6, 3, 6]
    assert [none[name] for name in counts] == [0, 0, 0, 0]
    assert short["workingDir"] == str(lab.work)
    assert long["truncated"] is True
    assert long["totalLines"] == 3000
    assert long["outputLines"] < 3000
    assert long["artifactId"]
    assert "fullOutputPath" not in long
    assert long["elidedLines"] == long["totalLines"] - long["outputLines"]
    assert long["elidedBytes"] == long["totalBytes"] - long["outputBytes"]


async def test_compaction_by_hand_has_no_events_and_branches_are_named_so(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        refused = await client.request("compact")
        branch = await client.request("branch", entryId="nowhere")
        messages = await client.ask("get_branch_messages")
    assert refused["error"] == "Nothing to compact (session too small)"
    assert branch["error"] == "Invalid entry ID for branching"
    assert messages == {"messages": []}
    assert not [kind for kind in types(map(loads, lab.lines)) if "compaction" in kind]


async def test_nested_image_sources_reach_the_model(lab: Lab) -> None:
    lab.server.add(answer("I see."))
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="  # noqa: E501
    source = {"type": "base64", "mediaType": "image/png", "data": dot}
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Look", images=[{"type": "image", "source": source}])
        end = await client.wait_for("agent_end")
    blocks = end["messages"][0]["content"]
    assert blocks[1] == {"type": "image", "data": dot, "mimeType": "image/png"}


async def test_the_name_of_the_program_chooses_the_dialect(lab: Lab) -> None:
    link = lab.work / "omp"
    link.write_text("import sys\nfrom ludolf.cli.main import main\nmain(sys.argv[1:])\n")
    import sys

    done = lab.run("--mode", "rpc", program=(sys.executable, str(link)))
    other = lab.run("--mode", "rpc", "--rpc-dialect", "pi", program=(sys.executable, str(link)))
    assert types(done.records)[:1] == ["ready"]
    assert other.records == []


def test_an_unknown_dialect_is_refused_with_the_list(lab: Lab) -> None:
    done = lab.run("--mode", "rpc", "--rpc-dialect", "klingon")
    assert done.code == 1
    assert done.stdout == b""
    for name in ("pi", "pi-0.79", "pi-delta", "omp", "xcsh", "pi-early"):
        assert name in done.stderr


async def test_updates_carry_the_message_and_end_texts_before_the_next_block(lab: Lab) -> None:
    lab.server.add(answer("First.", bash("true"), size=100), answer("Done.", size=100))
    async with lab.client(*OMP, "--model", "chat/large") as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("message_end")
        told += await client.collect("agent_end")
    updates: list[dict[str, Any]] = only(told, "message_update")
    kinds = [update["assistantMessageEvent"]["type"] for update in updates]
    assert kinds[:4] == ["text_start", "text_delta", "text_end", "toolcall_start"]
    assert kinds.count("text_end") == 2
    for update in updates:
        assert list(update) == ["type", "assistantMessageEvent", "message", "messageId"]
        assert update["assistantMessageEvent"]["partial"] == update["message"]


# ---------------------------------------------------------------- approval


async def test_a_question_has_the_title_and_the_options_of_omp(lab: Lab) -> None:
    lab.server.add(answer(bash("echo hi\necho \u200bho")), answer("Done."))
    async with lab.client(*OMP, "--approval-mode", "write") as client:
        await client.ask("prompt", message="Go")
        request = await dialog(client, "select")
        await reply(client, request, value="Approve")
        told = await client.collect("agent_end")
    assert request["title"] == "Allow tool: bash\nCommand: echo hi\necho \\u200bho"
    assert request["options"] == ["Approve", "Deny"]
    (end,) = only(told, "tool_execution_end")
    assert not end["isError"]


async def test_files_are_named_in_the_question_and_long_texts_cut(lab: Lab) -> None:
    edit = {"path": "a.txt", "edits": [{"oldText": "x", "newText": "y"}]}
    written = {"path": "a.txt", "content": "x" * 2003}
    lab.server.add(answer(call("write", written), call("edit", edit, "call_2")), answer("Done."))
    async with lab.client(*OMP, "--approval-mode", "always-ask") as client:
        await client.ask("prompt", message="Go")
        titles = []
        for _ in range(2):
            request = await dialog(client, "select")
            titles.append(request["title"])
            await reply(client, request, value="Deny")
        await client.collect("agent_end")
    content = "x" * 2000 + "[…3ch elided…]"
    assert titles == [
        f"Allow tool: write\nPath: a.txt\nContent:\n{content}",
        "Allow tool: edit\nFile: a.txt",
    ]


async def test_the_approval_mode_write_lets_files_be_written(lab: Lab) -> None:
    lab.server.add(answer(call("write", {"path": "a.txt", "content": "x"})), answer("Done."))
    async with lab.client(*OMP, "--approval-mode", "write") as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    assert only(told, "extension_ui_request") == []
    assert (lab.work / "a.txt").read_text() == "x"
