"""A client of `ludolf serve`, by address: many sessions on one connection, which is kept."""

import os
import secrets
from typing import Any, Self, TypeVar, Unpack

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import ConfigError
from ludolf.base.addresses import Address, parse_address
from ludolf.client.connection import READY_SECONDS
from ludolf.client.errors import ClientError, OddAnswer, SessionGone
from ludolf.client.events import Record
from ludolf.client.exchange import accepted, as_record
from ludolf.client.link import LinkOptions, ServerLink
from ludolf.client.remote_options import AttachParams, OpenParams, RemoteOptions, check_options
from ludolf.client.remote_session import RemoteSession
from ludolf.protocol.server import (
    AttachedClient,
    AttachedClients,
    SessionSummaries,
    SessionSummary,
)

T = TypeVar("T")


class RemoteClient:
    """Connects to a server; use it with `async with`. `RemoteOptions` lists its options.

    A cut connection is opened again: sessions continue where they were, and commands without a
    reply are sent again, which the server does at most once.
    """

    def __init__(self, address: str | Address, **options: Unpack[RemoteOptions]) -> None:
        """Raises:
        ClientError: the address or an option is invalid.
        """
        check_options(options)
        try:
            parsed = parse_address(address) if isinstance(address, str) else address
        except ConfigError as error:
            raise ClientError(str(error)) from error
        self._options = options
        fields = {name: options[name] for name in LinkOptions.__struct_fields__ if name in options}  # type: ignore[literal-required]
        fields.setdefault("client", f"python-{secrets.token_hex(8)}")
        self._link = ServerLink(parsed, LinkOptions(**fields))
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Connect to the server.

        Raises:
            ServerUnreachable: no server answers.
            NotAdmitted: the server does not accept the token.
        """
        await self._link.open()

    async def aclose(self) -> None:
        """Detach and close the connection; the sessions continue on the server."""
        await self._tasks.close()
        await self._link.close()

    @property
    def address(self) -> Address:
        return self._link.address

    @property
    def boot(self) -> str:
        """The id of the server's process; it changes when the server restarts."""
        return self._link.boot

    # ------------------------------------------------------------ sessions

    async def open(self, **params: Unpack[OpenParams]) -> RemoteSession:
        """Open a session and attach to it.

        Raises:
            Refused: the session or the folder is not there, or a limit is reached.
        """
        return await self._join("open", {**params, **self._folder(params)})

    async def attach(self, session: str, **params: Unpack[AttachParams]) -> RemoteSession:
        """Attach to a session by its id.

        Raises:
            Refused: the session is not there, or a limit is reached.
        """
        return await self._join("attach", {"session": session, **params})

    async def list(self, *, all: bool = False) -> tuple[SessionSummary, ...]:
        """The loaded sessions; `all`: the stored ones too."""
        found = _as(SessionSummaries, "list", await self._ask("list", all=all))
        return found.sessions

    async def clients(self, session: RemoteSession | str) -> tuple[AttachedClient, ...]:
        """The clients that are attached to a session."""
        data = await self._ask("clients", session=_id_of(session))
        return _as(AttachedClients, "clients", data).clients

    async def close(self, session: RemoteSession | str) -> None:
        """Stop the run of a session, store it and unload it."""
        await self._ask("close", session=_id_of(session))
        member = self._link.members.pop(_id_of(session), None)
        if member is not None:
            member.lose(SessionGone(f"Session {member.id} was closed."))

    # ------------------------------------------------------------ the server

    async def ping(self) -> None:
        """Return when the server has answered."""
        await self._ask("ping")

    async def shutdown(self, *, drain: float | None = None) -> None:
        """End the server; runs have `drain` seconds to end. The client does not connect again."""
        self._link.expect_end()
        await self._ask("shutdown", **({} if drain is None else {"drain": drain}))

    # ------------------------------------------------------------ private

    def _folder(self, params: OpenParams) -> dict[str, str]:
        if "cwd" in params:
            return {"cwd": os.path.abspath(params["cwd"])}
        return {"cwd": os.getcwd()} if self.address.kind in ("unix", "fd") else {}

    async def _ask(self, command: str, **params: Any) -> Any:
        return accepted(command, await self._link.ask(command, params))

    async def _join(self, command: str, params: dict[str, Any]) -> RemoteSession:
        session = RemoteSession(self._link, self._tasks, self._options)

        def join(record: Record) -> None:
            # Before any later frame is read, so that none of this session is missed.
            session.join(as_record(record.get("data")))
            self._link.members[session.id] = session

        reply = await self._link.ask(command, params, join)
        accepted(command, reply)
        if reply.get("repeated"):
            await self._attach_again(session)
        for name, given in session.registrations():
            await session.ask(name, READY_SECONDS, **given)
        return session

    async def _attach_again(self, session: RemoteSession) -> None:
        """Attach where the lost reply was: only the connection that was cut was attached."""
        params = {"session": session.id, **session.position(exact=False)}
        await self._link.ask(
            "attach", params, lambda record: session.rejoin(as_record(record.get("data")))
        )


def _id_of(session: RemoteSession | str) -> str:
    return session if isinstance(session, str) else session.id


def _as(kind: type[T], command: str, data: Any) -> T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise OddAnswer(f"{command}: {error}") from error
