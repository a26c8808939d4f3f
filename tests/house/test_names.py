"""One name, one meaning: a public class or type alias is defined in one module only."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.house.source import modules

MOST_SHARED = 15
_EVENT = "an event of a run, and the payload that handlers of extensions get for it"
# Published names: in `ludolf.client`, `ludolf.ext` and `ludolf.sdk`, or in the schema of the wire.
SHARED = {
    "AgentEnd": _EVENT,
    "AgentSettled": _EVENT,
    "AgentStart": _EVENT,
    "MessageEnd": _EVENT,
    "MessageStart": _EVENT,
    "MessageUpdate": _EVENT,
    "SessionInfoChanged": _EVENT,
    "TurnEnd": _EVENT,
    "TurnStart": _EVENT,
    "BashResult": "the struct of the wire, and the dict that an extension returns for it",
    "Client": "the client for asyncio, and the one that blocks",
    "Compaction": "the entry on the wire, and the dict that an extension returns for it",
    "Conversation": "the bundle of the engine, and the answer of get_messages on the wire",
    "Models": "the bundle of the engine, and the answer of get_available_models on the wire",
}
_ALIAS = re.compile(r"[A-Z][a-z]")


def _public_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) if _ALIAS.match(name):
                yield name


def _shared() -> dict[str, list[str]]:
    """The names that two or more modules define, with these modules."""
    places: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for name in _public_names(module.tree):
            places[name].add(module.name)
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_every_public_name_has_one_meaning() -> None:
    wrong = [
        f"{name}: {', '.join(found)}" for name, found in _shared().items() if name not in SHARED
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_the_list_of_shared_names_is_short_and_holds_only_shared_ones() -> None:
    assert len(SHARED) <= MOST_SHARED
    assert set(SHARED) <= set(_shared())
