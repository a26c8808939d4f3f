"""The folder of a batch: one driver at a time, whole lines, and a history that is read fast."""

import errno
import os
import tracemalloc
from pathlib import Path

import pytest

from ludolf.base import ConfigError, dumps
from ludolf.fleet.folder import (
    DiskFull,
    LineFile,
    StartedLine,
    cost_of_sessions,
    disk_full,
    open_folder,
    read_history,
)
from ludolf.fleet.tasks import items_given, make_tasks


def _line(name: str, attempts: int, status: str = "ok", cost: float = 0.5) -> bytes:
    record = {"id": name, "status": status, "attempts": attempts, "usage": {"cost": cost}}
    return dumps({**record, "answer": "x" * 100}) + b"\n"


def test_a_second_driver_is_refused_and_so_is_one_while_a_worker_of_the_first_lives(
    tmp_path: Path,
) -> None:
    out = tmp_path / "batch"
    folder = open_folder(out, {})
    with pytest.raises(ConfigError, match="Another `ludolf batch` is working"):
        open_folder(out, {})
    worker = os.dup(folder.lock)  # as if a worker had inherited it
    folder.close()
    with pytest.raises(ConfigError, match="A worker of an earlier `ludolf batch`"):
        open_folder(out, {}, seconds=0.0)
    waits: list[float] = []

    def leave(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.close(worker)

    open_folder(out, {}, sleep=leave).close()
    assert len(waits) == 3


def test_a_changed_option_is_named(tmp_path: Path) -> None:
    out = tmp_path / "batch"
    open_folder(out, {"prompt": "a", "model": "m", "tools": ("read",)}).close()
    open_folder(out, {"prompt": "a", "model": "m", "tools": ("read",)}).close()
    with pytest.raises(ConfigError, match="another check, model"):
        open_folder(out, {"prompt": "a", "model": "n", "tools": ("read",), "check": "x"})


def test_a_header_that_was_cut_off_is_written_again_only_before_the_first_item(
    tmp_path: Path,
) -> None:
    out = tmp_path / "batch"
    open_folder(out, {"prompt": "a"}).close()
    (out / "batch.json").write_bytes(b'{"version"')
    open_folder(out, {"prompt": "b"}).close()
    (out / "journal.jsonl").write_bytes(b"{}\n")
    (out / "batch.json").write_bytes(b'{"version"')
    with pytest.raises(ConfigError, match="not a file of a batch"):
        open_folder(out, {"prompt": "b"})


@pytest.mark.parametrize("torn", [b'{"id":"c","att', b"\xff\xfe\n", b'{"id":3}\n', b"\0\0\0"])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    out = tmp_path / "batch"
    folder = open_folder(out, {})
    folder.close()
    whole = _line("a", 1) + _line("b", 2, "failed")
    (out / "results.jsonl").write_bytes(whole + torn)
    folder = open_folder(out, {})
    history = folder.read()
    assert (history.is_ok("a"), history.is_ok("b"), history.is_recorded("b")) == (True, False, True)
    assert (history.cost, history.finished, history.attempts("b")) == (1.0, 2, 2)
    folder.results.append(b"{}")
    folder.close()
    assert (out / "results.jsonl").read_bytes() == whole + b"{}\n"


def test_a_broken_line_in_the_middle_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"nonsense\n" + _line("a", 1))
    with pytest.raises(ConfigError, match=r"results\.jsonl, byte 0"):
        list(LineFile(path).scan(StartedLine))
    assert path.read_bytes().startswith(b"nonsense")


def test_an_item_that_was_started_again_after_its_result_is_open(tmp_path: Path) -> None:
    out = tmp_path / "batch"
    folder = open_folder(out, {})
    (task,) = make_tasks(items_given([{"id": "a"}]))
    folder.note_start(task, 1, 10)
    folder.results.append(_line("a", 1).strip())
    assert folder.read().is_recorded("a")
    folder.note_start(task, 2, 10)
    history = folder.read()
    assert (history.is_recorded("a"), history.attempts("a")) == (False, 2)
    assert history.open == {"a": (2, task.digest)}
    folder.close()
    assert read_history(out).open == history.open
    assert read_history(tmp_path / "none").open == {}


def test_many_results_are_read_in_little_memory(tmp_path: Path) -> None:
    out = tmp_path / "batch"
    open_folder(out, {}).close()
    with (out / "results.jsonl").open("wb") as file:
        file.writelines(_line(f"item-{number}", 1) for number in range(20_000))
    tracemalloc.start()
    history = read_history(out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert history.finished == 20_000
    assert peak < 8 << 20


def test_a_full_disk_is_told_from_other_errors(tmp_path: Path) -> None:
    assert isinstance(disk_full(OSError(errno.ENOSPC, "x", "f")), DiskFull)
    assert disk_full(OSError(errno.EACCES, "x")) is None
    file = LineFile(tmp_path / "lines")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.descriptor)
    os.close(full)
    with pytest.raises(DiskFull, match="Free some space"):
        file.append(b"{}")
    file.close()


def test_the_cost_of_sessions_counts_answers_and_summaries_and_skips_other_lines(
    tmp_path: Path,
) -> None:
    usage = {"cost": {"total": 0.5}}
    answer = {"type": "message", "message": {"role": "assistant", "usage": usage}}
    summary = {"type": "compaction", "summary": "Short.", "usage": usage}
    lines = (dumps(answer), b'{"type":"session"}', b"nonsense", dumps(summary), b"{")
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    assert cost_of_sessions(tmp_path) == 1.0
