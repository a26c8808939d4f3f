"""Search in the tools of servers by words of their names and descriptions."""

import asyncio
import math
import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import islice

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
        common, others = self._scores(words)
        order, all_words = self._order, _MATCH * len(words)

        def rank(number: int) -> float:
            score = common + others.get(number, 0.0)
            return (score if score >= all_words else score % _MATCH) + order[number]

        found = {number for number, score in others.items() if common + score > _MATCH / 2}
        if common:
            rest = (number for number in reversed(order) if number not in others)
            found.update(islice(rest, max(0, limit)))
        ranks = {number: rank(number) for number in found}
        ranks |= {number: _WHOLE_NAME + order[number] for number in self._named(_joined(query))}
        best = nlargest(max(0, limit), ranks, key=ranks.__getitem__)
        return [self._tool(number) for number in best]

    def _scores(self, words: Sequence[str]) -> tuple[float, dict[int, float]]:
        """Return the score that most tools have, and what others have more or less.

        A word that most tools have alike costs little so.
        """
        common, others = 0.0, defaultdict[int, float](float)
        for word in words:
            found = self._matches(word)
            count = sum(map(len, found.values()))
            rarity = math.log((len(self._order) + 1) / (count + 1)) + 1
            scores = {points: _MATCH + points * rarity for points in found}
            usual = next((p for p, tools in found.items() if 2 * len(tools) > len(self._order)), 0)
            if usual:
                common += scores[usual]
                found[0] = self._order.keys() - set().union(*found.values())
                del found[usual]
            base = scores.get(usual, 0.0)
            for points, tools in found.items():
                score = scores.get(points, 0.0) - base
                for number in tools:
                    others[number] += score
        return common, others

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

    def _matches(self, word: str) -> dict[int, set[int]]:
        """Return the tools that have the word or one that begins with it, by their points."""
        found: dict[int, set[int]] = defaultdict(set)
        for each in self._servers.values():
            for points, tools in each.matches(word):
                found[points] |= tools
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

    def matches(self, word: str) -> Iterator[tuple[int, set[int]]]:
        """Yield points and the tools that get them for the word; each tool at most once."""
        seen: set[int] = set()
        for places, ordered, points, points_of_beginning in (
            (self._in_names, self._sorted_names, _IN_NAME, _BEGINS_IN_NAME),
            (self._in_texts, self._sorted_texts, _IN_TEXT, _BEGINS_IN_TEXT),
        ):
            exact = set(places.get(word, ())) - seen
            seen |= exact
            longer = set().union(*(places[each] for each in _beginning(word, ordered))) - seen
            seen |= longer
            yield points, exact
            yield points_of_beginning, longer


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
