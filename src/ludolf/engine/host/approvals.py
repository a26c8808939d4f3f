"""Ask the user before a tool call runs; no answer is a no."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ludolf.agent.tool import Deny, Tool
from ludolf.ai.messages import ToolCall
from ludolf.base import CommandError, dumps, uuid4
from ludolf.config.settings.approval_rules import (
    Action,
    Approval,
    CallFacts,
    SessionApproval,
    deadline_ms,
    for_session,
    judge,
    session_mode,
)
from ludolf.engine.bundles import Bundles
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import ApprovalState
from ludolf.engine.host.dialogs import HostDialogs
from ludolf.protocol.ui import Risk, UiRequest

APPROVE, FOR_SESSION, DENY = "Approve", "Approve for this session", "Deny"
FORBIDDEN = "Not run: a rule of the user forbids this call of {tool}."
DENIED = (
    "Not run: the user denied this call of {tool}. Do not try the same in another way; continue "
    "without it, or ask the user what to do."
)
NO_HOST = (
    "Not run: this call of {tool} needs approval, but no host is connected to approve it. "
    'A rule in the settings (approval.rules) could allow it, or the approval mode "never".'
)
READ_ONLY = (
    "Not run: this session is read-only, and {tool} may change something. Only the user can change "
    "the mode of the session. Continue without the call, or describe the change to the user."
)
TOO_LATE = "Not run: this call of {tool} was not approved within {seconds:g} seconds."
_SESSION_MODES: tuple[SessionApproval, ...] = ("ask", "auto", "read-only")
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
    """One for each host: subagents ask through it too, and dialogs come one after another.

    `policies` are those of the settings; `mode` is the user's choice for this session, if any.
    `conversation` is that of the host's engine.
    """

    def __init__(self, policies: tuple[Approval, ...], conversation: Conversation) -> None:
        self.policies = policies
        self._chosen: SessionApproval = "default"
        self._conversation = conversation
        self.dialogs = HostDialogs(conversation.answer_clock)
        self._approved: set[tuple[str, str, str]] = set()
        self._turn = asyncio.Lock()

    @property
    def mode(self) -> SessionApproval:
        """Return what applies to calls now; `default` if none of the other modes describes it."""
        return session_mode(self.policies) if self._chosen == "default" else self._chosen

    @property
    def offered_modes(self) -> tuple[SessionApproval, ...]:
        """Return the modes that `set_mode` takes."""
        own = session_mode(self.policies)
        return (*_SESSION_MODES, own) if own == "default" else _SESSION_MODES

    def set_mode(self, mode: str) -> None:
        """Choose which calls of this session and its subagents are asked about, from now on.

        Raises:
            CommandError: the mode is not offered.
        """
        chosen = next((each for each in self.offered_modes if each == mode), None)
        if chosen is None:
            valid = ", ".join(self.offered_modes)
            raise CommandError(f'Invalid approval mode "{mode}". Valid values: {valid}')
        self._chosen = chosen

    async def review(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any], bundles: Bundles
    ) -> Deny | None:
        """Why a call must not run; None if it may. `args` are those that the tool will get."""
        if (decision := self._decide(tool, args, bundles)) != "ask":
            if decision is not None:
                _report_state(bundles, call, "denied", 0.0)
            return decision
        name = f"{tool.name}@{tool.version}"
        key = (self._conversation.session.id, name, _essence(tool.name, args, bundles))
        async with self._turn:
            # During the dialog before, the user may have approved this call or changed the mode.
            if (decision := self._decide(tool, args, bundles)) != "ask":
                return decision
            if key in self._approved:
                return None
            return await self._ask(call, tool, key, bundles)

    def judge(self, tool: Tool, args: Mapping[str, Any], bundles: Bundles) -> Action:
        """Return what happens to a call; approvals for the session are not considered."""
        if self._forbids_changes(tool):
            return "deny"
        return judge(self._in_force, _seen_by_rules(tool, args, bundles))

    # ------------------------------------------------------------ private

    @property
    def _in_force(self) -> tuple[Approval, ...]:
        return for_session(self.policies, self._chosen)

    def _decide(
        self, tool: Tool, args: Mapping[str, Any], bundles: Bundles
    ) -> Deny | Literal["ask"] | None:
        verdict = self.judge(tool, args, bundles)
        if verdict == "deny":
            text = READ_ONLY if self._forbids_changes(tool) else FORBIDDEN
            return Deny(text.format(tool=tool.name))
        return "ask" if verdict == "ask" else None

    def _forbids_changes(self, tool: Tool) -> bool:
        return self._chosen == "read-only" and not tool.read_only

    async def _ask(
        self, call: ToolCall, tool: Tool, key: tuple[str, str, str], bundles: Bundles
    ) -> Deny | None:
        limit = deadline_ms(self._in_force)
        request = UiRequest(
            id=uuid4(),
            method="select",
            title=f"Allow {tool.name}: {_shown(tool.name, call.arguments)}",
            options=(APPROVE, FOR_SESSION, DENY),
            timeout=limit,
            tool_name=tool.name,
            tool_call_id=call.id,
            args=call.arguments,
            risk=_RISKS.get(tool.name) or ("read" if tool.read_only else "unknown"),
            session_id=bundles.conversation.session.id,
        )
        since = time.monotonic()
        _report_state(bundles, call, "asked", 0.0)
        try:
            answer = await self.dialogs.ask(request, limit / 1000)
        except TimeoutError:
            _report_state(bundles, call, "denied", time.monotonic() - since)
            return Deny(TOO_LATE.format(tool=tool.name, seconds=limit / 1000))
        allows = answer is not None and answer.value in (APPROVE, FOR_SESSION)
        state: ApprovalState = "allowed" if allows else "denied"
        _report_state(bundles, call, state, time.monotonic() - since)
        if answer is not None and answer.value in (APPROVE, FOR_SESSION):
            if answer.value == FOR_SESSION:
                self._approved.add(key)
            return None
        is_alone = answer is None and not self.dialogs.can_ask
        return Deny((NO_HOST if is_alone else DENIED).format(tool=tool.name))


def _report_state(bundles: Bundles, call: ToolCall, state: ApprovalState, seconds: float) -> None:
    for feature in bundles.features.hooks["on_approval"]:
        feature.on_approval(call.id, call.name, state, seconds)


def _seen_by_rules(tool: Tool, args: Mapping[str, Any], bundles: Bundles) -> CallFacts:
    command, has_path = args.get("command"), _has_path(tool, args)
    cwd = os.path.realpath(bundles.workspace.home.cwd)
    paths: tuple[str, ...] = ()
    if has_path:
        paths = _names(args.get("path") or ".", bundles)
    return CallFacts(
        tool=tool.name,
        read_only=tool.read_only,
        command=command if isinstance(command, str) else None,
        has_path=has_path,
        paths=paths,
        walks=tool.name in _WALKING and any(map(os.path.isdir, paths)),
        cwd=cwd,
        home=os.path.realpath(bundles.workspace.home.user),
    )


def _has_path(tool: Tool, args: Mapping[str, Any]) -> bool:
    return "path" in args or "path" in (tool.parameters.get("properties") or {})


def _names(path: Any, bundles: Bundles) -> tuple[str, ...]:
    """Return a path as written, as found and as resolved; nothing for a document of the host."""
    documents = bundles.toolset.documents
    if not isinstance(path, str) or (documents is not None and documents.address(path)):
        return ()
    from ludolf.tools.paths import real_path, resolve, resolve_existing

    cwd, user = bundles.workspace.home.cwd, bundles.workspace.home.user
    named = resolve(path, cwd, user)
    if named.is_relative_to(cwd):
        named = Path(os.path.realpath(cwd), named.relative_to(cwd))
    # A reader also takes a file for which the given name is another spelling.
    found = resolve_existing(path, cwd, user)
    return tuple(dict.fromkeys((str(named), real_path(named), real_path(found))))


def _essence(tool: str, args: Mapping[str, Any], bundles: Bundles) -> str:
    """What an approval for the session covers: this command, this file, else these arguments."""
    major = _major(tool, args)
    path = major.get("path")
    if tool in _MINOR and isinstance(path, str):
        major["path"] = (_names(path, bundles) or (path,))[-1]
    return dumps(dict(sorted(major.items()))).decode("utf-8", "replace")


def _shown(tool: str, args: Any) -> str:
    """Return the main argument on one line, with invisible characters escaped."""
    from ludolf.base.visible import escape_hidden

    major = _major(tool, args) if isinstance(args, dict) else {}
    texts = [major[key] for key in ("command", "path") if isinstance(major.get(key), str)]
    text = texts[0] if len(major) == 1 and texts else dumps(args).decode("utf-8", "replace")
    plain = escape_hidden(text)
    more = len(plain) - _MOST_SHOWN
    return plain if more <= 0 else f"{plain[:_MOST_SHOWN]}… ({more} more characters)"


def _major(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name not in _MINOR.get(tool, ())}
