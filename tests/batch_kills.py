"""`python -m tests.batch_kills SEED COUNT`: batches whose drivers and workers are killed at random.

Each batch is started again until it is finished; then results, requests and processes are counted.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import loads
from tests.batch_stage import BatchStage, ItemModel, is_gone, kill, wait_until
from tests.process.harness import Lab

ITEMS = 6
JOBS = 3
# A kill follows so many further requests, at most, and so many seconds.
MOST_REQUESTS = 8
LONGEST_SECONDS = 0.1
# The rest hit the start and the end of a batch, which takes about this long.
PART_BY_REQUESTS = 0.85
BATCH_SECONDS = 2.5


class KillReport(msgspec.Struct, frozen=True):
    """`repeated` are requests whose answers were cut off by kills."""

    kills: int
    batches: int
    items: int
    requests: int
    repeated: int
    collected: int
    continued: int
    faults: tuple[str, ...]


class _Counts(msgspec.Struct):
    kills: int = 0
    batches: int = 0
    items: int = 0
    requests: int = 0
    repeated: int = 0
    collected: int = 0
    continued: int = 0


def play_kills(lab: Lab, model: ItemModel, *, seed: int, kills: int) -> KillReport:
    """Run batches until so many kills have happened."""
    chance, counts, faults = random.Random(seed), _Counts(), list[str]()
    while counts.kills < kills and not faults:
        names = tuple(f"b{counts.batches}i{number}" for number in range(ITEMS))
        stage = BatchStage(lab, names)
        before = counts.kills
        done = _play_batch(stage, model, chance, counts, kills)
        faults += _faults(stage, model, names, counts.kills - before)
        if done != 0:
            faults.append(f"the last run ended with {done}")
        _add(stage, model, names, counts)
        if not faults:
            shutil.rmtree(stage.out)
    return KillReport(**msgspec.structs.asdict(counts), faults=tuple(faults))


def _play_batch(
    stage: BatchStage, model: ItemModel, chance: random.Random, counts: _Counts, kills: int
) -> int:
    """Start the batch again and again until a driver comes to its end; returns its exit code."""
    while True:
        process = stage.start("-j", str(JOBS), "--workers", "2", "--in", "copy")
        while counts.kills < kills:
            if _ends_before(process, model, chance):
                break
            counts.kills += 1
            workers = sorted({line["worker"] for line in stage.started})
            alive = [pid for pid in workers if not is_gone(pid)]
            if alive and chance.random() < 0.5:
                kill(chance.choice(alive))
            else:
                kill(process.pid)
                break
        process.communicate(timeout=120)
        if process.returncode >= 0:
            return process.returncode


def _ends_before(
    process: "subprocess.Popen[bytes]", model: ItemModel, chance: random.Random
) -> bool:
    """Wait for a random moment; returns whether the driver has ended before it."""
    seconds = chance.random() * LONGEST_SECONDS
    if chance.random() < PART_BY_REQUESTS:
        enough = len(model.requests) + chance.randint(1, MOST_REQUESTS)
        wait_until(lambda: len(model.requests) >= enough or process.poll() is not None, "requests")
    else:
        seconds = chance.random() * BATCH_SECONDS
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _faults(stage: BatchStage, model: ItemModel, names: tuple[str, ...], kills: int) -> list[str]:
    found = []
    results = [result["id"] for result in stage.results]
    if sorted(results) != sorted(names):
        found.append(f"results of {sorted(results)}")
    wrong = [each for each in stage.results if each["status"] != "ok"]
    found += [f"{each['id']}: {each['status']} {each.get('error')}" for each in wrong]
    found += [fault for each in stage.results for fault in _lost_work(stage, each)]
    asked = sum(count for (name, _), count in model.asked.items() if name in names)
    if asked > 3 * len(names) + kills * JOBS:
        found.append(f"{asked} requests after {kills} kills")
    if stage.workspaces:
        found.append(f"workspaces {stage.workspaces}")
    pids = {line["worker"] for line in stage.started}
    wait_until(lambda: all(map(is_gone, pids)), "all workers end")
    left = _processes_in(stage.out)
    if left:
        found.append(f"processes {left}")
    return found


def _lost_work(stage: BatchStage, result: dict[str, Any]) -> Iterator[str]:
    """Commands that succeeded in the session, and whose output the patch does not have.

    The model does not repeat a command that was interrupted.
    """
    entries = [loads(line) for line in (stage.out / result["session"]).read_bytes().splitlines()]
    for message in (entry.get("message", {}) for entry in entries):
        if message.get("role") == "toolResult" and not message["isError"]:
            turn = message["toolCallId"].rpartition("_")[2]
            if f"+{turn}\n" not in result["patch"]:
                yield f"{result['id']}: the patch {result['patch']!r} lacks command {turn}"


def _processes_in(folder: Path) -> list[str]:
    """The commands that work in a folder."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(str(folder)):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


def _add(stage: BatchStage, model: ItemModel, names: tuple[str, ...], counts: _Counts) -> None:
    asked = {key: count for key, count in model.asked.items() if key[0] in names}
    counts.batches += 1
    counts.items += len(stage.results)
    counts.requests += sum(asked.values())
    counts.repeated += sum(asked.values()) - 3 * len(names)
    counts.collected += sum(each["how"] == "collected" for each in stage.results)
    counts.continued += sum(each["how"] == "continued" for each in stage.results)


def main(words: list[str]) -> int:
    seed, kills = (int(word) for word in words)
    with tempfile.TemporaryDirectory(prefix="batch-kills-") as folder, ItemModel() as model:
        report = play_kills(Lab(Path(folder), model), model, seed=seed, kills=kills)
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
