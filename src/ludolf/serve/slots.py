"""The loaded sessions of a server: open, load, unload."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import structs

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, iso_time
from ludolf.base.trace_context import trace_context
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.build import build
from ludolf.engine.engine import WARM_UP_SECONDS, Engine
from ludolf.engine.start import home_of, session_place
from ludolf.protocol.commands import invalid_parameter
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.server import Open, SessionSummary
from ludolf.serve.options import ServeOptions
from ludolf.serve.seat import SHARED_DIALECT
from ludolf.serve.session_options import check_folder, is_inside, opened_with
from ludolf.serve.slot import Slot, SlotSettings
from ludolf.session.finder import (
    SessionFolder,
    SessionRecord,
    as_path,
    find_anywhere,
    latest,
    list_sessions,
)
from ludolf.session.reader import NotASession, read_header
from ludolf.session.tree import load_session
from ludolf.session.views import short_title

# Larger files are read in a thread.
_LARGE = 1 << 20
IN_USE = "In use by another process: {path}. Close it there, or fork it."


class LoadedSessions:
    """Sessions by id. The same file is one session, however a client names it."""

    def __init__(self, options: ServeOptions, settings: SlotSettings) -> None:
        self._options = options
        self._settings = settings
        self._slots: dict[str, Slot] = {}
        self._unloading: dict[str, asyncio.Task[None]] = {}
        self._lock = asyncio.Lock()
        self._tasks = Tasks()
        # Sessions that are being loaded.
        self._starting = 0
        # Whether no more sessions are loaded.
        self.is_closing = False

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(tuple(self._slots.values()))

    def loaded(self, session: str) -> Slot | None:
        return self._slots.get(session)

    # ------------------------------------------------------------ open

    async def open(self, command: Open, dialect: str) -> Slot:
        """Return the session that a client wants; a stored one is loaded.

        One that is loaded now behaves as clients with this dialect expect.

        Raises:
            CommandError: the folder, the session or an option cannot be used.
            ConfigError: the configuration cannot be used.
        """
        options = self._session_options(command)
        if command.session == "new":
            return await self._start(options, dialect)
        if command.session == "last":
            path = latest(self._place(options))
            if path is None:
                return await self._start(options, dialect)
            return await self._of(path, options, dialect)
        slot = self._slots.get(command.session)
        if slot is not None:
            return slot
        return await self._of(self._find(command.session, options), options, dialect)

    async def load_stored(self, session: str, env: Mapping[str, str] | None = None) -> Slot:
        """Return the session with this id.

        Raises:
            CommandError: there is no such session, or it cannot be opened.
        """
        slot = self._slots.get(session)
        if slot is not None:
            return slot
        options = self._with_env(self._options.options, env, "attach")
        path = find_anywhere(self._place(options), session)
        if path is None:
            raise unknown_session(session)
        return await self._of(path, options, SHARED_DIALECT)

    def stored_file(self, session: str) -> Path:
        """Return the file of a session that may be read here, without loading it.

        Raises:
            CommandError: there is no such session, or it belongs to a folder outside the roots.
        """
        path = find_anywhere(self._place(self._options.options), session)
        if path is None:
            raise unknown_session(session)
        self._in_own_folder(self._options.options, path)
        return path

    def _session_options(self, command: Open) -> Options:
        base = self._options.options
        options = opened_with(base, command.options or {})
        if command.cwd is not None or command.session in ("new", "last"):
            wanted = str(base.cwd) if command.cwd is None else command.cwd
            cwd = check_folder(wanted, self._options.roots)
            options = structs.replace(options, cwd=cwd)
        trace = trace_context(command.traceparent, command.tracestate, command.baggage)
        if trace is not None:
            options = structs.replace(options, trace=trace)
        return self._with_env(options, command.env, "open")

    def _with_env(self, options: Options, env: Mapping[str, str] | None, command: str) -> Options:
        """Return the options with another environment; the agent folder stays the same."""
        if env is None:
            return options
        if any("=" in name or not name or "\0" in name + value for name, value in env.items()):
            raise invalid_parameter(command, "env")
        folder = options.agent_dir or self._options.agent_dir
        return structs.replace(options, environ=dict(env), agent_dir=folder)

    def _find(self, wanted: str, options: Options) -> Path:
        place = self._place(options)
        path = as_path(str(options.cwd), wanted, place.home)
        if path is None:
            path = find_anywhere(place, wanted)
        if path is None:
            raise unknown_session(wanted)
        return path

    def _place(self, options: Options) -> SessionFolder:
        home = home_of(options)
        return session_place(options, home, SettingsFiles(home).current)

    async def _of(self, path: Path, options: Options, dialect: str) -> Slot:
        """Return the session of a file, loaded at most once."""
        async with self._lock:
            slot = self._with_file(path)
            if slot is not None:
                return slot
            unloading = self._unloading.get(_real(path))
            if unloading is not None:
                await asyncio.wait((unloading,))
            options = self._in_own_folder(options, path)
            options = structs.replace(options, session=str(path))
            return await self._start(options, dialect, path)

    def _with_file(self, path: Path) -> Slot | None:
        files = ((slot, slot.path) for slot in self)
        same = (slot for slot, file in files if file is not None and _real(file) == _real(path))
        return next(same, None)

    def _in_own_folder(self, options: Options, path: Path) -> Options:
        """Return the options with the folder that a stored session works in."""
        header = read_header(path) if path.exists() else None
        if header is None or not header.cwd:
            return options
        return structs.replace(options, cwd=check_folder(header.cwd, self._options.roots))

    async def _start(self, options: Options, dialect: str, path: Path | None = None) -> Slot:
        if self.is_closing:
            raise CommandError("The server is closing.", code="full")
        await self._make_room()
        self._starting += 1
        try:
            engine = await _built(options, path)
            try:
                slot = self._slot_of(engine, path)
                await self._ready(slot, dialect)
            except BaseException:
                await engine.close()
                raise
        finally:
            self._starting -= 1
        if self.is_closing:
            await slot.close()
            raise CommandError("The server is closing.", code="full")
        self._slots[slot.id] = slot
        self._settings.figures.loads += 1
        engine.on_shutdown = lambda: self._shut(slot)
        slot.warm_up(WARM_UP_SECONDS)
        return slot

    async def _ready(self, slot: Slot, dialect: str) -> None:
        starting = slot.pacing.tasks.start(slot.start(make_dialect(dialect).traits))
        try:
            await slot.ready(starting)
        except BaseException:
            starting.cancel()
            raise

    def _slot_of(self, engine: Engine, path: Path | None) -> Slot:
        """Raises:
        CommandError: the file cannot be written, or its session is loaded from another file.
        """
        refusal = engine.session.refusal() if path is not None else None
        if refusal is not None:
            code = engine.session.refusal_code
            text = IN_USE.format(path=path) if code == "session_in_use" else refusal
            raise CommandError(text, code=code)
        other = self._slots.get(engine.session.id)
        if other is not None:
            text = f"The session {other.id} is loaded from {other.path}. Close it, or fork it."
            raise CommandError(text, code="session_in_use")
        return Slot(engine, self._settings, self._moved)

    def _moved(self, slot: Slot, origin: str) -> None:
        if self._slots.get(origin) is slot:
            del self._slots[origin]
        self._slots[slot.id] = slot

    def _shut(self, slot: Slot) -> None:
        """An extension has ended the program: only its session ends."""
        self._tasks.start(self.unload(slot))

    # ------------------------------------------------------------ unload

    async def _make_room(self) -> None:
        """Unload the session that was unused for longest, if there are too many.

        Raises:
            CommandError: all of them are in use.
        """
        while len(self._slots) + self._starting >= self._options.max_loaded:
            unused = [slot for slot in self if slot.is_unused and slot.is_stored]
            if not unused:
                most = self._options.max_loaded
                text = f"All {most} loaded sessions are in use. Close one, or try later."
                raise CommandError(text, code="full")
            await self.unload(min(unused, key=lambda slot: slot.used_at))

    async def unload_unused(self) -> None:
        """Unload the sessions that were unused for long enough."""
        now = asyncio.get_running_loop().time()
        for slot in self:
            is_due = now - slot.used_at >= self._options.unload_seconds
            if is_due and slot.is_unused and slot.is_stored:
                await self.unload(slot)

    async def unload(self, slot: Slot) -> None:
        """Stop what runs in a session, store it and forget it."""
        if self._slots.get(slot.id) is not slot:
            return
        del self._slots[slot.id]
        task = self._tasks.start(slot.close())
        if slot.path is None:
            await asyncio.wait((task,))
        else:
            real = _real(slot.path)
            self._unloading[real] = task
            await asyncio.wait((task,))
            self._unloading.pop(real, None)
        self._settings.figures.unloads += 1
        task.result()

    async def close(self) -> None:
        """Close every session at the same time; no other is loaded."""
        self.is_closing = True
        for slot in self:
            self._tasks.start(self.unload(slot))
        await self._tasks.ended()

    # ------------------------------------------------------------ list

    async def list(self, *, everything: bool) -> tuple[SessionSummary, ...]:
        """Return the loaded sessions, and with `everything` the stored ones inside the roots."""
        loaded = [slot.summary() for slot in self]
        if not everything:
            return tuple(loaded)
        known = {each.session for each in loaded}
        place = self._place(self._options.options)
        stored = await asyncio.to_thread(list_sessions, place, everywhere=True)
        usable = (each for each in stored if is_inside(each.cwd, self._options.roots))
        return (*loaded, *(_stored(each) for each in usable if each.id not in known))


def unknown_session(session: str) -> CommandError:
    """Return the error for a session that does not exist."""
    text = f"Unknown session: {session[:200]}. list shows them."
    return CommandError(text, code="unknown_session")


async def _built(options: Options, path: Path | None) -> Engine:
    try:
        if path is None or not _is_large(path):
            return build(options)
        return build(options, loaded=await asyncio.to_thread(load_session, path))
    except (NotASession, OSError) as error:
        raise CommandError(f"Cannot open {path}: {error}") from error


def _is_large(path: Path) -> bool:
    return path.exists() and path.stat().st_size > _LARGE


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _stored(record: SessionRecord) -> SessionSummary:
    return SessionSummary(
        session=record.id,
        path=str(record.path),
        cwd=record.cwd,
        name=record.name,
        state="stored",
        clients=0,
        dialogs=0,
        updated=iso_time(record.modified),
        title=short_title(record.name, record.first_message),
    )
