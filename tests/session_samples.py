"""Messages for session files, and what tests read back from them."""

import json
from pathlib import Path
from typing import Any

from ludolf.ai.messages import AssistantMessage, Text, Usage, UserMessage, text_of
from ludolf.session.entries import MessageBody
from ludolf.session.tree import Session


def no_warning(text: str) -> None:
    raise AssertionError(text)


def user(text: str) -> MessageBody:
    return MessageBody(message=UserMessage(content=(Text(text=text),), timestamp=1))


def answer(text: str) -> MessageBody:
    return MessageBody(
        message=AssistantMessage(
            content=(Text(text=text),),
            api="anthropic-messages",
            provider="mock",
            model="large",
            usage=Usage(input=100, output=20, total_tokens=120),
            stop_reason="stop",
            timestamp=2,
        )
    )


def texts(session: Session) -> list[str]:
    """The texts of the conversation, which must hold only prompts and answers."""
    found = []
    for message in session.context.messages():
        assert isinstance(message, UserMessage | AssistantMessage)
        found.append(text_of(message.content))
    return found


def stored(path: Path) -> list[dict[str, Any]]:
    """All lines of a session file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
