"""What commands answer that lend documents, take the work elsewhere, or hurry the model."""

from ludolf.ai.messages import Usage
from ludolf.base import Value


class HandedOver(Value, kw_only=True):
    """The new session and the document that it begins with."""

    cancelled: bool
    document: str | None = None
    session_id: str | None = None
    session_file: str | None = None
    usage: Usage | None = None


class OpenedSession(Value):
    """`resumed`: the folder held a conversation."""

    cancelled: bool
    resumed: bool
    session_id: str
    session_file: str


class FastMode(Value):
    """`active`: wanted, and the current model has it."""

    enabled: bool
    active: bool


class HostUriSchemes(Value):
    schemes: tuple[str, ...]
