"""Ludolf: a headless coding agent that hosts embed over stdin and stdout, or in Python."""

# Type checkers take it for true. The module typing would delay the start.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ludolf.fleet.api import batch as batch
    from ludolf.sdk import AgentSession as AgentSession
    from ludolf.sdk import Answer as Answer
    from ludolf.sdk import create_session as create_session
    from ludolf.sdk import sync as sync

__version__ = "1.0.0"
_SDK = ("AgentSession", "Answer", "create_session", "sync")


def __getattr__(name: str) -> object:
    # The command line imports this package too, and must not pay for the SDK.
    if name == "batch":
        from ludolf.fleet.api import batch

        return batch
    if name not in _SDK:
        raise AttributeError(f"module 'ludolf' has no attribute {name!r}")
    from ludolf import sdk

    return getattr(sdk, name)
