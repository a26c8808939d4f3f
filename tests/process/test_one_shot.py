"""Print and JSON mode: what comes in, what goes out, and the exit code."""

import base64
import subprocess

import pytest

from ludolf.base import dumps, loads
from ludolf.cli.one_shot import CUT_OFF, NO_ANSWER, WAITING
from tests.loopback import nobody
from tests.process.harness import PROGRAM, WAIT_SECONDS, Lab, messages, only, text_of, types
from tests.process.script import STRAY, Block, Failure, Gate, answer, bash, say, think

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
_REFUSED = Failure(status=400, body=b'{"error":{"message":"no such thing"}}')


def _prompts(lab: Lab) -> list[str]:
    """The texts of the user in the last request."""
    sent = lab.server.requests[-1].body["messages"]
    return [text_of(message) for message in sent if message["role"] == "user"]


# ---------------------------------------------------------------- print mode


def test_print_mode_prints_the_last_answer(lab: Lab) -> None:
    lab.server.add(answer("Looking.", bash("echo hi")), answer("It says", say("hi 👀")))
    done = lab.run("-p", "Go")
    assert (done.code, done.stdout.decode(), done.stderr) == (0, "It says\nhi 👀\n", "")
    assert _prompts(lab)[0] == "Go"


def test_a_pipe_without_flags_is_print_mode(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    done = lab.run(stdin=b"Hi there\n")
    assert (done.code, done.stdout) == (0, b"Hello.\n")
    assert _prompts(lab) == ["Hi there"]


def test_stdin_files_and_the_first_message_make_one_prompt(lab: Lab) -> None:
    (lab.work / "a.txt").write_text("file text\n")
    (lab.work / "empty.txt").touch()
    lab.server.add(answer("Hello."))
    done = lab.run("-p", "@a.txt", "@empty.txt", "What is this?", stdin=b"from stdin\n")
    assert done.code == 0
    name = lab.work / "a.txt"
    assert _prompts(lab) == [
        f'from stdin<file name="{name}">\nfile text\n\n</file>\nWhat is this?',
    ]


def test_an_image_file_is_attached(lab: Lab) -> None:
    (lab.work / "dot.png").write_bytes(_PIXEL)
    lab.server.add(answer("A dot."))
    done = lab.run("-p", "@dot.png", "What is this?")
    assert done.code == 0
    content = lab.server.requests[0].body["messages"][0]["content"]
    kinds = [block["type"] for block in content]
    assert sorted(kinds) == ["image", "text"]
    image = next(block for block in content if block["type"] == "image")
    assert base64.b64decode(image["source"]["data"]) == _PIXEL


def test_a_missing_file_ends_the_start(lab: Lab) -> None:
    done = lab.run("-p", "@nowhere.txt", "Hi")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == f"Error: File not found: {lab.work / 'nowhere.txt'}\n"
    assert lab.server.requests == []


def test_further_messages_are_prompted_one_after_another(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."), answer("Three."))
    done = lab.run("-p", "the first", "second", "third")
    assert (done.code, done.stdout, done.stderr) == (0, b"Three.\n", "")
    assert _prompts(lab) == ["the first", "second", "third"]
    assert len(lab.sessions) == 1


def test_a_failed_answer_goes_to_stderr_and_the_code_is_1(lab: Lab) -> None:
    lab.server.add(_REFUSED)
    done = lab.run("-p", "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert "no such thing" in done.stderr


@pytest.mark.parametrize("blocked", [False, True])
def test_an_image_that_the_model_does_not_receive_is_reported(lab: Lab, blocked: bool) -> None:
    (lab.work / "dot.png").write_bytes(_PIXEL)
    if blocked:
        lab.settings(images={"blockImages": True})
        reason = "images.blockImages is set in settings.json"
    else:
        models = (lab.agent / "models.json").read_text()
        (lab.agent / "models.json").write_text(models.replace('"text","image"', '"text"'))
        reason = "claude/large does not take images"
    lab.server.add(answer("A dot?"))
    done = lab.run("-p", "@dot.png", "What is it?")
    assert done.code == 0
    assert done.stderr == f"Warning: The images of the prompt were not sent: {reason}.\n"


def test_the_text_of_a_failure_names_the_model_and_the_next_step(lab: Lab) -> None:
    body = {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}
    lab.server.add(Failure(status=401, body=dumps(body)))
    done = lab.run("-p", "Go")
    assert done.stderr == (
        'Error from claude/large: bad key (401). Check the key with "ludolf auth status claude".\n'
    )
    (failed,) = [each for each in messages(lab.entries) if each["role"] == "assistant"]
    assert failed["errorMessage"] == f"401 {dumps(body).decode()}"


def test_a_server_of_this_machine_that_does_not_run_is_named_at_once(lab: Lab) -> None:
    with nobody() as url:
        models = (lab.agent / "models.json").read_text().replace(lab.server.url, url)
        (lab.agent / "models.json").write_text(models)
        done = lab.run("-p", "Go")
    assert done.code == 1
    assert done.stderr == (
        f"Error from claude/large: the server at {url} refused the connection. "
        'Start the server, or correct "baseUrl" in models.json.\n'
    )
    assert len([each for each in messages(lab.entries) if each["role"] == "assistant"]) == 1


def test_print_mode_asks_again_after_a_passing_failure(lab: Lab) -> None:
    lab.server.add(Failure(status=529), answer("Better."))
    done = lab.run("-p", "Go")
    assert (done.code, done.stdout) == (0, b"Better.\n")


def test_print_mode_continues_a_session(lab: Lab) -> None:
    lab.server.add(answer("Hello Ada."), answer("Ada."))
    lab.run("-p", "I am Ada")
    done = lab.run("-c", "-p", "Who am I?")
    assert done.stdout == b"Ada.\n"
    assert _prompts(lab) == ["I am Ada", "Who am I?"]


def test_a_blank_line_separates_stdin_from_the_message(lab: Lab) -> None:
    (lab.work / "empty.txt").touch()
    lab.server.add(answer("Hello."))
    assert lab.run("-p", "@empty.txt", "What is that?", stdin=b"hi\n").code == 0
    assert _prompts(lab) == ["hi\n\nWhat is that?"]


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_words_without_quotes_are_one_prompt(lab: Lab, mode: tuple[str, ...]) -> None:
    lab.server.add(answer("A file."))
    done = lab.run(*mode, "what", "is", "in", "this", "folder?")
    assert done.code == 0
    assert _prompts(lab) == ["what is in this folder?"]
    assert done.stderr.startswith('Note: these words are one prompt: "what is in this folder?"')


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
@pytest.mark.parametrize("blocks", [(), (think("Hm."),)])
def test_an_answer_without_text_ends_with_1(
    lab: Lab, mode: tuple[str, ...], blocks: tuple[Block, ...]
) -> None:
    lab.server.add(answer(*blocks))
    done = lab.run(*mode, "Go")
    assert done.code == 1
    if mode == ("-p",):
        assert (done.stdout, done.stderr) == (b"", f"{NO_ANSWER}\n")


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_a_limit_that_was_reached_ends_with_1(lab: Lab, mode: tuple[str, ...]) -> None:
    lab.server.add(answer("Looking.", bash("echo hi")), answer("Done."))
    assert lab.run(*mode, "--max-turns", "1", "Go").code == 1


def test_an_answer_that_was_cut_off_is_printed_with_a_warning(lab: Lab) -> None:
    lab.server.add(answer("Half", stop="length"))
    done = lab.run("-p", "Go")
    assert (done.code, done.stdout, done.stderr) == (0, b"Half\n", f"{CUT_OFF}\n")


def test_a_folder_is_not_taken_for_a_missing_file(lab: Lab) -> None:
    (lab.work / "demo").mkdir()
    done = lab.run("-p", "@demo", "Hi")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"Error: {lab.work / 'demo'} is a folder.")


def test_an_unknown_command_does_not_reach_the_model(lab: Lab) -> None:
    prompts = lab.agent / "prompts"
    prompts.mkdir()
    (prompts / "review.md").write_text("Review $1.")
    done = lab.run("-p", "/revew main.py")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == "Error: Unknown command: /revew. Commands: /review.\n"
    assert lab.server.requests == []


@pytest.mark.parametrize("text", ["/review main.py", "/tmp is full", "/usr/bin/env is missing"])
def test_a_command_and_a_path_reach_the_model(lab: Lab, text: str) -> None:
    prompts = lab.agent / "prompts"
    prompts.mkdir()
    (prompts / "review.md").write_text("/review is: $1")
    lab.server.add(answer("Fine."))
    assert lab.run("-p", text).stdout == b"Fine.\n"


def test_print_mode_says_that_it_waits_for_stdin(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    process = subprocess.Popen(
        [*PROGRAM, "-p", "Go"],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stderr is not None
        assert process.stderr.readline().decode() == f"{WAITING}\n"
        out, _ = process.communicate(b"", WAIT_SECONDS)
    assert (process.returncode, out) == (0, b"Hello.\n")


@pytest.mark.parametrize(
    ("word", "near"), [("--modle", "--model"), ("--no-sesion", "--no-session")]
)
def test_a_misspelt_option_is_answered_with_the_right_one(lab: Lab, word: str, near: str) -> None:
    done = lab.run(word, "-p", "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == f"Error: Unknown option: {word}. Did you mean {near}?\n"


def test_an_unknown_option_ends_the_start(lab: Lab) -> None:
    done = lab.run("--frobnicate", "-p", "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == "Error: Unknown option: --frobnicate\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-p", "--model"), "--model needs a value"),
        (("-p", "Go", "-t"), "-t needs a value"),
        (("-p", "Go", "--max-turns"), "--max-turns needs a value"),
        (("--mode",), "--mode requires text, json, rpc, or acp"),
    ],
)
def test_an_option_without_its_value_says_so(lab: Lab, words: tuple[str, ...], told: str) -> None:
    done = lab.run(*words)
    assert (done.code, done.stdout, done.stderr) == (1, b"", f"Error: {told}\n")


def test_a_name_of_no_tool_is_told_on_stderr_and_the_others_hold(lab: Lab) -> None:
    lab.server.add(answer("fine"))
    done = lab.run("--tools", "read,grepp,task", "-p", "Go")
    assert (done.code, done.stdout) == (0, b"fine\n")
    told = "Warning: Unknown in the list of allowed tools: grepp. Tools are: read, bash, edit, "
    assert told in done.stderr
    (asked,) = lab.server.requests
    assert "read" in [tool["name"] for tool in asked.body["tools"]]


def test_a_skill_that_is_not_there_is_told_on_stderr(lab: Lab) -> None:
    lab.server.add(answer("fine"))
    done = lab.run("--skill", "nowhere", "-p", "Go")
    assert (done.code, done.stdout) == (0, b"fine\n")
    assert done.stderr.count(f"Warning: Path does not exist: {lab.work / 'nowhere'}\n") == 1


def test_an_unknown_model_ends_the_start(lab: Lab) -> None:
    done = lab.run("--model", "nobody/knows-it", "--mode", "rpc")
    assert (done.code, done.stdout) == (1, b"")
    assert 'Model "nobody/knows-it" not found. `ludolf models`' in done.stderr


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_are_printed(lab: Lab, flag: str) -> None:
    done = lab.run(flag)
    assert done.code == 0
    assert done.stdout.strip()
    assert done.stderr == ""


def test_a_file_argument_is_refused_in_rpc_mode(lab: Lab) -> None:
    done = lab.run("--mode", "rpc", "@a.txt")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == "Error: @file arguments are not supported in RPC mode\n"


# ---------------------------------------------------------------- JSON mode


def test_json_mode_tells_the_header_and_then_events(lab: Lab) -> None:
    lab.server.add(answer("Looking.", bash("echo hi"), size=100), answer("It says hi.", size=100))
    done = lab.run("--mode", "json", "Go")
    assert (done.code, done.stderr) == (0, "")
    header, *events = done.records
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, str(lab.work))
    assert types(events)[:4] == [
        *("agent_start", "turn_start", "message_start user", "message_end user"),
    ]
    assert types(events)[-2:] == ["agent_end", "agent_settled"]
    assert "response" not in {event["type"] for event in events}
    updates = only(events, "message_update")
    assert updates[-1]["message"]["content"][0]["text"] == "It says hi."
    assert loads(lab.sessions[0].read_bytes().splitlines()[0]) == header


def test_json_mode_speaks_the_chosen_dialect(lab: Lab) -> None:
    lab.server.add(answer("Hi."))
    done = lab.run("--mode", "json", "--rpc-dialect", "pi-delta", "Go")
    updates = only(done.records, "message_update")
    assert updates
    assert not any("message" in update for update in updates)


def test_json_mode_takes_several_messages_and_stdin(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."))
    done = lab.run("--mode", "json", "the first", "second", stdin=b"in: ")
    assert types(done.records).count("agent_settled") == 2
    assert _prompts(lab) == ["in:\n\nthe first", "second"]


def test_json_mode_sends_a_failed_answer_and_ends_with_1(lab: Lab) -> None:
    lab.server.add(_REFUSED)
    done = lab.run("--mode", "json", "Go")
    assert (done.code, done.stderr) == (1, "")
    last = only(done.records, "turn_end")[-1]["message"]
    assert last["stopReason"] == "error"
    assert "no such thing" in last["errorMessage"]


def test_json_mode_without_a_session_writes_none(lab: Lab) -> None:
    lab.server.add(answer("Hi."))
    done = lab.run("--mode", "json", "--no-session", "Go")
    assert done.code == 0
    assert done.records[0]["type"] == "session"
    assert lab.sessions == []


# ---------------------------------------------------------------- ends and strays


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_a_signal_ends_a_one_shot_run_and_stores_what_has_arrived(
    lab: Lab, mode: tuple[str, ...]
) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "it")))
    process = subprocess.Popen(
        [*PROGRAM, *mode, "Go"],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    with process:
        assert gate.reached.wait(WAIT_SECONDS)
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 143
    assert messages(lab.entries)[-1]["stopReason"] == "aborted"


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_what_a_command_prints_to_the_terminal_stays_out_of_stdout(
    lab: Lab, mode: tuple[str, ...]
) -> None:
    lab.server.add(answer(bash(STRAY)), answer("Done."))
    done = lab.run(*mode, "Go")
    assert done.code == 0
    if mode == ("-p",):
        assert done.stdout == b"Done.\n"
    else:
        assert types(done.records)[-1] == "agent_settled"
        assert b"\nSTRAY" not in done.stdout
    assert "STRAY" in done.stderr
