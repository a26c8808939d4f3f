"""Convert session files of version 1 and 2 to version 3."""

from typing import Any

from ludolf.base import dumps, unused_id
from ludolf.session.entries import VERSION, header_version, read_object


def migrate(lines: list[bytes]) -> list[bytes]:
    """Convert the lines of a version 1 or 2 file; return the same list for other versions.

    Lines that are not JSON and lines that need no change keep their bytes.
    """
    objects = [read_object(line) for line in lines]
    first = next((index for index, item in enumerate(objects) if item is not None), None)
    header = objects[first] if first is not None else None
    if header is None or header.get("type") != "session":
        return lines
    version = header_version(header)
    if version is None or version >= VERSION:
        return lines
    entries = [item for item in objects[first:] if item is not None][1:]
    changed = _link(header, entries) if version == 1 else set()
    changed |= _rename_hook_messages(entries)
    header["version"] = VERSION
    changed.add(id(header))
    return [
        dumps(item) + b"\n" if item is not None and id(item) in changed else line
        for line, item in zip(lines, objects, strict=True)
    ]


def _link(header: dict[str, Any], entries: list[dict[str, Any]]) -> set[int]:
    """Give each entry of a version 1 file, which is a plain list, an id and a parent.

    The parent is the entry before. Existing ids and parents stay. Returns the `id()` of each
    changed entry.
    """
    used = {item["id"] for item in entries if isinstance(item.get("id"), str)}
    changed: set[int] = set()
    parent: str | None = None
    for item in entries:
        if not isinstance(item.get("id"), str):
            item["id"] = unused_id(used)
            used.add(item["id"])
            changed.add(id(item))
        if "parentId" not in item:
            item["parentId"] = parent
            changed.add(id(item))
        parent = item["id"]
    for item in entries:
        if item.get("type") == "compaction" and "firstKeptEntryIndex" in item:
            _point_to_kept(item, [header, *entries])
            changed.add(id(item))
    return changed


def _point_to_kept(item: dict[str, Any], objects: list[dict[str, Any]]) -> None:
    index = item.pop("firstKeptEntryIndex")
    if not isinstance(index, int):
        return
    # The index counts the header, which is not an entry: 0 means from the first entry.
    if 0 <= index < len(objects) and len(objects) > 1:
        item["firstKeptEntryId"] = objects[max(index, 1)]["id"]


def _rename_hook_messages(entries: list[dict[str, Any]]) -> set[int]:
    changed: set[int] = set()
    for item in entries:
        message = item.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            message["role"] = "custom"
            changed.add(id(item))
    return changed
