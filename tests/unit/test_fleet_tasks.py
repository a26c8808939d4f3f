"""Items of a batch: ids, fields and prompts; hostile ones are refused with their place."""

import io
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import ConfigError
from ludolf.fleet.command import read_command, split_words
from ludolf.fleet.tasks import (
    Task,
    in_shard,
    items_given,
    items_of_glob,
    items_of_lines,
    make_tasks,
    read_lines_of,
    render_prompt,
)


def _tasks(text: bytes) -> list[Task]:
    return list(make_tasks(read_lines_of(io.BytesIO(text), "tasks.jsonl")))


def test_an_item_without_an_id_is_named_by_the_digest_of_its_line() -> None:
    first, second = _tasks(b'{"a": 1}\n\n{"id": 7}')
    assert (len(first.id), int(first.id, 16) > 0, second.id) == (12, True, "7")
    assert first.folder_name == first.id


@pytest.mark.parametrize(
    "name", ["../../etc", "a/b", ".hidden", "x" * 300, "ü", "a.git", "-x", "a b"]
)
def test_the_folder_of_an_item_is_a_plain_name(name: str) -> None:
    (task,) = make_tasks(items_given([{"id": name}]))
    assert "/" not in task.folder_name
    assert task.folder_name.isascii()
    assert task.folder_name[0] not in ".-"
    assert len(task.folder_name) < 80


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"[1]", "must be a JSON object"),
        (b"{", "line 2: this is not JSON"),
        (b'{"id": true}', "id must be a text or a number"),
        (b'{"id": ""}', "id must have 1 to 500 characters"),
        (b'{"id": "a"}', 'the id "a" occurs twice'),
        (b'{"repo": 3}', "repo must be a text"),
        (b'{"repo": "a\\u0000b"}', "NUL character"),
        (b'{"files": "a"}', "files must be a list"),
        (b'{"max_turns": 0}', "max_turns must be a number greater than 0"),
        (b'{"max_turns": 1.5}', "max_turns must be"),
        (b'{"x": ' + b"[" * 2000 + b"]" * 2000 + b"}", "nested too deeply"),
    ],
)
def test_an_invalid_item_is_refused_with_its_line(line: bytes, error: str) -> None:
    with pytest.raises(ConfigError, match=r"tasks\.jsonl, line 2.*") as caught:
        _tasks(b'{"id": "a"}\n' + line)
    assert error in str(caught.value)


def test_fields_fill_the_prompt_and_doubled_braces_stay() -> None:
    (task,) = _tasks(b'{"id": "a", "file": "x.py", "lines": [1, 2]}')
    text = 'Item {id}: {file} {lines} {{file}} {"json": {}} {0}'
    assert render_prompt(task, text) == 'Item a: x.py [1,2] {file} {"json": {}} {0}'
    with pytest.raises(ConfigError, match=r'no field "name".*Its fields: file, id, lines'):
        render_prompt(task, "{name}")
    with pytest.raises(ConfigError, match="has no prompt"):
        render_prompt(task, None)
    (own,) = _tasks(b'{"prompt": "Own {n}", "n": 1}')
    assert render_prompt(own, "Common") == "Own 1"


def test_globs_and_lines_are_items(tmp_path: Path) -> None:
    for name in ("services/a", "services/b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "services/c.txt").write_text("")
    found = [task.item for task in make_tasks(items_of_glob("services/*", tmp_path))]
    assert found[0] == {
        "id": "services/a",
        "path": "services/a",
        "name": "a",
        "folder": "services/a",
    }
    assert "folder" not in found[2]
    with pytest.raises(ConfigError, match="nothing in"):
        list(items_of_glob("none/*", tmp_path))
    (line,) = make_tasks(items_of_lines(io.BytesIO(b"\n one.py \n"), "files.txt"))
    assert (line.id, render_prompt(line, "Read {line}")) == ("one.py", "Read one.py")


def test_shards_are_disjoint_and_complete() -> None:
    tasks = list(make_tasks(items_given({"id": str(number)} for number in range(200))))
    shards = [[task.id for task in tasks if in_shard(task, (index, 4))] for index in range(4)]
    assert sorted(name for shard in shards for name in shard) == sorted(task.id for task in tasks)
    assert min(map(len, shards)) > 20


# ---------------------------------------------------------------- the command line


def _command(folder: Path, *words: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    (folder / "tasks.jsonl").write_text('{"id": "a"}\n')
    monkeypatch.chdir(folder)
    return read_command(*split_words(words))


def test_options_of_the_batch_and_of_sessions_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "tasks.jsonl Go -j4 --model m/x --tools read,ls --in=here --shard 1/3 --api-key k"
    command = _command(tmp_path, *words.split(), "--max-turns", "3", monkeypatch=monkeypatch)
    plan = command.plan
    assert (plan.prompt, plan.jobs, plan.setup.kind, plan.choice.shard) == ("Go", 4, "here", (1, 3))
    assert (plan.setup.choices["model"], plan.setup.limits.max_turns) == ("m/x", 3)
    assert command.out == tmp_path / "tasks.batch"
    (tmp_path / "rules.md").write_text("x")
    more = ("--system-prompt", "Be brief", "--append-system-prompt", "rules.md", "-e", "none.py")
    choices = _command(tmp_path, "tasks.jsonl", *more, monkeypatch=monkeypatch).plan.setup.choices
    assert choices["appendSystemPrompt"] == [str(tmp_path / "rules.md")]
    assert (choices["systemPrompt"], choices["extensions"]) == ("Be brief", ["none.py"])
    fixed = plan.fixed_options()
    assert fixed["shard"] == [1, 3]
    assert (fixed["tools"], "api-key" in fixed) == (("read", "ls"), False)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "No items"),
        (("none.jsonl", "Go"), "is not a file of items"),
        (("tasks.jsonl", "Go", "--bugdet", "3"), "Unknown option: --bugdet"),
        (("tasks.jsonl", "Go", "--session", "x"), "no option --session"),
        (("tasks.jsonl", "Go", "-j", "0"), "-j needs a number of at least 1"),
        (("tasks.jsonl", "Go", "--shard", "4/4"), "--shard needs I/N"),
        (("tasks.jsonl", "Go", "--in", "cloud"), "Invalid value"),
        (("tasks.jsonl", "Go", "--in", "here"), "--in here lets all agents write"),
        (("tasks.jsonl", "Go", "--budget", "nan"), "--budget needs a number"),
        (("tasks.jsonl", "Go", "--via-end", "x"), "--via-end needs --via"),
        (("tasks.jsonl", "Go", "--via", "x", "--api-key", "k"), "--api-key cannot be used"),
        (("tasks.jsonl", "Go", "--schema", "none.json"), "No such file"),
        (("tasks.jsonl", "Go", "on"), "Pass one prompt"),
        (("tasks.jsonl", "Go", "--out"), "--out needs a value"),
    ],
)
def test_a_wrong_command_line_is_refused(
    words: tuple[str, ...], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=error):
        _command(tmp_path, *words, monkeypatch=monkeypatch)
