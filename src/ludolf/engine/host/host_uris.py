"""Documents of the host: addresses of its schemes, which tools accept as paths.

The host names its schemes; what stands at an address is asked of it each time.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from ludolf.agent.tool import Document, Documents, ToolFailure
from ludolf.base import CommandError
from ludolf.engine.feature import Feature
from ludolf.engine.host.host_tools import HostCall, HostCalls
from ludolf.engine.hub import Hub
from ludolf.engine.toolset import Toolset
from ludolf.protocol.host_events import HostUriCancel, HostUriRequest

GONE = "RPC client disconnected before host URI request completed"
# Addresses of files, which no host provides.
RESERVED = ("file",)
_ADDRESS = re.compile(r"@?(([A-Za-z][A-Za-z0-9+.-]*)://.*)", re.DOTALL)
_INTRO = "Documents that are not files. The tools named with them take their addresses as a path."
_READERS, _WRITERS = ("read",), ("edit", "write")
SECTION = "host_documents"


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """One scheme as the host describes it, in small letters."""

    name: str
    description: str = ""
    writable: bool = False
    immutable: bool = False
    timeout_ms: float | None = None


class HostDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the host gave for an address; after a write nothing of it counts."""

    content: str = ""
    content_type: str = "text/plain"
    notes: tuple[str, ...] = ()
    immutable: bool | None = None


class HostUris(Feature, Documents):
    """The schemes of one host. They stay when the session changes."""

    def __init__(self, hub: Hub, toolset: Toolset) -> None:
        self._hub = hub
        self._toolset = toolset
        self._schemes: dict[str, Scheme] = {}
        self._calls: HostCalls[str, HostDocument] = HostCalls(hub, HostUriCancel, GONE)

    def replace(self, schemes: Sequence[Scheme]) -> list[str]:
        """Take these from now on, and no others; of two with one name the later counts.

        Raises:
            CommandError: a scheme is reserved.
        """
        for scheme in schemes:
            if scheme.name in RESERVED:
                raise CommandError(f"Host URI scheme is reserved: {scheme.name}://")
        self._schemes = {scheme.name: scheme for scheme in schemes}
        self._calls.withdraw(lambda scheme: scheme not in self._schemes)
        self._toolset.documents = self
        return list(self._schemes)

    def result(self, id: str, found: HostDocument) -> None:
        """Finish a request."""
        self._calls.answer(id, found)

    def failed(self, id: str, error: str) -> None:
        """Fail a request; without an error text of the host a default is used."""
        call = self._calls.about(id)
        if call is not None:
            self._calls.fail(id, ToolFailure(error or f"{call.what} failed"))

    def disconnect(self) -> None:
        """Fail all requests: the host is gone."""
        self._calls.disconnect()

    def prompt_sections(self, tools: Iterable[str]) -> dict[str, str]:
        names = tuple(tools)
        lines = [line for scheme in self._schemes.values() if (line := _line(scheme, names))]
        return {SECTION: "\n".join((_INTRO, *lines))} if lines else {}

    # ------------------------------------------------------------ as documents

    def address(self, path: str) -> str | None:
        """Once a host provides documents, every address except that of a file is one of them."""
        found = _ADDRESS.fullmatch(path)
        return None if found is None or found[2].lower() in RESERVED else found[1]

    def check_writable(self, address: str) -> None:
        scheme = self._scheme(address)
        if not scheme.writable:
            raise ToolFailure(f"{scheme.name}:// documents can only be read: {address}")

    async def read(self, address: str) -> Document:
        scheme = self._scheme(address)
        found = await self._ask(scheme, "read", address)
        return Document(
            content=found.content,
            content_type=found.content_type,
            notes=found.notes,
            fixed=scheme.immutable if found.immutable is None else found.immutable,
        )

    async def write(self, address: str, content: str) -> None:
        self.check_writable(address)
        scheme = self._scheme(address)
        await self._ask(scheme, "write", address, content)

    # ------------------------------------------------------------ private

    def _scheme(self, address: str) -> Scheme:
        name = address.partition("://")[0].lower()
        scheme = self._schemes.get(name)
        if scheme is None:
            known = ", ".join(f"{name}://" for name in self._schemes) or "none"
            raise ToolFailure(f"No documents at {name}:// addresses: {address}. Known: {known}.")
        return scheme

    async def _ask(
        self,
        scheme: Scheme,
        operation: Literal["read", "write"],
        address: str,
        content: str | None = None,
    ) -> HostDocument:
        async def send(id: str) -> None:
            await self._hub.emit(
                HostUriRequest(id=id, operation=operation, url=address, content=content)
            )

        what = f"Host URI {operation} for {address}"
        return await self._calls.run(HostCall(what, scheme.name, scheme.timeout_ms), send)


def _line(scheme: Scheme, tools: Collection[str]) -> str | None:
    possible = (*_READERS, *(_WRITERS if scheme.writable else ()))
    usable = [name for name in possible if name in tools]
    if not usable:
        return None
    about = f": {scheme.description}" if scheme.description else ""
    return f"- {scheme.name}:// ({', '.join(usable)}){about}"
