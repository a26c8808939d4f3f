"""Answer commands that only read the session while script extensions are still loading."""

from ludolf.protocol.framing import BadFrame
from ludolf.rpc.desk import Desk, read_line
from ludolf.rpc.stdio import Stdio

# Commands whose answers do not depend on what extensions register.
EARLY = frozenset(
    (
        "get_state",
        "get_messages",
        "get_messages_page",
        "get_entries",
        "get_tree",
        "get_session_stats",
        "get_fork_messages",
        "get_branch_messages",
        "get_last_assistant_text",
        "get_available_thinking_levels",
    )
)
MOST_KEPT_BYTES = 32 << 20


class EarlyCommands:
    """Takes lines until the extensions are loaded.

    The first command that needs the extensions waits for them, and so do all commands after it, so
    that replies keep their order. Answers to dialogs never wait: extensions may need them to load.
    """

    def __init__(self, desk: Desk, stdio: Stdio) -> None:
        self._desk = desk
        self._stdio = stdio
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    def feed(self, lines: list[bytes]) -> None:
        for line in lines:
            name = _command_name(line)
            if name == "extension_ui_response" or (name in EARLY and not self._kept):
                self._desk.feed([line])
            else:
                self._keep(line)

    def release(self) -> None:
        """Handle the commands that have waited; more than that are read again."""
        kept, self._kept = self._kept, []
        self._desk.feed(kept)
        self._stdio.resume_input()

    def _keep(self, line: bytes) -> None:
        self._kept.append(line)
        self._kept_bytes += len(line)
        if self._kept_bytes > MOST_KEPT_BYTES:
            self._stdio.pause_input()


def _command_name(line: bytes) -> str | None:
    try:
        return read_line(line)[0].type
    except BadFrame:
        return None
