"""mcp-cache.json: what servers answered, so that a start needs none of them.

A record is JSON of its user, by the digest of an entry, with the `time` when it was stored in Unix
milliseconds. Content that cannot be used counts as absent.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ludolf.base import ConfigError, dumps, loads, now_ms, without_surrogates
from ludolf.config.settings.files import read_text, replace_text
from ludolf.config.settings.home import Home
from ludolf.config.settings.lock import auth_lock

MOST_RECORDS = 200
MOST_CACHE_BYTES = 32 * 1024 * 1024
_VERSION = 1
_PATIENCE = 5.0


T = TypeVar("T")


class _Content(msgspec.Struct):
    version: int = _VERSION
    servers: dict[str, msgspec.Raw] = {}


class _Stamp(msgspec.Struct):
    time: int = 0


def mcp_cache_file(home: Home) -> Path:
    """Return the path of the cache."""
    return home.agent / "mcp-cache.json"


def read_cached_servers(path: Path, digests: Iterable[str], kind: type[T]) -> dict[str, T]:
    """Return the records of these digests; those that are missing or not of this type are not."""
    servers = _read(path)
    found = {}
    decode = msgspec.json.Decoder(kind).decode
    for digest in digests:
        with suppress(KeyError, msgspec.DecodeError):  # perhaps written by another version
            found[digest] = decode(servers[digest])
    return found


def store_cached_server(path: Path, digest: str, record: dict[str, Any]) -> None:
    """Store a record and drop the oldest ones beyond the limits; blocks while the file is locked.

    Raises:
        ConfigError: the file is locked or cannot be written.
    """
    encoded = _encoded({**record, "time": now_ms()})
    if len(encoded) > MOST_CACHE_BYTES:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with auth_lock(path, patience=_PATIENCE) as lock:
            servers = {**_read(path), digest: msgspec.Raw(encoded)}
            text = b'{"version":%d,"servers":{%s}}' % (_VERSION, _joined(servers, digest))
            lock.check()
            if path.exists():
                os.chmod(path, 0o600)
            replace_text(path, text.decode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _encoded(record: dict[str, Any]) -> bytes:
    """Encode a record without lone surrogates, which make a file unreadable for msgspec."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        text = json.dumps(loads(dumps(record)), ensure_ascii=False)
        return without_surrogates(text).encode()


def _read(path: Path) -> dict[str, msgspec.Raw]:
    try:
        content = msgspec.json.decode(read_text(path) or "{}", type=_Content)
    except (ConfigError, msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return content.servers if content.version == _VERSION else {}


def _joined(servers: dict[str, msgspec.Raw], newest: str) -> bytes:
    """Return the newest records within the limits, as members of a JSON object."""
    times = {digest: _time(raw) for digest, raw in servers.items()}
    times[newest] = max(times.values())
    order = sorted(servers, key=lambda digest: (digest == newest, times[digest]), reverse=True)
    members: list[bytes] = []
    left = MOST_CACHE_BYTES
    for digest in order[:MOST_RECORDS]:
        member = dumps(digest) + b":" + bytes(servers[digest])
        left -= len(member) + 1
        if left < 0:
            break
        members.append(member)
    return b",".join(members)


def _time(raw: msgspec.Raw) -> int:
    try:
        return msgspec.json.decode(raw, type=_Stamp).time
    except msgspec.DecodeError:
        return 0
