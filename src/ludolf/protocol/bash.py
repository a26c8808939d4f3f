"""The result of a shell command that a host ran."""

from ludolf.agent.tool import LeftBehind
from ludolf.base import Value


class BashResult(Value, kw_only=True):
    output: str
    exit_code: int | None = None
    cancelled: bool
    truncated: bool
    full_output_path: str | None = None
    # Of all that was said, where `output` is only its end.
    total_lines: int | None = None
    total_bytes: int | None = None
    # What killed the command, such as SIGKILL; and what it left running until the program ends.
    signal: str | None = None
    background: tuple[LeftBehind, ...] = ()
