"""A batch on a real Ray cluster: nodes, actors and drivers are killed, and nothing is lost."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch_stage import BatchStage, ItemModel, is_gone, kill, wait_until
from tests.fleet.ray_cluster import PYTHON, RayCluster, only_if_asked
from tests.process.harness import SOURCE, Lab

pytestmark = [only_if_asked, pytest.mark.timeout(180)]
KEYS = {"option": "sk-option-never-in-a-log", "variable": "sk-variable-never-in-a-log"}


class RayStage(BatchStage):
    """A batch of the program in the environment with Ray."""

    def words(self, *options: str) -> tuple[str, ...]:
        return (PYTHON, "-P", "-m", "ludolf", *super().words(*options)[3:])

    def on(self, cluster: RayCluster, *options: str) -> "subprocess.Popen[bytes]":
        words = ("--on", f"ray:{cluster.address}", "--sandbox", "off", *options)
        return self.start(*words, PYTHONPATH=str(SOURCE), OPENAI_API_KEY=KEYS["variable"])


@pytest.fixture
def model() -> Iterator[ItemModel]:
    with ItemModel(turns=2) as server:
        yield server


@pytest.fixture
def lab(tmp_path: Path, model: ItemModel) -> Lab:
    return Lab(tmp_path, model)


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    _, stderr = process.communicate(timeout=150)
    return process.returncode, stderr.decode()


def test_a_batch_survives_the_loss_of_a_node_and_shows_no_key(lab: Lab, model: ItemModel) -> None:
    names = [f"i{number}" for number in range(200)]
    stage = RayStage(lab, names)
    with RayCluster(lab.env) as cluster:
        raylet = cluster.add_node()
        options = ("-j", "20", "--workers", "2", "--model", "claude/large")
        process = stage.on(cluster, *options, "--api-key", KEYS["option"])
        wait_until(lambda: len(stage.results) >= 40, "items are done")
        assert len(cluster.actors()) == 2
        kill(raylet)
        code, stderr = ended(process)
        assert code == 0, stderr + (stage.out / "workers.log").read_text()
        found = stage.by_id()
        assert sorted(found) == sorted(names)
        assert {each["status"] for each in found.values()} == {"ok"}
        assert {each["answer"] for each in found.values()} == {f"Done {name}." for name in names}
        assert "its worker was lost" in stderr
        sent = {asked.headers.get("x-api-key") for asked in model.requests}
        assert sent == {KEYS["option"]}
        logs = b"".join(path.read_bytes() for path in cluster.files())
        assert len(logs) > 1000
        for folder in (logs, *(p.read_bytes() for p in stage.out.rglob("*") if p.is_file())):
            assert not any(key.encode() in folder for key in KEYS.values())
    assert stage.workspaces == []


def test_items_continue_after_the_end_of_an_actor_and_of_the_driver(
    lab: Lab, model: ItemModel
) -> None:
    names = ("a", "b", "c")
    stage = RayStage(lab, names)
    model.hold("a", "b", "c")
    with RayCluster(lab.env) as cluster:
        process = stage.on(cluster, "-j", "1", "--plain")
        wait_until(model.held["a"].reached.is_set, "a is asked")
        (actor,) = cluster.actors()
        model.held.pop("a").open()
        wait_until(model.held["b"].reached.is_set, "b is asked")
        kill(actor)
        wait_until(lambda: is_gone(actor), "the actor ends")
        model.held.pop("b").open()
        wait_until(model.held["c"].reached.is_set, "c is asked")
        (actor,) = cluster.actors()
        kill(process.pid)
        process.communicate()
        wait_until(lambda: is_gone(actor), "the actor ends with its driver")
        model.held.pop("c").open()
        code, stderr = ended(stage.on(cluster, "-j", "1"))
        assert code == 0, stderr + (stage.out / "workers.log").read_text()
        found = stage.by_id()
        assert {name: found[name]["how"] for name in names} == {
            "a": "new",
            "b": "continued",
            "c": "continued",
        }
        # Only the two answers that were cut off were asked for again.
        assert sum(model.asked.values()) == 2 * len(names) + 2


def test_a_missing_token_is_one_clear_error(lab: Lab) -> None:
    stage = RayStage(lab, ("a",))
    done = stage.run("--on", "ray:127.0.0.1:1", RAY_AUTH_MODE="token", PYTHONPATH=str(SOURCE))
    assert done.code == 1
    assert done.stderr.count("Error:") == 1
    assert "RAY_AUTH_MODE=token" in done.stderr
    assert "RAY_AUTH_TOKEN_PATH" in done.stderr
    assert stage.results == []


def test_without_a_cluster_the_error_says_how_to_start_one(lab: Lab) -> None:
    stage = RayStage(lab, ("a",))
    done = stage.run("--on", "ray", PYTHONPATH=str(SOURCE), RAY_TMPDIR=str(lab.root / "tmp"))
    assert done.code == 1
    assert "ray start --head" in done.stderr
    shutil.rmtree(stage.out)
