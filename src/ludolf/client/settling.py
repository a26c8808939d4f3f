"""Whether a command that lost its reply may be sent again to a server that forgot its client."""

from typing import Any, Literal

from ludolf.client.events import Record
from ludolf.client.outbox import SentCommand
from ludolf.protocol.commands import COMMANDS

Fate = Literal["again", "done", "unknown"]
# Doing one of these twice has the effect of doing it once.
_REPEATABLE = frozenset(
    (
        *("abort", "abort_bash", "abort_retry", "attach", "clients", "close", "detach", "list"),
        *("mcp_reconnect", "navigate_tree", "open", "ping", "reload", "rename_session"),
    )
)
_PREFIXES = ("get_", "set_", "list_")


def fate_of(command: SentCommand, unseen: list[str] | None) -> Fate:
    """Return what to do with a command without a reply.

    `unseen` are the texts of the user's messages that the server has stored and that the client
    has not seen as events; None if that cannot be known.
    """
    name = command.command
    spec = COMMANDS.get(name)
    if command.reply is None or name in _REPEATABLE or name.startswith(_PREFIXES):
        return "again"
    text = command.params.get("message")
    if spec is None or not spec.is_prompt or unseen is None or not isinstance(text, str):
        return "unknown"
    if text in unseen:
        unseen.remove(text)
        return "done"
    # A command of an extension or a template is stored as another text, or not at all.
    return "unknown" if unseen or text.startswith("/") else "again"


def unseen_prompts(snapshot: Record, leaf: str | None, seen: int) -> list[str] | None:
    """Return the user's messages after an entry, without the first `seen` ones.

    None if the snapshot does not begin right after that entry.
    """
    entries = snapshot.get("entries")
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        return None
    if snapshot.get("more"):
        return None
    begins = entries[0].get("parentId") if entries else snapshot.get("leafId")
    if begins != leaf:
        return None
    texts = [text for each in entries if (text := user_text(each.get("message"))) is not None]
    return texts[seen:] if len(texts) >= seen else None


def user_text(message: Any) -> str | None:
    """The text of a message of the user; None for other messages."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    pieces = [each for each in blocks if isinstance(each, dict)]
    return "".join(str(each.get("text", "")) for each in pieces if each.get("type") == "text")
