"""Model providers of script extensions, and requests of extensions to models."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.provider import Provider, Request, ToolSpec
from ludolf.ai.stream import respond
from ludolf.base import CommandError, uuid7
from ludolf.engine.features.script_extensions.accounts import (
    ScriptAccounts,
    ScriptCatalog,
    ScriptLogin,
    ScriptProvider,
)
from ludolf.engine.features.script_extensions.link import ScriptError, ScriptFrame, ScriptLink
from ludolf.engine.features.script_extensions.shapes import encode, raw_messages
from ludolf.extensions.host import Host
from ludolf.extensions.payloads import answer_piece
from ludolf.extensions.providers import DraftWriter, Registration, own_api, registration
from ludolf.functions.content import BadAnswer, read_messages

_KNOWN = frozenset(
    ("name", "baseUrl", "api", "apiKey", "headers", "authHeader", "compat", "models")
)
_END = object()


class ScriptBackend:
    """Provider whose answers `streamSimple` of a script extension writes."""

    abort_text = "Request was aborted."

    def __init__(self, link: ScriptLink, extension: int, name: str, api: str | None) -> None:
        self._link = link
        self._extension = extension
        self._name = name
        self.api = own_api(name, api)

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        """Stream the answer of the extension's code.

        Raises:
            ProviderError: the code failed or sent an error event.
        """
        writer, events = DraftWriter(draft), asyncio.Queue[Any]()
        args = encode(self._asked(request))
        try:
            number, pending = self._link.begin("stream", args, events.put_nowait)
        except ScriptError as error:
            raise ProviderError(str(error)) from error
        pending.add_done_callback(lambda _: events.put_nowait(_END))
        try:
            yield ()
            while (event := await events.get()) is not _END:
                yield writer.write(event)
            pending.result()
        except (ScriptError, BadAnswer) as error:
            raise ProviderError(str(error)) from error
        finally:
            if not pending.done():
                self._link.cancel(number)
            self._link.forget(number)

    def _asked(self, request: Request) -> dict[str, Any]:
        tools = [_tool(one) for one in request.tools]
        system = {"role": "system", "content": request.system, "toolsAdded": tools}
        options: dict[str, Any] = {
            "apiKey": request.access.key,
            "headers": dict(request.access.headers),
            "maxTokens": request.max_tokens,
            "sessionId": request.session_id,
        }
        if request.thinking != "off":
            options["reasoning"] = request.thinking
        return {
            "ext": self._extension,
            "name": self._name,
            "model": request.model,
            "context": {
                "systemPrompt": request.system,
                "tools": tools,
                "messages": [system, *raw_messages(request.messages)],
            },
            "options": {name: value for name, value in options.items() if value is not None},
        }


def read_provider(
    frame: ScriptFrame, backend: ScriptBackend | None, script: ScriptProvider, own: ScriptAccounts
) -> Registration:
    """Build the registration of a provider from pi's configuration.

    Raises:
        BadAnswer: a field is invalid.
    """
    name = script.name
    config = {key: value for key, value in frame["config"].items() if key in _KNOWN}

    def known_fields(model: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = _without_unknown(model)
        return fields if backend is None else {**fields, "api": backend.api}

    if backend is not None:
        config.setdefault("baseUrl", f"extension://{name}")
        config["api"] = backend.api
    config["models"] = [known_fields(model) for model in config.get("models") or ()]
    made = structs.replace(registration(name, config, None), backend=backend)
    if (title := frame.get("login")) is not None:
        login = ScriptLogin(script, own, str(title), made.entry.api_key)
        made = structs.replace(made, login=login)
    if frame.get("refreshes") or frame.get("adapts"):
        made = structs.replace(made, catalog=ScriptCatalog(script, own, frame, known_fields))
    return made


def _without_unknown(model: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key != "provider" and value is not None}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}


# ---------------------------------------------------------------- requests of extensions


async def make_request(host: Host, args: Mapping[str, Any]) -> Request:
    """Build a request from pi's model, context and options.

    Raises:
        CommandError: the model is unknown.
        ProviderError: the model has no key.
    """
    given, context = args.get("model") or {}, args.get("context") or {}
    model = host.registry.find(str(given.get("provider")), str(given.get("id")))
    if model is None:
        raise CommandError(f"Model not found: {given.get('provider')}/{given.get('id')}")
    options = args.get("options") or {}
    messages = [m for m in context.get("messages") or () if m.get("role") != "system"]
    limit = options.get("maxTokens")
    return structs.replace(
        await host.request(model),
        system=str(context.get("systemPrompt") or _system(context)),
        messages=read_messages(messages, "messages"),
        tools=tuple(_spec(one) for one in context.get("tools") or ()),
        thinking=options.get("reasoning") or "off",
        max_tokens=limit if isinstance(limit, int) else None,
        session_id=str(options.get("sessionId") or uuid7()),
        cache="none",
    )


def _system(context: Mapping[str, Any]) -> str:
    messages = context.get("messages") or ()
    first: Mapping[str, Any] = next((m for m in messages if m.get("role") == "system"), {})
    content = first.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(
        str(tool.get("name")), str(tool.get("description") or ""), tool.get("parameters") or {}
    )


async def complete(host: Host, args: Mapping[str, Any]) -> AssistantMessage:
    """Return the whole answer of a model; a failed call returns an answer that says so."""
    request = await make_request(host, args)

    async def ignore(events: Iterable[StreamEvent]) -> None:
        for _ in events:
            pass

    return (await respond(request, Draft(request.model), ignore)).message


async def stream(
    host: Host, args: Mapping[str, Any], update: Callable[[Any], None]
) -> AssistantMessage:
    """Stream the answer of a model: pieces to `update`, at the end the whole message."""
    request = await make_request(host, args)
    draft = Draft(request.model)

    async def show(events: Iterable[StreamEvent]) -> None:
        for event in events:
            update(msgspec.to_builtins(answer_piece(event)))

    return (await respond(request, draft, show)).message


if TYPE_CHECKING:

    def _proof(backend: ScriptBackend) -> Provider:
        return backend
