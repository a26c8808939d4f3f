"""Connect a socket to a host that may have several addresses (RFC 8305)."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

# Family, type, protocol, canonical name and address, as `getaddrinfo` returns them.
AddressInfo = tuple[int, int, int, str, Any]
# Time after which the next address is tried too.
NEXT_ADDRESS_SECONDS = 0.25


async def connected_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to one of the addresses of a host.

    Raises:
        OSError: the name is unknown, or no address can be reached.
    """
    infos = await _addresses(host, port)
    if len(infos) > 1:
        return await first_connected(infos, NEXT_ADDRESS_SECONDS)
    return await _connected(infos[0])


async def first_connected(infos: Sequence[AddressInfo], delay: float) -> socket.socket:
    """Try addresses in turn; each starts after the failure of the one before, or after `delay`.

    Raises:
        OSError: none of them can be reached.
    """
    race = _Race()
    try:
        async with asyncio.TaskGroup() as group:
            attempts = []
            for info in infos:
                attempts.append(group.create_task(race.run(info)))
                with suppress(TimeoutError):
                    await race.next_result(delay)
                if race.sockets:
                    break
            while not race.sockets and len(race.errors) < len(infos):
                await race.next_result(None)
            for attempt in attempts:
                attempt.cancel()
    except BaseException:
        race.close()
        raise
    if not race.sockets:
        raise _combined(race.errors)
    winner = race.sockets.pop(0)
    race.close()
    return winner


class _Race:
    """What the attempts to connect have come to."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.errors: list[OSError] = []
        self._changed = asyncio.Event()

    async def run(self, info: AddressInfo) -> None:
        try:
            self.sockets.append(await _connected(info))
        except OSError as error:
            self.errors.append(error)
        self._changed.set()

    async def next_result(self, seconds: float | None) -> None:
        self._changed.clear()
        async with asyncio.timeout(seconds):
            await self._changed.wait()

    def close(self) -> None:
        for each in self.sockets:
            each.close()


async def _addresses(host: str, port: int) -> Sequence[AddressInfo]:
    # As bytes, the name is not encoded again, which would import tables of Unicode.
    name, kind = host.encode(), socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(name, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return _interleaved(await loop.getaddrinfo(name, port, type=kind))


def _interleaved(infos: Sequence[AddressInfo]) -> Sequence[AddressInfo]:
    """Alternate between the families of addresses, since often all of one are unreachable."""
    families: dict[int, list[AddressInfo]] = {}
    for info in infos:
        families.setdefault(info[0], []).append(info)
    rows = zip_longest(*families.values())
    return [info for row in rows for info in row if info is not None]


async def _connected(info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _combined(errors: list[OSError]) -> OSError:
    numbers = {error.errno for error in errors}
    text = ", ".join(dict.fromkeys(error.strerror or str(error) for error in errors))
    return OSError(numbers.pop() if len(numbers) == 1 else None, text)
