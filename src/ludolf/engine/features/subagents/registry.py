"""The subagents of one host: subscriptions, names, session files."""

import os
import re
from pathlib import Path
from typing import Any

from ludolf.base import CommandError, loads
from ludolf.engine.features.subagents.subagent import Subagent, SubagentSubscription
from ludolf.protocol.subagent_events import Snapshot
from ludolf.session.tree import Session

MOST_FILES = 256
LONGEST_NAME = 48
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
NEITHER = "get_subagent_messages requires subagentId or sessionFile"
UNKNOWN = "Unknown subagent or session file unavailable: {wanted}"


class SubagentRegistry:
    """One for each engine with a host, shared by all subagents below it."""

    def __init__(self, subscription: SubagentSubscription) -> None:
        self.subscription = subscription
        self._live: dict[str, Subagent] = {}
        self._files: dict[str, Path] = {}
        self._temporary: Path | None = None

    # ------------------------------------------------------------ agents

    def enter(self, subagent: Subagent) -> None:
        self._live[subagent.task.id] = subagent
        self._files[subagent.task.id] = subagent.task.file
        while len(self._files) > MOST_FILES:
            del self._files[next(iter(self._files))]

    def leave(self, subagent: Subagent) -> None:
        self._live.pop(subagent.task.id, None)

    def find(self, id: str) -> Subagent | None:
        """Return the running subagent of this name."""
        return self._live.get(id)

    def snapshots(self) -> list[Snapshot]:
        snapshots = [subagent.watch.snapshot() for subagent in self._live.values()]
        return sorted(snapshots, key=lambda one: (one.index, one.id))

    # ------------------------------------------------------------ names and files

    def reserve(self, folder: Path, name: str, above: str = "") -> tuple[str, Path]:
        """Reserve an unused name, and the file for it."""
        plain = _ODD.sub("-", name).strip("-")[:LONGEST_NAME] or "Task"
        wanted = f"{above}.{plain}" if above else plain
        id, count = wanted, 1
        # Some file systems ignore case.
        taken = {known.lower() for known in self._files}
        while id.lower() in taken or (folder / f"{id}.jsonl").exists():
            count += 1
            id = f"{wanted}-{count}"
        # Reserved now, so that subagents of one call get different names.
        self._files[id] = folder / f"{id}.jsonl"
        return id, self._files[id]

    def folder(self, session: Session) -> Path:
        """Return the folder for subagents of a session: next to its file, with the same name."""
        path = session.path
        return self._temporary_folder() if path is None else path.with_suffix("")

    def _temporary_folder(self) -> Path:
        if self._temporary is None:
            import tempfile

            self._temporary = Path(tempfile.mkdtemp(prefix="ludolf-task-"))
        return self._temporary

    def close(self) -> None:
        """Remove the files of subagents of a session without a file."""
        if self._temporary is not None:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)

    # ------------------------------------------------------------ transcripts

    def transcript(self, id: str | None, file: str | None, start: int) -> dict[str, Any]:
        """What an agent's session file holds from a byte on, in whole lines.

        Raises:
            CommandError: neither is named, or it is none of an agent of this process.
        """
        if not id and not file:
            raise CommandError(NEITHER)
        path = self._files.get(id) if id else self._known(file or "")
        if path is None:
            raise CommandError(UNKNOWN.format(wanted=id or file))
        data, reset = _from_byte(path, start)
        start = 0 if reset else start
        whole = data[: data.rfind(b"\n") + 1]
        entries = [loads(line) for line in whole.splitlines()]
        return {
            "sessionFile": str(path),
            "fromByte": start,
            "nextByte": start + len(whole),
            "reset": reset,
            "entries": entries,
            "messages": [one["message"] for one in entries if one.get("type") == "message"],
        }

    def _known(self, file: str) -> Path | None:
        return next((path for path in self._files.values() if str(path) == file), None)


def _from_byte(path: Path, start: int) -> tuple[bytes, bool]:
    """What stands there, and whether that is all of it, since the file ends before."""
    try:
        with path.open("rb") as file:
            reset = start > file.seek(0, os.SEEK_END)
            file.seek(0 if reset else start)
            return file.read(), reset
    except OSError:
        return b"", start > 0
