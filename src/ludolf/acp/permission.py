"""Questions to the user of a client: approvals of tool calls, and dialogs of extensions and MCP."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ludolf.acp.link import ClientLink
from ludolf.agent.scope import Tasks
from ludolf.agent.tool import Files
from ludolf.base import LudolfError, uuid4
from ludolf.base.jsonrpc import RequestId
from ludolf.protocol.acp.structs import (
    ElicitationAnswer,
    ElicitationParams,
    PermissionOption,
    PermissionParams,
    read_elicitation,
    read_permission,
)
from ludolf.protocol.acp.updates import UpdateWriter
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import DIALOGS, UiRequest

APPROVAL_OPTIONS = (
    PermissionOption(option_id="allow_once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="allow_always", name="Allow for this session", kind="allow_always"),
    PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
)
_MOST_PREVIEWED = 1 << 20


class DialogScope(msgspec.Struct, frozen=True, kw_only=True):
    """What questions belong to: a session, or a request of the client before there is one."""

    session_id: str | None = None
    request_id: RequestId | None = None


class ClientDialogs:
    """Shows dialogs of an engine at the client, one at a time; `answer` gets the answers."""

    def __init__(
        self, link: ClientLink, about: DialogScope, answer: Callable[[UiAnswer], None]
    ) -> None:
        self._link = link
        self._about = about
        self._answer = answer
        self._tasks = Tasks()
        self._open: dict[str, asyncio.Task[Any]] = {}
        self._turn = asyncio.Lock()
        # Addresses that the user has opened.
        self._visited: list[str] = []

    def send(self, request: UiRequest) -> bool:
        """Show a dialog or a notice; False if the client cannot."""
        if request.method in DIALOGS:
            self._open[request.id] = self._tasks.start(self._ask(request))
        elif request.method == "cancel":
            task = self._open.pop(request.target_id or "", None)
            if task is not None:
                task.cancel()
        elif request.method == "open_url":
            self._tasks.start(self._open_address(request))
        elif request.method == "notify":
            self.note(request.notify_type or "info", request.message or "")
        return True

    def note(self, level: Any, text: str) -> None:
        """Show a text; without a session there is no place for it."""

    async def confirm(self, title: str, message: str) -> bool | None:
        """Ask a question of the program by a form; None without an answer."""
        request = UiRequest(id=uuid4(), method="confirm", title=title, message=message)
        try:
            async with self._turn:
                answer = await self._fill_form(request)
        except LudolfError:
            return None
        return answer.confirmed if isinstance(answer.confirmed, bool) else None

    async def fill_form(self, message: str, schema: Mapping[str, Any]) -> tuple[str, Any] | None:
        """Show the form of an MCP server, if the client shows forms."""
        if not self._link.client.forms:
            return None
        params = self._elicitation(mode="form", message=message, requested_schema=dict(schema))
        answer = await self._elicit(params)
        return answer.action, answer.content

    async def visit_address(self, message: str, url: str) -> str | None:
        """Ask the user to open an address of an MCP server, if the client opens addresses."""
        if not self._link.client.urls:
            return None
        params = self._elicitation(mode="url", message=message, url=url, elicitation_id=uuid4())
        return (await self._elicit(params)).action

    async def _elicit(self, params: ElicitationParams) -> ElicitationAnswer:
        """Ask; an error is a cancellation."""
        try:
            async with self._turn:
                return read_elicitation(await self._link.ask("elicitation/create", params))
        except LudolfError:
            return ElicitationAnswer(action="cancel", content={})

    async def close(self) -> None:
        """Withdraw all questions; visits of addresses are over."""
        await self._tasks.close()
        for number in self._visited:
            self._link.peer.notify("elicitation/complete", {"elicitationId": number})
        self._visited.clear()

    # ------------------------------------------------------------ private

    async def _ask(self, request: UiRequest) -> None:
        answer = UiAnswer(id=request.id, cancelled=True)
        try:
            async with self._turn:
                answer = await self._answer_to(request)
        except (LudolfError, TimeoutError):
            pass  # an error and silence are a no
        finally:
            self._open.pop(request.id, None)
        self._answer(answer)

    async def _answer_to(self, request: UiRequest) -> UiAnswer:
        if self._link.client.forms:
            return await self._fill_form(request)
        return UiAnswer(id=request.id, cancelled=True)

    async def _fill_form(self, request: UiRequest) -> UiAnswer:
        schema = _schema_of(request)
        message = "\n".join(filter(None, (request.title, request.message))) or "Your answer?"
        params = self._elicitation(mode="form", message=message, requested_schema=schema)
        raw = await self._link.ask("elicitation/create", params, _seconds(request))
        return _read_form(request, read_elicitation(raw))

    def _elicitation(self, **fields: Any) -> ElicitationParams:
        return ElicitationParams(
            session_id=self._about.session_id, request_id=self._about.request_id, **fields
        )

    async def _open_address(self, request: UiRequest) -> None:
        """Ask the client to open an address, or show it."""
        url, text = request.launch_url or request.url or "", request.instructions or ""
        if not self._link.client.urls:
            self.note("info", f"{text}\n{url}".strip())
            return
        number, message = uuid4(), text or "Open this address to continue."
        params = self._elicitation(mode="url", message=message, url=url, elicitation_id=number)
        try:
            raw = await self._link.ask("elicitation/create", params)
        except LudolfError:
            self.note("info", f"{text}\n{url}".strip())
            return
        if read_elicitation(raw).action == "accept":
            self._visited.append(number)
        else:
            self._refuse_visit()

    def _refuse_visit(self) -> None:
        """Called when the user does not open an address; what waits for the visit has a limit."""


class SessionDialogs(ClientDialogs):
    """Dialogs of an open session: approvals too, which show the call that waits for them.

    `own_id` returns the id of the engine's session; calls of other sessions are those of subagents.
    `files` are those of the editor, whose text a preview shows before the change.
    """

    def __init__(
        self,
        link: ClientLink,
        writer: UpdateWriter,
        session_id: str,
        cwd: Path,
        answer: Callable[[UiAnswer], None],
        own_id: Callable[[], str],
    ) -> None:
        super().__init__(link, DialogScope(session_id=session_id), answer)
        self._writer = writer
        self._session_id = session_id
        self._cwd = cwd
        self._own_id = own_id
        self.files: Files | None = None

    def note(self, level: Any, text: str) -> None:
        if text:
            self._link.stdio.send(self._writer.notice(level, text))

    async def _answer_to(self, request: UiRequest) -> UiAnswer:
        if request.tool_call_id is not None:
            return await self._ask_permission(request)
        if not self._link.client.forms and request.method in ("select", "confirm"):
            return await self._ask_choice(request)
        return await super()._answer_to(request)

    async def _ask_permission(self, request: UiRequest) -> UiAnswer:
        """Ask about a tool call, which the client knows already; the engine limits the time."""
        call = self._shown_call(request, await self._text_before(request))
        raw = await self._permit(call, APPROVAL_OPTIONS, None)
        ids = [option.option_id for option in APPROVAL_OPTIONS]
        chosen = read_permission(raw)
        if chosen not in ids:
            return UiAnswer(id=request.id, cancelled=True)
        # The engine offers the same answers in the same order.
        option = (request.options or ())[ids.index(chosen)]
        if chosen != ids[-1]:
            of_agent, call_id = self._is_of_agent(request), request.tool_call_id or ""
            for frame in self._writer.running(call_id, of_agent=of_agent):
                self._link.stdio.send(frame)
        return UiAnswer(id=request.id, value=option)

    def _is_of_agent(self, request: UiRequest) -> bool:
        return request.session_id not in (None, self._own_id())

    async def _text_before(self, request: UiRequest) -> str | None:
        """Return the file that a call changes as the editor holds it, or as it is on disk."""
        from ludolf.protocol.acp.tool_view import absolute_path

        named = request.args.get("path") if isinstance(request.args, Mapping) else None
        path = absolute_path(named, self._cwd) if isinstance(named, str) else None
        if path is None or request.tool_name not in ("write", "edit"):
            return None
        saved = text_on_disk(path)
        if saved is None or self.files is None:
            return saved
        unsaved = await self.files.read(path)
        return saved if unsaved is None else unsaved

    def _shown_call(self, request: UiRequest, text: str | None) -> dict[str, Any]:
        from ludolf.protocol.acp.tool_view import preview, raw_value, view_call

        name, args = request.tool_name or "", request.args
        args = args if isinstance(args, Mapping) else {}
        view = view_call(name, args, self._cwd)
        shown: dict[str, Any] = {
            "toolCallId": self._writer.tool_call_id(
                request.tool_call_id or "", of_agent=self._is_of_agent(request)
            ),
            "title": view.title,
            "kind": view.kind,
            "status": "pending",
            "locations": list(view.locations),
            "rawInput": raw_value(args),
            "content": preview(name, args, self._cwd, lambda path: text),
        }
        return shown

    async def _ask_choice(self, request: UiRequest) -> UiAnswer:
        """Show a dialog as a request for permission, which every client has."""
        labels = request.options or () if request.method == "select" else ("Yes", "No")
        options = tuple(
            PermissionOption(option_id=str(place), name=label, kind=_kind_of(label))
            for place, label in enumerate(labels)
        )
        call = {
            "toolCallId": f"dialog-{uuid4()}",
            "title": request.title or "Question",
            "kind": "other",
            "status": "pending",
        }
        if request.message:
            text = {"type": "text", "text": request.message}
            call["content"] = [{"type": "content", "content": text}]  # type: ignore[assignment]
        self._update({"sessionUpdate": "tool_call", **call})
        status = "failed"
        try:
            raw = await self._permit(call, options, _seconds(request))
            chosen = read_permission(raw)
            status = "completed" if chosen is not None else "failed"
        finally:
            end = {"toolCallId": call["toolCallId"], "status": status}
            self._update({"sessionUpdate": "tool_call_update", **end})
        return _read_choice(request, labels, chosen)

    async def _permit(
        self, call: dict[str, Any], options: tuple[PermissionOption, ...], seconds: float | None
    ) -> Any:
        params = PermissionParams(session_id=self._session_id, tool_call=call, options=options)
        return await self._link.ask("session/request_permission", params, seconds)

    def _update(self, update: dict[str, Any]) -> None:
        params = {"sessionId": self._session_id, "update": update}
        self._link.peer.notify("session/update", params)


def text_on_disk(path: Path) -> str | None:
    """Return the text of a file for a preview; None if it is missing, large or not text."""
    try:
        if path.stat().st_size > _MOST_PREVIEWED or not path.is_file():
            return None
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None


def _seconds(request: UiRequest) -> float | None:
    return None if request.timeout is None else request.timeout / 1000


def _kind_of(label: str) -> Any:
    """Return the kind of an option, which clients show by a symbol."""
    is_no = label.lower() in ("no", "deny", "decline", "cancel", "reject", "leave empty")
    return "reject_once" if is_no else "allow_once"


def _schema_of(request: UiRequest) -> dict[str, Any]:
    """Return the form of a dialog; a confirmation needs no field, since a form can be declined."""
    if request.method == "confirm":
        return {"type": "object", "properties": {}}
    field: dict[str, Any] = {"type": "string", "title": request.title or "Answer"}
    if request.method == "select":
        field["enum"] = list(request.options or ())
    if request.placeholder:
        field["description"] = request.placeholder
    if request.prefill:
        field["default"] = request.prefill
    return {"type": "object", "properties": {"value": field}, "required": ["value"]}


def _read_form(request: UiRequest, answer: ElicitationAnswer) -> UiAnswer:
    if request.method == "confirm" and answer.action != "cancel":
        return UiAnswer(id=request.id, confirmed=answer.action == "accept")
    # Some clients rename the only field.
    value = answer.content.get("value", next(iter(answer.content.values()), None))
    if answer.action != "accept" or not isinstance(value, str):
        return UiAnswer(id=request.id, cancelled=True)
    return UiAnswer(id=request.id, value=value)


def _read_choice(request: UiRequest, labels: tuple[str, ...], chosen: str | None) -> UiAnswer:
    place = int(chosen) if chosen is not None and chosen.isdecimal() else -1
    if not 0 <= place < len(labels):
        return UiAnswer(id=request.id, cancelled=True)
    if request.method == "confirm":
        return UiAnswer(id=request.id, confirmed=place == 0)
    return UiAnswer(id=request.id, value=labels[place])
