"""Find out which era a server speaks, and what it says of itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ludolf import __version__
from ludolf.agent.scope import Tasks
from ludolf.mcp.link import HttpFailure
from ludolf.mcp.wire import (
    LEGACY_VERSION,
    MODERN_VERSION,
    Era,
    Json,
    LoginNeeded,
    McpError,
    Refusal,
    ServerFacts,
)

CLIENT_INFO = {"name": "ludolf", "version": __version__}
META = "io.modelcontextprotocol/"
LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY_VERSION)
_MOST_INSTRUCTIONS, _MOST_NAME = 64_000, 200

# Sends a request of the handshake: (method, params) -> result.
SendHandshake = Callable[[str, Json], Awaitable[Json]]


def modern_meta(capabilities: Json) -> dict[str, Any]:
    """Return the members of `_meta` that each modern request carries."""
    return {
        META + "protocolVersion": MODERN_VERSION,
        META + "clientInfo": CLIENT_INFO,
        META + "clientCapabilities": capabilities,
    }


async def negotiate(
    ask: SendHandshake, capabilities: Json, *, protocol: Era | None, silence: float
) -> ServerFacts:
    """Introduce ourselves; after an error, or `silence` seconds, in the modern way too.

    Raises:
        McpError: the server cannot be used.
    """
    if protocol == "legacy":
        return await initialize(ask, capabilities)
    if protocol == "modern":
        return await discover(ask, capabilities)
    tasks = Tasks()
    try:
        first = tasks.start(initialize(ask, capabilities))
        first.add_done_callback(_retrieve)
        await asyncio.wait({first}, timeout=silence)
        if first.done() and not _may_be_modern(first.exception()):
            return first.result()  # type: ignore[no-any-return]  # tasks of a group have any type
        second = tasks.start(discover(ask, capabilities))
        second.add_done_callback(_retrieve)
        waiting = {first, second}
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            good = [task for task in done if task.exception() is None]
            if good:
                return good[0].result()  # type: ignore[no-any-return]
        return first.result()  # type: ignore[no-any-return]  # raises its error
    finally:
        await tasks.close()


def _retrieve(task: "asyncio.Task[ServerFacts]") -> None:
    """Take the error of a task, in case that its owner is cancelled before it does."""
    if not task.cancelled():
        task.exception()


def _may_be_modern(error: BaseException | None) -> bool:
    if isinstance(error, LoginNeeded):
        return False
    return isinstance(error, Refusal) or (isinstance(error, HttpFailure) and error.status < 500)


async def initialize(ask: SendHandshake, capabilities: Json) -> ServerFacts:
    """Start a legacy session."""
    offer = {
        "protocolVersion": LEGACY_VERSION,
        "capabilities": capabilities,
        "clientInfo": CLIENT_INFO,
    }
    try:
        result = await ask("initialize", offer)
    except Refusal as error:
        raise Refusal(error.code, f"The server refused `initialize`: {error}", error.data) from None
    version = result.get("protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise McpError(
            f"The server speaks the unknown protocol version {str(version)[:_MOST_NAME]!r}; "
            f"known versions are {', '.join((*LEGACY_VERSIONS, MODERN_VERSION))}"
        )
    return _facts(result, "legacy", version, result.get("serverInfo"))


async def discover(ask: SendHandshake, capabilities: Json) -> ServerFacts:
    """Ask a modern server for its versions and capabilities."""
    try:
        result = await ask("server/discover", {"_meta": modern_meta(capabilities)})
    except Refusal as error:
        text = f"The server refused `server/discover`: {error}"
        raise Refusal(error.code, text, error.data) from None
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN_VERSION not in versions:
        raise McpError(
            f"The server does not speak protocol version {MODERN_VERSION}; "
            f"it speaks {str(versions)[:_MOST_NAME]}"
        )
    meta = result.get("_meta")
    info = meta.get(META + "serverInfo") if isinstance(meta, dict) else None
    return _facts(result, "modern", MODERN_VERSION, info or result.get("serverInfo"))


def _facts(result: Json, era: Era, version: str, info: Any) -> ServerFacts:
    about: Mapping[str, Any] = info if isinstance(info, dict) else {}
    capabilities = result.get("capabilities")
    return ServerFacts(
        era=era,
        version=version,
        name=_text(about.get("name"), _MOST_NAME),
        server_version=_text(about.get("version"), _MOST_NAME),
        instructions=_text(result.get("instructions"), _MOST_INSTRUCTIONS),
        capabilities=capabilities if isinstance(capabilities, dict) else {},
    )


def _text(value: Any, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""
