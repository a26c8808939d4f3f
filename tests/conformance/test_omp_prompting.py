"""oh-my-pi: start, prompts, queues and their modes, interruption, errors."""

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    IMAGE,
    PIXEL,
    Stage,
    Story,
    is_piece,
    is_plain_success,
    prompts,
    tell,
    users,
)
from tests.process.harness import RPC, only, text_of, types
from tests.process.script import Gate, answer, bash, call, say

STATE = b'{"type":"get_state"}\n'
SOURCE = {"type": "base64", "mediaType": "image/png", "data": PIXEL}
LINK = {"type": "url", "url": "https://example.com/dot.png"}
MODES = ("set_steering_mode", "set_follow_up_mode")


# ---------------------------------------------------------------- start


def _state(stage: Stage, *arguments: str) -> Record:
    done = stage.run(*arguments, stdin=STATE, program=RPC)
    assert done.code == 0, done.stderr
    (reply,) = only(done.records, "response")
    found: Record = reply["data"]
    return found


@proves("RPC2-start-02", "RPC2-start-03", "RPC2-start-04")
def test_options_choose_model_and_storage(stage: Stage) -> None:
    stage.add_model("chat", id="tiny-1")
    state = _state(stage, "--provider", "chat", "--model", "tiny-1", "--no-session")
    assert (state["model"]["provider"], state["model"]["id"]) == ("chat", "tiny-1")
    assert "sessionFile" not in state


@proves("RPC2-intro-01", "RPC2-start-01", "RPC2-start-05")
async def test_the_process_stays_and_stores_where_it_is_told_to(stage: Stage) -> None:
    stage.server.add(answer("One."), answer("Two."))
    folder = stage.root / "elsewhere"
    async with stage.client("--session-dir", str(folder)) as client:
        for said in ("One.", "Two."):
            await client.request("prompt", message="Go")
            end = await client.wait_for("agent_end")
            assert text_of(end["messages"][-1]) == said
    assert len(list(folder.rglob("*.jsonl"))) == 1
    assert stage.sessions == []


# ---------------------------------------------------------------- prompts


async def _talk(stage: Stage) -> None:
    stage.server.add(answer("A dot."), answer("Hello."), answer(say("Half", Gate())))
    nested = [{"type": "image", "source": SOURCE}]
    async with stage.client() as client:
        await client.request("prompt", id="picture", message="What is this?", images=nested)
        await client.wait_for("agent_end")
        await client.process.write(b'{"type":"prompt","message":"No id"}\n')
        await client.wait_for("agent_end")
        link = [{"type": "image", "source": LINK}]
        await client.request("prompt", id="link", message="And this?", images=link)
        await client.reply_to("link")
        await client.request("prompt", id="stopped", message="Wait")
        await client.wait_for(is_piece)
        await client.request("abort", id="abort")
        await client.wait_for("agent_end")
        await client.request("abort", id="abort nothing")
        await client.request("set_model", id="nobody", provider="invalid", modelId="model")
        await client.process.write(b"{broken\n")
        await client.wait_for(lambda one: one.get("command") == "parse")
        await client.send("no_such_thing", id="unknown")
        await client.wait_for("response")
        await client.request("get_state", id="last")


@pytest.fixture(scope="module")
def talk(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _talk)


@proves("RPC2-overview-01", "RPC2-overview-02", "RPC2-overview-03")
def test_lines_are_commands_replies_and_events(talk: Story) -> None:
    replies = only(talk.records, "response")
    assert all(isinstance(one["success"], bool) for one in replies)
    assert all("success" not in one and "command" not in one for one in talk.events())
    assert types(talk.records)[0] == "ready"


@proves("RPC2-overview-05", "RPC2-overview-06")
def test_an_id_is_given_back_and_may_be_missing(talk: Story) -> None:
    bare = [one for one in only(talk.records, "response") if "id" not in one]
    assert bare[0] == {"type": "response", "command": "prompt", "success": True}
    assert talk.reply("abort")["id"] == "abort"


@proves("RPC2-prompt-01", "RPC2-prompt-02", "RPC2-prompt-06")
def test_a_prompt_is_answered_at_once_and_then_worked_on(talk: Story) -> None:
    assert is_plain_success(talk.reply("picture"))
    names = types(talk.records)
    assert names[names.index("response prompt") + 1] == "agent_start"
    assert prompts(talk.requests[0]) == ["What is this?"]
    assert prompts(talk.requests[1])[-1] == "No id"


@proves("RPC2-prompt-03", "RPC2-prompt-04")
def test_an_image_in_a_source_reaches_the_model(talk: Story) -> None:
    (user, *_) = only(talk.run("picture"), "message_end")
    assert user["message"]["content"][1] == IMAGE
    assert str(talk.requests[0].body).count(PIXEL) == 1


@proves("RPC2-prompt-05")
def test_an_image_by_url_is_refused(talk: Story) -> None:
    first, second = talk.replies("link")
    assert (first["success"], second["success"]) == (True, False)
    assert "base64" in second["error"]
    assert "And this?" not in str(talk.requests[-1].body)


@proves("RPC2-abort-01", "RPC2-abort-02")
def test_abort_stops_the_answer(talk: Story) -> None:
    last = talk.run("stopped")[-1]["messages"][-1]
    assert (text_of(last), last["stopReason"]) == ("Half", "aborted")
    assert is_plain_success(talk.reply("abort"))
    assert is_plain_success(talk.reply("abort nothing"))


@proves("RPC2-error-01", "RPC2-error-02")
def test_an_unknown_model_is_refused_by_name(talk: Story) -> None:
    reply = talk.reply("nobody")
    assert (reply["success"], reply["error"]) == (False, "Model not found: invalid/model")


@proves("RPC2-error-03")
def test_a_broken_line_is_answered_without_an_id_and_so_is_an_unknown_command(talk: Story) -> None:
    broken, unknown = [one for one in only(talk.records, "response") if "id" not in one][-2:]
    assert (broken["command"], broken["success"]) == ("parse", False)
    assert broken["error"].startswith("Failed to parse command: ")
    assert unknown["error"] == "Unknown command: no_such_thing"
    assert talk.data("last")["isStreaming"] is False


# ---------------------------------------------------------------- queues


async def _round(stage: Stage, client: Client, name: str, answers: int) -> None:
    """A run with a tool call, during which messages are put into each queue in both ways."""
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")))
    stage.server.add(*(answer(f"Answer {number}") for number in range(answers)))
    await client.request("prompt", id=name, message="Hello")
    await client.wait_for(is_piece)
    for kind, behaviour in (("follow_up", "followUp"), ("steer", "steer")):
        await client.request(
            *("prompt",),
            id=f"{name} by {behaviour}",
            message=f"{kind} 1",
            streamingBehavior=behaviour,
        )
        # A prompt is acknowledged before it is queued; this waits until it has been.
        await client.request(kind, id=f"{name} {kind}", message=f"{kind} 2")
    await client.request("get_state", id=f"{name} state")
    gate.open()
    await client.wait_for("agent_end")


async def _interrupted(stage: Stage, client: Client, mode: str) -> None:
    wait = f"until test -e {mode}; do sleep 0.01; done; echo real"
    alone = call("todo", {"op": "view"}, f"{mode} 2")
    stage.server.add(answer(bash(wait, f"{mode} 1"), alone), answer("Steered."))
    await client.request("set_interrupt_mode", id=f"set {mode}", mode=mode)
    await client.request("prompt", id=mode, message="Go")
    await client.wait_for("tool_execution_start")
    await client.request("steer", message="Change course")
    (stage.work / mode).touch()
    await client.wait_for("agent_end")


async def _queues(stage: Stage) -> None:
    async with stage.client() as client:
        await client.request("get_state", id="start")
        await _round(stage, client, "default", 4)
        for mode, answers in (("all", 2), ("one-at-a-time", 4)):
            for command in MODES:
                await client.request(command, id=f"{command} {mode}", mode=mode)
            await _round(stage, client, mode, answers)
        for mode in ("wait", "immediate"):
            await _interrupted(stage, client, mode)


@pytest.fixture(scope="module")
def queues(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _queues)


def _turns(run: list[Record]) -> list[list[str]]:
    """For each turn of a run, what the user said in it."""
    starts = [place for place, one in enumerate(run) if one["type"] == "turn_start"]
    ends = [*starts[1:], len(run)]
    return [users(run[start:end]) for start, end in zip(starts, ends, strict=True)]


ONE_BY_ONE = [["Hello"], ["steer 1"], ["steer 2"], ["follow_up 1"], ["follow_up 2"]]


@proves("RPC2-steering-mode-03", "RPC2-follow-up-mode-03")
def test_one_at_a_time_is_the_default_of_both_queues(queues: Story) -> None:
    state = queues.data("start")
    assert (state["steeringMode"], state["followUpMode"]) == ("one-at-a-time", "one-at-a-time")
    assert _turns(queues.run("default")) == ONE_BY_ONE


@proves("RPC2-steering-mode-02", "RPC2-follow-up-mode-02")
def test_one_at_a_time_delivers_one_message_a_turn(queues: Story) -> None:
    assert _turns(queues.run("one-at-a-time")) == ONE_BY_ONE


@proves("RPC2-steering-mode-01", "RPC2-follow-up-mode-01")
def test_all_delivers_all_together(queues: Story) -> None:
    steered, followed = ["steer 1", "steer 2"], ["follow_up 1", "follow_up 2"]
    assert _turns(queues.run("all")) == [["Hello"], steered, followed]


@proves("RPC2-steering-mode-04", "RPC2-follow-up-mode-04", "RPC2-interrupt-mode-03")
def test_setting_a_mode_is_answered_with_plain_success(queues: Story) -> None:
    for command in MODES:
        assert is_plain_success(queues.reply(f"{command} all"))
    assert is_plain_success(queues.reply("set wait"))
    assert is_plain_success(queues.reply("set immediate"))


@proves("RPC2-steer-01", "RPC2-steer-02", "RPC2-prompt-07")
def test_steering_reaches_the_agent_in_the_midst_of_its_run(queues: Story) -> None:
    assert is_plain_success(queues.reply("default steer"))
    assert is_plain_success(queues.reply("default by steer"))
    assert prompts(queues.requests[1])[-1] == "steer 1"
    assert prompts(queues.requests[2])[-1] == "steer 2"
    assert "out" in str(queues.requests[1].body["messages"])


@proves("RPC2-follow-up-01", "RPC2-follow-up-02", "RPC2-prompt-08", "RPC2-state-12")
def test_follow_ups_wait_for_the_end(queues: Story) -> None:
    assert is_plain_success(queues.reply("default follow_up"))
    assert is_plain_success(queues.reply("default by followUp"))
    last = [prompts(asked)[-1] for asked in queues.requests[3:5]]
    assert last == ["follow_up 1", "follow_up 2"]
    counts = [queues.data(name)["queuedMessageCount"] for name in ("start", "default state")]
    assert counts == [0, 4]


def _results(story: Story, mode: str) -> list[tuple[bool, str]]:
    ends = only(story.run(mode), "tool_execution_end")
    return [(one["isError"], text_of(one["result"])) for one in ends]


@proves("RPC2-interrupt-mode-01", "RPC2-state-07")
def test_immediate_skips_calls_that_have_not_begun(queues: Story) -> None:
    assert queues.data("start")["interruptMode"] == "immediate"
    (ran, skipped) = _results(queues, "immediate")
    assert (ran[0], ran[1][:5]) == (False, "real\n")
    assert skipped[0] is True
    assert skipped[1].startswith("Skipped due to queued user message.")
    assert _turns(queues.run("immediate")) == [["Go"], ["Change course"]]


@proves("RPC2-interrupt-mode-02")
def test_wait_lets_the_calls_of_the_turn_finish(queues: Story) -> None:
    assert [failed for failed, _ in _results(queues, "wait")] == [False, False]
    assert _turns(queues.run("wait")) == [["Go"], ["Change course"]]


@proves("RPC2-overview-04")
def test_the_output_is_json_lines_as_a_whole(stage: Stage) -> None:
    stage.server.add(answer("Hi \u2028 there.", size=3))
    with stage.popen("--no-session") as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b'{"type":"prompt","message":"Go"}\n')
        out = b""
        while b'"agent_end"' not in out:
            # Small reads cut records, and characters in them, at any byte.
            out += program.stdout.read(61) or b""
        program.stdin.close()
        out += program.stdout.read()
    records = [loads(line) for line in out.decode().split("\n") if line]
    said = [one["assistantMessageEvent"]["delta"] for one in records if is_piece(one)]
    assert "".join(said) == "Hi \u2028 there."
