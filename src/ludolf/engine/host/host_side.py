"""The tools and documents that one host provides, while it is there."""

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ludolf.engine.bundles import Bundles
from ludolf.engine.host.host_link import LEFT, HostLink
from ludolf.engine.host.host_tools import HostTools

if TYPE_CHECKING:
    from ludolf.engine.host.host_uris import HostDocuments, HostUris

WAIT_SECONDS = 30.0


class HostSide:
    """One host of an engine.

    A host may leave and come back: its calls wait for it for `wait_seconds`. `registry` returns
    the documents of all hosts.
    """

    def __init__(
        self,
        bundles: Bundles,
        link: HostLink,
        registry: "Callable[[], HostDocuments]",
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._bundles = bundles
        self._link = link
        self._registry = registry
        self._wait_seconds = wait_seconds
        self._is_away = False
        self._timer: asyncio.TimerHandle | None = None
        self.tools = HostTools(link, bundles.toolset)

    @cached_property
    def documents(self) -> "HostUris":
        """Return the documents of the host, made on first use."""
        return self._registry().of(self._link)

    @property
    def is_used(self) -> bool:
        """Return whether the host provides tools or documents, or has calls to answer."""
        return self.tools.is_used or self._has_documents

    def leave(self) -> None:
        """Hold open and later calls: the host is away, and may come back."""
        if self._is_away:
            return
        self._is_away = True
        self.tools.calls.pause()
        if self._has_documents:
            self.documents.calls.pause()
        self._timer = asyncio.get_running_loop().call_later(self._wait_seconds, self._give_up)

    def come_back(self) -> None:
        """Send open calls again under their ids; tools that were removed are not restored."""
        if not self._is_away:
            return
        self._is_away = False
        self._stop_timer()
        self.tools.calls.resume()
        if self._has_documents:
            self.documents.calls.resume()

    def close(self) -> None:
        """Fail all calls and remove the tools and documents: the host does not come back."""
        self._give_up()
        if self._has_documents:
            self._registry().forget(self.documents)

    # ------------------------------------------------------------ private

    @property
    def _has_documents(self) -> bool:
        return "documents" in vars(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._stop_timer()
        self.tools.remove(LEFT)
        if self._has_documents:
            self.documents.remove(LEFT)
            self._bundles.resources.invalidate_prompt()
