"""Find local model servers, identify them and list their models."""

import asyncio
import errno
import select
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from ludolf.ai.json_text import json_value
from ludolf.ai.local.kinds import KINDS
from ludolf.ai.models import Model, ModelCost
from ludolf.base import dumps

MAX_BYTES = 8 << 20
UNAUTHORIZED = 401
# TimeoutError is an OSError.
_ODD = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class Heard(msgspec.Struct, frozen=True):
    """The status of a response, and its body if that is JSON."""

    status: int
    value: Any = None


async def ask(
    url: str, seconds: float | None, *, key: str | None = None, body: Any = None
) -> Heard | None:
    """Send one request; None without an HTTP response in time. With a body it is a POST."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(seconds):
            return await _exchange(parts, _request(parts, key, body))
    except _ODD:
        return None


async def _exchange(parts: SplitResult, request: bytes) -> Heard | None:
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None, limit=MAX_BYTES
    )
    try:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status, headers = _head(head)
        return Heard(status, json_value(await _body(reader, headers)))
    finally:
        writer.close()


def _request(parts: SplitResult, key: str | None, body: Any) -> bytes:
    data = b"" if body is None else dumps(body)
    lines = [
        f"{'GET' if body is None else 'POST'} {parts.path or '/'} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "Accept: application/json",
        "Connection: close",
    ]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join((*lines, "", "")).encode() + data


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ")
    if not version.startswith("HTTP/"):
        raise ValueError("not HTTP")
    pairs = (line.partition(":") for line in lines if line)
    return int(status), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    size = headers.get("content-length")
    if size is None:
        return await _rest(reader)
    if int(size) > MAX_BYTES:
        raise ValueError("too long")
    return await reader.readexactly(int(size))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while size := int((await reader.readline()).split(b";")[0], 16):
        total += size
        if total > MAX_BYTES:
            raise ValueError("too long")
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    return b"".join(pieces)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    data = b""
    while piece := await reader.read(1 << 16):
        data += piece
        if len(data) > MAX_BYTES:
            raise ValueError("too long")
    return data


API = "openai-completions"
# Time limit for a port that is closed or silent; an identified server gets more time.
KNOCK_SECONDS = 0.3
KNOCK_MILLISECONDS = 1
AWAY_SECONDS = 2.0
DETAIL_SECONDS = 2.0
MAX_MODELS = 200
OLLAMA_CONTEXT = 4096
MAX_ANSWER = 16_384
LOOPBACK = ("127.0.0.1", "localhost", "::1")
COMPAT: Mapping[str, Any] = {
    "supportsStore": False,
    "supportsDeveloperRole": False,
    "supportsLongCacheRetention": False,
    "maxTokensField": "max_tokens",
}
_GONE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL)


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address to probe; without a provider, any kind of server may listen there."""

    url: str
    provider: str | None = None
    # Keys by provider: the kind of server is unknown until it has answered.
    keys: Mapping[str, str] = {}
    # Ollama's context length for a model that sets none.
    default_context: int = OLLAMA_CONTEXT

    @property
    def near(self) -> bool:
        return urlsplit(self.url).hostname in LOOPBACK


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server and its models; `loaded` are the ids that answer without a load."""

    provider: str
    url: str
    models: tuple[Model, ...]
    loaded: frozenset[str] = frozenset()


def someone_listens(place: ServerAddress) -> bool:
    """Return whether a probe is worthwhile; a fast check that returns True in doubt."""
    parts = urlsplit(place.url)
    if not place.near or parts.port is None:
        return True
    family = socket.AF_INET6 if parts.hostname == "::1" else socket.AF_INET
    host = "127.0.0.1" if parts.hostname == "localhost" else str(parts.hostname)
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect_ex((host, parts.port))
            poll = select.poll()
            poll.register(probe, select.POLLOUT)
            poll.poll(KNOCK_MILLISECONDS)
            return probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) not in _GONE
    except OSError:
        return False


async def look_at(places: Iterable[ServerAddress]) -> tuple[RunningServer, ...]:
    """Probe all places concurrently; omit everything that is not a known model server."""
    servers = await asyncio.gather(*map(_identify, places))
    return tuple(server for server in servers if server is not None)


async def _identify(place: ServerAddress) -> RunningServer | None:
    kinds = (place.provider,) if place.provider else tuple(_READERS)
    looks = (_READERS[kind](ServerProbe(place, kind)) for kind in kinds)
    answers = await asyncio.gather(*looks)
    return next((server for server in answers if server is not None), None)


class ServerProbe:
    """Requests to one place. The key is sent only if the server asks for one."""

    def __init__(self, place: ServerAddress, provider: str) -> None:
        self.place = place
        self._key = place.keys.get(provider)
        self._patience = KNOCK_SECONDS if place.near else AWAY_SECONDS

    async def get(self, path: str, seconds: float | None = None) -> Any:
        """Return the JSON of a path if it answers in time; None otherwise."""
        return await self._ask(path, seconds or self._patience, None)

    async def post(self, path: str, body: Any, seconds: float | None = DETAIL_SECONDS) -> Any:
        return await self._ask(path, seconds, body)

    async def _ask(self, path: str, seconds: float | None, body: Any) -> Any:
        url, key = self.place.url + path, self._key
        response = await ask(url, seconds, body=body)
        if key and response is not None and response.status == UNAUTHORIZED:
            response = await ask(url, seconds, key=key, body=body)
        return response.value if isinstance(response, Heard) and response.status == 200 else None


# ---------------------------------------------------------------- Ollama


async def _ollama(asking: ServerProbe) -> RunningServer | None:
    names = _ollama_names(await asking.get("/api/tags"))
    if names is None:
        return None
    running, *details = await asyncio.gather(
        asking.get("/api/ps", DETAIL_SECONDS),
        *(asking.post("/api/show", {"model": name}) for name in names),
    )
    sizes = _ollama_sizes(running)
    pairs = zip(names, details, strict=True)
    models = [_ollama_model(asking.place, name, show, sizes.get(name)) for name, show in pairs]
    return _server(asking, "ollama", models, loaded=sizes)


def _ollama_names(tags: Any) -> list[str] | None:
    """Return the models of `/api/tags`; llama.cpp serves that path too, in another form."""
    if not isinstance(tags, dict) or "models" not in tags or "object" in tags:
        return None
    items = _dicts(tags["models"])
    if any("digest" not in item and "details" not in item for item in items):
        return None
    return [name for item in items if (name := _text(item, "name"))][:MAX_MODELS]


def _ollama_sizes(running: Any) -> dict[str, int]:
    """Return the context length of each loaded model; 0 if an old Ollama does not report it."""
    items = _dicts(running.get("models")) if isinstance(running, dict) else []
    return {_text(item, "name"): _count(item.get("context_length")) for item in items}


def _ollama_model(place: ServerAddress, name: str, show: Any, running: int | None) -> Model | None:
    about: dict[str, Any] = show if isinstance(show, dict) else {}
    able = about.get("capabilities")
    if not isinstance(able, list):
        # Before Ollama 0.6.4 only the template shows this.
        able = ["completion", *(["tools"] if ".Tools" in _text(about, "template") else [])]
        able += [] if about else ["tools"]
    if "completion" not in able:
        return None
    info = _inner(about, "model_info")
    trained = _count(info.get(f"{info.get('general.architecture')}.context_length"))
    context = running or _parameter(_text(about, "parameters"), "num_ctx") or place.default_context
    return local_model(
        "ollama",
        place.url,
        name,
        context=min(context, trained or context),
        thinks="thinking" in able,
        sees="vision" in able,
    ).replace(
        thinking_level_map={"off": "none", "minimal": "low"} if "thinking" in able else None,
        compat={**COMPAT, **({} if "tools" in able else {"supportsTools": False})},
    )


def _parameter(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == name and value.strip().isdecimal():
            return int(value)
    return 0


async def load_ollama(place: ServerAddress, model_id: str) -> None:
    """Load a model as the next request would; then `/api/ps` reports its context length."""
    asking = ServerProbe(place, "ollama")
    await asking.post("/api/generate", {"model": model_id, "stream": False}, None)


# ---------------------------------------------------------------- llama.cpp


async def _llama_cpp(asking: ServerProbe) -> RunningServer | None:
    props, model_list = await asyncio.gather(asking.get("/props"), asking.get("/v1/models"))
    props = props if isinstance(props, dict) else {}
    items = [item for item in _model_rows(model_list) if item.get("owned_by") == "llamacpp"]
    if not items:
        return None
    models = [_llama_model(asking.place, item, props) for item in items]
    loaded = [_text(item, "id") for item in items if _is_loaded(item)]
    return _server(asking, "llama.cpp", models, loaded=loaded)


def _is_loaded(item: Mapping[str, Any]) -> bool:
    """Return whether a model is loaded; a server with a single model answers only once it is."""
    status = item.get("status")
    return not isinstance(status, dict) or status.get("value") == "loaded"


def _llama_model(
    place: ServerAddress, item: Mapping[str, Any], props: Mapping[str, Any]
) -> Model | None:
    meta, kinds = _inner(item, "meta"), _inner(item, "architecture").get("input_modalities")
    context = _count(_inner(props, "default_generation_settings").get("n_ctx"))
    context = context or _count(meta.get("n_ctx")) or _count(meta.get("n_ctx_train"))
    sees = bool(_inner(props, "modalities").get("vision"))
    template = _text(props, "chat_template")
    thinking = thinking_compat(template)
    model = local_model(
        "llama.cpp",
        place.url,
        _text(item, "id"),
        context=context or OLLAMA_CONTEXT,
        thinks=bool(thinking),
        sees=sees or (isinstance(kinds, list) and "image" in kinds),
    )
    return model.replace(compat={**COMPAT, **thinking})


def thinking_compat(template: str) -> dict[str, Any]:
    """Return the thinking options of a chat template from its variables; empty if it has none."""
    options: dict[str, Any] = {}
    if "enable_thinking" in template:
        options["enable_thinking"] = {"$var": "thinking.enabled"}
    if "reasoning_effort" in template:
        options["reasoning_effort"] = {"$var": "thinking.effort", "omitWhenOff": True}
    return {"thinkingFormat": "chat-template", "chatTemplateKwargs": options} if options else {}


# ---------------------------------------------------------------- LM Studio and vLLM


async def _lmstudio(asking: ServerProbe) -> RunningServer | None:
    model_list = await asking.get("/api/v0/models")
    if not isinstance(model_list, dict) or not isinstance(model_list.get("data"), list):
        return None
    items = _model_rows(model_list)
    if any("state" not in item or "type" not in item for item in items):
        return None
    items = [item for item in items if item["type"] in ("llm", "vlm")]
    models = [_lmstudio_model(asking.place, item) for item in items]
    loaded = [_text(item, "id") for item in items if item["state"] == "loaded"]
    return _server(asking, "lmstudio", models, loaded=loaded)


def _lmstudio_model(place: ServerAddress, item: Mapping[str, Any]) -> Model:
    most = _count(item.get("max_context_length"))
    context = _count(item.get("loaded_context_length"))
    if not context:
        # LM Studio loads a model with this context length unless its settings differ.
        context = most if item["state"] == "loaded" else min(most, OLLAMA_CONTEXT)
    return local_model(
        "lmstudio",
        place.url,
        _text(item, "id"),
        context=context or OLLAMA_CONTEXT,
        sees=item["type"] == "vlm",
    )


async def _vllm(asking: ServerProbe) -> RunningServer | None:
    items = _model_rows(await asking.get("/v1/models"))
    items = [item for item in items if item.get("owned_by") == "vllm"]
    if not items:
        return None
    models = [
        local_model(
            "vllm",
            asking.place.url,
            _text(item, "id"),
            context=_count(item.get("max_model_len")) or OLLAMA_CONTEXT,
        )
        for item in items
    ]
    return _server(asking, "vllm", models, loaded=[model.id for model in models])


_READERS: dict[str, Callable[[ServerProbe], Awaitable[RunningServer | None]]] = {
    "ollama": _ollama,
    "lmstudio": _lmstudio,
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
}
assert set(_READERS) == set(KINDS)


# ---------------------------------------------------------------- models


def local_model(
    provider: str,
    url: str,
    model_id: str,
    *,
    context: int,
    thinks: bool = False,
    sees: bool = False,
) -> Model:
    """Return a model without cost that uses Chat Completions."""
    return Model(
        id=model_id,
        name=model_id.replace("\\", "/").rpartition("/")[2] if "/" in model_id else model_id,
        api=API,
        provider=provider,
        base_url=f"{url}/v1",
        reasoning=thinks,
        input=("text", "image") if sees else ("text",),
        cost=ModelCost(),
        context_window=context,
        max_tokens=max(1, min(MAX_ANSWER, context // 2)),
        compat=dict(COMPAT),
    )


def _server(
    asking: ServerProbe, provider: str, models: Iterable[Model | None], *, loaded: Iterable[str]
) -> RunningServer:
    ready = frozenset(loaded)
    usable = [model for model in models if model is not None and model.id]
    usable.sort(key=lambda model: (model.id not in ready, not model.uses_tools))
    return RunningServer(
        provider=provider, url=asking.place.url, models=tuple(usable), loaded=ready
    )


# ---------------------------------------------------------------- JSON of others


def _model_rows(value: Any) -> list[dict[str, Any]]:
    return _dicts(value.get("data"))[:MAX_MODELS] if isinstance(value, dict) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _inner(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    item = value.get(name)
    return item if isinstance(item, dict) else {}


def _text(value: Mapping[str, Any], name: str) -> str:
    item = value.get(name)
    return item if isinstance(item, str) else ""


def _count(value: Any) -> int:
    """Return a number of tokens; 0 if the value is not a number."""
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else 0
