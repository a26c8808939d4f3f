"""SIGKILL of drivers and workers: no result is lost or doubled, nothing is left running."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.batch_kills import play_kills
from tests.batch_stage import BatchStage, ItemModel, is_gone, kill, wait_until
from tests.process.harness import Lab
from tests.process.script import Gate, Reply, answer, bash, say

NAMES = ("a", "b", "c")


@pytest.fixture
def model() -> Iterator[ItemModel]:
    with ItemModel() as server:
        yield server


@pytest.fixture
def lab(tmp_path: Path, model: ItemModel) -> Lab:
    return Lab(tmp_path, model)


def test_a_driver_that_is_killed_at_every_line_of_the_journal_loses_and_repeats_nothing(
    lab: Lab, model: ItemModel
) -> None:
    stage = BatchStage(lab, NAMES)
    model.hold(*NAMES)
    for number, name in enumerate(NAMES):
        # The driver finishes the item that was interrupted, and is killed at the next one.
        process = stage.start("-j", "1")
        wait_until(model.held[name].reached.is_set, f"{name} is asked")
        worker = stage.started[-1]["worker"]
        kill(process.pid)
        process.communicate()
        wait_until(partial(is_gone, worker), "the worker ends")
        model.held.pop(name).open()
        assert len(stage.results) == number
    done = stage.run("-j", "1")
    assert done.code == 0, done.stderr
    found = stage.by_id()
    assert sorted(found) == list(NAMES)
    assert {each["how"] for each in found.values()} == {"continued"}
    assert [each["answer"] for each in found.values()] == ["Done a.", "Done b.", "Done c."]
    # Each item was asked once more: for the answer that was cut off.
    assert sum(model.asked.values()) == 3 * len(NAMES) + len(NAMES)
    assert stage.workspaces == []


def test_workers_that_are_killed_at_every_line_of_the_journal_are_replaced(
    lab: Lab, model: ItemModel
) -> None:
    # The second answer of each item is held, so that its worker can be killed meanwhile.
    held = {name: Gate() for name in NAMES}
    model.add_gates(*held.values())

    def reply_of(name: str) -> Callable[[int], Reply]:
        def reply(turn: int) -> Reply:
            if turn == 0:
                return answer(bash("true", f"call_{name}"))
            return answer(say(f"Done {name}.", held[name]))

        return reply

    for name in NAMES:
        model.replies[name] = reply_of(name)
    stage = BatchStage(lab, NAMES)
    process = stage.start("-j", "1", "--in", "here", "--retries", "0")
    for number, name in enumerate(NAMES):
        wait_until(held[name].reached.is_set, f"{name} is asked")
        assert len(stage.results) == number
        kill(stage.started[-1]["worker"])
        held[name].open()
    _, stderr = process.communicate(timeout=100)
    found = stage.by_id()
    assert (process.returncode, list(found)) == (0, list(NAMES)), stderr
    assert {(each["how"], each["attempts"]) for each in found.values()} == {("continued", 2)}
    assert sum(model.asked.values()) == 3 * len(NAMES)


def test_a_session_with_a_final_answer_is_collected_without_a_request(
    lab: Lab, model: ItemModel
) -> None:
    stage = BatchStage(lab, ("a",))
    assert stage.run("--in", "here", "-j", "1").code == 0
    (result,) = stage.results
    # As if the driver had been killed before it wrote the line.
    (stage.out / "results.jsonl").write_bytes(b'{"id":"a","sta')
    place = b'{"kind":"here","root":"%b","cwd":"%b"}' % ((os.fsencode(lab.work),) * 2)
    (stage.out / "items/a/workspace.json").write_bytes(place)
    requests = len(model.requests)
    assert stage.run("--in", "here", "-j", "1").code == 0
    (again,) = stage.results
    assert (len(model.requests), again["how"], again["attempts"]) == (requests, "collected", 2)
    for field in ("answer", "status", "usage", "turns", "model", "session"):
        assert again[field] == result[field]


def test_a_worker_that_is_killed_is_replaced_and_its_commands_end(
    lab: Lab, model: ItemModel
) -> None:
    mark = lab.root / "pid"

    def reply(turn: int) -> Reply:
        slow = bash(f"echo $$ > {mark}; sleep 1000", "call_slow")
        return answer(slow) if turn == 0 else answer("Done a.")

    model.replies["a"] = reply
    stage = BatchStage(lab, ("a", "b"))
    process = stage.start("-j", "2", "--sandbox", "off")
    wait_until(lambda: mark.exists() and mark.read_text().strip(), "the command runs")
    command = int(mark.read_text())
    kill(stage.started[0]["worker"])
    wait_until(partial(is_gone, command), "the command ends")
    _, stderr = process.communicate(timeout=60)
    found = stage.by_id()
    assert (process.returncode, sorted(found)) == (0, ["a", "b"]), stderr
    assert (found["a"]["how"], found["a"]["attempts"]) == ("continued", 2)
    assert "You were interrupted." in str(model.requests[-1].body)


def test_kills_at_random_moments_lose_and_double_nothing(lab: Lab, model: ItemModel) -> None:
    report = play_kills(lab, model, seed=1, kills=8)
    assert report.faults == ()
    assert report.kills >= 8
