"""Access tokens of cloud identities: fetched in a thread, cached, renewed before expiry."""

import asyncio
import os
import time
from collections.abc import Callable, Hashable, Mapping

import msgspec

from ludolf.ai.errors import ProviderError

EARLY_SECONDS = 300.0


class Token(msgspec.Struct, frozen=True):
    """A token; `expires` is in seconds of the wall clock."""

    text: str
    expires: float


def keep_quiet(library: str) -> None:
    """Keep a library from logging to stderr what its exception says, unless logging is set up."""
    import logging

    logger = logging.getLogger(library)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def is_of_process(environ: Mapping[str, str]) -> bool:
    """Return whether this is the environment that the libraries of cloud providers read."""
    return environ is os.environ


class TokenCache:
    """The tokens of one provider, one for each identity."""

    def __init__(self) -> None:
        self._cached: dict[Hashable, Token] = {}
        self._fetching = asyncio.Lock()

    async def get(self, identity: Hashable, fetch: Callable[[], Token]) -> str:
        """Return the identity's token; call `fetch`, which may block, only when needed.

        Raises:
            ProviderError: no token is cached, and `fetch` returned none.
        """
        async with self._fetching:
            token = self._cached.get(identity)
            left = token.expires - time.time() if token else 0.0
            if token is None or left < EARLY_SECONDS:
                token = await self._renew(identity, fetch, token if left > 0 else None)
            return token.text

    async def _renew(
        self, identity: Hashable, fetch: Callable[[], Token], still_good: Token | None
    ) -> Token:
        try:
            token = await asyncio.to_thread(fetch)
        except ProviderError:
            if still_good is None:
                raise
            return still_good
        self._cached[identity] = token
        return token
