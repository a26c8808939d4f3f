"""Addresses and APIs of providers whose models are not in the catalog."""

_CHAT = "openai-completions"
_ZEN = "https://opencode.ai/zen"
_CLOUDFLARE_GATEWAY = (
    "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}/compat"
)
_CLOUDFLARE_WORKERS = "https://api.cloudflare.com/client/v4/accounts/{CLOUDFLARE_ACCOUNT_ID}/ai/v1"

# For each provider: prefix of the id, API, address; the first match is used.
ROUTES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "ant-ling": (("", _CHAT, "https://api.ant-ling.com/v1"),),
    "baseten": (("", _CHAT, "https://inference.baseten.co/v1"),),
    "cloudflare-ai-gateway": (("", _CHAT, _CLOUDFLARE_GATEWAY),),
    "cloudflare-workers-ai": (("", _CHAT, _CLOUDFLARE_WORKERS),),
    "meta": (("", "openai-responses", "https://api.meta.ai/v1"),),
    "nvidia": (("", _CHAT, "https://integrate.api.nvidia.com/v1"),),
    "opencode": (
        ("claude-", "anthropic-messages", _ZEN),
        ("gpt-", "openai-responses", f"{_ZEN}/v1"),
        ("gemini-", "google-generative-ai", f"{_ZEN}/v1"),
        ("", _CHAT, f"{_ZEN}/v1"),
    ),
    "opencode-go": (("", _CHAT, f"{_ZEN}/go/v1"),),
    "qwen-token-plan": (
        ("", _CHAT, "https://token-plan.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1"),
    ),
    "qwen-token-plan-individual": (
        ("", _CHAT, "https://token-plan.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1"),
    ),
    "qwen-token-plan-cn": (
        ("", _CHAT, "https://token-plan.cn-beijing.maas.aliyuncs.com/compatible-mode/v1"),
    ),
    "radius": (("", "pi-messages", "https://radius.pi.dev/v1"),),
    "xiaomi": (("", _CHAT, "https://api.xiaomimimo.com/v1"),),
    "xiaomi-token-plan-ams": (("", _CHAT, "https://token-plan-ams.xiaomimimo.com/v1"),),
    "xiaomi-token-plan-cn": (("", _CHAT, "https://token-plan-cn.xiaomimimo.com/v1"),),
    "xiaomi-token-plan-sgp": (("", _CHAT, "https://token-plan-sgp.xiaomimimo.com/v1"),),
}


def route_of(provider: str, model_id: str) -> tuple[str | None, str | None]:
    """Return the API and the address of a provider's model; None if unknown."""
    for beginning, api, address in ROUTES.get(provider, ()):
        if model_id.startswith(beginning):
            return api, address
    return None, None
