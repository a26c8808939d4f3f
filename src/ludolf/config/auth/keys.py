"""Entries of auth.json, and the environment variables that hold the keys of each provider."""

import msgspec

from ludolf.base import Value, now_ms


class ApiKey(Value, tag_field="type", tag="api_key"):
    """An API key; `key` may use the value syntax. `env` holds variables for requests with it."""

    key: str | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)


class OAuth(Value, tag_field="type", tag="oauth"):
    """The tokens of a login; `expires` is in Unix milliseconds."""

    access: str
    expires: float
    refresh: str = ""
    enterprise_url: str | None = None

    @property
    def expired(self) -> bool:
        return self.ends_within(0)

    def ends_within(self, milliseconds: float) -> bool:
        return self.expires <= now_ms() + milliseconds


Credential = ApiKey | OAuth

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY",),
    "google-vertex": ("GOOGLE_CLOUD_API_KEY",),
    "amazon-bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "azure-openai-responses": ("AZURE_OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "github-copilot": ("COPILOT_GITHUB_TOKEN",),
    "huggingface": ("HF_TOKEN",),
    "vercel-ai-gateway": ("AI_GATEWAY_API_KEY",),
    "zai": ("ZAI_API_KEY",),
    "zai-coding-cn": ("ZAI_CODING_CN_API_KEY",),
    "moonshotai": ("MOONSHOT_API_KEY",),
    "moonshotai-cn": ("MOONSHOT_API_KEY",),
    "kimi-coding": ("KIMI_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "minimax-cn": ("MINIMAX_CN_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "baseten": ("BASETEN_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "ant-ling": ("ANT_LING_API_KEY",),
    "opencode": ("OPENCODE_API_KEY",),
    "opencode-go": ("OPENCODE_API_KEY",),
    "meta": ("META_API_KEY",),
    "qwen-token-plan": ("QWEN_TOKEN_PLAN_API_KEY",),
    "qwen-token-plan-individual": ("QWEN_TOKEN_PLAN_API_KEY",),
    "qwen-token-plan-cn": ("QWEN_TOKEN_PLAN_CN_API_KEY",),
    "xiaomi": ("XIAOMI_API_KEY",),
    "xiaomi-token-plan-cn": ("XIAOMI_TOKEN_PLAN_CN_API_KEY",),
    "xiaomi-token-plan-ams": ("XIAOMI_TOKEN_PLAN_AMS_API_KEY",),
    "xiaomi-token-plan-sgp": ("XIAOMI_TOKEN_PLAN_SGP_API_KEY",),
    "cloudflare-workers-ai": ("CLOUDFLARE_API_KEY",),
    "cloudflare-ai-gateway": ("CLOUDFLARE_API_KEY",),
    "radius": ("RADIUS_API_KEY",),
    "llama.cpp": ("LLAMA_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "lmstudio": ("LM_API_TOKEN",),
    "vllm": ("VLLM_API_KEY",),
    "openai-codex": (),
}

# Sent as `Authorization: Bearer`, never as the provider's own key header.
BEARER_VARIABLES = frozenset(("ANTHROPIC_AUTH_TOKEN",))

# In addition to the key, one variable of each group must be set.
ALSO_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "azure-openai-responses": (("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_RESOURCE_NAME"),),
    "cloudflare-workers-ai": (("CLOUDFLARE_ACCOUNT_ID",),),
    "cloudflare-ai-gateway": (("CLOUDFLARE_ACCOUNT_ID",), ("CLOUDFLARE_GATEWAY_ID",)),
}

# A cloud identity instead of a key: all variables of one group must be set.
IDENTITIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "amazon-bedrock": (
        ("AWS_PROFILE",),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
        ("AWS_WEB_IDENTITY_TOKEN_FILE",),
        ("AWS_BEDROCK_SKIP_AUTH",),
    ),
    # Its credentials may come from gcloud's file or from the metadata server.
    "google-vertex": (
        ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
        ("GCLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    ),
    "azure-openai-responses": tuple(
        (*identity, address)
        for identity in (
            ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"),
            ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"),
            ("AZURE_OPENAI_USE_ENTRA_ID",),
        )
        for address in ("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_RESOURCE_NAME")
    ),
}

# Secrets of cloud identities. Variables with a profile or a path stay visible to commands.
# Headers of requests to a collector of telemetry, as `name=value,name=value`.
HEADER_LISTS = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
)
OTHER_SECRETS = frozenset(
    (
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "AZURE_CLIENT_CERTIFICATE_PASSWORD",
        "AZURE_PASSWORD",
        "GOOGLE_API_KEY",
        "IDENTITY_HEADER",
        "MSI_SECRET",
        *HEADER_LISTS,
    )
)
