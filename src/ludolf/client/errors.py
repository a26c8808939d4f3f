"""Errors of the client."""

from ludolf.base import LudolfError


class ClientError(LudolfError):
    """The root of the errors of the client."""


class NotStarted(ClientError):
    """The program is not there, or may not be run."""


class ProgramEnded(ClientError):
    """The program is gone; the text holds its exit code and the end of its stderr."""

    def __init__(self, code: int, stderr: str, name: str = "ludolf") -> None:
        super().__init__(f"{name} ended with code {code}; stderr: {stderr.strip() or '(empty)'}")
        self.code = code
        self.stderr = stderr


class NoAnswer(ClientError, TimeoutError):
    """A timeout; the text names the last records."""


class Refused(ClientError):
    """A command was answered with `success: false`; `code` is for programs, where there is one."""

    def __init__(self, text: str, code: str | None = None) -> None:
        super().__init__(text)
        self.code = code


class OddAnswer(ClientError):
    """An answer does not have the shape of its command; `ask` gives it as it is."""


class TooMuchUnread(ClientError):
    """More events wait than are kept: read them, by `events` for example."""


class ServerUnreachable(ClientError):
    """No server answers at the address; the text says how to start one."""


class NotAdmitted(ClientError):
    """The server does not accept the token, the host or the origin."""


class ServerClosed(ClientError):
    """The client is closed, or the server gave this client's place to another connection."""


class SessionGone(ClientError):
    """The server does not have the session any more, or the client has detached from it."""


class OutcomeUnknown(ClientError):
    """The server restarted before it replied; the command may have been done."""


class RunInterrupted(ClientError):
    """The server ended during a run; the prompt is stored."""
