"""Asks the host's user before a tool call runs, as settings say; no answer is a no."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ludolf.agent.tool import Block, Tool
from ludolf.ai.messages import ToolCall
from ludolf.base import dumps, uuid4
from ludolf.base.visible import escape_hidden
from ludolf.config.settings.approval_rules import Action, Approval, Call, deadline_ms, judge
from ludolf.engine.parts import Parts
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import Risk, UiRequest
from ludolf.tools.paths import real_path, resolve, resolve_existing

# Gives False if the request cannot be shown to anybody.
Send = Callable[[UiRequest], bool | None]

APPROVE, FOR_SESSION, DENY = "Approve", "Approve for this session", "Deny"
FORBIDDEN = "Not run: a rule of the user forbids this call of {tool}."
DENIED = (
    "Not run: the user denied this call of {tool}. Do not try the same in another way; go on "
    "without it, or ask the user what to do."
)
NOBODY = (
    "Not run: this call of {tool} needs approval, and nobody is there to give it. "
    "A rule in the settings (approval.rules) could allow it, or --approval never."
)
TOO_LATE = "Not run: nobody approved this call of {tool} within {seconds:g} seconds."
_MOST_SHOWN = 400
_RISKS: Mapping[str, Risk] = {"bash": "execute", "write": "write", "edit": "write"}
_WALKING = ("grep", "find")
# Arguments that an approval does not depend on. All others count, for tools of others every one.
_MINOR: Mapping[str, tuple[str, ...]] = {
    "bash": ("timeout",),
    "read": ("offset", "limit"),
    "write": ("content",),
    "edit": ("edits", "oldText", "newText"),
    "grep": ("pattern", "glob", "ignoreCase", "literal", "context", "limit"),
    "find": ("pattern", "limit"),
    "ls": ("limit",),
}


class Approvals:
    """One for a host: agents of agents ask through it too, and dialogs come one after another."""

    def __init__(self, say: tuple[Approval, ...], parts: Parts) -> None:
        """`parts` are those of the engine that the host talks to."""
        self.say = say
        self._host_parts = parts
        self.send: Send | None = None
        self._open: dict[str, asyncio.Future[str | None]] = {}
        self._approved: set[tuple[str, str, str]] = set()
        self._turn = asyncio.Lock()
        self._closed = False

    async def review(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any], parts: Parts
    ) -> Block | None:
        """Why a call must not run; None if it may. `args` are those that the tool will get."""
        verdict = self.judge(tool, args, parts)
        if verdict == "allow":
            return None
        if verdict == "deny":
            return Block(FORBIDDEN.format(tool=tool.name))
        key = (self._host_parts.session.id, tool.name, _essence(tool.name, args, parts))
        async with self._turn:
            # Whoever waited behind a dialog may have got the answer by it.
            if key in self._approved:
                return None
            return await self._ask(call, tool, key, parts)

    def judge(self, tool: Tool, args: Mapping[str, Any], parts: Parts) -> Action:
        return judge(self.say, _seen_by_rules(tool, args, parts))

    def answer(self, response: UiAnswer) -> None:
        """What the user said to a dialog, if it is one of these."""
        future = self._open.get(response.id)
        if future is not None and not future.done():
            said = None if response.cancelled else response.value
            future.set_result(said if isinstance(said, str) else None)

    def close(self) -> None:
        """The host is gone: nobody will answer any more."""
        self._closed = True
        for future in self._open.values():
            if not future.done():
                future.set_result(None)

    # ------------------------------------------------------------ private

    async def _ask(
        self, call: ToolCall, tool: Tool, key: tuple[str, str, str], parts: Parts
    ) -> Block | None:
        limit = deadline_ms(self.say)
        request = UiRequest(
            id=uuid4(),
            method="select",
            title=f"Allow {tool.name}: {_shown(tool.name, call.arguments)}",
            options=(APPROVE, FOR_SESSION, DENY),
            timeout=limit,
            tool_name=tool.name,
            tool_call_id=call.id,
            args=call.arguments,
            risk=_RISKS.get(tool.name) or ("read" if is_read_only(tool) else "unknown"),
            session_id=parts.session.id,
        )
        said = await self._said(request, limit / 1000)
        if said in (APPROVE, FOR_SESSION):
            if said == FOR_SESSION:
                self._approved.add(key)
            return None
        text = TOO_LATE if said == "" else NOBODY if said is None and self._is_alone else DENIED
        return Block(text.format(tool=tool.name, seconds=limit / 1000))

    @property
    def _is_alone(self) -> bool:
        return self._closed or self.send is None

    async def _said(self, request: UiRequest, seconds: float) -> str | None:
        """The option chosen; None if dismissed or nobody is there, empty if the time was up."""
        if self._is_alone or self.send is None:
            return None
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._open[request.id] = future
        try:
            if self.send(request) is False:
                self._closed = True  # such a host shows no dialogs, now and later
                return None
            await asyncio.wait((future,), timeout=seconds)
            return future.result() if future.done() else ""
        finally:
            del self._open[request.id]
            if not future.done():
                self.send(UiRequest(id=uuid4(), method="cancel", target_id=request.id))


def is_read_only(tool: Tool) -> bool:
    """Whether a tool says of itself that it changes nothing."""
    return getattr(tool, "read_only", False) is True


def _seen_by_rules(tool: Tool, args: Mapping[str, Any], parts: Parts) -> Call:
    command, has_path = args.get("command"), _has_path(tool, args)
    cwd = os.path.realpath(parts.home.cwd)
    paths: tuple[str, ...] = ()
    if has_path:
        paths = _names(args.get("path") or ".", parts)
    return Call(
        tool=tool.name,
        read_only=is_read_only(tool),
        command=command if isinstance(command, str) else None,
        has_path=has_path,
        paths=paths,
        walks=tool.name in _WALKING and any(map(os.path.isdir, paths)),
        cwd=cwd,
        home=os.path.realpath(parts.home.user),
    )


def _has_path(tool: Tool, args: Mapping[str, Any]) -> bool:
    return "path" in args or "path" in (tool.parameters.get("properties") or {})


def _names(path: Any, parts: Parts) -> tuple[str, ...]:
    """A path as given, as it is found, and as it really is; nothing for what is no file's."""
    documents = parts.documents
    if not isinstance(path, str) or (documents is not None and documents.address(path)):
        return ()
    cwd = parts.home.cwd
    named = resolve(path, cwd)
    if named.is_relative_to(cwd):
        named = Path(os.path.realpath(cwd), named.relative_to(cwd))
    # A reader also takes a file for which the given name is another spelling.
    found = resolve_existing(path, cwd)
    return tuple(dict.fromkeys((str(named), real_path(named), real_path(found))))


def _essence(tool: str, args: Mapping[str, Any], parts: Parts) -> str:
    """What an approval for the session covers: this command, this file, else these arguments."""
    major = _major(tool, args)
    path = major.get("path")
    if tool in _MINOR and isinstance(path, str):
        major["path"] = (_names(path, parts) or (path,))[-1]
    return dumps(dict(sorted(major.items()))).decode("utf-8", "replace")


def _shown(tool: str, args: Any) -> str:
    """The argument that tells most, on one line; nothing in it can hide a part of it."""
    major = _major(tool, args) if isinstance(args, dict) else {}
    telling = [major[key] for key in ("command", "path") if isinstance(major.get(key), str)]
    text = telling[0] if len(major) == 1 and telling else dumps(args).decode("utf-8", "replace")
    plain = escape_hidden(text)
    more = len(plain) - _MOST_SHOWN
    return plain if more <= 0 else f"{plain[:_MOST_SHOWN]}… ({more} more characters)"


def _major(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name not in _MINOR.get(tool, ())}
