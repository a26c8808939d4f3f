"""Tools that a search declared in the middle of a conversation, in the form of the Anthropic API.

The definition of such a tool has `defer_loading`, which keeps it out of the cached prefix. The
result of the search refers to it by a `tool_reference`, where the API inserts the definition.
"""

from collections.abc import Iterable, Mapping

from ludolf.ai.history import ModelMessage
from ludolf.ai.messages import ToolResultMessage
from ludolf.ai.models import Model
from ludolf.base.patterns import lazy_pattern

_OFFICIAL = "https://api.anthropic.com"
# Haiku refuses references in results of a client's own search.
_VERSION = lazy_pattern(r"claude-(?:opus|sonnet|fable)-(\d+)(?:-(\d{1,2}))?(?:-|$)")
_OLDEST = (4, 5)


def knows_references(model: Model, address: str) -> bool:
    """Return whether the documentation of the API says so; a server at another address may not."""
    found = _VERSION.match(model.id)
    if found is None or address != _OFFICIAL:
        return False
    return (int(found[1]), int(found[2] or 0)) >= _OLDEST


def loaded_by(message: ModelMessage) -> tuple[str, ...]:
    """Return the names of the tools that a result declares: `details.loaded` of a search."""
    if not isinstance(message, ToolResultMessage) or message.is_error:
        return ()
    loaded = message.details.get("loaded") if isinstance(message.details, Mapping) else None
    if not isinstance(loaded, list | tuple):
        return ()
    return tuple(dict.fromkeys(name for name in loaded if isinstance(name, str)))


def referenced(messages: Iterable[ModelMessage]) -> frozenset[str]:
    """Return the names of all tools that searches in the conversation declared."""
    return frozenset(name for message in messages for name in loaded_by(message))
