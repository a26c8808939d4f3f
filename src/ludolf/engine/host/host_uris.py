"""Documents of the host: addresses of its schemes, which tools accept as paths.

The host names its schemes; what stands at an address is asked of it each time.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from ludolf.agent.tool import Document, Documents, ToolFailure
from ludolf.base import CommandError
from ludolf.base.patterns import lazy_pattern
from ludolf.engine.feature import Feature
from ludolf.engine.host.host_calls import HostCall, HostCalls, new_call_id
from ludolf.engine.host.host_link import HostLink
from ludolf.engine.toolset import Toolset
from ludolf.protocol.host_events import HostUriCancel, HostUriRequest

GONE = "RPC client disconnected before host URI request completed"
# Addresses of files, which no host provides.
RESERVED = ("file",)
_ADDRESS = lazy_pattern(r"@?(([A-Za-z][A-Za-z0-9+.-]*)://.*)", re.DOTALL)
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


class HostUris:
    """The schemes of one host. They stay when the session changes."""

    def __init__(self, link: HostLink, documents: "HostDocuments") -> None:
        self.title = link.title
        self._documents = documents
        self.calls: HostCalls[str, HostDocument] = HostCalls(link, HostUriCancel)

    def replace(self, schemes: Sequence[Scheme]) -> list[str]:
        """Take these from now on, and no others; of two with one name the later counts.

        Raises:
            CommandError: a scheme is reserved, or belongs to another host.
        """
        names = self._documents.replace(self, schemes)
        self.calls.withdraw(lambda scheme: scheme not in names)
        return names

    def result(self, id: str, found: HostDocument) -> None:
        """Finish a request."""
        self.calls.answer(id, found)

    def failed(self, id: str, error: str) -> None:
        """Fail a request; without an error text of the host a default is used."""
        call = self.calls.about(id)
        if call is not None:
            self.calls.fail(id, ToolFailure(error or f"{call.what} failed"))

    def disconnect(self) -> None:
        """Fail all requests: the host is gone."""
        self.calls.end(GONE)

    def remove(self, gone: str) -> None:
        """Remove the schemes; open and later requests fail with this text."""
        self.calls.end(gone)
        self._documents.replace(self, ())

    async def request(
        self,
        scheme: Scheme,
        operation: Literal["read", "write"],
        address: str,
        content: str | None = None,
    ) -> HostDocument:
        """Ask the host to read or write a document.

        Raises:
            ToolFailure: it failed; the text is for the model.
        """
        asked = HostUriRequest(id=new_call_id(), operation=operation, url=address, content=content)
        what = f"Host URI {operation} for {address}"
        return await self.calls.run(HostCall(what, scheme.name, scheme.timeout_ms, asked))


class HostDocuments(Feature, Documents):
    """The documents of all hosts of an engine; each scheme belongs to one host."""

    def __init__(self, toolset: Toolset) -> None:
        self._toolset = toolset
        self._hosts: list[HostUris] = []
        self._schemes: dict[str, tuple[Scheme, HostUris]] = {}

    def of(self, link: HostLink) -> HostUris:
        """Return the documents of another host; it has none yet."""
        host = HostUris(link, self)
        self._hosts.append(host)
        return host

    def forget(self, host: HostUris) -> None:
        """Remove a host."""
        self._hosts.remove(host)

    def replace(self, host: HostUris, schemes: Sequence[Scheme]) -> list[str]:
        """Replace the schemes of a host; returns their names.

        Raises:
            CommandError: a scheme is reserved, or belongs to another host.
        """
        others = {name: each for name, each in self._schemes.items() if each[1] is not host}
        for scheme in schemes:
            if scheme.name in RESERVED:
                raise CommandError(f"Host URI scheme is reserved: {scheme.name}://")
            if scheme.name in others:
                owner = others[scheme.name][1].title
                raise CommandError(f"Host URI scheme belongs to {owner}: {scheme.name}://")
        own = {scheme.name: (scheme, host) for scheme in schemes}
        self._schemes = {**others, **own}
        self._toolset.documents = self
        return list(own)

    def disconnect(self) -> None:
        for host in self._hosts:
            host.disconnect()

    def prompt_sections(self, tools: Iterable[str]) -> dict[str, str]:
        names = tuple(tools)
        schemes = (scheme for scheme, _ in self._schemes.values())
        lines = [line for scheme in schemes if (line := _line(scheme, names))]
        return {SECTION: "\n".join((_INTRO, *lines))} if lines else {}

    # ------------------------------------------------------------ as documents

    def address(self, path: str) -> str | None:
        """Once a host provides documents, every address except that of a file is one of them."""
        found = _ADDRESS.fullmatch(path)
        return None if found is None or found[2].lower() in RESERVED else found[1]

    def check_writable(self, address: str) -> None:
        scheme, _ = self._find(address)
        if not scheme.writable:
            raise ToolFailure(f"{scheme.name}:// documents can only be read: {address}")

    async def read(self, address: str) -> Document:
        scheme, host = self._find(address)
        found = await host.request(scheme, "read", address)
        return Document(
            content=found.content,
            content_type=found.content_type,
            notes=found.notes,
            fixed=scheme.immutable if found.immutable is None else found.immutable,
        )

    async def write(self, address: str, content: str) -> None:
        self.check_writable(address)
        scheme, host = self._find(address)
        await host.request(scheme, "write", address, content)

    # ------------------------------------------------------------ private

    def _find(self, address: str) -> tuple[Scheme, HostUris]:
        name = address.partition("://")[0].lower()
        found = self._schemes.get(name)
        if found is None:
            known = ", ".join(f"{name}://" for name in self._schemes) or "none"
            raise ToolFailure(f"No documents at {name}:// addresses: {address}. Known: {known}.")
        return found


def _line(scheme: Scheme, tools: Collection[str]) -> str | None:
    possible = (*_READERS, *(_WRITERS if scheme.writable else ()))
    usable = [name for name in possible if name in tools]
    if not usable:
        return None
    about = f": {scheme.description}" if scheme.description else ""
    return f"- {scheme.name}:// ({', '.join(usable)}){about}"
