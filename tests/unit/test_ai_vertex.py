"""Vertex AI: addresses by project and location, keys, tokens of the application's identity."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.ai.providers.google.vertex import Vertex
from ludolf.config.auth.keyring import Keyring
from tests.gateway_asking import ask
from tests.loopback import JSON_BODY, Canned, Loopback
from tests.openai_asking import READ, model, request

SHIPPED = "https://{location}-aiplatform.googleapis.com"
CLOUD = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west1"}
GEMINI = "publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse"
VARIABLES = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "GCLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_API_KEY",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def vertex(base_url: str = SHIPPED, model_id: str = "gemini-3-pro") -> Model:
    return model(id=model_id, api="google-vertex", provider="google-vertex", base_url=base_url)


def asked(served: Model, *, key: str | None = None, **environment: str) -> Request:
    return request(model=served, access=Access(key=key, environment=environment))


def at(asking: Request, url: str) -> Request:
    return structs.replace(asking, access=asking.access.replace(base_url=url))


async def address(asking: Request) -> str:
    """Where a request goes; a configured header spares it the token."""
    if not asking.access.key:
        admitted = asking.access.replace(headers={"Authorization": "Bearer x"})
        asking = structs.replace(asking, access=admitted)
    return (await Vertex(Transport({})).reach(asking))[0]


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ],
)
async def test_the_location_is_part_of_host_and_path(location: str, host: str) -> None:
    here = asked(vertex(), GCLOUD_PROJECT="p", GOOGLE_CLOUD_LOCATION=location)
    assert await address(here) == f"{host}/v1/projects/p/locations/{location}/{GEMINI}"


@pytest.mark.parametrize(
    ("base", "by_key", "by_identity"),
    [
        ("https://x.test", "https://x.test/v1/", "https://x.test/v1/projects/p/locations/l/"),
        (
            "https://x.test/v1beta1/",
            "https://x.test/v1beta1/",
            "https://x.test/v1beta1/projects/p/locations/l/",
        ),
        (
            "https://x.test/v1/projects/a/locations/b",
            "https://x.test/v1/projects/a/locations/b/",
            "https://x.test/v1/projects/a/locations/b/",
        ),
        (
            "https://x.test/{location}",
            "https://x.test/l/v1/",
            "https://x.test/l/v1/projects/p/locations/l/",
        ),
        (
            SHIPPED,
            "https://aiplatform.googleapis.com/v1/",
            "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/",
        ),
    ],
)
async def test_other_bases_are_completed(base: str, by_key: str, by_identity: str) -> None:
    cloud = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}
    assert await address(asked(vertex(base), key="k", **cloud)) == by_key + GEMINI
    assert await address(asked(vertex(base), **cloud)) == by_identity + GEMINI


async def test_a_base_that_names_project_and_location_needs_no_variables() -> None:
    base = "https://x.test/v1/projects/a/locations/b"
    assert await address(asked(vertex(base))) == f"{base}/{GEMINI}"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("publishers/a/models/b", "publishers/a/models/b:"),
        ("meta/llama", "publishers/meta/models/llama:"),
        ("models/gemini", "publishers/google/models/gemini:"),
    ],
)
async def test_models_of_other_publishers_are_found(name: str, path: str) -> None:
    assert f"/{path}" in await address(asked(vertex(model_id=name), key="k"))


@pytest.mark.parametrize(
    ("cloud", "missing"),
    [
        ({}, "GOOGLE_CLOUD_PROJECT"),
        ({"GOOGLE_CLOUD_PROJECT": "p"}, "GOOGLE_CLOUD_LOCATION"),
    ],
)
async def test_what_is_missing_is_named(cloud: dict[str, str], missing: str) -> None:
    with pytest.raises(ProviderError, match=missing) as raised:
        await Vertex(Transport({})).reach(asked(vertex(), **cloud))
    assert raised.value.kind == "auth"


def test_a_key_goes_into_its_header_and_the_body_is_that_of_google() -> None:
    asking = structs.replace(asked(vertex(), key="k"), tools=(READ,), thinking="high")
    requests, answer = ask(asking, place=at)
    sent = requests[0]
    assert answer.message.stop_reason == "stop"
    assert answer.message.api == "google-vertex"
    assert sent.path == f"/v1/{GEMINI}"
    assert sent.headers["x-goog-api-key"] == "k"
    assert "authorization" not in sent.headers
    assert sent.json["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "HIGH"
    assert sent.json["tools"][0]["functionDeclarations"][0]["name"] == "read"


def test_an_answer_that_breaks_off_names_vertex() -> None:
    _, answer = ask(asked(vertex(), key="k"), Canned(), place=at)
    expected = "Google Vertex stream ended without a finish reason"
    assert (answer.message.error_message, answer.kind) == (expected, "network")


# ---------------------------------------------------------------- identities


@pytest.fixture(name="private_key", scope="module")
def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def account_file(folder: Path, private_key: str, login_url: str) -> str:
    path = folder / "account.json"
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": private_key,
        "client_email": "agent@p.iam.gserviceaccount.com",
        "token_uri": f"{login_url}/token",
    }
    path.write_bytes(msgspec.json.encode(account))
    return str(path)


def granted(name: str, seconds: int = 3600) -> Canned:
    body = {"access_token": name, "expires_in": seconds, "token_type": "Bearer"}
    return Canned(headers=JSON_BODY, chunks=[msgspec.json.encode(body)])


def ask_as(folder: Path, private_key: str, *logins: Canned, times: int = 1) -> tuple[Any, ...]:
    """The requests to the model, those to the login, and the answer."""
    with Loopback(*logins) as login:
        file = account_file(folder, private_key, login.url)
        asking = asked(vertex(), GOOGLE_APPLICATION_CREDENTIALS=file, **CLOUD)
        requests, answer = ask(asking, place=at, times=times)
        return requests, login.requests, answer


def test_the_account_of_a_file_is_logged_in_once_for_many_requests(
    tmp_path: Path, private_key: str
) -> None:
    requests, logins, answer = ask_as(tmp_path, private_key, granted("one"), times=3)
    assert answer.message.error_message is None
    assert [sent.headers["authorization"] for sent in requests] == ["Bearer one"] * 3
    assert requests[0].path == f"/v1/projects/p/locations/europe-west1/{GEMINI}"
    assert "x-goog-api-key" not in requests[0].headers
    assert len(logins) == 1
    assert b"jwt-bearer" in logins[0].body


def test_a_session_with_its_own_environment_uses_the_login_in_its_own_home(
    tmp_path: Path, private_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/file/of/the/process")
    folder = tmp_path / ".config" / "gcloud"
    folder.mkdir(parents=True)
    with Loopback(granted("own")) as login:
        file = account_file(folder, private_key, login.url)
        Path(file).rename(folder / "application_default_credentials.json")
        asking = structs.replace(asked(vertex(), **CLOUD), environ={"HOME": str(tmp_path)})
        requests, answer = ask(asking, place=at)
    assert answer.message.error_message is None
    assert requests[0].headers["authorization"] == "Bearer own"


def test_a_token_that_runs_out_soon_is_renewed(tmp_path: Path, private_key: str) -> None:
    requests, logins, _ = ask_as(
        tmp_path, private_key, granted("one", 100), granted("two"), times=3
    )
    assert [sent.headers["authorization"][-3:] for sent in requests] == ["one", "two", "two"]
    assert len(logins) == 2


def test_an_account_that_is_refused_is_an_error_of_admission(
    tmp_path: Path, private_key: str
) -> None:
    body = b'{"error":"invalid_grant","error_description":"No such account"}'
    refused = Canned(status=400, headers=JSON_BODY, chunks=[body])
    requests, _, answer = ask_as(tmp_path, private_key, refused)
    assert not requests
    assert "Google gave no token" in answer.message.error_message
    assert "No such account" in answer.message.error_message
    assert answer.kind == "auth"


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"type":"service_account"}'])
def test_a_file_that_holds_no_account_is_told(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_bytes(content)
    asking = asked(vertex(), GOOGLE_APPLICATION_CREDENTIALS=str(path), **CLOUD)
    _, answer = ask(asking, place=at)
    assert (answer.message.error_message or "").startswith("Google gave no token: ")
    assert answer.kind == "auth"


def test_the_file_of_the_process_serves_too(
    tmp_path: Path, private_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loopback(granted("one")) as login:
        file = account_file(tmp_path, private_key, login.url)
        for name, value in {**CLOUD, "GOOGLE_APPLICATION_CREDENTIALS": file}.items():
            monkeypatch.setenv(name, value)
        requests, _ = ask(asked(vertex()), place=at)
    assert requests[0].headers["authorization"] == "Bearer one"


def test_an_account_elsewhere_must_be_named_to_the_whole_process(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    path.write_bytes(b'{"type":"external_account"}')
    asking = asked(vertex(), GOOGLE_APPLICATION_CREDENTIALS=str(path), **CLOUD)
    _, answer = ask(asking, place=at)
    assert "for the whole process" in (answer.message.error_message or "")


def test_a_login_that_cannot_be_reached_may_be_tried_again(
    tmp_path: Path, private_key: str
) -> None:
    with Loopback(granted("one")) as login:
        closed = login.url
    file = account_file(tmp_path, private_key, closed)
    asking = asked(vertex(), GOOGLE_APPLICATION_CREDENTIALS=file, **CLOUD)
    _, answer = ask(asking, place=at)
    assert "Connection error: Google login" in (answer.message.error_message or "")
    assert answer.kind == "network"


def test_project_and_location_let_the_models_in_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring(tmp_path / "auth.json", os.environ)
    monkeypatch.setenv("GCLOUD_PROJECT", "p")
    assert keyring.access("google-vertex") is None
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "global")
    access = keyring.access("google-vertex")
    assert access is not None
    assert access.key is None


def test_a_missing_package_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth.exceptions", None)
    _, answer = ask(asked(vertex(), **CLOUD), place=at)
    assert "pip install 'ludolf[vertex]'" in (answer.message.error_message or "")
