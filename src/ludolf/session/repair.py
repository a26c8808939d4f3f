"""Build a tree from a damaged session file, in memory and in linear time, with a warning."""

from pathlib import Path

from ludolf.base import Warn
from ludolf.session.entries import Entry, entry_of, fields


def repair(entries: list[Entry], bad_lines: int, path: Path, warn: Warn) -> None:
    """Rename duplicate ids, cut parent cycles, and return a warning with the counts."""
    if not bad_lines and _is_sound(entries):
        return
    repeated = _rename_duplicates(entries)
    cycles = _cut_cycles(entries)
    ids = {entry.id for entry in entries}
    orphans = sum(
        1 for entry in entries if entry.parent_id is not None and entry.parent_id not in ids
    )
    problems = [
        f"{count} {what}"
        for count, what in (
            (bad_lines, "unreadable line(s) skipped"),
            (repeated, "repeated id(s) renamed"),
            (cycles, "circle(s) of parents cut"),
            (orphans, "entry(ies) without their parent"),
        )
        if count
    ]
    if problems:
        warn(f"Session file is damaged: {path}: {', '.join(problems)}")


def _is_sound(entries: list[Entry]) -> bool:
    seen: set[str | None] = {None}
    for entry in entries:
        if entry.id in seen or entry.parent_id not in seen:
            return False
        seen.add(entry.id)
    return True


def _rename_duplicates(entries: list[Entry]) -> int:
    seen: set[str] = set()
    newest: dict[str, str] = {}
    renamed = 0
    for entry in entries:
        # A child follows its parent in the file, so it refers to the latest entry of that id.
        parent = newest.get(entry.parent_id) if entry.parent_id is not None else None
        name = entry.id
        if name in seen:
            renamed += 1
            # The new id is the same at each reading, since later entries in the file refer to it.
            name = _second_name(entry.id, seen, newest)
            newest[entry.id] = name
        seen.add(name)
        if name != entry.id or parent is not None:
            _rewrite(entry, name, parent or entry.parent_id)
    return renamed


def _second_name(entry_id: str, seen: set[str], newest: dict[str, str]) -> str:
    last = newest.get(entry_id, "")
    number = int(last.rpartition("~")[2]) + 1 if last else 2
    while f"{entry_id}~{number}" in seen:
        number += 1
    return f"{entry_id}~{number}"


def _cut_cycles(entries: list[Entry]) -> int:
    place = {entry.id: index for index, entry in enumerate(entries)}
    backwards = all(
        place.get(entry.parent_id, -1) < index if entry.parent_id is not None else True
        for index, entry in enumerate(entries)
    )
    return 0 if backwards else _walk_all(entries, place)


def _walk_all(entries: list[Entry], place: dict[str, int]) -> int:
    done: set[int] = set()
    cut = 0
    for start in range(len(entries) - 1, -1, -1):
        walk: set[int] = set()
        index: int | None = start
        while index is not None and index not in done:
            walk.add(index)
            entry = entries[index]
            above = place.get(entry.parent_id) if entry.parent_id is not None else None
            if above is not None and above in walk:
                # An entry that is its own parent is a root; a longer cycle is cut here.
                cut += above != index
                _rewrite(entry, entry.id, None)
                above = None
            index = above
        done |= walk
    return cut


def _rewrite(entry: Entry, name: str, parent: str | None) -> None:
    body = {**fields(entry), "id": name, "parentId": parent}
    rewritten = entry_of(body)
    entry.id, entry.parent_id = name, parent
    if rewritten is not None:
        entry.line, entry.message, entry.sound = rewritten.line, rewritten.message, True
