"""Rank the models that match a part of a name: makers before resellers, ordinary and new first."""

from ludolf.ai.models import Model
from ludolf.base.patterns import lazy_pattern
from ludolf.config.models.patterns import id_order
from ludolf.config.models.routes import PREFERRED

# Providers that sell the models of other companies.
RESELLERS = frozenset(
    (
        *("openrouter", "github-copilot", "groq", "cerebras", "huggingface", "together"),
        *("fireworks", "vercel-ai-gateway", "azure-openai-responses", "google-vertex"),
        *("amazon-bedrock", "baseten", "nvidia", "opencode", "opencode-go", "radius"),
        *("cloudflare-workers-ai", "cloudflare-ai-gateway"),
    )
)
# Words of an id that mark a model for a special purpose, or a smaller or unfinished one.
_SPECIAL = frozenset(
    (
        *("batch", "realtime", "safeguard", "guard", "live", "audio", "tts", "transcribe"),
        *("image", "embedding", "embed", "moderation", "ocr", "customtools", "computer"),
        *("lite", "mini", "nano", "fast", "free", "preview", "beta", "exp", "vision"),
    )
)
_ORDER = {provider: place for place, provider in enumerate(PREFERRED)}
_WORD = lazy_pattern(r"[a-z0-9]+")
_DATED = lazy_pattern(r"-(\d{8}|\d{4}-\d{2}-\d{2}|\d{4})(?![\da-z])")
# `4-8`, `5.5` and `v3`, but not the sizes `120b` and `16k`.
_VERSION = lazy_pattern(r"(?<!\d)(\d{1,2})(?:[-.](\d{1,2}))?(?![\d.]*(?:[bk]\b|x\d))(?!\d)")


def best_match(pattern: str, models: list[Model]) -> Model | None:
    """Return the preferred one of the models that match a part of a name."""
    lowered = pattern.lower()
    return max(models, key=lambda model: _rank(lowered, model), default=None)


def _rank(pattern: str, model: Model) -> tuple[object, ...]:
    """Return a key that is larger for a model that a user more likely means by the pattern."""
    model_id = model.id.lower()
    special = [word for word in _WORD.findall(model_id) if word in _SPECIAL]
    return (
        model.provider not in RESELLERS,
        all(word in pattern for word in special),
        _DATED.search(model_id) is None,
        -_ORDER.get(model.provider, len(_ORDER)),
        _version(model_id),
        PREFERRED.get(model.provider) == model.id,
        -model_id.count("-"),
        id_order(model.id),
    )


def _version(model_id: str) -> tuple[int, ...]:
    found = _VERSION.search(_DATED.sub("", model_id.rpartition("/")[2]))
    return tuple(int(part or 0) for part in found.groups()) if found else ()
