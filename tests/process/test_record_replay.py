"""A run is recorded, the server goes away, and the same run happens again from the file."""

import re
import stat
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from tests.process.harness import APIS, PROGRAM, SOURCE, Finished, Lab, only, text_of
from tests.process.model_server import ModelServer
from tests.process.script import Cut, Failure, Gate, Reply, answer, bash, say, think

KEY = "key-of-the-lab"
# What differs between any two runs.
_OWN = {"timestamp", "sessionId", "sessionFile", "durationMs", "firstKeptEntryId"}
_BUSY = Failure(status=529, body=b'{"error":{"type":"overloaded_error","message":"busy"}}')
# Writes down every connection and every use of the HTTP library, whoever makes it.
_WATCH = """
import sys

def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo") or (
        event == "import" and args[0] == "httptools"
    ):
        with open({log!r}, "a") as log:
            log.write(f"{{event}} {{args[0]}}\\n")

sys.addaudithook(watch)
"""


def _plain(value: Any) -> Any:
    """The record without what is its own in every run."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if name not in _OWN}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _script(gate: Gate) -> list[Reply]:
    """Thinking, tools, a refusal and a broken answer that are tried again, an abort."""
    return [
        _BUSY,
        answer(think("I should look."), "Looking.", bash("echo hi; exit 3")),
        answer(say("Half an ", Cut())),
        answer("It says hi. 👀"),
        answer(think("Well."), say("A long story", gate)),
        answer("Fine."),
    ]


async def _converse(client: Client) -> list[Record]:
    told = await client.prompt_and_collect("Go")
    await client.ask("prompt", message="Tell me a story")
    told += await client.collect(lambda one: "long story" in str(one.get("message")))
    await client.ask("abort")
    told += await client.collect("agent_settled")
    told += await client.prompt_and_collect("Never mind")
    told.append({"type": "end", "messages": (await client.ask("get_messages"))["messages"]})
    return told


class Fresh:
    """A machine that has the recording, and neither keys nor models nor settings."""

    def __init__(self, lab: Lab) -> None:
        (lab.root / "fresh").mkdir()
        self.lab = Lab(lab.root / "fresh", lab.server)
        for path in self.lab.agent.iterdir():
            path.unlink()
        self.lab.settings()
        self.log = lab.root / "connections"
        site = lab.root / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_WATCH.format(log=str(self.log)))
        self.path = f"{site}:{SOURCE}"

    def client(self, *arguments: str) -> Client:
        return self.lab.client(*arguments, PYTHONPATH=self.path)

    def run(self, *arguments: str) -> Finished:
        return self.lab.run(*arguments, PYTHONPATH=self.path)

    @property
    def connections(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture
def fresh(lab: Lab) -> Fresh:
    return Fresh(lab)


@pytest.fixture
def file(lab: Lab) -> str:
    return str(lab.root / "run.rec")


def _exchanges(file: str) -> list[Any]:
    lines = [loads(line) for line in Path(file).read_bytes().splitlines()]
    assert [line["type"] for line in lines[:1]] == ["ludolf-recording"]
    return [line for line in lines if line["type"] == "exchange"]


def _close(server: ModelServer) -> None:
    server.__exit__(None, None, None)


# ---------------------------------------------------------------- the same again


@pytest.mark.parametrize("model", APIS)
async def test_a_host_sees_the_same_again(lab: Lab, fresh: Fresh, file: str, model: str) -> None:
    gate = Gate()
    lab.server.add(*_script(gate))
    async with lab.client("--model", model, "--record", file) as client:
        before = await _converse(client)
    asked = len(lab.server.requests)
    _close(lab.server)
    async with fresh.client("--replay", file) as client:
        after = await _converse(client)
        assert client.process.stderr == ""
    assert _plain(after) == _plain(before)
    kinds = [record["type"] for record in before]
    assert {"auto_retry_start", "auto_retry_end", "tool_execution_end"} <= set(kinds)
    assert [m.get("stopReason") for m in before[-1]["messages"]].count("aborted") == 1
    assert [one["end"] for one in _exchanges(file)].count("aborted") == 1
    assert (len(lab.server.requests), fresh.connections) == (asked, "")


@pytest.mark.parametrize("model", APIS)
def test_a_question_is_answered_the_same_again(
    lab: Lab, fresh: Fresh, file: str, model: str
) -> None:
    lab.server.add(*_script(Gate())[:4])
    before = lab.run("-p", "--model", model, "--record", file, "Go")
    _close(lab.server)
    after = fresh.run("-p", "--replay", file, "Go")
    assert (before.code, after.code) == (0, 0)
    assert [line[:12] for line in after.stderr.splitlines()] == ["Trying again"] * 2
    assert after.stdout == before.stdout == "It says hi. 👀\n".encode()
    assert fresh.connections == ""


def test_the_events_of_a_single_run_are_the_same_again(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(*_script(Gate())[:4])
    before = lab.run("--mode", "json", "--record", file, "Go")
    _close(lab.server)
    after = fresh.run("--mode", "json", "--replay", file, "Go")
    assert (after.code, after.stderr) == (0, "")
    assert _plain(after.records[1:]) == _plain(before.records[1:])


async def test_a_failure_for_good_is_the_same_again(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(*[_BUSY] * 4)
    async with lab.client("--record", file) as client:
        before = await client.prompt_and_collect("Go")
    async with fresh.client("--replay", file) as client:
        after = await client.prompt_and_collect("Go")
    assert _plain(after) == _plain(before)
    assert [one["attempt"] for one in only(after, "auto_retry_start")] == [1, 2, 3]


async def test_waits_are_not_spread_in_a_replay(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(*[_BUSY] * 4)
    async with lab.client("--record", file) as client:
        await client.prompt_and_collect("Go")
    fresh.lab.settings(retry={"baseDelayMs": 20, "jitter": 1})
    async with fresh.client("--replay", file) as client:
        told = await client.prompt_and_collect("Go")
    assert [one["delayMs"] for one in only(told, "auto_retry_start")] == [20, 40, 80]


async def test_a_compaction_is_the_same_again(lab: Lab, fresh: Fresh, file: str) -> None:
    async def converse(client: Client) -> list[Any]:
        told = await client.prompt_and_collect("Hi")
        told += await client.prompt_and_collect("And then?")
        told.append(await client.ask("compact"))
        return told + await client.prompt_and_collect("Go on")

    for one in (lab, fresh.lab):
        one.settings(compaction={"keepRecentTokens": 1})
    lab.server.add(answer("Hello."), answer("Then?"), answer("They met."), answer("Well."))
    async with lab.client("--record", file) as client:
        before = await converse(client)
    async with fresh.client("--replay", file) as client:
        after = await converse(client)
        assert client.process.stderr == ""
    assert _plain(after) == _plain(before)
    assert "They met." in str(after)


async def test_all_models_of_a_run_are_known_again(lab: Lab, fresh: Fresh, file: str) -> None:
    async def converse(client: Client) -> list[Any]:
        first = await client.ask("get_state")
        told = await client.prompt_and_collect("Hi")
        await client.ask("set_model", provider="gemini", modelId="large")
        told += await client.prompt_and_collect("And you?")
        return [first["model"], first["thinkingLevel"], *told]

    lab.server.add(answer("Hello."), answer("Hello too."))
    start = ("--model", "chat/large:high", "--record", file)
    async with lab.client(*start) as client:
        before = await converse(client)
    async with fresh.client("--replay", file) as client:
        after = await converse(client)
    assert _plain(after) == _plain(before)
    assert (after[0]["id"], after[0]["provider"], after[1]) == ("large", "chat", "high")


@pytest.mark.parametrize("pattern", ["chat/large", "large"])
def test_the_recorded_model_can_be_named(lab: Lab, fresh: Fresh, file: str, pattern: str) -> None:
    lab.server.add(answer("Hello."))
    lab.run("-p", "--model", "chat/large", "--record", file, "Hi")
    done = fresh.run("-p", "--model", pattern, "--replay", file, "Hi")
    assert (done.code, done.stdout, done.stderr) == (0, b"Hello.\n", "")


def test_a_model_that_is_not_recorded_is_refused(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(answer("Hello."))
    lab.run("-p", "--model", "chat/large", "--record", file, "Hi")
    done = fresh.run("-p", "--model", "anthropic/claude-opus-4-8", "--replay", file, "Hi")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == (
        "Error: The recording has no answers of anthropic/claude-opus-4-8. "
        "It begins with chat/large.\n"
    )


# ---------------------------------------------------------------- another run


def test_another_question_is_answered_with_a_warning(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(answer("Hello."))
    lab.run("-p", "--record", file, "Say hello")
    done = fresh.run("-p", "--replay", file, "Say goodbye")
    assert (done.code, done.stdout) == (0, b"Hello.\n")
    assert done.stderr == (
        f"Warning: replay of {file}: a request differs from recorded exchange 1: "
        'the last user text is "Say goodbye", the recorded one is "Say hello"\n'
    )


def test_other_tools_are_an_error_of_a_strict_replay(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(answer("Hello."))
    lab.run("-p", "--record", file, "Hi")
    done = fresh.run(
        "-p", "--replay", file, "--replay-strict", "--tools", "read,bash,edit,ls", "Hi"
    )
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == (
        f"Error: Replay of {file}: a request differs from recorded exchange 1: "
        "the tools are not those recorded: with ls and without write\n"
    )


async def test_a_request_too_many_is_an_error_and_not_tried_again(
    lab: Lab, fresh: Fresh, file: str
) -> None:
    lab.server.add(answer("Hello."))
    lab.run("-p", "--record", file, "Hi")
    async with fresh.client("--replay", file) as client:
        await client.prompt_and_collect("Hi")
        told = await client.prompt_and_collect("Once more")
    assert only(told, "auto_retry_start") == []
    assert only(told, "turn_end")[-1]["message"]["errorMessage"] == (
        f"Replay of {file}: no recorded exchange is left for POST /v1/messages for model large, "
        'last user text "Once more"'
    )


async def _begin(client: Client) -> None:
    """Ask, and wait until the answer stands still."""
    await client.ask("prompt", message="Go")
    await client.collect(lambda one: "long story" in str(one))


async def test_a_run_that_ends_amid_an_answer_stands_still_there_again(
    lab: Lab, fresh: Fresh, file: str
) -> None:
    lab.server.add(answer(say("A long story", Gate())))
    async with lab.client("--record", file) as client:
        await _begin(client)
    assert [one["end"] for one in _exchanges(file)] == ["aborted"]
    async with fresh.client("--replay", file) as client:
        await _begin(client)
        assert (await client.ask("get_state"))["isStreaming"]


async def test_a_killed_run_leaves_whole_lines(lab: Lab, fresh: Fresh, file: str) -> None:
    lab.server.add(answer("Hello."), answer(say("A long story", Gate())))
    async with lab.client("--record", file) as client:
        await client.prompt_and_collect("Hi")
        await _begin(client)
        await client.process.kill()
    async with fresh.client("--replay", file) as client:
        told = await client.prompt_and_collect("Hi")
    assert text_of(only(told, "turn_end")[-1]["message"]) == "Hello."


# ---------------------------------------------------------------- the file


def test_no_secret_is_in_the_file(lab: Lab, file: str) -> None:
    path = lab.agent / "models.json"
    models = loads(path.read_bytes())
    claude = models["providers"]["claude"]
    claude["baseUrl"] = lab.server.url.replace("//", "//me:pass-word-1@") + "/?key=query-key-1&x=y"
    claude["headers"] = {"Cookie": "id=cookie-value-1", "X-Corp-Token": "corp-token-1"}
    models["providers"]["chat"]["apiKey"] = "key-of-another-1"
    path.write_bytes(dumps(models))
    secrets = (
        *(KEY, "pass-word-1", "query-key-1", "cookie-value-1", "corp-token-1", "env-token-1"),
        "key-of-another-1",
    )
    told = "; ".join(secrets)
    busy = Failure(status=503, body=dumps({"error": {"message": f"not with {told}"}}))
    lab.server.add(busy, answer(f"You said {told}", bash(f"echo '{told}'")), answer("Fine."))
    done = lab.run(
        *("--mode", "json", "--record", file, f"I have {told}"),
        GITHUB_TOKEN="env-token-1",
        HTTPS_PROXY="http://me:proxy-pass-1@127.0.0.1:9",
    )
    assert "Fine." in text_of(only(done.records, "turn_end")[-1]["message"])
    text = Path(file).read_text()
    assert [secret for secret in (*secrets, "proxy-pass-1") if secret in text] == []
    assert len(_exchanges(file)) == 3
    assert "I have [removed]; [removed]" in text
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600


def test_a_file_that_is_in_use_is_not_overwritten(lab: Lab, file: str) -> None:
    lab.server.add(answer("Hello."))
    lab.run("-p", "--record", file, "Hi")
    before = Path(file).read_bytes()
    done = lab.run("-p", "--record", file, "Hi")
    assert (done.code, Path(file).read_bytes()) == (1, before)
    assert done.stderr == (
        f"Error: Cannot record to {file}: it exists and is not empty. "
        "Remove it, or name another file with --record.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--replay", "nowhere"), "Cannot replay /.*/work/nowhere: No such file or directory"),
        (("--replay", "a.txt"), "Cannot replay /.*/a.txt: it is not a recording"),
        (("--replay", "a.txt", "--record", "b"), "--record and --replay exclude each other"),
        (("--replay", "a.txt", "--replay-speed", "-1"), "--replay-speed needs a number from 0"),
        (("--replay-strict",), "--replay-strict and --replay-speed need --replay FILE"),
        (("--replay-speed", "1"), "--replay-strict and --replay-speed need --replay FILE"),
        (("--record", "no/such/folder"), "Cannot record to /.*: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_told_at_the_start(
    lab: Lab, arguments: tuple[str, ...], complaint: str
) -> None:
    (lab.work / "a.txt").write_text("hello\n")
    done = lab.run("-p", *arguments, "Hi")
    assert (done.code, done.stdout) == (1, b"")
    assert re.match(f"Error: {complaint}", done.stderr)
    assert lab.server.requests == []


def test_a_full_disk_costs_the_recording_and_not_the_run(lab: Lab, file: str) -> None:
    lab.server.add(answer("x" * 20_000), answer("Fine."))
    script = 'ulimit -f 16; exec "$@"'
    done = lab.run(
        *("-p", "--no-session", "--record", file, "Number one", "Number two"),
        program=("bash", "-c", script, "bash", *PROGRAM),
    )
    assert (done.code, done.stdout) == (0, b"Fine.\n")
    assert done.stderr == f"Warning: the recording {file} is not complete: File too large\n"
    assert [one["number"] for one in _exchanges(file)] in ([], [2])


def test_nothing_of_it_is_loaded_unless_it_is_asked_for(lab: Lab, file: str) -> None:
    def loaded(*arguments: str) -> set[str]:
        program = (PROGRAM[0], "-X", "importtime", *PROGRAM[1:])
        done = lab.run("--mode", "rpc", *arguments, program=program)
        return set(re.findall(r"ludolf\.[\w.]*(?:record|replay|scrub|traffic)\w*", done.stderr))

    own = {
        "ludolf.engine.recording_setup",
        "ludolf.ai.record.scrubbing",
        "ludolf.ai.record.recording_file",
    }
    assert loaded() & {*own, "ludolf.ai.record.recording", "ludolf.ai.record.replay"} == set()
    assert own <= loaded("--record", file)


# ---------------------------------------------------------------- the page

_PAGE = (Path(__file__).parents[2] / "docs" / "record-replay.md").read_text()


def test_what_the_page_shows_works(lab: Lab, fresh: Fresh) -> None:
    """Its commands in their order, then its test, on a machine without the model."""
    record, replay, check = re.findall(r"^\$ (.*)$", _PAGE, re.MULTILINE)
    name, code = re.findall(r"```python file=(\S+)\n(.*?)```", _PAGE, re.DOTALL)[0]
    lab.server.add(answer(bash("cat a.txt")), answer("It says hello."))
    (lab.work / "a.txt").write_text("hello\n")
    done = lab.run(*_words(record))
    assert (done.code, done.stdout, done.stderr) == (0, b"It says hello.\n", "")
    _close(lab.server)
    for path in lab.work.iterdir():
        (fresh.lab.work / path.name).write_bytes(path.read_bytes())
    done = fresh.run(*_words(replay))
    assert (done.code, done.stdout, done.stderr) == (0, b"It says hello.\n", "")
    (fresh.lab.work / name).write_text(code)
    assert check.split() == ["python", name]
    done = fresh.lab.run(name, program=(PROGRAM[0],), PYTHONPATH=fresh.path)
    assert (done.code, done.stderr) == (0, "")
    assert fresh.connections == ""


def _words(command: str) -> list[str]:
    import shlex

    program, *words = shlex.split(command)
    assert program == "ludolf"
    return words
