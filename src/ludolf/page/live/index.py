"""The list of all sessions in the browser, with the live page of each one below it."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ludolf.base import CommandError, Warn
from ludolf.page.live.server import SessionRoutes, missing_route, page_route
from ludolf.page.live.watch import Watch
from ludolf.page.text import attribute, content, one_line
from ludolf.session.finder import SessionRecord, local_time

if TYPE_CHECKING:
    from ludolf.page.live.server import Handler

# Sessions that are followed at once; the one that was opened first is closed for another.
_WATCHED = 16
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
ul { list-style: none; padding: 0; }
li { display: flex; gap: 1rem; padding: .2rem 0; }
a { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
time, span { opacity: .7; white-space: nowrap; font-variant-numeric: tabular-nums; }
"""
_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'"


class SessionIndex:
    """Routes of a list of sessions. Only listed files can be opened."""

    def __init__(self, list_all: Callable[[], Sequence[SessionRecord]], warn: Warn) -> None:
        self._list_all = list_all
        self._warn = warn
        self._paths: dict[str, Path] = {}
        self._watched: dict[str, Watch] = {}
        self._opening = asyncio.Lock()

    async def route(self, place: str) -> "Handler | None":
        """Return the list for an empty place, else a route of the session that begins it."""
        if not place:
            return page_route(self._list, _POLICY)
        key, slash, rest = place.partition("/")
        if not slash or key not in self._paths:
            return None
        try:
            watch = await self._watch(key)
        except (CommandError, OSError) as problem:
            return missing_route(str(problem))
        return await SessionRoutes(watch).route(rest)

    async def close(self) -> None:
        for watch in self._watched.values():
            await watch.close()

    async def _watch(self, key: str) -> Watch:
        async with self._opening:
            if key not in self._watched:
                watch = Watch(self._paths[key], self._warn)
                await asyncio.to_thread(watch.load)
                watch.start()
                self._watched[key] = watch
                if len(self._watched) > _WATCHED:
                    await self._watched.pop(next(iter(self._watched))).close()
            return self._watched[key]

    async def _list(self) -> bytes:
        records = await asyncio.to_thread(self._list_all)
        keys = {record.path: _key(record.path) for record in records}
        self._paths = {key: Path(path) for path, key in keys.items()}
        return "".join(_page(records, keys)).encode("utf-8", "replace")


def _key(path: str) -> str:
    return sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _page(records: Sequence[SessionRecord], keys: dict[str, str]) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><meta charset="utf-8"><title>Sessions</title>'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<style>{_STYLE}</style><h1>Sessions</h1>"
    # Folders are in the order of their last use, as the sessions are.
    order = {record.cwd: place for place, record in reversed(list(enumerate(records)))}
    by_folder = sorted(records, key=lambda record: order[record.cwd])
    for cwd, group in groupby(by_folder, key=lambda record: record.cwd):
        yield f"<h2>{content(one_line(cwd, 200))}</h2><ul>"
        for record in group:
            yield f"<li><time>{local_time(record.modified)}</time>"
            yield f'<a href="{keys[record.path]}/" title="{attribute(record.id[:80])}" dir="auto">'
            yield f"{content(one_line(record.title, 200) or record.id[:80])}</a>"
            yield f"<span>{record.message_count} messages</span></li>"
        yield "</ul>"
    if not records:
        yield "<p>There are no sessions yet.</p>"
    yield "</html>\n"
