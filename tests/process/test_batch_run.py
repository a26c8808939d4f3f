"""`ludolf batch`: items, results, checks, values, limits and reasons to stop."""

import asyncio
import fcntl
import io
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

import ludolf
from ludolf.base import ConfigError, dumps, loads
from ludolf.fleet.command import read_command, split_words
from ludolf.fleet.run import BatchRun
from ludolf.fleet.table import PlainView
from tests.batch_stage import BatchStage, ItemModel, make_repository, wait_until
from tests.process.harness import Lab
from tests.process.script import Failure, Reply, answer, bash, call
from tests.process.test_progress import Terminal

REFUSED = Failure(status=401, body=b'{"error":{"message":"invalid x-api-key"}}')
INVALID = Failure(status=400, body=b'{"error":{"message":"no such thing"}}')


@pytest.fixture
def model() -> Iterator[ItemModel]:
    with ItemModel() as server:
        yield server


@pytest.fixture
def lab(tmp_path: Path, model: ItemModel) -> Lab:
    return Lab(tmp_path, model)


def test_items_in_clones_have_results_with_patches_and_leave_the_repository_as_it_was(
    lab: Lab, model: ItemModel
) -> None:
    base = make_repository(lab.work / "repo", {"a.txt": "hi\n"})
    stage = BatchStage(lab, ("a", "b", "c"), repo="repo")
    done = stage.run("--json", "-j", "2")
    assert (done.code, done.stderr.count(" ok ")) == (0, 3)
    assert sorted(done.records, key=lambda each: each["id"]) == sorted(
        stage.results, key=lambda each: each["id"]
    )
    result = stage.by_id()["b"]
    assert (result["status"], result["attempts"], result["how"]) == ("ok", 1, "new")
    assert (result["answer"], result["turns"], result["base"]) == ("Done b.", 3, base)
    assert "+++ b/b.log\n@@ -0,0 +1,2 @@\n+0\n+1\n" in result["patch"]
    assert (result["usage"]["input"], result["model"]) == (300, "claude/large")
    assert (stage.out / result["session"]).is_file()
    assert (stage.out / "items/b/patch.diff").read_text() == result["patch"]
    assert (result["item"], stage.workspaces) == ({"id": "b", "repo": "repo"}, [])
    assert sorted(os.listdir(lab.work / "repo")) == [".git", "a.txt"]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in stage.out.rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert b"key-of-the-lab" not in b"".join(
        path.read_bytes() for path in stage.out.rglob("*") if path.is_file()
    )
    before = len(model.requests)
    assert stage.run("-j", "3").code == 0
    assert (len(model.requests), len(stage.results)) == (before, 3)


def test_a_command_in_a_clone_is_in_the_sandbox_and_can_use_git(lab: Lab, model: ItemModel) -> None:
    make_repository(lab.work / "repo", {"a.txt": "hi\n"})
    command = (
        "git status --short && git remote && echo inside > b.txt; "
        f"echo outside > {lab.work}/escaped.txt; echo $LUDOLF_SANDBOX"
    )

    def reply(turn: int) -> Reply:
        return answer(bash(command)) if turn == 0 else answer("Done.")

    model.replies["a"] = reply
    stage = BatchStage(lab, ("a",), repo="repo")
    done = stage.run()
    (result,) = stage.results
    assert (done.code, result["status"]) == (0, "ok")
    assert "+inside" in result["patch"]
    if "without a sandbox" in done.stderr:
        pytest.skip("this machine has no sandbox")
    assert not (lab.work / "escaped.txt").exists()
    assert "workspace" in str(model.requests[-1].body["messages"][-1])


def test_the_check_decides_and_its_output_is_sent_to_the_model(lab: Lab, model: ItemModel) -> None:
    def reply(turn: int) -> Reply:
        return answer(bash("touch fixed")) if turn == 1 else answer(f"Answer {turn}.")

    model.replies["a"] = reply
    stage = BatchStage(lab, ("a", "b"))
    check = "test -e fixed || { echo it is broken; exit 7; }"
    done = stage.run("--check", check, "--check-rounds", "1")
    a, b = (stage.by_id()[name] for name in ("a", "b"))
    assert (done.code, a["status"], a["check"]["code"]) == (3, "ok", 0)
    assert (b["status"], b["check"]["code"], b["error"]["kind"]) == ("failed", 7, "check")
    assert "it is broken" in b["check"]["tail"]
    assert "it is broken" in (stage.out / "items/b/check.log").read_text()
    sent = [each for each in model.requests if "it is broken" in str(each.body)]
    assert sent
    assert a["answer"] == "Answer 2."


def test_a_schema_gives_each_result_a_value_and_a_missing_one_is_a_failure(
    lab: Lab, model: ItemModel
) -> None:
    schema = {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "required": ["size"],
    }
    (lab.work / "schema.json").write_bytes(dumps(schema))
    model.replies["a"] = lambda turn: answer(call("final_answer", {"size": 3}))
    model.replies["b"] = lambda turn: answer("I do not know.")
    stage = BatchStage(lab, ("a", "b"))
    done = stage.run("--schema", "schema.json")
    a, b = (stage.by_id()[name] for name in ("a", "b"))
    assert (done.code, a["status"], a["value"]) == (3, "ok", {"size": 3})
    assert (b["status"], b["error"]["kind"], "value" in b) == ("failed", "schema", False)


def test_a_refused_key_stops_the_batch_and_leaves_the_items_for_a_resume(
    lab: Lab, model: ItemModel
) -> None:
    model.replies["a"] = lambda turn: REFUSED
    stage = BatchStage(lab, ("a", "b"))
    done = stage.run("-j", "1")
    assert (done.code, stage.results) == (5, [])
    assert "x-api-key" in done.stderr
    model.replies.clear()
    assert stage.run("-j", "1").code == 0
    assert {each["status"] for each in stage.results} == {"ok"}


def test_five_equal_failures_before_the_first_success_stop_the_batch(
    lab: Lab, model: ItemModel
) -> None:
    names = tuple(f"i{number}" for number in range(8))
    for name in names:
        model.replies[name] = lambda turn: INVALID
    stage = BatchStage(lab, names)
    done = stage.run("-j", "1")
    assert (done.code, len(stage.results)) == (5, 5)
    assert "no such thing" in done.stderr
    model.replies.clear()
    assert stage.run("--redo", "failed").code == 0
    assert {each["id"]: each["status"] for each in stage.results} == dict.fromkeys(names, "ok")
    assert len(stage.results) == 13
    assert (stage.out / "items/i0/attempt-1").is_dir()


def test_limits_and_the_budget_end_items_with_their_patch(lab: Lab, model: ItemModel) -> None:
    stage = BatchStage(lab, ("a", "b", "c", "d"))
    stage.write(
        {"id": "b", "max_seconds": 1}, {"id": "a", "max_turns": 2}, {"id": "c"}, {"id": "d"}
    )
    model.hold("b")
    # Each request costs $0.00014.
    done = stage.run("-j", "1", "--budget", "0.0005")
    found = stage.by_id()
    assert (found["a"]["status"], found["b"]["status"]) == ("limit", "limit")
    assert "turns" in found["a"]["error"]["text"]
    assert "seconds" in found["b"]["error"]["text"]
    assert found["a"]["patch"].endswith("+0\n+1\n")
    # The second request of c exceeds the budget.
    assert (done.code, found["c"]["status"], found["c"]["turns"]) == (4, "budget", 2)
    assert "d" not in found
    assert "budget" in done.stderr


def test_a_transient_failure_is_retried_in_the_same_session(
    lab: Lab, model: ItemModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.settings(retry={"enabled": False})
    failures = [Failure(status=503)]

    def reply(turn: int) -> Reply:
        if turn == 1 and failures:
            return failures.pop()
        return answer(bash("echo hi")) if turn == 0 else answer("Done.")

    model.replies["a"] = reply
    stage = BatchStage(lab, ("a",))
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(lab.work)
    command = read_command(*split_words(stage.words()[4:]))
    view = PlainView(io.StringIO(), 1, 0)
    lines: list[bytes] = []

    async def drive() -> int:
        run = BatchRun(command.plan, command.out)
        try:
            return await run.drive(run.driver(view, lines.append, (0.0,)))
        finally:
            run.close()

    assert asyncio.run(drive()) == 0
    (result,) = (loads(line) for line in lines)
    assert (result["status"], result["attempts"], result["how"]) == ("ok", 2, "continued")
    assert "You were interrupted." in str(model.requests[-1].body)


def test_refused_requests_of_all_workers_wait_at_one_gate(lab: Lab, model: ItemModel) -> None:
    lab.settings(retry={"enabled": False})
    busy = Failure(status=429, headers={"retry-after": "0.05"})
    refused = (7, 8)

    def reply(turn: int) -> Reply:
        return busy if len(model.requests) in refused else answer("Done.")

    names = "abcdefgh"
    for name in names:
        model.replies[name] = reply
    stage = BatchStage(lab, names)
    done = stage.run("-j", "2", "--workers", "2", "--in", "here", "--no-tools")
    found = stage.by_id().values()
    assert (done.code, {each["attempts"] for each in found}) == (0, {1}), done.stderr
    assert {each["turns"] for each in found} == {1}
    assert sum(model.asked.values()) == len(names) + len(refused)


def test_a_loop_that_is_left_stops_the_batch_and_the_same_call_resumes_it(
    lab: Lab, model: ItemModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(lab.work)
    items = [{"id": "a"}, {"id": "b"}]

    async def first_of() -> str:
        results = ludolf.batch(items, "Item {id}. Work.", out="out", jobs=1, tools=("bash",))
        async with aclosing(results):
            async for result in results:
                return result.id
        return ""

    model.hold("b")  # it must not finish before the loop is left
    assert asyncio.run(first_of()) == "a"
    model.held["b"].open()
    assert [asyncio.run(first_of()), asyncio.run(first_of())] == ["b", ""]
    with pytest.raises(ConfigError, match="Unknown option: job"):
        asyncio.run(anext(ludolf.batch(items, "Go", job=1)))  # type: ignore[call-arg]


def test_a_plain_command_starts_the_agents_and_another_one_ends_them(
    lab: Lab, model: ItemModel
) -> None:
    base = make_repository(lab.work / "repo", {"a.txt": "hi\n"})
    stage = BatchStage(lab, ("a", "b"), repo="repo")
    program = " ".join(stage.words()[:3])
    log = lab.root / "ended"
    end = f"sh -c 'echo {{name}} {{folder}} >> {log}'"
    done = stage.run("--via", program, "--via-end", end, "--check", "test -e a.log -o -e b.log")
    result = stage.by_id()["a"]
    assert (done.code, result["status"], result["base"]) == (0, "ok", base), done.stderr
    assert (result["answer"], result["turns"]) == ("Done a.", 3)
    assert "+++ b/a.log" in result["patch"]
    assert "ludolf" not in result["patch"]
    assert (stage.out / result["session"]).is_file()
    ended = sorted(line.split()[0].rpartition("-")[2] for line in log.read_text().splitlines())
    assert ended == ["a", "b"]


def test_a_second_driver_is_refused(lab: Lab, model: ItemModel) -> None:
    stage = BatchStage(lab, ("a",))
    model.hold("a")
    first = stage.start()
    wait_until(lambda: model.held["a"].reached.is_set(), "the model is asked")
    second = stage.run()
    assert (second.code, stage.results) == (1, [])
    assert "Another `ludolf batch` is working in" in second.stderr
    model.held["a"].open()
    assert first.wait(30) == 0
    first.communicate()


def test_interrupts_first_wait_for_running_items_and_then_store_them(
    lab: Lab, model: ItemModel
) -> None:
    stage = BatchStage(lab, ("a", "b", "c"))
    model.hold("a", "b")
    process = stage.start("-j", "1")
    wait_until(lambda: model.held["a"].reached.is_set(), "a is asked")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"Interrupted" in process.stderr.readline()
    model.held["a"].open()
    process.communicate(timeout=60)
    assert (process.returncode, list(stage.by_id())) == (-signal.SIGINT, ["a"])
    process = stage.start("-j", "1")
    wait_until(lambda: model.held["b"].reached.is_set(), "b is asked")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"Interrupted" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert list(stage.by_id()) == ["a"]
    model.held["b"].open()
    assert stage.run("-j", "1").code == 0
    assert stage.by_id()["b"]["how"] == "continued"


def test_an_item_waits_for_a_worker_that_still_writes_its_session(
    lab: Lab, model: ItemModel
) -> None:
    stage = BatchStage(lab, ("a",))
    model.hold("a")
    process = stage.start()
    wait_until(lambda: model.held["a"].reached.is_set(), "a is asked")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        process.stderr.readline()
    process.communicate(timeout=60)
    model.held["a"].open()
    (session,) = (stage.out / "items" / "a").glob("*.jsonl")
    with session.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = stage.start()
        wait_until(lambda: len(stage.started) == 2, "the item is started again")
    process.communicate(timeout=60)
    assert (process.returncode, stage.by_id()["a"]["how"]) == (0, "continued")


def test_a_changed_prompt_is_refused_and_new_items_are_added(lab: Lab, model: ItemModel) -> None:
    stage = BatchStage(lab, ("a",))
    assert stage.run("--max-turns", "9").code == 0
    refused = stage.run("--max-turns", "8")
    assert refused.code == 1
    assert "started with another max-turns" in refused.stderr
    stage.write({"id": "a"}, {"id": "b"})
    assert stage.run("--max-turns", "9").code == 0
    assert list(stage.by_id()) == ["a", "b"]


def test_a_full_disk_stops_the_batch(lab: Lab, model: ItemModel) -> None:
    small = lab.work / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=400k none {small}"
    enter = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    if subprocess.run((*enter, mount), capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    long = "x" * 300_000
    model.replies["a"] = lambda turn: answer(long, bulk=True, size=10_000)
    stage = BatchStage(lab, ("a", "b"))
    words = stage.words("--out", "small/out", "--in", "here", "-j", "1", "--sandbox", "off")
    done = subprocess.run(
        (*enter, f"{mount} && exec {shlex.join(words)}"),
        cwd=lab.work,
        env=lab.env,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, b"No space left on device" in done.stderr) == (5, True), done.stderr


def test_at_a_terminal_a_table_shows_the_running_items(lab: Lab, model: ItemModel) -> None:
    stage = BatchStage(lab, ("a", "b"))
    model.hold("a", "b")
    with Terminal(lab, stage.words()) as terminal:
        terminal.wait_for("  a  turn 0")
        first = model.held["a"]
        wait_until(first.reached.is_set, "a is asked")
        model.hold("a")  # the next answer, so that the table shows this one
        first.open()
        terminal.wait_for("  a  turn 1  bash")
        model.held["a"].open()
        model.held["b"].open()
        terminal.wait_for("] 2/2 · $0.00")
        assert terminal.process.wait(30) == 0
    assert "ok" not in terminal.seen
