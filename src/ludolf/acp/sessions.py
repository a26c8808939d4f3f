"""The sessions of a client: open, continue, copy, list, close and delete them."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from ludolf.acp.link import ClientLink
from ludolf.acp.requests import RequestFault, no_session
from ludolf.acp.session import AcpSession, StartWarnings
from ludolf.agent.scope import Tasks
from ludolf.base import iso_time
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.build import build, warn_on_stderr
from ludolf.engine.bundles import Bundles
from ludolf.engine.start import home_of, session_place
from ludolf.protocol.acp.content import session_title
from ludolf.protocol.acp.structs import (
    INTERNAL_ERROR,
    InvalidParams,
    ListedSession,
    ListSessionsParams,
    ListSessionsResult,
    NewSessionParams,
    OpenSessionParams,
)
from ludolf.session.finder import SessionFolder, SessionRecord, find_anywhere, session_page
from ludolf.session.reader import read_header
from ludolf.session.store import lock_owner

TRUST = "ludolf/trust"
PAGE_SIZE = 50
# Every client has buttons for questions, so calls that write are asked about.
DEFAULT_APPROVAL = "on-write"


class ClientSessions:
    """The open sessions by id, and the way to those that are stored."""

    def __init__(
        self,
        options: Options,
        link: ClientLink,
        prepare: Callable[[Bundles], None] | None = None,
    ) -> None:
        # Which session to open is up to the client.
        self._options = structs.replace(
            options,
            session=None,
            session_id=None,
            continue_last=False,
            fork=None,
            name=None,
            default_approval=DEFAULT_APPROVAL,
        )
        self.link = link
        self._prepare = prepare
        self._open: dict[str, AcpSession] = {}
        self._tasks = Tasks()

    def get(self, session_id: str) -> AcpSession:
        """Raises:
        RequestFault: it is not open.
        """
        session = self._open.get(session_id)
        if session is None:
            raise no_session(session_id)
        return session

    # ------------------------------------------------------------ open

    async def new(self, params: NewSessionParams) -> AcpSession:
        """Raises:
        InvalidParams: the folder cannot be used.
        ConfigError: the configuration cannot be used.
        """
        options = self._options_for(params)
        return await self._start(options, params)

    async def resume(self, params: OpenSessionParams, *, replays: bool) -> AcpSession:
        """Continue a session; one that is open already stays as it is.

        Raises:
            InvalidParams: the folder cannot be used, or is not that of the session.
            RequestFault: there is no such session, or another program uses it.
        """
        session = self._open.get(params.session_id)
        if session is None:
            options = self._options_for(params)
            path = self._file_of(params.session_id, options.cwd)
            _check_folder(path, options.cwd)
            session = await self._start(structs.replace(options, session=str(path)), params)
        else:
            session.use_servers(params.mcp_servers)
        if replays:
            await session.replay()
        return session

    async def fork(self, params: OpenSessionParams) -> AcpSession:
        """Open a copy of a session.

        Raises:
            InvalidParams: the folder cannot be used.
            RequestFault: there is no such session.
        """
        options = self._options_for(params)
        source = self._open.get(params.session_id)
        if source is not None:
            source.engine.session.flush()
        path = self._file_of(params.session_id, options.cwd)
        return await self._start(structs.replace(options, fork=str(path)), params)

    async def _start(
        self, options: Options, params: NewSessionParams | OpenSessionParams
    ) -> AcpSession:
        warnings = StartWarnings()
        engine = build(options, warnings, self._prepare)
        try:
            refusal = engine.session.refusal() if options.session is not None else None
            if refusal is not None:
                raise RequestFault(INTERNAL_ERROR, _with_owner(refusal, engine.session.path))
            session = AcpSession(engine, self.link, warnings)
            await session.open(params.mcp_servers)
        except BaseException:
            await engine.close()
            raise
        self._open[session.id] = session
        return session

    def _options_for(self, params: NewSessionParams | OpenSessionParams) -> Options:
        cwd = _checked_folder(params.cwd)
        is_trusted = True if params.has_flag(TRUST) else self._options.approve
        return structs.replace(self._options, cwd=cwd, approve=is_trusted)

    # ------------------------------------------------------------ close

    async def close(self, session_id: str) -> None:
        """Raises:
        RequestFault: it is not open.
        """
        session = self.get(session_id)
        del self._open[session_id]
        await session.close()

    async def close_all(self) -> None:
        """Close every session at the same time."""
        open_now, self._open = tuple(self._open.values()), {}
        for session in open_now:
            self._tasks.start(session.close())
        await self._tasks.ended()

    async def delete(self, session_id: str) -> None:
        """Move the file of a session to the trash; one that is gone is fine.

        Raises:
            CommandError: another program uses it, or it cannot be moved.
        """
        from ludolf.session.library import trash

        if session_id in self._open:
            await self.close(session_id)
        place = self._place(self._options.cwd)
        path = find_anywhere(place, session_id)
        if path is not None:
            trash(place, str(path), warn_on_stderr)

    # ------------------------------------------------------------ list

    async def list(self, params: ListSessionsParams) -> ListSessionsResult:
        """Raises:
        InvalidParams: the folder or the cursor is not valid.
        """
        if params.cwd is not None and not os.path.isabs(params.cwd):
            raise InvalidParams("session/list: cwd: expected an absolute path")
        place = self._place(Path(params.cwd) if params.cwd else self._options.cwd)
        page = await asyncio.to_thread(
            session_page, place, PAGE_SIZE, params.cursor, everywhere=params.cwd is None
        )
        if page is None:
            raise InvalidParams("session/list: cursor: it is not one of this program")
        return ListSessionsResult(
            sessions=tuple(map(_listed, page.records)), next_cursor=page.next_cursor
        )

    def _place(self, cwd: Path) -> SessionFolder:
        options = structs.replace(self._options, cwd=cwd)
        home = home_of(options)
        return session_place(options, home, SettingsFiles(home).current)

    def _file_of(self, session_id: str, cwd: Path) -> Path:
        path = find_anywhere(self._place(cwd), session_id)
        if path is None:
            raise no_session(session_id)
        return path


def _listed(record: SessionRecord) -> ListedSession:
    return ListedSession(
        session_id=record.id,
        cwd=record.cwd,
        title=session_title(record.title),
        updated_at=iso_time(record.modified),
        meta={"messageCount": record.message_count},
    )


def _with_owner(refusal: str, path: Path | None) -> str:
    """Add which process uses the session."""
    owner = lock_owner(path) if path is not None else None
    return refusal if owner is None else f"{refusal} The other process has the id {owner}."


def _checked_folder(cwd: str) -> Path:
    """Raises:
    InvalidParams: it is not an absolute path of a folder.
    """
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise InvalidParams(f"cwd: expected an absolute path, got {cwd[:200]!r}")
    try:
        is_folder = os.path.isdir(cwd)
    except (OSError, ValueError):
        is_folder = False
    if not is_folder:
        raise InvalidParams(f"cwd: there is no folder {cwd[:200]!r}")
    return Path(os.path.normpath(cwd))


def _check_folder(path: Path, cwd: Path) -> None:
    """Raises:
    InvalidParams: the session belongs to another folder.
    """
    header = read_header(path)
    own = header.cwd if header is not None else ""
    if own and os.path.realpath(own) != os.path.realpath(cwd):
        raise InvalidParams(f"cwd: the session belongs to {own}, not to {cwd}; fork it instead")
