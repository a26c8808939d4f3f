"""A scripted server: numbered frames, replies that are repeated, sessions that outlive clients."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.base import dumps, loads

Record = dict[str, Any]
ANSWER: Record = {
    "role": "assistant",
    "api": "a",
    "provider": "p",
    "model": "m",
    "stopReason": "stop",
    "timestamp": 2,
    "usage": {
        **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
        "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
    },
}
STATE: Record = {
    "model": None,
    "thinkingLevel": "off",
    "isCompacting": False,
    "steeringMode": "all",
    "followUpMode": "all",
    "sessionId": "s",
    "autoCompactionEnabled": True,
    "messageCount": 0,
    "pendingMessageCount": 0,
}


class PeerSession:
    """`ring` is the number of frames that it keeps."""

    def __init__(self, id: str, epoch: str, ring: int) -> None:
        self.id = id
        self.epoch = epoch
        self.ring = ring
        self.seq = 0
        self.frames: list[Record] = []
        self.entries: list[Record] = []
        self.running = False
        self.idle = asyncio.Event()
        self.interrupted = False
        self.dialogs: list[Record] = []
        self.answers: list[Record] = []
        self.clients: list[PeerConnection] = []

    @property
    def leaf(self) -> str | None:
        return self.entries[-1]["id"] if self.entries else None

    def store(self, message: Record) -> None:
        entry = {"type": "message", "id": f"e{len(self.entries)}", "parentId": self.leaf}
        self.entries.append({**entry, "timestamp": "2026-01-01T00:00:00Z", "message": message})

    def emit(self, frame: Record) -> None:
        self.seq += 1
        numbered = {"session": self.id, "seq": self.seq, **frame}
        self.frames = [*self.frames, numbered][-self.ring :]
        for each in self.clients:
            each.send(numbered)

    def attached(self, cursor: Any, entry: str | None) -> tuple[Record, list[Record]]:
        """The answer to `attach`, and the frames that follow it."""
        epoch, _, seq = str(cursor).rpartition("-")
        mine: Record = {"session": self.id, "role": "control"}
        missed = self.seq - int(seq) if epoch == self.epoch else self.ring + 1
        if missed <= len(self.frames):
            follow = self.frames[len(self.frames) - missed :]
            return {**mine, "mode": "replay", "cursor": cursor, "replayed": missed}, follow
        known = [each["id"] for each in self.entries]
        begin = known.index(entry) + 1 if entry in known else 0
        return {**mine, "mode": "snapshot", "cursor": f"{self.epoch}-{self.seq}"} | {
            "state": {**STATE, "isStreaming": self.running},
            "leafId": self.leaf,
            "entries": self.entries[begin:],
            "underway": {"dialogs": self.dialogs},
            "interrupted": self.interrupted,
        }, []


class Peer:
    """`boot` changes with `restart`, which forgets clients and stops runs."""

    def __init__(self, path: Path, *, ring: int = 8192, pieces: int = 20) -> None:
        self.path = path
        self.ring = ring
        self.pieces = pieces
        self.boot = 1
        self.sessions: dict[str, PeerSession] = {}
        self.seats: dict[str, dict[str, Record]] = {}
        self.done: list[str] = []
        self.received: list[Record] = []
        self.token: str | None = None
        # The next command of this name is read, and the connection ends before it is done.
        self.dies_at = ""
        self.hold = asyncio.Event()
        self.hold.set()
        self.tasks = Tasks()
        self.connections: set[PeerConnection] = set()
        self.handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Peer":
        self._server = await asyncio.start_unix_server(self._connected, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.tasks.close()
        self.cut()
        await asyncio.gather(*self.handlers)

    def cut(self) -> None:
        for each in tuple(self.connections):
            each.writer.transport.abort()

    async def restart(self) -> None:
        """Come up again with the stored entries only."""
        await self.tasks.close()
        self.boot += 1
        self.seats.clear()
        for each in self.sessions.values():
            each.epoch, each.seq, each.frames = f"boot{self.boot}", 0, []
            each.interrupted, each.running = each.running, False
        self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = PeerConnection(self, writer)
        self._note_handler()
        self.connections.add(connection)
        with suppress(OSError):
            while line := await reader.readline():
                if not line.endswith(b"\n") or not await connection.take(loads(line)):
                    break
        self.connections.discard(connection)
        for session in self.sessions.values():
            if connection in session.clients:
                session.clients.remove(connection)
        writer.transport.abort()

    def _note_handler(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.handlers.add(task)
        task.add_done_callback(self.handlers.discard)

    async def settled(self, session: str) -> None:
        """Return when the session has run and is idle."""
        await self.sessions[session].idle.wait()

    async def run(self, session: PeerSession, text: str) -> None:
        session.running = True
        user = {"role": "user", "content": text, "timestamp": 1}
        session.store(user)
        session.emit({"type": "agent_start"})
        session.emit({"type": "message_end", "message": user})
        for number in range(self.pieces):
            await self.hold.wait()
            await asyncio.sleep(0)
            session.emit({"type": "tick", "text": text, "number": number})
        said = {**ANSWER, "content": [{"type": "text", "text": f"Re: {text}"}]}
        session.store(said)
        session.running = False
        session.emit({"type": "message_end", "message": said})
        session.emit({"type": "agent_settled"})
        session.idle.set()


class PeerConnection:
    def __init__(self, peer: Peer, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.writer = writer
        self.seat: dict[str, Record] = {}

    def send(self, frame: Record) -> None:
        self.writer.write(dumps(frame) + b"\n")

    async def take(self, command: Record) -> bool:
        """Whether the connection lives on."""
        self.peer.received.append(command)
        if command["type"] == self.peer.dies_at:
            self.peer.dies_at = ""
            await self.peer.restart()
            return False
        if command["type"] == "extension_ui_response":
            self.peer.sessions[command["session"]].answers.append(command)
            return True
        if command["id"] in self.seat:
            self.send({**self.seat[command["id"]], "repeated": True})
            return True
        data, follow = self._do(command)
        head = {"session": command["session"]} if "session" in command else {}
        reply = {**head, "id": command["id"], "type": "response", "command": command["type"]}
        reply |= data if data.get("success") is False else {"success": True, "data": data}
        self.seat[command["id"]] = reply
        self.send(reply)
        for frame in follow:
            self.send(frame)
        return data.get("code") != "unauthorized"

    def _do(self, command: Record) -> tuple[Record, list[Record]]:
        peer = self.peer
        session = peer.sessions.get(command.get("session", ""))
        match command["type"]:
            case "hello":
                if peer.token != command.get("token"):
                    return {"success": False, "error": "No.", "code": "unauthorized"}, []
                known = command["client"] in peer.seats
                self.seat = peer.seats.setdefault(command["client"], self.seat)
                return {"server": "x", "protocol": 1, "boot": str(peer.boot), "known": known}, []
            case "open":
                id = f"s{len(peer.sessions)}"
                session = peer.sessions[id] = PeerSession(id, f"boot{peer.boot}", peer.ring)
                session.clients.append(self)
                peer.done.append("open")
                return session.attached(None, None)
            case "attach" if session is not None:
                if self not in session.clients:
                    session.clients.append(self)
                return session.attached(command.get("cursor"), command.get("entry"))
            case "prompt" if session is not None:
                peer.done.append(command["message"])
                peer.tasks.start(peer.run(session, command["message"]))
                return {"disposition": "started"}, []
            case "get_state" | "ping" | "detach" | "close":
                return {}, []
        return {"success": False, "error": f"Unknown session: {command.get('session')}"}, []
