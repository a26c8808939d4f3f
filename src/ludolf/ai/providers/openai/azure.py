"""OpenAI's models on Azure (`azure-openai-responses`): addresses, deployments, identities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.provider import Request
from ludolf.ai.providers.cloud_tokens import Token, TokenCache, is_of_process, keep_quiet
from ludolf.ai.providers.gateways import base_url, variable
from ludolf.ai.providers.openai.compat import Compat
from ludolf.ai.providers.openai.responses import OpenAIResponses, options_of
from ludolf.ai.providers.openai.shared import headers_for

if TYPE_CHECKING:
    from azure.identity import (
        ClientSecretCredential,
        DefaultAzureCredential,
        WorkloadIdentityCredential,
    )

    Credential = ClientSecretCredential | DefaultAzureCredential | WorkloadIdentityCredential

SCOPE = "https://cognitiveservices.azure.com/.default"
_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".ai.azure.com")
_ROOTS = ("", "/openai", "/openai/v1", "/openai/responses", "/openai/v1/responses")
# Variables that distinguish identities; the first one selects the identity of the machine.
_IDENTITY = (
    "AZURE_OPENAI_USE_ENTRA_ID",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_AUTHORITY_HOST",
)


class AzureResponses(OpenAIResponses):
    """Access by a key, a configured header, or a token of an Entra identity."""

    api = "azure-openai-responses"
    owner = "Azure OpenAI"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._tokens = TokenCache()

    def fields(self, request: Request, compat: Compat) -> dict[str, Any]:
        return {**options_of(request, compat), "model": deployment(request)}

    async def reach(self, request: Request, compat: Compat) -> tuple[str, dict[str, str]]:
        version = variable(request, "AZURE_OPENAI_API_VERSION") or "v1"
        url = f"{resource_url(request)}/responses?api-version={version}"
        return url, headers_for(request, compat, await self._admission(request))

    async def _admission(self, request: Request) -> dict[str, str]:
        if request.access.key:
            return {"api-key": request.access.key}
        values = tuple(variable(request, name) for name in _IDENTITY)
        if request.access.by_header or not any(values[:-1]):
            return {}
        variables = dict(zip(_IDENTITY, values, strict=True))
        token = await self._tokens.get(values, lambda: fetch_token(variables, request.environ))
        return {"Authorization": f"Bearer {token}"}


make = AzureResponses


# ---------------------------------------------------------------- the request


def resource_url(request: Request) -> str:
    """Return the base URL of the resource's API.

    Raises:
        ProviderError: no address is configured, or it is invalid.
    """
    resource = variable(request, "AZURE_OPENAI_RESOURCE_NAME")
    url = variable(request, "AZURE_OPENAI_BASE_URL") or (
        f"https://{resource}.openai.azure.com" if resource else base_url(request)
    )
    if not url:
        raise ProviderError(
            "Azure OpenAI base URL is required. Set AZURE_OPENAI_BASE_URL or "
            "AZURE_OPENAI_RESOURCE_NAME, or baseUrl in models.json.",
            kind="auth",
        )
    return _normal(url)


def _normal(stated: str) -> str:
    """Return the address without its query; complete or shorten an address of Azure itself."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(stated)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ProviderError(f"Invalid Azure OpenAI base URL: {stated}", kind="bad_request")
    path = parts.path.rstrip("/")
    if host.endswith(_HOSTS) and path in _ROOTS:
        path = "/openai/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def deployment(request: Request) -> str:
    """Return the name under which the resource serves the model."""
    for pair in variable(request, "AZURE_OPENAI_DEPLOYMENT_NAME_MAP").split(","):
        model, _, name = pair.partition("=")
        if model.strip() == request.model.id and name.strip():
            return name.strip()
    return request.model.id


# ---------------------------------------------------------------- Entra ID


def fetch_token(named: dict[str, str], environ: Mapping[str, str]) -> Token:
    """Return a new token of the identity in these variables; blocks.

    Raises:
        ProviderError: the package is missing, or Entra ID returned no token.
    """
    try:
        from azure.core.exceptions import AzureError, ClientAuthenticationError
    except ImportError as error:
        raise _missing() from error
    keep_quiet("azure")
    try:
        with credential_for(named, environ) as credential:
            token = credential.get_token(SCOPE)
    except ClientAuthenticationError as error:
        raise ProviderError(f"Entra ID gave no token: {error.message}", kind="auth") from error
    except AzureError as error:
        raise ProviderError(f"Connection error: Entra ID: {error}", kind="network") from error
    except ValueError as error:
        raise ProviderError(f"The Entra identity is incomplete: {error}", kind="auth") from error
    return Token(token.token, float(token.expires_on))


def credential_for(named: dict[str, str], environ: Mapping[str, str]) -> "Credential":
    """Return the credential of these variables; without any, the machine's default.

    Raises:
        ProviderError: the package is missing.
        ValueError: a variable has an invalid value.
    """
    try:
        from azure.identity import (
            ClientSecretCredential,
            DefaultAzureCredential,
            WorkloadIdentityCredential,
        )
    except ImportError as error:
        raise _missing() from error
    tenant, client = named["AZURE_TENANT_ID"], named["AZURE_CLIENT_ID"]
    secret, file = named["AZURE_CLIENT_SECRET"], named["AZURE_FEDERATED_TOKEN_FILE"]
    authority = named["AZURE_AUTHORITY_HOST"] or "login.microsoftonline.com"
    if tenant and client and secret:
        return ClientSecretCredential(tenant, client, secret, authority=authority)
    if tenant and client and file:
        return WorkloadIdentityCredential(
            tenant_id=tenant, client_id=client, token_file_path=file, authority=authority
        )
    is_foreign = not is_of_process(environ)
    return DefaultAzureCredential(
        authority=authority,
        managed_identity_client_id=client or None,
        process_timeout=10,
        exclude_environment_credential=is_foreign,
        exclude_workload_identity_credential=is_foreign,
    )


def _missing() -> ProviderError:
    return ProviderError(
        "Entra ID tokens need azure-identity: pip install 'ludolf[azure]'", kind="auth"
    )
