"""Search in the tools of servers by words of their names and descriptions."""

import asyncio
import math
import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ludolf.mcp.definitions import ToolDefinition

# Tools that are indexed before other tasks get a turn.
_SLICE = 16
_MOST_QUERY_WORDS = 16
_LONGEST_QUERY = 500
_SHORTEST_PREFIX = 2
_LAST = chr(0x10FFFF)
# Points of a word of the query, by where it was found.
_IN_NAME, _BEGINS_IN_NAME, _IN_TEXT, _BEGINS_IN_TEXT = 8, 5, 2, 1
# Added for each word that is found, to count them; points never add up to it.
_MATCH = 10_000.0
_WHOLE_NAME = 1_000_000.0
_TIE = 1e-7
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "at", "be", "by", "can", "do", "for", "from", "how", "i", "in"),
        *("is", "it", "me", "my", "of", "on", "or", "please", "the", "this", "to", "tool", "use"),
        *("want", "what", "with", "you"),
    )
)

_Places = dict[str, list[int]]


class ToolIndex:
    """Words of the tools of all servers. Tools are found by whole words and their beginnings."""

    def __init__(self) -> None:
        self._servers: dict[str, _ServerWords] = {}
        self._building: dict[str, _ServerWords] = {}
        self._next = 0
        self._order: dict[int, float] = {}

    async def add(self, tools: Iterable[ToolDefinition]) -> None:
        """Index the tools; those of a server replace the ones that it had.

        Works in slices, so that other tasks run in between.
        """
        by_server: dict[str, list[ToolDefinition]] = defaultdict(list)
        for tool in tools:
            by_server[tool.server].append(tool)
        for server, listed in by_server.items():
            await self._index(server, listed)

    def remove(self, server: str) -> None:
        """Forget the tools of a server."""
        self._servers.pop(server, None)
        self._building.pop(server, None)
        self._put_in_order()

    def search(self, query: str, limit: int = 8) -> list[ToolDefinition]:
        """Return the tools that match best.

        A tool whose whole name is the query is first, then those that match all words. Words of a
        name count more than words of a description, and rare words more than frequent ones.
        """
        words = _query_words(query)
        scores: dict[int, float] = {}
        for word in words:
            found = self._matches(word)
            rarity = math.log((len(self._order) + 1) / (len(found) + 1)) + 1
            for number, points in found.items():
                score = _MATCH + points * rarity
                scores[number] = scores[number] + score if number in scores else score
        all_words = _MATCH * len(words)
        order = self._order
        ranks = {
            number: (score if score >= all_words else score % _MATCH) + order[number]
            for number, score in scores.items()
        }
        ranks |= {number: _WHOLE_NAME + order[number] for number in self._named(_joined(query))}
        best = sorted(ranks, key=ranks.__getitem__, reverse=True)[: max(0, limit)]
        return [self._tool(number) for number in best]

    async def _index(self, server: str, tools: Sequence[ToolDefinition]) -> None:
        words = self._building[server] = _ServerWords()
        for at in range(0, len(tools), _SLICE):
            for tool in tools[at : at + _SLICE]:
                words.add(self._next, tool)
                self._next += 1
            await asyncio.sleep(0)
        # Another list of the same server may have arrived, or the server may be gone.
        if self._building.get(server) is words:
            self._servers[server] = self._building.pop(server)
            self._put_in_order()

    def _put_in_order(self) -> None:
        """Give each tool a tiny score by its name, which decides between equal matches."""
        tools = [item for each in self._servers.values() for item in each.tools.items()]
        tools.sort(key=lambda item: item[1].name, reverse=True)
        self._order = {number: at * _TIE for at, (number, _) in enumerate(tools)}

    def _tool(self, number: int) -> ToolDefinition:
        return next(e.tools[number] for e in self._servers.values() if number in e.tools)

    def _matches(self, word: str) -> dict[int, int]:
        found: dict[int, int] = {}
        for each in self._servers.values():
            found.update(each.matches(word))
        return found

    def _named(self, joined: str) -> set[int]:
        return {number for each in self._servers.values() for number in each.whole.get(joined, ())}


class _ServerWords:
    """Words of one server's tools, each with the numbers of the tools that have it."""

    def __init__(self) -> None:
        self.tools: dict[int, ToolDefinition] = {}
        self.whole: _Places = defaultdict(list)
        self._in_names: _Places = {}
        self._in_texts: _Places = {}
        self._sorted_names: list[str] = []
        self._sorted_texts: list[str] = []

    def add(self, number: int, tool: ToolDefinition) -> None:
        self.tools[number] = tool
        for joined in {_joined(tool.name), _joined(tool.tool)}:
            self.whole[joined].append(number)
        names = _words(f"{tool.server} {tool.tool}")
        _place(names, number, self._in_names, self._sorted_names)
        texts = _words(f"{tool.title} {tool.description}") - names
        _place(texts, number, self._in_texts, self._sorted_texts)

    def matches(self, word: str) -> dict[int, int]:
        """Return the points of each tool that has the word or one that begins with it."""
        found: dict[int, int] = {}
        for places, ordered, points, points_of_beginning in (
            (self._in_texts, self._sorted_texts, _IN_TEXT, _BEGINS_IN_TEXT),
            (self._in_names, self._sorted_names, _IN_NAME, _BEGINS_IN_NAME),
        ):
            for longer in _beginning(word, ordered):
                found.update(dict.fromkeys(places[longer], points_of_beginning))
            if word in places:
                found.update(dict.fromkeys(places[word], points))
        return found


def _place(words: Iterable[str], number: int, places: _Places, ordered: list[str]) -> None:
    for word in words:
        if word in places:
            places[word].append(number)
        else:
            places[word] = [number]
            insort(ordered, word)


def _beginning(start: str, ordered: list[str]) -> list[str]:
    """Return the words that begin with another one."""
    if len(start) < _SHORTEST_PREFIX:
        return []
    return ordered[bisect_left(ordered, start) : bisect_left(ordered, start + _LAST)]


# ---------------------------------------------------------------- words


def _query_words(query: str) -> list[str]:
    words = list(dict.fromkeys(map(_stem, _split(query[:_LONGEST_QUERY]))))
    kept = [word for word in words if word not in _STOP_WORDS]
    return (kept or words)[:_MOST_QUERY_WORDS]


def _words(text: str) -> set[str]:
    return {_stem(word) for word in _split(text)}


def _split(text: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", text).lower())


def _joined(text: str) -> str:
    return "".join(_WORD.findall(text[:_LONGEST_QUERY].lower()))


@lru_cache(4096)
def _stem(word: str) -> str:
    """Return the singular of a regular English plural."""
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("ses", "xes", "ches", "shes", "zes")) else word[:-1]
