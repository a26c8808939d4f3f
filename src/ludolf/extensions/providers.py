"""Providers from extensions: configuration of a built-in API, or a custom backend."""

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, Request
from ludolf.ai.registry import API_NAMES
from ludolf.config.auth.provider_logins import ProviderLogin
from ludolf.config.models.models_file import ProviderEntry
from ludolf.extensions.provider_accounts import (
    ProviderCatalog,
    PythonCatalog,
    PythonLogin,
    member,
)
from ludolf.functions.content import BadAnswer, read, to_wire
from ludolf.functions.isolation import Failed, call, call_now

_END = object()
_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "toolUse": "toolUse",
    "deferred": "toolUse",
}


_BACKEND_OPTIONS = ("name", "base_url", "api_key", "headers", "auth_header", "compat")


class Registration(msgspec.Struct, frozen=True):
    """A provider to register.

    `backend` is set if it implements a custom API, `login` if users log in to it, `catalog` if code
    decides which models it has.
    """

    name: str
    entry: ProviderEntry
    backend: Provider | None = None
    login: ProviderLogin | None = None
    catalog: ProviderCatalog | None = None


class ModelContext(msgspec.Struct, frozen=True):
    """Conversation that a backend answers."""

    system_prompt: str
    messages: tuple[Any, ...]
    tools: tuple[Any, ...]


class ModelOptions(msgspec.Struct, frozen=True):
    """Options and credentials of a request to a backend."""

    thinking: str
    max_tokens: int | None
    api_key: str | None
    headers: Mapping[str, str]
    session_id: str


def registration(name: str, config: Mapping[str, Any], before: Registration | None) -> Registration:
    """Build a provider from its configuration, merged over an earlier one of the same name.

    Raises:
        BadAnswer: a field is invalid or unknown.
    """
    given = {key: value for key, value in config.items() if value is not None}
    refresh = given.pop("refresh_models", None)
    oauth = None if isinstance(given.get("oauth"), str) else given.pop("oauth", None)
    fields = to_wire(structs.asdict(before.entry)) if before is not None else {}
    fields |= to_wire(given)
    fields = {key: value for key, value in fields.items() if value is not None}
    unknown = set(fields) - set(ProviderEntry.__struct_encode_fields__)
    if unknown:
        raise BadAnswer(f"provider {name}: unknown option {', '.join(sorted(unknown))}")
    entry = read(ProviderEntry, fields, f"provider {name}")
    made = Registration(name, entry) if before is None else structs.replace(before, entry=entry)
    if oauth is not None:
        made = structs.replace(made, login=PythonLogin(name, oauth, entry.api_key))
    if refresh is not None or (oauth is not None and member(oauth, "modify_models") is not None):
        made = structs.replace(made, catalog=PythonCatalog(refresh, oauth, _model_fields))
    return made


def backend_registration(author: Any) -> Registration:
    """Build a provider from an object with `id`, `models()` and `stream(model, context, options)`.

    It may also have `api`, `base_url`, `api_key`, `headers`, `oauth` and `refresh_models`.

    Raises:
        BadAnswer: one of them is missing or invalid.
        Failed: `models()` failed.
    """
    name = getattr(author, "id", None)
    if not isinstance(name, str) or not callable(getattr(author, "stream", None)):
        raise BadAnswer("a provider needs an id, models() and stream(model, context, options)")
    backend = Backend(name, author)
    specs = call_now(author.models) if hasattr(author, "models") else ()
    stated = {option: getattr(author, option, None) for option in _BACKEND_OPTIONS}
    given = {name: value for name, value in stated.items() if value and not callable(value)}
    config = {"name": name, "base_url": f"extension://{name}", **given, "api": backend.api}
    config["models"] = [_model_fields(model) for model in specs]
    accounts = {option: getattr(author, option, None) for option in ("oauth", "refresh_models")}
    return structs.replace(registration(name, config | accounts, None), backend=backend)


def _model_fields(model: Any) -> Any:
    if isinstance(model, Model):
        return {key: value for key, value in structs.asdict(model).items() if key != "provider"}
    return {"id": model} if isinstance(model, str) else model


def own_api(name: str, stated: str | None) -> str:
    """Return the API of a backend; the names of built-in ones keep their meaning."""
    return stated if stated and stated not in API_NAMES else f"extension:{name}"


class Backend:
    """Provider that writes the events of an author's stream to the draft of the answer."""

    abort_text = "Request was aborted."

    def __init__(self, name: str, author: Any) -> None:
        self.api = own_api(name, getattr(author, "api", None))
        self._author = author

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        """Stream the answer of the author's code.

        Raises:
            ProviderError: the author's code failed or sent an error event.
        """
        context = ModelContext(request.system, request.messages, request.tools)
        options = ModelOptions(
            thinking=request.thinking,
            max_tokens=request.max_tokens,
            api_key=request.access.key,
            headers=request.access.headers,
            session_id=request.session_id,
        )
        writer = DraftWriter(draft)
        try:
            source = await call(self._author.stream, request.model, context, options)
            yield ()
            try:
                while (event := await call(functools.partial(anext, source, _END))) is not _END:
                    yield writer.write(event)
            finally:
                await _close(source)
        except (Failed, BadAnswer) as error:
            raise ProviderError(str(error)) from error


async def _close(source: AsyncIterator[Any]) -> None:
    if hasattr(source, "aclose"):
        await call(source.aclose)


class DraftWriter:
    """Writes one answer to a draft, mapping the author's block numbers to those of the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._places: dict[int, int] = {}
        self._last: tuple[str, int] | None = None

    def write(self, event: Any) -> list[StreamEvent]:
        """Apply one event and return the stream events; plain text is a text delta."""
        if isinstance(event, str):
            return self._delta("text", self._index("text", "delta", {}), event)
        if not isinstance(event, Mapping | msgspec.Struct):
            raise BadAnswer(f"a stream yields dicts or text, not {type(event).__name__}")
        event = to_wire(event)
        kind, _, step = str(event.get("type", "")).partition("_")
        index = self._index(kind, step, event)
        match kind, step:
            case "start", _:
                return []
            case (("text" | "thinking" | "toolcall"), "start"):
                return [self._start(kind, index, event)]
            case (("text" | "thinking" | "toolcall"), "delta"):
                return self._delta(kind, index, str(event.get("delta", "")))
            case (("text" | "thinking" | "toolcall"), "end"):
                return self._end(kind, index, event)
            case "done", _:
                return self._done(event)
            case "error", _:
                raise ProviderError(_error_text(event))
            case _:
                raise BadAnswer(f"unknown stream event {event.get('type')!r}")

    def _index(self, kind: str, step: str, event: Mapping[str, Any]) -> int:
        """Return the block number of an event.

        Without a number it is the last block if that is open and of this kind, else a new one.
        """
        if "contentIndex" in event:
            return int(event["contentIndex"])
        if self._last is None:
            return 0
        open_kind, index = self._last
        continues = open_kind == kind and self._draft.is_open(self._places[index])
        return index if continues and step != "start" else max(self._places) + 1

    def _start(self, kind: str, index: int, event: Mapping[str, Any]) -> StreamEvent:
        self._last = (kind, index)
        draft = self._draft
        if kind == "text":
            start = draft.start_text()
        elif kind == "thinking":
            start = draft.start_thinking()
        else:
            call = event.get("toolCall") or {}
            name = event.get("toolName") or call.get("name", "")
            start = draft.start_tool(str(event.get("id") or call.get("id", "")), str(name))
        self._places[index] = start.index
        return start

    def _start_missing(self, kind: str, index: int, event: Mapping[str, Any]) -> list[StreamEvent]:
        """End the open blocks and start this one, if the author has not started it."""
        if index in self._places:
            return []
        return [*self._draft.end_all(), self._start(kind, index, event)]

    def _delta(self, kind: str, index: int, delta: str) -> list[StreamEvent]:
        events = self._start_missing(kind, index, {})
        add = {"text": self._draft.text, "thinking": self._draft.thinking}
        events.append(add.get(kind, self._draft.tool_args)(self._places[index], delta))
        return events

    def _end(self, kind: str, index: int, event: Mapping[str, Any]) -> list[StreamEvent]:
        call = event.get("toolCall")
        events = self._start_missing(kind, index, event)
        if events and call is not None:
            arguments = msgspec.json.encode(call.get("arguments") or {}).decode()
            events.append(self._draft.tool_args(self._places[index], arguments))
        if self._draft.is_open(self._places[index]):
            events.append(self._draft.end(self._places[index]))
        return events

    def _done(self, event: Mapping[str, Any]) -> list[StreamEvent]:
        message = event.get("message") or {}
        usage = event.get("usage") or message.get("usage")
        if usage is not None:
            self._draft.count(read(Usage, usage, "usage"))
        events: list[StreamEvent] = list(self._draft.end_all())
        reason = event.get("reason") or ("toolUse" if self._draft.has_tool_calls else "stop")
        self._draft.stopped(_REASONS.get(str(reason), "stop"), str(reason))
        return events


def _error_text(event: Mapping[str, Any]) -> str:
    error = event.get("error")
    if isinstance(error, Mapping):
        error = error.get("errorMessage") or error.get("message")
    return str(error or "The provider failed")


if TYPE_CHECKING:

    def _proof(backend: Backend) -> Provider:
        return backend
