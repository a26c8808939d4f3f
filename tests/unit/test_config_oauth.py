"""Logins at identity servers: how one logs in, and how what is stored is renewed."""

import asyncio
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import Flow, LoginError, OAuthMethod, host_of
from ludolf.ai.http.oauth_login import code_in, log_in
from ludolf.base import ConfigError, now_ms
from ludolf.config.auth import renewal
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.keys import OAuth
from ludolf.config.auth.oauth import FLOWS, admission, copilot_address, flow_of
from ludolf.config.auth.renewal import renew
from ludolf.config.settings.lock import auth_lock
from tests.identity_server import ACCOUNT, IdentityServer

FIVE_MINUTES = 300_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        path = server.write_flows(tmp_path / "flows.json")
        monkeypatch.setenv("LUDOLF_OAUTH_FILE", str(path))
        yield server


def _flow(provider: str) -> Flow:
    flow = flow_of(provider, None, os.environ)
    assert flow is not None
    return flow


def _stored(tmp_path: Path, provider: str, *, left_ms: int, **more: Any) -> Keyring:
    login = {
        "type": "oauth",
        "access": "access-secret-0",
        "refresh": "refresh-secret-0",
        "expires": now_ms() + left_ms,
        **more,
    }
    other = {"type": "api_key", "key": "k", "note": 1}
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"other": other, provider: login}))
    path.chmod(0o600)
    return Keyring(path, os.environ)


def _on_disk(keyring: Keyring) -> Any:
    return json.loads(keyring.path.read_text())


class User:
    """Pastes a text, once something was shown; remembers what was shown."""

    def __init__(self, pasted: str | None = None) -> None:
        self.pasted = pasted
        self.shown: list[str] = []
        self.instructions: list[str] = []
        self.launched: list[str | None] = []
        self.withdrawn = False
        self.wait = asyncio.Event()
        self.sees = asyncio.Event()

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        self.shown.append(url)
        self.instructions.append(instructions)
        self.launched.append(launch)
        self.sees.set()

    async def paste(self, question: str, example: str) -> str | None:
        try:
            if self.pasted is None:
                await self.wait.wait()
        except asyncio.CancelledError:
            self.withdrawn = True
            raise
        return self.pasted


# ---------------------------------------------------------------- renewing


@pytest.mark.parametrize(
    ("provider", "path", "access"),
    [
        ("anthropic", "/token", "access-1"),
        ("openai-codex", "/token", "h."),
        ("github-copilot", "/copilot", "tid=1;proxy-ep=proxy.test.example;n=1"),
        ("kimi-coding", "/token", "access-1"),
        ("xai", "/token", "access-1"),
        ("meta", "/mint", "access-1"),
        ("radius", "/token", "access-1"),
    ],
)
async def test_a_login_that_ends_soon_is_renewed_and_keeps_its_other_fields(
    provider: str, path: str, access: str, server: IdentityServer, tmp_path: Path
) -> None:
    keyring = _stored(tmp_path, provider, left_ms=FIVE_MINUTES - 1000, extra={"a": [1]})
    before = _on_disk(keyring)
    await renew(keyring, provider, None)
    after = _on_disk(keyring)
    (asked,) = server.asked
    assert asked.path == path
    sent = asked.fields.get("refresh_token") or asked.headers["authorization"]
    assert sent.removeprefix("Bearer ") == "refresh-secret-0"
    assert after[provider]["access"].startswith(access)
    assert after[provider]["expires"] > now_ms() + FIVE_MINUTES
    assert after[provider]["extra"] == {"a": [1]}
    assert after["other"] == before["other"]
    assert not keyring.ends_soon(provider)
    assert stat.S_IMODE(keyring.path.stat().st_mode) == 0o600


async def test_a_key_of_openrouter_does_not_end(server: IdentityServer, tmp_path: Path) -> None:
    keyring = _stored(tmp_path, "openrouter", left_ms=-1)
    await renew(keyring, "openrouter", None)
    assert server.asked == []


async def test_a_server_that_gives_no_new_refresh_token_lets_the_old_one_stand(
    server: IdentityServer, tmp_path: Path
) -> None:
    server.rotates = False
    keyring = _stored(tmp_path, "xai", left_ms=0)
    await renew(keyring, "xai", None)
    assert _on_disk(keyring)["xai"]["refresh"] == "refresh-secret-0"


async def test_the_account_of_a_chatgpt_token_is_stored_with_it(
    server: IdentityServer, tmp_path: Path
) -> None:
    keyring = _stored(tmp_path, "openai-codex", left_ms=0, accountId="old")
    await renew(keyring, "openai-codex", None)
    assert _on_disk(keyring)["openai-codex"]["accountId"] == ACCOUNT


async def test_the_server_of_an_enterprise_is_asked_for_its_copilot_token(
    server: IdentityServer, tmp_path: Path
) -> None:
    elsewhere = {"github-copilot": {"domain": "no.such", "exchangeUrl": "http://{domain}/copilot"}}
    path = tmp_path / "enterprise.json"
    path.write_text(json.dumps(elsewhere))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUDOLF_OAUTH_FILE", str(path))
        keyring = _stored(tmp_path, "github-copilot", left_ms=0, enterpriseUrl=server.netloc)
        await renew(keyring, "github-copilot", None)
    assert [asked.path for asked in server.asked] == ["/copilot"]


async def test_what_lasts_long_enough_is_left_alone(server: IdentityServer, tmp_path: Path) -> None:
    keyring = _stored(tmp_path, "xai", left_ms=FIVE_MINUTES + 10_000)
    await renew(keyring, "xai", None)
    assert server.asked == []
    await renew(keyring, "xai", None, least_ms=2 * FIVE_MINUTES)
    assert len(server.asked) == 1


async def test_two_that_renew_at_once_ask_the_server_once(
    server: IdentityServer, tmp_path: Path
) -> None:
    keyring = _stored(tmp_path, "xai", left_ms=0)
    await asyncio.gather(*(renew(Keyring(keyring.path, os.environ), "xai", None) for _ in range(4)))
    assert len(server.asked) == 1


async def test_what_another_process_renewed_meanwhile_is_used(
    server: IdentityServer, tmp_path: Path
) -> None:
    keyring = _stored(tmp_path, "xai", left_ms=0)
    with auth_lock(keyring.path):
        async with asyncio.TaskGroup() as group:
            work = group.create_task(renew(keyring, "xai", None))
            await asyncio.sleep(0)
            raw = _on_disk(keyring)
            raw["xai"] |= {"access": "of-the-other", "expires": now_ms() + 10 * FIVE_MINUTES}
            keyring.path.write_text(json.dumps(raw))
            auth_lock(keyring.path).directory.rmdir()
            await work
    assert server.asked == []
    access = keyring.access("xai")
    assert access is not None
    assert access.key == "of-the-other"


async def test_a_logout_meanwhile_is_respected(server: IdentityServer, tmp_path: Path) -> None:
    keyring = _stored(tmp_path, "xai", left_ms=0)
    keyring.forget("xai")
    await renew(keyring, "xai", None)
    assert server.asked == []
    assert "xai" not in _on_disk(keyring)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": "invalid_grant", "error_description": "gone: refresh-secret-0"}),
        (500, {"message": "access-secret-0"}),
        (200, {"no": "token"}),
        (302, {}),
    ],
)
async def test_a_refusal_says_what_to_do_shows_no_token_and_leaves_the_login_stored(
    status: int, body: dict[str, Any], server: IdentityServer, tmp_path: Path
) -> None:
    server.refusal = (status, body)
    keyring = _stored(tmp_path, "xai", left_ms=0)
    before = keyring.path.read_text()
    with pytest.raises(ProviderError, match='Run "ludolf auth login xai"') as caught:
        await renew(keyring, "xai", None)
    assert caught.value.kind == "auth"
    assert "secret" not in str(caught.value)
    assert keyring.path.read_text() == before
    assert not auth_lock(keyring.path).directory.exists()


async def test_a_server_that_does_not_answer_is_not_waited_for_for_long(
    server: IdentityServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "LIMIT_SECONDS", 0.05)
    server.hold = threading.Event()
    keyring = _stored(tmp_path, "xai", left_ms=0)
    with pytest.raises(ProviderError, match="no answer within"):
        await renew(keyring, "xai", None)


async def test_a_server_that_is_not_there_and_a_provider_that_nobody_knows_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "flows.json"
    path.write_text(json.dumps({"xai": {"tokenUrl": "http://127.0.0.1:1/token"}}))
    monkeypatch.setenv("LUDOLF_OAUTH_FILE", str(path))
    for provider in ("xai", "made-up"):
        keyring = _stored(tmp_path, provider, left_ms=0)
        with pytest.raises(ProviderError, match=f'Authentication failed for "{provider}"'):
            await renew(keyring, provider, None)


# ---------------------------------------------------------------- logging in


@pytest.mark.parametrize("provider", ["xai", "kimi-coding", "meta", "radius", "github-copilot"])
async def test_a_login_by_device_code_waits_until_the_user_has_typed_it(
    provider: str, server: IdentityServer
) -> None:
    server.pending, server.hurried = 2, 1
    user = User()
    credential = await log_in(_flow(provider), "device", user, os.environ)
    assert user.shown == [f"{server.url}/enter"]
    assert user.launched == [f"{server.url}/enter?code=ABCD-1234"]
    assert "ABCD-1234" in user.instructions[0]
    assert [asked.path for asked in server.asked[:5]] == ["/device", *["/token"] * 4]
    assert credential["type"] == "oauth"
    assert credential["access"]
    assert credential["refresh"]
    assert credential["expires"] > now_ms() + FIVE_MINUTES


async def test_what_a_copilot_login_stores_can_be_renewed(server: IdentityServer) -> None:
    credential = await log_in(
        _flow("github-copilot").replace(domain="no.such"),
        "device",
        User(),
        os.environ,
        domain=server.netloc,
    )
    assert credential["access"].startswith("tid=1;")
    assert credential["refresh"] == "access-1"
    assert credential["enterpriseUrl"] == server.netloc


async def test_a_user_who_says_no_is_told_so(server: IdentityServer) -> None:
    server.denied = True
    with pytest.raises(LoginError, match="denied"):
        await log_in(_flow("xai"), "device", User(), os.environ)


async def test_a_code_that_nobody_types_expires(server: IdentityServer) -> None:
    server.refusal = (400, {"error": "expired_token"})
    with pytest.raises(LoginError, match="expired"):
        await log_in(_flow("xai"), "device", User(), os.environ)


async def test_an_address_that_is_none_of_the_web_is_shown_to_nobody(
    server: IdentityServer,
) -> None:
    user = User()
    flow = _flow("openai-codex").replace(verification_url="file:///etc/passwd")
    with pytest.raises(LoginError, match=r"not http\(s\)"):
        await log_in(flow, "device", user, os.environ)
    assert user.shown == []


@pytest.mark.parametrize("method", ["oauth", "device"])
async def test_a_login_to_chatgpt_knows_its_account(
    method: OAuthMethod, server: IdentityServer
) -> None:
    server.pending = 1
    user = User()
    login = asyncio.gather(log_in(_flow("openai-codex"), method, user, os.environ))
    if method == "oauth":
        await _until_shown(user)
        await asyncio.to_thread(server.browse, user.shown[0])
    (credential,) = await login
    assert credential["accountId"] == ACCOUNT
    assert credential["refresh"] == "refresh-1"


async def _until_shown(user: User) -> None:
    async with asyncio.timeout(30):
        await user.sees.wait()


async def test_the_browser_brings_the_code_and_nobody_needs_to_paste(
    server: IdentityServer,
) -> None:
    user = User()
    login = asyncio.gather(log_in(_flow("openrouter"), "oauth", user, os.environ))
    await _until_shown(user)
    assert await asyncio.to_thread(server.browse, user.shown[0]) == 200
    (credential,) = await login
    forever = 2**53 - 1
    assert credential == {
        "type": "oauth",
        "access": "sk-or-given",
        "refresh": "",
        "expires": forever,
    }
    assert user.withdrawn


async def test_a_browser_on_another_machine_ends_at_an_address_to_paste(
    server: IdentityServer,
) -> None:
    user = User()
    login = asyncio.gather(log_in(_flow("openrouter"), "oauth", user, os.environ))
    await _until_shown(user)
    user.pasted = server.end_of(user.shown[0])
    user.wait.set()
    (credential,) = await login
    assert credential["access"] == "sk-or-given"


async def test_a_page_that_belongs_to_another_login_is_refused(server: IdentityServer) -> None:
    user = User()
    login = asyncio.gather(log_in(_flow("openai-codex"), "oauth", user, os.environ))
    await _until_shown(user)
    address = server.end_of(user.shown[0], state="of-somebody-else")
    assert await _status(address) == 400
    assert await _status(address.replace("/oauth/", "/elsewhere/")) == 404
    user.pasted = address
    user.wait.set()
    with pytest.raises(LoginError, match="another login"):
        await login


async def _status(address: str) -> int:
    """The status of a plain GET, by hand: a failure is no exception here."""
    host, _, path = address.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    writer.write(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_a_login_in_a_browser_does_not_wait_for_ever(server: IdentityServer) -> None:
    with pytest.raises(LoginError, match="not completed within"):
        await log_in(_flow("openrouter").replace(patience=0.05), "oauth", User(), os.environ)


async def test_with_the_port_taken_the_code_is_pasted(server: IdentityServer) -> None:
    taken = f"http://{server.netloc}/auth/callback"
    user = User()
    login = asyncio.gather(
        log_in(_flow("openai-codex").replace(callback=taken), "oauth", user, os.environ)
    )
    await _until_shown(user)
    user.pasted = server.end_of(user.shown[0])
    user.wait.set()
    (credential,) = await login
    assert credential["accountId"] == ACCOUNT


@pytest.mark.parametrize(
    ("pasted", "code"),
    [
        ("http://localhost:1455/auth/callback?code=abc&state=s", "abc"),
        (" code=abc&state=s ", "abc"),
        ("abc#s", "abc"),
        ("abc", "abc"),
        ("http://localhost/auth/callback?code=abc", "abc"),
    ],
)
def test_a_code_is_found_in_whatever_is_pasted(pasted: str, code: str) -> None:
    assert code_in(pasted, "s") == code


@pytest.mark.parametrize("pasted", ["", "   ", "http://localhost/auth/callback?error=x", "abc#t"])
def test_a_paste_without_a_code_or_of_another_login_is_refused(pasted: str) -> None:
    with pytest.raises(LoginError):
        code_in(pasted, "s")


# ---------------------------------------------------------------- data


def test_every_flow_leads_to_tokens_by_https_alone() -> None:
    for provider, flow in FLOWS.items():
        addresses = (flow.token_url, flow.device_url, flow.exchange_url, flow.authorize_url)
        for address in addresses:
            assert flow.at(address).startswith("https://") or not address, provider
        assert flow.token_url


def test_anthropic_has_no_login_but_is_renewed() -> None:
    assert FLOWS["anthropic"].methods == ()


def test_a_radius_gateway_is_asked_at_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    own = flow_of("mine", "gate.example/", os.environ)
    assert own is not None
    assert own.at(own.token_url) == "https://gate.example/v1/oauth/token"
    monkeypatch.setenv("PI_RADIUS_GATEWAY", "http://127.0.0.1:9/")
    shared = flow_of("radius", None, os.environ)
    assert shared is not None
    assert shared.at(shared.device_url) == "http://127.0.0.1:9/v1/oauth/device"


@pytest.mark.parametrize("text", ["{", '{"xai": 3}', '{"xai": {"scope": 3}}'])
def test_a_file_of_private_servers_that_cannot_be_used_is_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "flows.json"
    path.write_text(text)
    monkeypatch.setenv("LUDOLF_OAUTH_FILE", str(path))
    with pytest.raises(ConfigError, match=r"flows\.json"):
        flow_of("xai", None, os.environ)


@pytest.mark.parametrize(
    ("token", "domain", "address"),
    [
        ("tid=a;exp=1;proxy-ep=proxy.business.example;x=y", None, "https://api.business.example"),
        ("tid=a", "corp.example", "https://copilot-api.corp.example"),
        ("tid=a", None, None),
    ],
)
def test_the_copilot_token_says_which_server_answers(
    token: str, domain: str | None, address: str | None
) -> None:
    assert copilot_address(token, domain) == address
    login = OAuth(access=token, expires=1, enterprise_url=domain)
    access = admission("github-copilot", login)
    assert (access.key, access.base_url) == (token, address)
    assert access.headers["Copilot-Integration-Id"]


def test_a_kimi_login_goes_as_a_bearer_and_others_as_the_key() -> None:
    login = OAuth(access="tok", expires=1)
    assert admission("kimi-coding", login).headers == {"Authorization": "Bearer tok"}
    assert admission("anthropic", login).key == "tok"


@pytest.mark.parametrize("address", ["", "a b", "user@host", "https://", "http://[::1"])
def test_what_names_no_server_is_refused(address: str) -> None:
    with pytest.raises(LoginError):
        host_of(address)
