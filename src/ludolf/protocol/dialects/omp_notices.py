"""Events that oh-my-pi does not have, as its `notice` frames."""

from collections.abc import Callable
from typing import Any

from ludolf.protocol.dialects.dialect import line
from ludolf.protocol.events import ContextFilesUsed, Warned
from ludolf.protocol.replies import Frame


def _warned(event: Warned) -> Frame:
    return _notice("warning", event.message)


def _instructed(event: ContextFilesUsed) -> Frame:
    return _notice("info", f"Instructions from {', '.join(event.paths) or 'no file'}")


def _notice(level: str, text: str) -> Frame:
    return line({"type": "notice", "level": level, "message": text, "source": "ludolf"})


NOTICES: dict[type, Callable[[Any], Frame]] = {Warned: _warned, ContextFilesUsed: _instructed}
