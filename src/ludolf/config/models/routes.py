"""Providers: the preferred model of each, and routes to those whose models are not shipped."""

# Tried in this order if nothing else selects a model. A cloud account may exist for other
# reasons than models, so the two clouds come last.
PREFERRED: dict[str, str] = {
    "anthropic": "claude-opus-4-8",
    "openai": "gpt-5.5",
    "openai-codex": "gpt-5.5",
    "google": "gemini-3.1-pro-preview",
    "openrouter": "moonshotai/kimi-k2.6",
    "deepseek": "deepseek-v4-pro",
    "xai": "grok-4.7",
    "github-copilot": "gpt-5.4",
    "groq": "openai/gpt-oss-120b",
    "cerebras": "gpt-oss-120b",
    "zai": "glm-5.3",
    "zai-coding-cn": "glm-5.3",
    "mistral": "devstral-medium-latest",
    "minimax": "MiniMax-M2.7",
    "minimax-cn": "MiniMax-M2.7",
    "moonshotai": "kimi-k2.6",
    "moonshotai-cn": "kimi-k2.6",
    "kimi-coding": "kimi-for-coding",
    "huggingface": "moonshotai/Kimi-K2.6",
    "together": "moonshotai/Kimi-K2.6",
    "fireworks": "accounts/fireworks/models/kimi-k2p6",
    "vercel-ai-gateway": "zai/glm-5.1",
    "azure-openai-responses": "gpt-5.4",
    "google-vertex": "gemini-3.1-pro-preview",
    "amazon-bedrock": "us.anthropic.claude-opus-4-6-v1",
}

_CHAT = "openai-completions"
_ZEN = "https://opencode.ai/zen"
_CLOUDFLARE_GATEWAY = (
    "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}/compat"
)
_CLOUDFLARE_WORKERS = "https://api.cloudflare.com/client/v4/accounts/{CLOUDFLARE_ACCOUNT_ID}/ai/v1"

# Addresses and APIs of providers whose models are not in the catalog. For each provider: prefix
# of the id, API, address; the first match is used.
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
