"""The tools and documents that one host provides, while it is there."""

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ludolf.engine.bundles import Bundles
from ludolf.engine.host.host_link import LEFT, HostLink

if TYPE_CHECKING:
    from ludolf.engine.host.host_tools import HostTools
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
        self._is_gone = False
        self._timer: asyncio.TimerHandle | None = None

    @cached_property
    def tools(self) -> "HostTools":
        """Return the tools of the host, made on first use."""
        from ludolf.engine.host.host_tools import HostTools

        tools = HostTools(self._link, self._bundles.toolset)
        if self._is_away:
            tools.calls.pause()
        if self._is_gone:
            tools.disconnect()
        return tools

    @cached_property
    def documents(self) -> "HostUris":
        """Return the documents of the host, made on first use."""
        return self._registry().of(self._link)

    @property
    def is_used(self) -> bool:
        """Return whether the host provides tools or documents, or has calls to answer."""
        return self._has_documents or any(each.is_used for each in self._made_tools())

    def disconnect(self) -> None:
        """Fail all calls of tools, also later ones: the host is gone."""
        self._is_gone = True
        for tools in self._made_tools():
            tools.disconnect()

    def leave(self) -> None:
        """Hold open and later calls: the host is away, and may come back."""
        if self._is_away:
            return
        self._is_away = True
        for each in self._made():
            each.calls.pause()
        self._timer = asyncio.get_running_loop().call_later(self._wait_seconds, self._give_up)

    def come_back(self) -> None:
        """Send open calls again under their ids; tools that were removed are not restored."""
        if not self._is_away:
            return
        self._is_away = False
        self._stop_timer()
        for each in self._made():
            each.calls.resume()

    def close(self) -> None:
        """Fail all calls and remove the tools and documents: the host does not come back."""
        self._give_up()
        if self._has_documents:
            self._registry().forget(self.documents)

    # ------------------------------------------------------------ private

    @property
    def _has_documents(self) -> bool:
        return "documents" in vars(self)

    def _made_tools(self) -> "tuple[HostTools, ...]":
        return (self.tools,) if "tools" in vars(self) else ()

    def _made(self) -> "tuple[HostTools | HostUris, ...]":
        return (*self._made_tools(), *((self.documents,) if self._has_documents else ()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._stop_timer()
        for each in self._made():
            each.remove(LEFT)
        if self._has_documents:
            self._bundles.resources.invalidate_prompt()
