"""Views of a session for hosts: tree with labels, fork points, last answer."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ludolf.ai.messages import (
    AssistantMessage,
    Message,
    OpaqueMessage,
    ToolCall,
    UserMessage,
    text_of,
)
from ludolf.base import CommandError, Value, dumps
from ludolf.base.patterns import lazy_pattern
from ludolf.session.entries import Entry, entry_json, message_of, role_of
from ludolf.session.tree import Session

_SKILL = lazy_pattern(r'<skill name="([^"\n]{1,200})"[^>\n]{0,2000}>\n?')
_SKILL_END = "\n</skill>"
_STORED_MESSAGES = ("message", "custom_message")
_AWAIT_ANSWER = ("user", "toolResult", "custom")


class ForkMessage(Value):
    """A user message before which a fork can start."""

    entry_id: str
    text: str


def fork_messages(session: Session) -> tuple[ForkMessage, ...]:
    """Return the user messages with text, of all branches, in the order of the file."""
    messages = []
    for entry in session.entries():
        if role_of(entry) == "user":
            text = user_text(entry)
            if text:
                messages.append(ForkMessage(entry_id=entry.id, text=text))
    return tuple(messages)


def user_text(entry: Entry) -> str:
    message = message_of(entry)
    return text_of(message.content) if isinstance(message, UserMessage) else ""


def skill_parts(text: str) -> tuple[str, str, str] | None:
    """Return name and text of the skill at the start of a prompt, and the rest of the prompt."""
    start = _SKILL.match(text)
    end = text.find(_SKILL_END, start.end()) if start is not None else -1
    if start is None or end < 0:
        return None
    return start[1], text[start.end() : end], text[end + len(_SKILL_END) :]


def first_prompt(session: Session) -> str:
    """Return the text of the first prompt of a session; "" if there is none."""
    prompts = (entry for entry in session.entries() if role_of(entry) == "user")
    return next((text for entry in prompts if (text := user_text(entry))), "")


def short_title(name: str | None, prompt: str) -> str | None:
    """Return one short line that stands for a session: its name, else its first prompt."""
    text = name or prompt_title(prompt)
    return " ".join(text[:2000].split())[:200] or None


def prompt_title(text: str) -> str:
    """Return a prompt as the user wrote it: the name of a skill instead of its text."""
    skill = skill_parts(text)
    return text if skill is None else f"{skill[0]}: {skill[2].strip()}".rstrip(": ")


def last_assistant_text(session: Session) -> str | None:
    """Return the text of the last answer in the context; skips an empty aborted one."""
    view = session.context
    for entry in reversed(view.entries):
        message = view.message_at(entry) if role_of(entry) == "assistant" else None
        if not isinstance(message, AssistantMessage):
            continue
        if message.stop_reason == "aborted" and not message.content:
            continue
        return text_of(message.content).strip()
    return None


def entries_since(session: Session, since: str | None) -> Sequence[Entry]:
    """Return the entries after `since`, in the order of the file; all if it is None.

    Raises:
        CommandError: the entry does not exist.
    """
    entries = session.entries()
    if since is None:
        return entries
    for index, entry in enumerate(entries):
        if entry.id == since:
            return entries[index + 1 :]
    raise CommandError(f"Entry not found: {since}")


def path_tail(
    session: Session, last: int, before: str | None = None
) -> tuple[Sequence[Entry], bool]:
    """Return the last entries of the active path, oldest first, and whether older ones exist.

    With `before`, the last ones of the path from the root that stand before that entry, on
    whichever branch it is. The cost depends on `last`, not on the length of the session.

    Raises:
        CommandError: the entry `before` does not exist.
    """
    if before is not None and session.get(before) is None:
        raise CommandError(f"Entry not found: {before}")
    walk = _upwards(session, session.leaf if before is None else before)
    if before is not None:
        next(walk)
    tail = list(islice(walk, last))
    tail.reverse()
    return tail, next(walk, None) is not None


def path_after(session: Session, entry_id: str) -> Sequence[Entry] | None:
    """Return the entries of the active path after one entry; None if it is not on that path."""
    if session.get(entry_id) is None:
        return None
    later: list[Entry] = []
    for entry in _upwards(session, session.leaf):
        if entry.id == entry_id:
            later.reverse()
            return later
        later.append(entry)
    return None


def is_interrupted(session: Session) -> bool:
    """Return whether the last stored message of the active path waits for an answer.

    That is a prompt, a tool result, a custom message, or an answer with tool calls that have no
    results; output of shell commands is skipped. The caller knows whether a run is going to answer.
    """
    omitted = session.omitted
    for entry in _upwards(session, session.leaf):
        if entry.type not in _STORED_MESSAGES or entry.id in omitted:
            continue
        role = role_of(entry)
        if role == "assistant":
            return _awaits_tools(message_of(entry))
        if role != "bashExecution":
            return role in _AWAIT_ANSWER
    return False


def _awaits_tools(message: Message | OpaqueMessage) -> bool:
    # No tool result follows: the walk from the leaf would have met it first.
    if not isinstance(message, AssistantMessage) or message.stop_reason != "toolUse":
        return False
    return any(isinstance(part, ToolCall) for part in message.content)


def _upwards(session: Session, entry_id: str | None) -> Iterator[Entry]:
    """Yield an entry, its parent, and so on up to the root."""
    entry = session.get(entry_id) if entry_id is not None else None
    while entry is not None:
        yield entry
        entry = session.parent(entry)


def children(session: Session) -> dict[str | None, list[Entry]]:
    """Return the children of each entry, by time; the children of None are the roots."""
    below: dict[str | None, list[Entry]] = {}
    for entry in session.entries():
        parent = session.parent(entry)
        below.setdefault(parent.id if parent is not None else None, []).append(entry)
    for siblings in below.values():
        siblings.sort(key=lambda entry: entry.timestamp)
    return below


def tree_json(session: Session) -> bytes:
    """Return the trees below all roots as the JSON array of `get_tree`.

    One pass without recursion, since a conversation is as deep as it is long.
    """
    below = children(session)
    pieces: list[bytes] = [b"["]
    waiting = [(iter(below.get(None, ())), b"]")]
    first = True
    while waiting:
        siblings, closing = waiting[-1]
        entry = next(siblings, None)
        if entry is None:
            pieces.append(closing)
            waiting.pop()
            first = False
            continue
        pieces.append(b'%b{"entry":%b,"children":[' % (b"" if first else b",", entry_json(entry)))
        waiting.append((iter(below.get(entry.id, ())), b"]" + _label_json(session, entry) + b"}"))
        first = True
    return b"".join(pieces)


def _label_json(session: Session, entry: Entry) -> bytes:
    label = session.label(entry.id)
    if label is None:
        return b""
    return b',"label":%b,"labelTimestamp":%b' % (dumps(label[0]), dumps(label[1]))
