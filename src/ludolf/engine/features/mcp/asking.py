"""Answer what MCP servers ask: forms and addresses for the user, completions, folders."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import UNSET

from ludolf.agent.questions import AnswerClock
from ludolf.agent.scope import Aborted, Scope
from ludolf.base import LudolfError, uuid4
from ludolf.engine.feature import HostForms, Send
from ludolf.engine.features.mcp.forms import (
    DECLINE,
    DONE,
    INVALID_PARAMS,
    LEAVE_EMPTY,
    FormField,
    InvalidAnswer,
    read_form,
    shown_text,
)
from ludolf.engine.features.mcp.sampling import REJECTED, ServerSampling, read_sampling
from ludolf.engine.host.dialogs import HostDialogs
from ludolf.engine.run.requests import Requests
from ludolf.mcp.wire import METHOD_NOT_FOUND, Json, Refusal
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

SamplingMode = Literal["off", "ask", "allow"]
FormAction = Literal["decline", "cancel"]
_CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_MOST_MESSAGE = 1000
_MOST_SAMPLED = 400
_MOST_URL = 8192


class FormEnded(LudolfError):
    """The user did not fill in a form."""

    def __init__(self, action: FormAction) -> None:
        super().__init__(action)
        self.action: FormAction = action


class ServerDialogs:
    """Dialogs of servers; a dismissed one ends the form."""

    def __init__(self, clock: AnswerClock) -> None:
        self.host = HostDialogs(clock)

    async def select(self, title: str, options: tuple[str, ...]) -> str:
        """Return the chosen option.

        Raises:
            FormEnded: the user dismissed the dialog or declined.
        """
        answer = await self._ask(
            UiRequest(id=uuid4(), method="select", title=title, options=options)
        )
        if answer.value == DECLINE:
            raise FormEnded("decline")
        if answer.value not in options:
            raise FormEnded("cancel")
        return str(answer.value)

    async def confirm(self, title: str, message: str) -> bool:
        """Return the answer.

        Raises:
            FormEnded: the user dismissed the dialog.
        """
        answer = await self._ask(
            UiRequest(id=uuid4(), method="confirm", title=title, message=message)
        )
        if not isinstance(answer.confirmed, bool):
            raise FormEnded("cancel")
        return answer.confirmed

    async def input(self, title: str, placeholder: str | None) -> str:
        """Return the line that the user typed.

        Raises:
            FormEnded: the user dismissed the dialog.
        """
        answer = await self._ask(
            UiRequest(id=uuid4(), method="input", title=title, placeholder=placeholder)
        )
        if not isinstance(answer.value, str):
            raise FormEnded("cancel")
        return answer.value

    def open_url(self, url: str, instructions: str) -> None:
        """Ask the host to open an address.

        Raises:
            FormEnded: no host can.
        """
        request = UiRequest(id=uuid4(), method="open_url", url=url, instructions=instructions)
        if not self.host.show(request):
            raise FormEnded("cancel")

    def close(self) -> None:
        """Dismiss open and later dialogs, because the host is gone."""
        self.host.close()
        self.host.send = None

    async def _ask(self, request: UiRequest) -> UiAnswer:
        try:
            answer = await self.host.ask(request)
        except TimeoutError:
            raise FormEnded("cancel") from None
        if answer is None:
            raise FormEnded("cancel")
        return answer


class ServerQuestions:
    """What the servers of one session may ask; their dialogs come one after another.

    `sampling` returns the present setting. Elicitation is offered only while a host shows dialogs.
    `forms` are those of the host, if it has some.
    """

    forms: HostForms | None = None

    def __init__(self, requests: Requests, sampling: Callable[[], SamplingMode]) -> None:
        self._requests = requests
        self._mode = sampling
        self._sampling = ServerSampling(requests)
        self._dialogs = ServerDialogs(requests.conversation.answer_clock)
        self._turn = asyncio.Lock()
        self._work: dict[str, Scope] = {}
        self._calls: dict[str, int] = {}

    def capabilities(self) -> Json:
        """Return the capabilities that can be served now."""
        offered: dict[str, Any] = {"roots": {}}
        has_host = self._dialogs.host.can_ask
        if has_host:
            offered["elicitation"] = {"form": {}, "url": {}}
        mode = self._mode()
        if mode == "allow" or (mode == "ask" and has_host):
            offered["sampling"] = {}
        return offered

    async def answer(self, server: str, method: str, params: Json) -> Json:
        """Return the result of a request of a server.

        Raises:
            Refusal: the request is unknown, not offered, invalid or refused.
        """
        if _CAPABILITIES.get(method) not in self.capabilities():
            raise Refusal(METHOD_NOT_FOUND, f"Method not found: {shown_text(method, 100)}")
        if not isinstance(params, Mapping):
            raise Refusal(INVALID_PARAMS, "The parameters must be an object")
        with self._scope(server).open() as scope:
            try:
                return await scope.run(self._answer(server, method, params))
            except FormEnded as end:
                return {"action": end.action}
            except Aborted:
                if method == "elicitation/create":
                    return {"action": "cancel"}
                raise Refusal(REJECTED, "The call that asked was aborted") from None

    @contextmanager
    def calling(self, server: str) -> Iterator[None]:
        """Surround a call of a tool. It gives the server a new allowance of sampling.

        With the last running call of a server, its open questions end: nothing waits for them.
        """
        self._sampling.renew(server)
        self._calls[server] = self._calls.get(server, 0) + 1
        try:
            yield
        finally:
            self._calls[server] -= 1
            if not self._calls[server]:
                self._scope(server).abort_open()

    # ------------------------------------------------------------ hooks of the feature

    def connect(self, send: Send | None) -> None:
        """Show dialogs by `send` from now on; None if no host shows them."""
        self._dialogs.host.send = send

    def answer_dialog(self, answer: UiAnswer) -> None:
        self._dialogs.host.answer(answer)

    def open_dialogs(self) -> tuple[UiRequest, ...]:
        """Return the dialogs that have no answer yet."""
        return self._dialogs.host.waiting()

    def abort(self) -> None:
        """End all open requests of servers and close their dialogs."""
        for scope in self._work.values():
            scope.abort_open()

    def disconnect(self) -> None:
        """Dismiss all dialogs: the host is gone."""
        self._dialogs.close()

    # ------------------------------------------------------------ private

    def _scope(self, server: str) -> Scope:
        return self._work.setdefault(server, Scope())

    async def _answer(self, server: str, method: str, params: Json) -> Json:
        match method:
            case "elicitation/create":
                async with self._turn:
                    return await self._elicit(server, params)
            case "sampling/createMessage":
                return await self._sample(server, params)
        folder = self._requests.workspace.cwd
        return {"roots": [{"uri": folder.as_uri(), "name": folder.name or str(folder)}]}

    async def _elicit(self, server: str, params: Json) -> Json:
        message = shown_text(params.get("message"), _MOST_MESSAGE)
        mode = params.get("mode", "form")
        if mode == "url":
            return await self._visit(server, message, params.get("url"))
        if mode != "form":
            raise Refusal(INVALID_PARAMS, "Invalid elicitation: the mode must be form or url")
        fields = read_form(params.get("requestedSchema"))
        if self.forms is not None:
            text, schema = f"{server} asks: {message}", _plain_schema(fields)
            filled = await self.forms.fill_form(text, schema)
            if filled is not None:
                return _checked(*filled, fields)
        if not fields:
            if not await self._dialogs.confirm(f"{server} asks", message):
                raise FormEnded("decline")
            return {"action": "accept", "content": {}}
        return {"action": "accept", "content": await self._filled(server, message, fields)}

    async def _filled(self, server: str, message: str, fields: tuple[FormField, ...]) -> Json:
        content = {}
        for number, field in enumerate(fields, 1):
            place = f" ({number} of {len(fields)})" if len(fields) > 1 else ""
            value = await self._value(f"{server}{place}: ", message, field)
            if value is not UNSET:
                content[field.name] = value
        return content

    async def _value(self, start: str, message: str, field: FormField) -> Any:
        """Ask for one field; UNSET if it is left empty."""
        title = start + " - ".join(filter(None, (message, field.question)))
        match field.kind:
            case "boolean":
                return await self._dialogs.confirm(start + field.question, message)
            case "choice":
                return await self._choice(title, field)
            case "choices":
                return await self._choices(title, field)
        return await self._typed(title, field)

    async def _choice(self, title: str, field: FormField) -> Any:
        extra = (DECLINE,) if field.required else (LEAVE_EMPTY, DECLINE)
        label = await self._dialogs.select(title, (*field.options, *extra))
        return UNSET if label == LEAVE_EMPTY else field.options[label]

    async def _choices(self, title: str, field: FormField) -> Any:
        """Ask for one choice after another until the user is done."""
        chosen: list[str] = []
        least, most = field.count_limits
        while len(chosen) < most:
            rest = tuple(label for label in field.options if label not in chosen)
            is_enough = len(chosen) >= least or (not chosen and field.may_be_empty)
            ends = (DONE,) if is_enough else ()
            so_far = f" (chosen: {', '.join(chosen)})" if chosen else ""
            label = await self._dialogs.select(title + so_far, (*rest, *ends, DECLINE))
            if label == DONE:
                break
            chosen.append(label)
        if not chosen and field.may_be_empty:
            return field.default
        return [field.options[label] for label in chosen]

    async def _typed(self, title: str, field: FormField) -> Any:
        """Ask for a text or a number; once more if the answer does not fit."""
        placeholder = field.shown_default
        try:
            return field.read(await self._dialogs.input(title, placeholder))
        except InvalidAnswer as error:
            reason = f"{title} ({error})"
        try:
            return field.read(await self._dialogs.input(reason, placeholder))
        except InvalidAnswer:
            raise FormEnded("cancel") from None

    async def _visit(self, server: str, message: str, url: Any) -> Json:
        host = _web_host(url)
        if self.forms is not None:
            action = await self.forms.visit_address(f"{server} asks: {message}", url)
            if action is not None:
                return {"action": action}
        title = f"{server} asks to open {host}"
        if not await self._dialogs.confirm(title, f"{message}\n{url}" if message else url):
            raise FormEnded("decline")
        self._dialogs.open_url(url, f"{server}: {message}" if message else server)
        return {"action": "accept"}

    async def _sample(self, server: str, params: Json) -> Json:
        order = read_sampling(params)
        self._sampling.take(server)
        if self._mode() == "ask":
            async with self._turn:
                await self._allow_sampling(server, order.text)
        return await self._sampling.complete(server, order)

    async def _allow_sampling(self, server: str, text: str) -> None:
        title = f"{server} asks to use the model"
        try:
            allowed = await self._dialogs.confirm(title, shown_text(text, _MOST_SAMPLED))
        except FormEnded:
            allowed = False
        if not allowed:
            raise Refusal(REJECTED, "The user rejected the sampling request")


def _plain_schema(fields: tuple[FormField, ...]) -> Json:
    """Return the schema of a form with nothing but its fields."""
    required = [field.name for field in fields if field.required]
    return {
        "type": "object",
        "properties": {field.name: field.schema for field in fields},
        **({"required": required} if required else {}),
    }


def _checked(action: str, content: Json, fields: tuple[FormField, ...]) -> Json:
    """Return the answer of a host; one whose values do not fit the form counts as cancelled."""
    if action != "accept":
        return {"action": action}
    values = {}
    for field in fields:
        value = content.get(field.name, field.default)
        if value is UNSET and not field.required:
            continue
        if not field.accepts(value):
            return {"action": "cancel"}
        values[field.name] = value
    return {"action": "accept", "content": values}


def _web_host(url: Any) -> str:
    """Return the host of an address, with its port.

    Only ASCII is accepted, so that no letter of the host looks like another one.

    Raises:
        Refusal: it is not an address of a web page.
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    is_plain = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
    if not host or not is_plain or len(url) > _MOST_URL or parts.scheme not in ("http", "https"):
        text = f"the url must be an http or https address of at most {_MOST_URL} ASCII characters"
        raise Refusal(INVALID_PARAMS, f"Invalid elicitation: {text}")
    return host if port is None else f"{host}:{port}"
