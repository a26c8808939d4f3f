"""Items of a batch: read them from JSON lines, globs and lists, and render their prompts."""

import glob
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ludolf.base import ConfigError, dumps, is_nested_deeper, loads

MOST_LINE_BYTES = 16 * 1024 * 1024
_ID_DIGITS = 12
_MOST_ID = 500
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIELD = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")
_TEXTS = ("repo", "ref", "folder", "prompt", "model")
_COUNTS = ("max_turns", "max_tokens")
_AMOUNTS = ("max_cost", "max_seconds")
_KNOWN = frozenset(("files", *_TEXTS, *_COUNTS, *_AMOUNTS))
# A source yields the place of an item for errors, and the item as JSON text or as a value.
RawItem = tuple[str, bytes | dict[str, Any]]
RawLine = tuple[str, bytes]


class Task(msgspec.Struct, frozen=True):
    """One item: its id, its fields and the digest of both."""

    id: str
    item: dict[str, Any]
    digest: str

    @property
    def folder_name(self) -> str:
        """The name of its folders: the id if that is a plain name."""
        if _PLAIN_NAME.fullmatch(self.id) and not self.id.endswith(".git"):
            return self.id
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.id).strip("-.")[:60]
        return f"{plain or 'item'}-{_digest(self.id.encode('utf-8', 'replace'))[:8]}"


# ---------------------------------------------------------------- sources


def read_lines_of(file: BinaryIO, name: str) -> Iterator[RawLine]:
    """Yield the items of a file of JSON lines; empty lines are skipped.

    Raises:
        ConfigError: a line is too long.
    """
    number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            raise ConfigError(f"{name}, line {number}: longer than 16 MiB.")
        if line.strip():
            yield f"{name}, line {number}", line


def items_of_lines(file: BinaryIO, name: str) -> Iterator[RawItem]:
    """Yield one item for each line of text: its field `line`, and the id is the text."""
    for place, line in read_lines_of(file, name):
        text = line.decode("utf-8", "replace").strip()
        yield place, {"id": text, "line": text, "path": text}


def items_of_glob(pattern: str, folder: Path) -> Iterator[RawItem]:
    """Yield one item for each match of a glob in a folder, with the fields `path` and `name`.

    Raises:
        ConfigError: nothing matches.
    """
    found = sorted(glob.glob(pattern, root_dir=folder, recursive=True))
    if not found:
        raise ConfigError(f"--each {pattern}: nothing in {folder} matches.")
    for path in found:
        clean = path.rstrip("/")
        item: dict[str, Any] = {"id": clean, "path": clean, "name": os.path.basename(clean)}
        if os.path.isdir(folder / clean):
            item["folder"] = clean
        yield f"--each {pattern}", item


def items_given(items: Iterable[Mapping[str, Any]]) -> Iterator[RawItem]:
    """Yield the items that a program passes."""
    for number, item in enumerate(items, 1):
        yield f"item {number}", dict(item)


# ---------------------------------------------------------------- tasks


def make_tasks(items: Iterable[RawItem]) -> Iterator[Task]:
    """Yield the tasks in order.

    Raises:
        ConfigError: an item is not an object, a field has the wrong type, or an id occurs twice.
    """
    seen: set[str] = set()
    for place, raw in items:
        task = _task(place, raw)
        if task.id in seen:
            raise ConfigError(f'{place}: the id "{task.id}" occurs twice. Ids must differ.')
        seen.add(task.id)
        yield task


def _task(place: str, raw: bytes | dict[str, Any]) -> Task:
    line = raw if isinstance(raw, bytes) else _encoded(place, raw)
    if is_nested_deeper(line):
        raise ConfigError(f"{place}: nested too deeply.")
    try:
        item = loads(line)
    except ValueError as error:
        raise ConfigError(f"{place}: this is not JSON: {error}.") from error
    if not isinstance(item, dict):
        raise ConfigError(f"{place}: an item must be a JSON object.")
    _check_fields(place, item)
    digest = _digest(line.strip())
    given = item.get("id")
    return Task(digest[:_ID_DIGITS] if given is None else str(given), item, digest)


def _encoded(place: str, item: dict[str, Any]) -> bytes:
    try:
        return dumps(item)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{place}: not a JSON object: {error}.") from error


def _check_fields(place: str, item: dict[str, Any]) -> None:
    given = item.get("id")
    if given is not None and (isinstance(given, bool) or not isinstance(given, str | int)):
        raise ConfigError(f"{place}: id must be a text or a number.")
    if given is not None and not 0 < len(str(given)) <= _MOST_ID:
        raise ConfigError(f"{place}: id must have 1 to {_MOST_ID} characters.")
    if _KNOWN.isdisjoint(item):
        return
    for name in _TEXTS:
        if name in item and not isinstance(item[name], str):
            raise ConfigError(f"{place}: {name} must be a text.")
        if "\0" in item.get(name, "") and name != "prompt":
            raise ConfigError(f"{place}: {name} contains a NUL character.")
    files = item.get("files", [])
    if not isinstance(files, list) or not all(isinstance(each, str) for each in files):
        raise ConfigError(f"{place}: files must be a list of paths.")
    for name in (*_COUNTS, *_AMOUNTS):
        kinds: Any = int if name in _COUNTS else int | float
        value = item.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
            raise ConfigError(f"{place}: {name} must be a number greater than 0.")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------- prompts


def render_prompt(task: Task, prompt: str | None) -> str:
    """Return the prompt of an item: its own or the common one, with `{field}` filled in.

    `{{name}}` stands for the text `{name}`.

    Raises:
        ConfigError: there is no prompt, or it names a field that the item does not have.
    """
    template = task.item.get("prompt", prompt)
    if not template or not template.strip():
        raise ConfigError(f'Item "{task.id}" has no prompt. Pass one, or add the field "prompt".')
    return _FIELD.sub(_filler(task), template)


def _filler(task: Task) -> Callable[[re.Match[str]], str]:
    def fill(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if escaped is not None:
            return f"{{{escaped}}}"
        if name == "id":
            return task.id
        if name not in task.item:
            known = ", ".join(sorted({"id", *task.item}))
            raise ConfigError(
                f'Item "{task.id}" has no field "{name}", which the prompt uses. Its fields: '
                f"{known}. To write the braces themselves, double them: {{{{{name}}}}}."
            )
        value = task.item[name]
        return value if isinstance(value, str) else dumps(value).decode()

    return fill


def in_shard(task: Task, shard: tuple[int, int]) -> bool:
    """Return whether an item belongs to shard I of N: by its id, so that new items move none."""
    index, count = shard
    number = int(_digest(task.id.encode("utf-8", "replace"))[:8], 16)
    return number % count == index
