"""Output of commands: the new part of each update, and terminals that show the output."""

import re
from typing import Any

from ludolf.agent.tool import TERMINAL_ID
from ludolf.protocol.acp.tool_view import text_content

_REMEMBERED = 256
_NO_OUTPUT = "(no output)"
_EXIT_CODE = r"Command exited with code (-?\d+)\Z"
_SIGNAL = r"\[Killed by (SIG[A-Z0-9+]+)\]\n\nCommand exited with code -?\d+\Z"


class SentOutput:
    """The output of one command that the client has received.

    An update carries the output so far or, if that is too long, its last lines without the newline
    at the end. `details.truncation.totalBytes` is then the size of the whole.
    """

    def __init__(self) -> None:
        self._sent = 0
        self._end = b""
        self._shown = ""

    def new_part(self, text: str, details: Any) -> str:
        """Return the part of an update that the client has not received."""
        data = text.encode("utf-8", "replace")
        self._shown = text
        cut = details.get("truncation") if isinstance(details, dict) else None
        total = cut.get("totalBytes") if isinstance(cut, dict) else None
        if not isinstance(total, int):
            return self._take(data, 0)
        starts = [total - len(data) - newline for newline in (1, 0)]
        for start in starts:
            if self._continues(data, start):
                return self._take(data, start)
        return self._take(data, max(starts[0], self._sent))

    def last_part(self, text: str) -> str:
        """Return the part of the result's text that the client has not received."""
        if text.startswith(self._shown):
            rest = text[len(self._shown) :]
            is_note = not self._shown and text.startswith(_NO_OUTPUT)
            return text[len(_NO_OUTPUT) :].lstrip("\n") if is_note else rest
        end = self._end.decode("utf-8", "ignore")
        at = text.find(end) if end else -1
        return text[at + len(end) :] if at >= 0 else f"\n{text}"

    def _continues(self, data: bytes, start: int) -> bool:
        """Return whether the sent output ends inside the data, which begins at this position."""
        place = self._sent - start
        if not 0 <= place <= len(data):
            return False
        known = self._end[-place:] if place else b""
        return data[place - len(known) : place] == known

    def _take(self, data: bytes, start: int) -> str:
        gap = start - self._sent
        new = data[max(0, -gap) :]
        self._sent = start + len(data)
        self._end = (self._end + new)[-_REMEMBERED:]
        text = new.decode("utf-8", "replace")
        return f"\n[{gap:,} bytes of output are not shown]\n{text}" if gap > 0 and new else text


def exit_status(text: str, *, is_error: bool) -> dict[str, Any]:
    """Return exit code and signal of a command from the text of its result."""
    code, signal = re.search(_EXIT_CODE, text), re.search(_SIGNAL, text)
    if not is_error:
        return {"exit_code": 0, "signal": None}
    return {
        "exit_code": int(code[1]) if code and not signal else None,
        "signal": signal[1] if signal else None,
    }


def terminal_of(tool_name: str, details: Any) -> str:
    """Return the id of the client's terminal in which a command runs; empty if in none."""
    if tool_name != "bash" or not isinstance(details, dict):
        return ""
    found = details.get(TERMINAL_ID)
    return found if isinstance(found, str) else ""


def terminal_content(terminal_id: str) -> dict[str, Any]:
    return {"type": "terminal", "terminalId": terminal_id}


def ended_terminal(terminal_id: str, text: str, *, is_error: bool) -> dict[str, Any]:
    """Return the content of a call whose terminal has the output; it lacks the cause of a failure.

    The content of a call that succeeded stays as it is.
    """
    if not is_error:
        return {}
    cause = text.rpartition("\n\n")[2]
    return {"content": [terminal_content(terminal_id), text_content(cause)]}
