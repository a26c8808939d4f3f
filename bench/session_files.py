"""Generate linear session files of a given size."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from bench.programs import Home

_WORDS = (
    *("alpha", "beta", "gamma", '"quoted"', "line\n", "tab\t", "é", "ü", "漢字"),
    *("path/to/file.py:12", "return", "value"),
)
_STAMP = "2026-10-01T00:00:00.000Z"
_STARTED = 1_790_000_000_000
_COUNTS = {"input": 10, "output": 10, "cacheRead": 0, "cacheWrite": 0}
_USAGE = {**_COUNTS, "totalTokens": 20, "cost": {**dict.fromkeys(_COUNTS, 0), "total": 0}}


def make_session(home: Home, name: str, size: int) -> Path:
    """Write a file of about `size` bytes in the program's format; returns its path."""
    if home.program.kind == "tau":
        return _make_for_tau(home, name, size)
    path = home.sessions / f"{name}.jsonl"
    head = {
        "type": "session",
        "version": 3,
        "id": f"00000000-0000-7000-8000-{crc32(name.encode()):012x}",
        "timestamp": _STAMP,
        "cwd": str(home.work),
    }
    with path.open("w") as file:
        file.write(_line(head))
        parent = None
        for number, message in enumerate(_messages(size)):
            entry_id = f"{number * 2654435761 % (1 << 32):08x}"
            entry = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": _STAMP}
            file.write(_line({**entry, "message": message}))
            parent = entry_id
    return path


def _make_for_tau(home: Home, name: str, size: int) -> Path:
    folder = home.folder / ".tau" / "sessions"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    stamp = _STARTED / 1000
    with path.open("w") as file:
        parent = None
        for number, message in enumerate(_messages(size)):
            entry = {"type": "message", "id": f"{number:032x}", "parent_id": parent}
            file.write(_line({**entry, "timestamp": stamp, "message": message}))
            parent = entry["id"]
    record = {"id": name, "path": str(path), "cwd": str(home.work), "model": "bench"}
    with (folder / "index.jsonl").open("a") as index:
        index.write(_line({**record, "created_at": stamp, "updated_at": stamp}))
    return path


def _messages(size: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(3)
    made = number = 0
    while made < size:
        text = " ".join(chance.choices(_WORDS, k=900))
        for message in _exchange(number, text):
            made += len(_line(message)) + 150  # the entry around it
            yield {**message, "timestamp": _STARTED + number}
            number += 1


def _exchange(number: int, text: str) -> Iterator[dict[str, Any]]:
    about = {"api": "anthropic-messages", "provider": "bench", "model": "bench", "usage": _USAGE}
    call = {"type": "toolCall", "id": f"call_{number}", "name": "read"}
    yield {"role": "user", "content": [_text(f"question {number}")]}
    yield {
        "role": "assistant",
        "content": [_text("reading"), {**call, "arguments": {"path": f"file{number}.py"}}],
        "stopReason": "toolUse",
        **about,
    }
    yield {
        "role": "toolResult",
        "toolCallId": f"call_{number}",
        "toolName": "read",
        "content": [_text(text)],
        "isError": False,
    }
    yield {
        "role": "assistant",
        "content": [_text(text[:1500])],
        "stopReason": "stop",
        **about,
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"
