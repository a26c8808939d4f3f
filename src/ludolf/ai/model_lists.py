"""Query the model list of a provider and parse the response of each API."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ludolf.ai.access import Access, Patience
from ludolf.ai.errors import ProviderError
from ludolf.ai.models import Model
from ludolf.base import Value, loads
from ludolf.base.patterns import lazy_pattern

if TYPE_CHECKING:
    from ludolf.ai.http.transport import Transport

SECONDS = 30.0
_PATHS: Mapping[str, str] = {
    "openai-completions": "/models",
    "openai-responses": "/models",
    "anthropic-messages": "/v1/models?limit=1000",
    "google-generative-ai": "/models?pageSize=1000",
    "mistral-conversations": "/v1/models",
}
_MOST_PAGES = 20
_MOST_BYTES = 32 << 20
# Lists that contain only ids also include many models that are not chat models.
_NO_CHAT = lazy_pattern(
    r"embed|whisper|\btts\b|dall-e|moderation|image|imagen|\bveo\b|\baudio\b|realtime|transcri"
    r"|davinci|babbage|\bsora\b|rerank|\bocr\b|speech|video|\baqa\b|\blive\b|computer-use"
)
_OTHER_TYPES = ("embedding", "image", "moderation", "rerank", "audio", "video")


class ListedPrices(Value):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ListedModel(Value):
    """A model as listed by its provider; None marks facts that the list omits."""

    id: str
    name: str | None = None
    reasoning: bool | None = None
    input: tuple[Literal["text", "image"], ...] | None = None
    cost: ListedPrices | None = None
    context_window: int | None = None
    max_tokens: int | None = None


def can_list(model: Model) -> bool:
    """Return whether the server of a model has a model list."""
    return model.api in _PATHS and "{" not in model.base_url


async def list_models(
    transport: "Transport", model: Model, access: Access
) -> tuple[ListedModel, ...]:
    """Return the chat models that the server of `model` lists.

    Raises:
        ProviderError: the server could not be reached, or did not return a list.
    """
    url = (access.base_url or model.base_url).rstrip("/") + _PATHS[model.api]
    headers = _headers(model, access)
    models: dict[str, ListedModel] = {}
    more = ""
    for _ in range(_MOST_PAGES):
        page = await _get(transport, url + more, headers)
        rows = _rows(page)
        if rows is None:
            raise ProviderError("The answer is not a list of models", kind="bad_request")
        models |= {listed.id: listed for row in rows if (listed := _read(row)) is not None}
        more = _next_page(page)
        if not more:
            break
    return tuple(models.values())


def _headers(model: Model, access: Access) -> dict[str, str]:
    from ludolf import __version__

    ours = {"Accept": "application/json", "User-Agent": f"ludolf/{__version__}"}
    key = access.key or ""
    if model.api == "anthropic-messages":
        ours["anthropic-version"] = "2023-06-01"
    if not key:
        return access.over(ours)
    if model.api == "google-generative-ai":
        ours["x-goog-api-key"] = key
    elif model.api == "anthropic-messages" and "sk-ant-oat" not in key:
        ours["x-api-key"] = key
    else:
        ours["Authorization"] = f"Bearer {key}"
    return access.over(ours)


async def _get(transport: "Transport", url: str, headers: Mapping[str, str]) -> Any:
    from ludolf.ai.http.transport import HttpRequest

    all_headers = {"Accept-Encoding": "identity", **headers}
    sent = HttpRequest(
        method="GET", url=url, headers=all_headers, body=b"", patience=Patience(first=SECONDS)
    )
    body = bytearray()
    async with transport.exchange(sent) as raw:
        async with asyncio.timeout(SECONDS):
            while chunk := await raw.content.readany():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise ProviderError("The list of models is too long", kind="bad_request")
    text = " ".join(bytes(body[:2000]).decode("utf-8", "replace").split())[:200]
    if raw.status != 200:
        raise ProviderError(f"{raw.status} {text}".strip(), kind="bad_request")
    try:
        return loads(body)
    except ValueError:
        raise ProviderError(f"The answer is not JSON: {text}", kind="bad_request") from None


def _rows(page: Any) -> Sequence[Any] | None:
    """Return the list inside a response: under a key, or at the top level."""
    if isinstance(page, dict):
        page = page.get("data", page.get("models"))
    return page if isinstance(page, list) else None


def _next_page(page: Any) -> str:
    from urllib.parse import quote

    if not isinstance(page, dict):
        return ""
    token = page.get("nextPageToken")
    if isinstance(token, str) and token:
        return f"&pageToken={quote(token, safe='')}"
    last = page.get("last_id")
    return f"&after_id={quote(last, safe='')}" if page.get("has_more") and last else ""


# ---------------------------------------------------------------- one model


def _read(row: Any) -> ListedModel | None:
    """Parse a row; None if it is not a chat model."""
    model_id = row.get("id") or row.get("name") if isinstance(row, dict) else None
    if not isinstance(model_id, str):
        return None
    model_id = model_id.removeprefix("models/")
    if not _converses(row, model_id):
        return None
    name = _first(row, "display_name", "displayName", "name")
    is_id = row.get("name") == row.get("id") or name == f"models/{model_id}"
    return ListedModel(
        id=model_id,
        name=name if isinstance(name, str) and name != model_id and not is_id else None,
        reasoning=_reasoning(row),
        input=_input(row),
        cost=_prices(row.get("pricing")),
        context_window=_tokens(
            _first(row, "context_length", "context_window", "max_context_length"),
            _first(row, "max_model_len", "max_input_tokens", "inputTokenLimit"),
        ),
        max_tokens=_tokens(
            _first(row, "top_provider.max_completion_tokens", "max_completion_tokens"),
            _first(row, "max_output_tokens", "outputTokenLimit", "max_tokens"),
        ),
    )


def _converses(row: Mapping[str, Any], model_id: str) -> bool:
    methods = row.get("supportedGenerationMethods")
    if isinstance(methods, list) and "generateContent" not in methods:
        return False
    options = row.get("supported_parameters")
    if isinstance(options, list):
        return "tools" in options
    chats = _first(row, "capabilities.completion_chat")
    kind = row.get("type")
    if chats is False or kind in _OTHER_TYPES:
        return False
    return row.get("active") is not False and not _NO_CHAT.search(model_id.lower())


def _reasoning(row: Mapping[str, Any]) -> bool | None:
    options = row.get("supported_parameters")
    if isinstance(options, list):
        return "reasoning" in options
    value = _first(
        row,
        "thinking",
        "supports_reasoning",
        "capabilities.reasoning",
        "capabilities.thinking.supported",
    )
    return value if isinstance(value, bool) else None


def _input(row: Mapping[str, Any]) -> tuple[Literal["text", "image"], ...] | None:
    kinds = _first(row, "architecture.input_modalities")
    sees = ("supports_image_in", "capabilities.vision", "capabilities.image_input.supported")
    value = "image" in kinds if isinstance(kinds, list) else _first(row, *sees)
    if not isinstance(value, bool):
        return None
    return ("text", "image") if value else ("text",)


def _prices(pricing: Any) -> ListedPrices | None:
    if not isinstance(pricing, dict):
        return None
    input_price = _price(_first(pricing, "prompt", "input"))
    output_price = _price(_first(pricing, "completion", "output"))
    if input_price is None or output_price is None:
        return None
    read = _first(pricing, "input_cache_read", "cached_input")
    write = _first(pricing, "input_cache_write")
    return ListedPrices(
        input=input_price, output=output_price, cache_read=_price(read), cache_write=_price(write)
    )


def _price(value: Any) -> float | None:
    """Return dollars per million tokens; strings in lists are per token, numbers per million."""
    try:
        price = float(value) * 1e6 if isinstance(value, str) else value
    except ValueError:
        return None
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e6:
        return None
    return round(price, 6)


def _tokens(*values: Any) -> int | None:
    numbers = (value for value in values if isinstance(value, int) and not isinstance(value, bool))
    return next((value for value in numbers if value > 0), None)


def _first(row: Mapping[str, Any], *paths: str) -> Any:
    """Return the first value that exists among these paths of names with dots."""
    for path in paths:
        value: Any = row
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None
