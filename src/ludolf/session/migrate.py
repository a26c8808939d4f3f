"""Session files of older versions, brought to the present one; lines that are no JSON stay."""

from typing import Any

from ludolf.base import dumps, short_id, uuid4
from ludolf.session.entries import VERSION, read_object


def migrate(lines: list[bytes]) -> list[bytes]:
    """The lines of a version 1 or 2 file as version 3; the same list if it is version 3 already."""
    objects = [read_object(line) for line in lines]
    header = next((item for item in objects if item is not None), None)
    if header is None or header.get("type") != "session":
        return lines
    version = header.get("version")
    if isinstance(version, int) and version >= VERSION:
        return lines
    known = [item for item in objects if item is not None]
    if not isinstance(version, int) or version < 2:
        _link(known)
    _rename_hook_messages(known)
    header["version"] = VERSION
    return [
        line if item is None else dumps(item) + b"\n"
        for line, item in zip(lines, objects, strict=True)
    ]


def _link(objects: list[dict[str, Any]]) -> None:
    """Version 1 is a plain list: give each entry an id and the one before as its parent."""
    used: set[str] = set()
    parent: str | None = None
    for item in objects[1:]:
        item["id"] = _new_id(used)
        item["parentId"] = parent
        parent = item["id"]
    for item in objects[1:]:
        if item.get("type") == "compaction":
            _point_to_kept(item, objects)


def _point_to_kept(item: dict[str, Any], objects: list[dict[str, Any]]) -> None:
    index = item.pop("firstKeptEntryIndex", None)
    if not isinstance(index, int):
        return
    # The index counts the header, which is no entry: 0 means everything from the first one.
    if 0 <= index < len(objects) and len(objects) > 1:
        item["firstKeptEntryId"] = objects[max(index, 1)]["id"]


def _rename_hook_messages(objects: list[dict[str, Any]]) -> None:
    for item in objects:
        message = item.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            message["role"] = "custom"


def _new_id(used: set[str]) -> str:
    for _ in range(100):
        name = short_id()
        if name not in used:
            used.add(name)
            return name
    return uuid4()
