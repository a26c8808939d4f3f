"""Azure: addresses, deployments, keys, and tokens of an Entra identity."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.errors import ProviderError
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.ai.providers.cloud_tokens import EARLY_SECONDS, Token, TokenCache
from ludolf.ai.providers.openai.azure import SCOPE, credential_for, deployment, resource_url
from ludolf.config.auth.keyring import Keyring
from tests.gateway_asking import ask
from tests.loopback import JSON_BODY, Canned
from tests.openai_asking import READ, model, request

NO_NAMES = dict.fromkeys(
    (
        "AZURE_TENANT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_AUTHORITY_HOST",
    ),
    "",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)


def azure(base_url: str = "") -> Model:
    return model(
        id="gpt-5",
        api="azure-openai-responses",
        provider="azure-openai-responses",
        base_url=base_url,
    )


def asked(*, key: str | None = "k", base_url: str = "", **environment: str) -> Request:
    access = Access(key=key, environment=environment)
    return request(model=azure(base_url), access=access, session_id="s1")


def in_environment(asking: Request, url: str) -> Request:
    environment = {**asking.access.environment, "AZURE_OPENAI_BASE_URL": f"{url}/proxy"}
    return structs.replace(asking, access=asking.access.replace(environment=environment))


# ---------------------------------------------------------------- the request


@pytest.mark.parametrize(
    ("stated", "normal"),
    [
        ("https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1"),
        ("https://r.openai.azure.com/", "https://r.openai.azure.com/openai/v1"),
        ("https://r.openai.azure.com/openai", "https://r.openai.azure.com/openai/v1"),
        ("https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1"),
        (
            "https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview",
            "https://r.openai.azure.com/openai/v1",
        ),
        ("https://r.openai.azure.com/openai/v1/responses", "https://r.openai.azure.com/openai/v1"),
        (
            "https://r.cognitiveservices.azure.com",
            "https://r.cognitiveservices.azure.com/openai/v1",
        ),
        ("https://r.services.ai.azure.com", "https://r.services.ai.azure.com/openai/v1"),
        (
            "https://r.services.ai.azure.com/api/projects/p/openai/v1",
            "https://r.services.ai.azure.com/api/projects/p/openai/v1",
        ),
        ("https://proxy.test", "https://proxy.test"),
        ("http://127.0.0.1:81/x/", "http://127.0.0.1:81/x"),
    ],
)
def test_addresses_at_azure_are_completed_and_others_left(stated: str, normal: str) -> None:
    assert resource_url(asked(AZURE_OPENAI_BASE_URL=stated)) == normal
    assert resource_url(asked(base_url=stated)) == normal


def test_the_variable_goes_before_the_resource_and_that_before_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = "https://model.test"
    assert resource_url(asked(base_url=there)) == there
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "ours")
    assert resource_url(asked(base_url=there)) == "https://ours.openai.azure.com/openai/v1"
    own = asked(base_url=there, AZURE_OPENAI_RESOURCE_NAME="mine")
    assert resource_url(own) == "https://mine.openai.azure.com/openai/v1"
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", "https://base.test")
    assert resource_url(own) == "https://base.test"


@pytest.mark.parametrize("stated", ["not a url", "ftp://r.test", "https://", "https://[r"])
def test_an_address_that_is_none_is_named(stated: str) -> None:
    with pytest.raises(ProviderError, match="Invalid Azure OpenAI base URL"):
        resource_url(asked(AZURE_OPENAI_BASE_URL=stated))


def test_without_an_address_the_variables_are_named() -> None:
    requests, answer = ask(asked(), place=lambda asking, _: asking)
    assert not requests
    assert "AZURE_OPENAI_RESOURCE_NAME" in (answer.message.error_message or "")


def test_a_request_goes_to_the_deployment_with_the_key_in_its_own_header() -> None:
    tuned = structs.replace(
        asked(AZURE_OPENAI_DEPLOYMENT_NAME_MAP="o3=x, gpt-5 = prod ,bad"),
        tools=(READ,),
        cache="long",
    )
    requests, answer = ask(tuned, place=in_environment)
    sent = requests[0]
    assert answer.message.stop_reason == "stop"
    assert sent.path == "/proxy/responses?api-version=v1"
    assert (sent.headers["api-key"], sent.json["model"]) == ("k", "prod")
    assert not {"authorization", "session_id", "x-client-request-id"} & set(sent.headers)
    assert sent.json["tools"][0]["strict"] is False
    assert sent.json["prompt_cache_key"] == "s1"
    assert "prompt_cache_retention" not in sent.json
    assert answer.message.model == "gpt-5"


def test_the_version_and_the_name_of_the_deployment_have_defaults() -> None:
    assert deployment(asked()) == "gpt-5"
    assert deployment(asked(AZURE_OPENAI_DEPLOYMENT_NAME_MAP="gpt-5=")) == "gpt-5"
    requests, _ = ask(asked(AZURE_OPENAI_API_VERSION="2026-01-01"), place=in_environment)
    assert requests[0].path == "/proxy/responses?api-version=2026-01-01"


def test_the_flag_for_strict_tools_can_be_taken_back() -> None:
    plain = structs.replace(asked(), tools=(READ,))
    off = azure().replace(compat={"supportsStrictMode": False})
    requests, _ = ask(structs.replace(plain, model=off), place=in_environment)
    assert "strict" not in requests[0].json["tools"][0]


def test_failures_name_azure() -> None:
    body = b'{"error":{"code":"DeploymentNotFound","message":"No such deployment"}}'
    _, answer = ask(
        asked(), Canned(status=404, headers=JSON_BODY, chunks=[body]), place=in_environment
    )
    expected = "Azure OpenAI API error (404): 404 No such deployment"
    assert answer.message.error_message == expected


def test_neither_key_nor_identity_is_told_before_anything_is_sent() -> None:
    requests, answer = ask(asked(key=None), place=in_environment)
    assert not requests
    assert answer.message.error_message == "No API key for provider: azure-openai-responses"
    assert answer.kind == "auth"


def test_a_configured_header_is_way_in_enough() -> None:
    stated = structs.replace(asked(), access=Access(headers={"Authorization": "Bearer mine"}))
    requests, _ = ask(stated, place=in_environment)
    assert requests[0].headers["authorization"] == "Bearer mine"


# ---------------------------------------------------------------- identities


class Machine:
    """The endpoint at which a machine of Azure gives out tokens of its identity."""

    def __init__(self, seconds: float) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.status = 200
        machine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                machine.asked.append(parse_qs(urlsplit(self.path).query))
                given = {
                    "access_token": f"token-{len(machine.asked)}",
                    "expires_on": str(int(time.time() + seconds)),
                    "resource": "https://cognitiveservices.azure.com",
                    "token_type": "Bearer",
                }
                refused = {"statusCode": machine.status, "message": "No such identity"}
                body = msgspec.json.encode(given if machine.status == 200 else refused)
                self.send_response(machine.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/msi/token"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(30)


@pytest.fixture(name="machine")
def _machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine(seconds=3600)
    monkeypatch.setenv("IDENTITY_ENDPOINT", machine.url)
    monkeypatch.setenv("IDENTITY_HEADER", "secret")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    yield machine
    machine.close()


def test_the_identity_of_the_machine_is_asked_once_for_many_requests(machine: Machine) -> None:
    wanted = asked(key=None, AZURE_OPENAI_USE_ENTRA_ID="1")
    requests, answer = ask(wanted, place=in_environment, times=3)
    assert answer.message.error_message is None
    assert [sent.headers["authorization"] for sent in requests] == ["Bearer token-1"] * 3
    assert "api-key" not in requests[0].headers
    assert machine.asked[0]["resource"] == [SCOPE.removesuffix("/.default")]


def test_a_key_goes_before_an_identity(machine: Machine) -> None:
    requests, _ = ask(asked(AZURE_OPENAI_USE_ENTRA_ID="1"), place=in_environment)
    assert requests[0].headers["api-key"] == "k"
    assert not machine.asked


def test_an_identity_that_is_refused_is_an_error_of_admission(machine: Machine) -> None:
    machine.status = 400
    requests, answer = ask(asked(key=None, AZURE_OPENAI_USE_ENTRA_ID="1"), place=in_environment)
    assert not requests
    assert (answer.message.error_message or "").startswith("Entra ID gave no token: ")
    assert answer.kind == "auth"


def test_the_variables_choose_the_kind_of_identity(tmp_path: Path) -> None:
    client = {**NO_NAMES, "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}
    file = str(tmp_path / "token")
    kinds = [
        type(credential_for(named, os.environ)).__name__
        for named in (
            {**client, "AZURE_CLIENT_SECRET": "s"},
            {**client, "AZURE_FEDERATED_TOKEN_FILE": file},
            client,
        )
    ]
    expected = ["ClientSecretCredential", "WorkloadIdentityCredential", "DefaultAzureCredential"]
    assert kinds == expected


def test_an_authority_that_cannot_be_is_told(machine: Machine) -> None:
    wanted = asked(
        key=None,
        AZURE_TENANT_ID="t",
        AZURE_CLIENT_ID="c",
        AZURE_CLIENT_SECRET="s",
        AZURE_AUTHORITY_HOST="http://127.0.0.1:1",
    )
    _, answer = ask(wanted, place=in_environment)
    assert "The Entra identity is incomplete" in (answer.message.error_message or "")
    assert not machine.asked


@pytest.mark.parametrize("module", ["azure.core.exceptions", "azure.identity"])
def test_a_missing_package_is_named_with_the_way_to_get_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    _, answer = ask(asked(key=None, AZURE_OPENAI_USE_ENTRA_ID="1"), place=in_environment)
    assert "pip install 'ludolf[azure]'" in (answer.message.error_message or "")


def test_a_named_identity_lets_the_models_in_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring(tmp_path / "auth.json", os.environ)
    provider = "azure-openai-responses"
    monkeypatch.setenv("AZURE_OPENAI_USE_ENTRA_ID", "1")
    assert keyring.access(provider) is None
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "r")
    access = keyring.access(provider)
    assert access is not None
    assert access.key is None
    assert "AZURE_CLIENT_SECRET" in keyring.secret_names()


# ---------------------------------------------------------------- keeping tokens


class Source:
    """Gives numbered tokens that last as long as told."""

    def __init__(self, *lives: float) -> None:
        self.lives = list(lives)
        self.given = 0

    def fetch(self) -> Token:
        if not self.lives:
            raise ProviderError("no more", kind="network")
        self.given += 1
        return Token(f"t{self.given}", time.time() + self.lives.pop(0))


async def test_a_token_is_renewed_before_it_runs_out() -> None:
    tokens, source = TokenCache(), Source(EARLY_SECONDS - 1, EARLY_SECONDS + 60)
    got = [await tokens.get("me", source.fetch) for _ in range(4)]
    assert got == ["t1", "t2", "t2", "t2"]


async def test_a_token_that_still_lasts_serves_while_renewing_fails() -> None:
    tokens, source = TokenCache(), Source(EARLY_SECONDS - 1)
    assert [await tokens.get("me", source.fetch) for _ in range(2)] == ["t1", "t1"]
    with pytest.raises(ProviderError):
        await tokens.get("you", source.fetch)


async def test_requests_at_the_same_time_fetch_one_token() -> None:
    tokens, source = TokenCache(), Source(3600, 3600)
    got = await asyncio.gather(*(tokens.get("me", source.fetch) for _ in range(5)))
    assert (set(got), source.given) == ({"t1"}, 1)
