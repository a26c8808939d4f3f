"""Login flows of the providers, and overrides for private identity servers."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ludolf import __version__
from ludolf.ai.access import Access
from ludolf.ai.http.oauth import Flow
from ludolf.base import ConfigError
from ludolf.config.auth.keys import OAuth
from ludolf.config.settings.files import read_object
from ludolf.config.settings.home import env, expand

# A JSON file {"<provider>": {field: value}} that overrides FLOWS; it may add providers.
FILE_VARIABLE = "OAUTH_FILE"
CALLBACK_HOST_VARIABLE = "OAUTH_CALLBACK_HOST"
RADIUS = "radius"
_FIVE_MINUTES = 300
# Copilot issues tokens for editors and refuses requests without these headers.
_COPILOT_HEADERS = {
    "User-Agent": f"ludolf/{__version__}",
    "Editor-Version": f"ludolf/{__version__}",
    "Editor-Plugin-Version": f"ludolf/{__version__}",
    "Copilot-Integration-Id": "vscode-chat",
}

FLOWS: dict[str, Flow] = {
    # Stored logins of other programs are renewed; a new login needs an API key.
    "anthropic": Flow(
        name="Anthropic",
        client_id="9d1c250a-e61b-44d9-88ed-5944d1962f5e",
        token_url="https://platform.claude.com/v1/oauth/token",
        json_body=True,
        early_seconds=_FIVE_MINUTES,
    ),
    "openai-codex": Flow(
        name="OpenAI (ChatGPT Plus/Pro)",
        kind="codex",
        client_id="app_EMoamEEZ73f0CkXaXp7hrann",
        scope="openid profile email offline_access",
        authorize_url="https://auth.openai.com/oauth/authorize",
        authorize_extra={
            "id_token_add_organizations": "true",
            "codex_cli_simplified_flow": "true",
            "originator": "ludolf",
        },
        callback="http://localhost:1455/auth/callback",
        token_url="https://auth.openai.com/oauth/token",
        device_url="https://auth.openai.com/api/accounts/deviceauth/usercode",
        device_token_url="https://auth.openai.com/api/accounts/deviceauth/token",
        verification_url="https://auth.openai.com/codex/device",
        device_callback="https://auth.openai.com/deviceauth/callback",
    ),
    "github-copilot": Flow(
        name="GitHub Copilot",
        kind="copilot",
        domain="github.com",
        client_id="Iv1.b507a08c87ecfe98",
        scope="read:user",
        token_url="https://{domain}/login/oauth/access_token",
        device_url="https://{domain}/login/device/code",
        exchange_url="https://api.{domain}/copilot_internal/v2/token",
        early_seconds=_FIVE_MINUTES,
        headers=_COPILOT_HEADERS,
        model_headers=_COPILOT_HEADERS,
    ),
    "openrouter": Flow(
        name="OpenRouter",
        kind="openrouter",
        authorize_url="https://openrouter.ai/auth",
        token_url="https://openrouter.ai/api/v1/auth/keys",
    ),
    "xai": Flow(
        name="xAI (SuperGrok, X Premium)",
        client_id="b1a00492-073a-47ea-816f-4c329264a828",
        scope="openid profile email offline_access grok-cli:access api:access",
        token_url="https://auth.x.ai/oauth2/token",
        device_url="https://auth.x.ai/oauth2/device/code",
        device_extra={"referrer": "ludolf"},
        early_seconds=_FIVE_MINUTES,
    ),
    "kimi-coding": Flow(
        name="Kimi Code",
        client_id="17e5f671-d194-4dfb-9706-5516cb48c098",
        token_url="https://auth.kimi.com/api/oauth/token",
        device_url="https://auth.kimi.com/api/oauth/device_authorization",
    ),
    "meta": Flow(
        name="Meta (Muse)",
        kind="meta",
        client_id="1031625952748946",
        token_url="https://auth.meta.com/oidc/device/token/",
        device_url="https://auth.meta.com/oidc/device/authorization/",
        exchange_url="https://api.meta.ai/muse-code/key",
        headers={"x-api-version": "1.0.0"},
    ),
    RADIUS: Flow(
        name="Radius",
        domain="https://radius.pi.dev",
        client_id="pi-gateway",
        scope="gateway offline_access",
        token_url="{domain}/v1/oauth/token",
        device_url="{domain}/v1/oauth/device",
        early_seconds=60,
    ),
}


def flow_of(provider: str, gateway: str | None, environ: Mapping[str, str]) -> Flow | None:
    """Return the login flow of a provider; `gateway` is the address of a Radius gateway.

    Raises:
        ConfigError: the file in `LUDOLF_OAUTH_FILE` cannot be used.
    """
    flow = FLOWS.get(RADIUS if gateway else provider)
    address = gateway or (env("RADIUS_GATEWAY", environ) if provider == RADIUS else None)
    if flow is not None and address:
        url = address if "://" in address else f"https://{address}"
        flow = flow.replace(name=provider if gateway else flow.name, domain=url.rstrip("/"))
    changes = _changes(environ).get(provider)
    return flow if changes is None else _changed(provider, flow, changes, environ)


def flow_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the providers for which `flow_of` needs no gateway.

    Raises:
        ConfigError: as above.
    """
    return tuple(dict.fromkeys((*FLOWS, *_changes(environ))))


def callback_host(environ: Mapping[str, str]) -> str:
    """Return the host for the login callback: loopback, or `LUDOLF_OAUTH_CALLBACK_HOST`."""
    return env(CALLBACK_HOST_VARIABLE, environ) or "127.0.0.1"


def admission(provider: str, credential: OAuth) -> Access:
    """Return key, headers and address of requests with a stored login."""
    flow = FLOWS.get(provider)
    headers = dict(flow.model_headers) if flow is not None else {}
    if provider == "kimi-coding":
        headers["Authorization"] = f"Bearer {credential.access}"
        return Access(headers=headers)
    base_url = None
    if provider == "github-copilot":
        base_url = copilot_address(credential.access, credential.enterprise_url)
    return Access(key=credential.access, headers=headers, base_url=base_url)


def copilot_address(token: str, domain: str | None) -> str | None:
    """Return the server of an account, from the token or the enterprise domain."""
    for field in token.split(";"):
        name, _, host = field.partition("=")
        if name.strip() == "proxy-ep" and host:
            return f"https://{'api.' + host[6:] if host.startswith('proxy.') else host}"
    return f"https://copilot-api.{domain}" if domain else None


def _changes(environ: Mapping[str, str]) -> dict[str, Any]:
    path = env(FILE_VARIABLE, environ)
    return _read(expand(path, environ)) if path else {}


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _changed(provider: str, flow: Flow | None, changes: Any, environ: Mapping[str, str]) -> Flow:
    before = msgspec.to_builtins(flow) if flow is not None else {"name": provider}
    try:
        return msgspec.convert({**before, **changes}, Flow)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"{env(FILE_VARIABLE, environ)}: {provider}: {error}") from error
