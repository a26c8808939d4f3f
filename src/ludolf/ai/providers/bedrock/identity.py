"""Region, address, credentials and signature of Bedrock requests, by means of botocore.

Order: a bearer token, which needs no library; the profile in auth.json; access keys; then the
chain of botocore: a profile, single sign-on, a web identity, the role of a container or machine.
"""

import asyncio
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.proxy import proxies, setting_in_use
from ludolf.ai.http.transport import Seal
from ludolf.ai.provider import Request
from ludolf.ai.providers.cloud_tokens import is_of_process
from ludolf.ai.providers.gateways import base_url
from ludolf.base import expand_user, user_dir
from ludolf.base.patterns import lazy_pattern

_DEFAULT_REGION = "us-east-1"
_ARN_REGION = lazy_pattern(r"arn:aws[\w-]*:bedrock:([a-z0-9-]+):")
_HOST = lazy_pattern(
    r"(?P<own>.+\.)?bedrock-runtime(?:-fips)?\.(?P<region>[a-z0-9-]+)"
    r"\.(?P<vpce>vpce\.)?amazonaws\.com(?:\.cn)?"
)
_FILES = {
    "config_file": ("AWS_CONFIG_FILE", ".aws/config"),
    "credentials_file": ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
}
# The profile has no variable.
_NO_PROFILE = {"profile": (None, None, None, None)}
# Providers of botocore that read the environment of the process.
_BY_ENVIRONMENT = (
    *("env", "assume-role-with-web-identity", "container-role"),
    *("ec2-credentials-file", "boto-config"),
)
_NEEDS = (
    "Signing requests to AWS needs botocore: pip install 'ludolf[bedrock]'. "
    "A token in AWS_BEARER_TOKEN_BEDROCK needs no library."
)
_NO_CREDENTIALS = (
    "No AWS credentials found. Set AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE, or AWS_ACCESS_KEY_ID "
    "and AWS_SECRET_ACCESS_KEY."
)


def variables_of(request: Request) -> Mapping[str, str]:
    """Return the environment of a request: that of the session, overridden by auth.json."""
    return ChainMap(dict(request.access.environment), dict(request.environ))


def address(request: Request, region: str) -> str:
    """Return the URL of a request. An AWS address follows the region; others stay unchanged."""
    base = base_url(request)
    host = _HOST.fullmatch(urlsplit(base).hostname or "")
    if host and not host["own"] and not host["vpce"] and host["region"] != region:
        tail = ".cn" if region.startswith("cn-") else ""
        base = f"https://bedrock-runtime.{region}.amazonaws.com{tail}"
    return f"{base}/model/{quote(request.model.id, safe='')}/converse-stream"


def region_of(request: Request, of_profile: str | None = None) -> str:
    """Return the region from the model's ARN, the environment, the profile or the address."""
    variables = variables_of(request)
    arn = _ARN_REGION.match(request.model.id)
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or of_profile
    if arn or region:
        return arn[1] if arn else str(region)
    host = _HOST.fullmatch(urlsplit(base_url(request)).hostname or "")
    return host["region"] if host else _DEFAULT_REGION


# ---------------------------------------------------------------- proof


class Proof(msgspec.Struct, frozen=True):
    """How a request is authenticated, and its region."""

    seal: Seal
    region: str


class _Query(msgspec.Struct, frozen=True):
    """Which credentials to load; `named` is the profile, from any source."""

    profile: str | None
    keys: tuple[str, str, str | None] | None
    files: tuple[tuple[str, str], ...]
    named: str | None
    # The environment of the process is that of the session: botocore may search it.
    by_process: bool


class _Source(msgspec.Struct, frozen=True):
    credentials: Any
    region: str | None


class Identity:
    """Caches credentials; those that expire are renewed some minutes before."""

    def __init__(self) -> None:
        self._cached: tuple[_Query, _Source] | None = None

    async def prove(self, request: Request) -> Proof:
        """Return the authentication of a request.

        Raises:
            ProviderError: no credentials were found, or botocore is missing.
        """
        variables = variables_of(request)
        region = region_of(request)
        header_names = {name.lower() for name in request.access.headers}
        token = request.access.key or variables.get("AWS_BEARER_TOKEN_BEDROCK")
        if "authorization" in header_names or variables.get("AWS_BEDROCK_SKIP_AUTH") == "1":
            return Proof(lambda url, headers, body: dict(headers), region)
        if token:
            bearer = {"authorization": f"Bearer {token}"}
            return Proof(lambda url, headers, body: {**headers, **bearer}, region)
        query = _query(request, variables)
        source, frozen = await asyncio.to_thread(self._freeze, query, request.environ)
        region = region_of(request, source.region)
        return Proof(lambda url, headers, body: signed(frozen, region, url, headers, body), region)

    def forget(self) -> None:
        """Drop credentials that were refused, so that the next request loads them again."""
        self._cached = None

    def _freeze(self, query: _Query, environ: Mapping[str, str]) -> tuple[_Source, Any]:
        with _explained():
            entry = self._cached
            if entry is None or entry[0] != query:
                entry = self._cached = (query, _find(query, environ))
            return entry[1], entry[1].credentials.get_frozen_credentials()


def _query(request: Request, variables: Mapping[str, str]) -> _Query:
    by_process = is_of_process(request.environ)
    overrides = request.access.environment
    key, secret = variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")
    keys = (key, secret, variables.get("AWS_SESSION_TOKEN") or None) if key and secret else None
    profile = overrides.get("AWS_PROFILE") or None
    return _Query(
        profile=profile,
        keys=None if profile else keys,
        files=tuple(_files(request, variables)),
        named=profile or variables.get("AWS_PROFILE") or None,
        by_process=by_process,
    )


def _files(request: Request, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the files that botocore does not find in the environment of the process."""
    by_process, home = is_of_process(request.environ), user_dir(request.environ)
    stated = request.access.environment if by_process else variables
    for setting, (variable, default) in _FILES.items():
        if variable in stated:
            yield setting, expand_user(stated[variable], home)
        elif not by_process:
            yield setting, str(home / default)


def _ignore_process(session: Any) -> None:
    """Keep botocore from credentials of the process."""
    chain = session.get_component("credential_provider")
    for name in _BY_ENVIRONMENT:
        chain.remove(name)


def _find(query: _Query, environ: Mapping[str, str]) -> _Source:
    from botocore.config import Config  # type: ignore[import-untyped]  # it has none
    from botocore.credentials import Credentials  # type: ignore[import-untyped]  # it has none
    from botocore.session import Session  # type: ignore[import-untyped]  # it has none

    if query.keys is not None:
        return _Source(Credentials(*query.keys), None)
    if query.by_process:
        session = Session(profile=query.profile)
    else:
        session = Session(profile=query.named, session_vars=_NO_PROFILE)
    for name, path in query.files:
        session.set_config_variable(name, path)
    if setting_in_use() or not query.by_process:
        session.set_default_client_config(Config(proxies=proxies(environ)))
    if not query.by_process:
        _ignore_process(session)
    credentials = session.get_credentials()
    if credentials is None:
        raise ProviderError(_NO_CREDENTIALS, kind="auth")
    region = session.get_config_variable("region") if query.named else None
    return _Source(credentials, region)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # it has none
    except ModuleNotFoundError as error:
        raise ProviderError(_NEEDS, kind="bad_request") from error
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise ProviderError(f"AWS credentials: {error}", kind="auth") from error


def signed(
    credentials: Any, region: str, url: str, headers: Mapping[str, str], body: bytes
) -> dict[str, str]:
    """Return the headers of a request, including its signature (version 4)."""
    from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # it has none
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # it has none

    # Sign only headers that a proxy has no reason to change.
    covered = {
        name: value
        for name, value in headers.items()
        if name.lower() == "content-type" or name.lower().startswith("x-amz")
    }
    request = AWSRequest("POST", url, data=body, headers=covered)
    SigV4Auth(credentials, "bedrock", region).add_auth(request)
    added = {name: value for name, value in request.headers.items() if name not in covered}
    return {**headers, **{name.lower(): value for name, value in added.items()}}
