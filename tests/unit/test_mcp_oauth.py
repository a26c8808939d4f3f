"""Logins to protected MCP servers: discovery, clients, the browser, refusals."""

import asyncio
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.http.oauth import LoginError
from ludolf.base import now_ms
from ludolf.config.mcp.auth_file import ServerLogin, standard_address
from ludolf.mcp.discovery import Challenge, checked_address, read_challenge
from ludolf.mcp.login import BrowserLogin, log_out
from ludolf.mcp.oauth import read_oauth_settings
from ludolf.mcp.tokens import StoredTokens
from ludolf.mcp.wire import HttpServer, McpError
from tests.mcp_identity import ProtectedServer


@pytest.fixture
def server() -> Iterator[ProtectedServer]:
    with ProtectedServer() as served:
        yield served


class Visitor:
    """A user who visits each address; with `pastes`, only copies where the browser ended."""

    def __init__(self, server: ProtectedServer, *, pastes: bool = False) -> None:
        self.shown: list[str] = []
        self.pages: list[int] = []
        self.visited = threading.Event()
        self.patience = 30.0
        self._server = server
        self._pastes = pastes

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        self.shown.append(url)
        if not self._pastes:
            threading.Thread(target=self._visit, args=(url,), daemon=True).start()

    async def paste(self, question: str, example: str) -> str | None:
        return self._server.redirect(self.shown[-1]) if self._pastes else None

    def _visit(self, url: str) -> None:
        self.pages.append(self._server.browse(url))
        self.visited.set()


class Silent(Visitor):
    """A user who visits nothing."""

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        self.shown.append(url)


async def _log_in(
    server: ProtectedServer,
    folder: Path,
    visitor: Visitor | None = None,
    challenge: str = "",
    **oauth: Any,
) -> dict[str, Any]:
    store = ServerLogin(folder, "lab", server.url)
    settings = read_oauth_settings(oauth)
    asker = visitor or Visitor(server)
    address = HttpServer(environ={}, url=server.url, headers={})
    await BrowserLogin(address, store, settings, asker, patience=asker.patience).run(challenge)
    stored = store.load()
    assert stored is not None
    return stored


def _paths(server: ProtectedServer) -> list[str]:
    return [request.path for request in server.requests]


# ---------------------------------------------------------------- the usual login


async def test_a_login_registers_a_native_client_and_stores_tokens_for_the_owner_only(
    server: ProtectedServer, tmp_path: Path
) -> None:
    before = now_ms()
    stored = await _log_in(server, tmp_path)
    (registered,), (authorize,) = server.asked("/register"), server.asked("/authorize")
    (token,) = server.asked("/token")
    assert registered["application_type"] == "native"
    assert registered["grant_types"] == ["authorization_code", "refresh_token"]
    assert registered["token_endpoint_auth_method"] == "none"
    assert authorize["code_challenge_method"] == "S256"
    assert authorize["scope"] == "read"
    assert authorize["resource"] == token["resource"] == server.url
    assert stored["tokens"]["access_token"] == "access-1-secret"
    assert stored["tokens"]["scope"] == "read"
    assert stored["tokensExpireAt"] >= before + 3600_000
    assert stored["clientInformation"]["client_id"] == "client-1"
    path = tmp_path / "mcp-auth.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(json.loads(path.read_text())) == [f"mcp__lab|{server.url}"]


async def test_the_next_login_reuses_the_registration_and_its_redirect(
    server: ProtectedServer, tmp_path: Path
) -> None:
    await _log_in(server, tmp_path)
    await _log_in(server, tmp_path)
    first, second = server.asked("/authorize")
    assert first["redirect_uri"] == second["redirect_uri"]
    assert len(server.clients) == 1


async def test_an_unfinished_login_keeps_its_registration(
    server: ProtectedServer, tmp_path: Path
) -> None:
    with pytest.raises(LoginError, match="not completed"):
        visitor = Silent(server)
        visitor.patience = 0.01
        await _log_in(server, tmp_path, visitor)
    await _log_in(server, tmp_path)
    assert len(server.clients) == 1


async def test_a_client_is_registered_again_if_the_port_of_its_redirect_is_in_use(
    server: ProtectedServer, tmp_path: Path
) -> None:
    await _log_in(server, tmp_path)
    port = int(server.asked("/authorize")[0]["redirect_uri"].split(":")[2].split("/")[0])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        stored = await _log_in(server, tmp_path)
    assert stored["clientInformation"]["client_id"] == "client-2"
    assert server.asked("/authorize")[1]["client_id"] == "client-2"


async def test_a_forgotten_client_is_registered_once_more(
    server: ProtectedServer, tmp_path: Path
) -> None:
    await _log_in(server, tmp_path)
    server.answers["/token"] = (401, {"error": "invalid_client"})
    with pytest.raises(LoginError, match="invalid_client"):
        await _log_in(server, tmp_path)
    assert len(server.clients) == 2
    assert len(server.asked("/token")) == 3
    del server.answers["/token"]
    await _log_in(server, tmp_path)
    assert len(server.clients) == 2


@pytest.mark.parametrize(
    ("code", "attempts"), [("unauthorized_client", 2), ("invalid_scope", 2), ("access_denied", 1)]
)
async def test_a_page_that_refuses_a_reused_client_gets_another_registration(
    code: str, attempts: int, server: ProtectedServer, tmp_path: Path
) -> None:
    await _log_in(server, tmp_path)
    server.extra_redirect = {"error": code}
    with pytest.raises(LoginError, match=f"the login was refused: {code}"):
        await _log_in(server, tmp_path)
    assert len(server.clients) == attempts


async def test_a_port_in_use_is_named_where_nothing_can_be_pasted(
    server: ProtectedServer, tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LoginError, match=f"another program uses .*:{port}/callback"):
            await _log_in(server, tmp_path, Silent(server), callbackPort=port)


async def test_the_pasted_address_of_the_last_page_completes_a_login(
    server: ProtectedServer, tmp_path: Path
) -> None:
    stored = await _log_in(server, tmp_path, Visitor(server, pastes=True))
    assert stored["tokens"]["access_token"] == "access-1-secret"


async def test_a_configured_client_is_used_with_its_secret_port_and_scopes(
    server: ProtectedServer, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    oauth: dict[str, Any] = {"clientId": "mine", "clientSecret": "s/cret-value", "scope": "write"}
    await _log_in(server, tmp_path, callbackPort=port, **oauth)
    (authorize,) = server.asked("/authorize")
    assert authorize["redirect_uri"] == f"http://127.0.0.1:{port}/callback"
    assert (authorize["client_id"], authorize["scope"]) == ("mine", "write read")
    request = next(one for one in server.requests if one.path == "/token")
    assert request.headers["authorization"] == "Basic bWluZTpzJTJGY3JldC12YWx1ZQ=="
    assert not server.clients
    server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    await _log_in(server, tmp_path, callbackPort=port, **oauth)
    assert server.asked("/token")[1]["client_secret"] == "s/cret-value"


async def test_offline_access_is_asked_for_where_it_is_supported(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.metadata["scopes_supported"] = ["read", "offline_access"]
    server.challenge = server.challenge.partition(",")[0]
    await _log_in(server, tmp_path)
    (authorize,) = server.asked("/authorize")
    assert authorize["scope"] == "read list offline_access"
    assert authorize["prompt"] == "consent"


# ---------------------------------------------------------------- discovery


async def test_metadata_are_searched_at_the_path_then_at_the_root(tmp_path: Path) -> None:
    with ProtectedServer(prefix="/a/mcp", issuer_path="/tenant") as server:
        server.challenge = "Bearer"
        server.documents = {
            "/.well-known/oauth-protected-resource": server.resource,
            "/tenant/.well-known/openid-configuration": server.metadata,
        }
        await _log_in(server, tmp_path)
        assert _paths(server)[1:6] == [
            "/.well-known/oauth-protected-resource/a/mcp",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration",
        ]
        assert server.asked("/authorize")[0]["scope"] == "read list"


async def test_metadata_may_move_to_another_secure_address(
    server: ProtectedServer, tmp_path: Path
) -> None:
    known = "/.well-known/oauth-authorization-server"
    server.documents = {"/moved": server.metadata, **server.documents}
    del server.documents[known]
    server.redirects = {known: "/moved"}
    await _log_in(server, tmp_path)
    server.redirects = {known: "http://evil.example/"}
    with pytest.raises(LoginError, match="not an https address"):
        await _log_in(server, tmp_path)
    server.redirects = {known: known}
    with pytest.raises(LoginError, match="no metadata"):
        await _log_in(server, tmp_path)


async def test_without_metadata_the_origin_is_the_authorization_server(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.documents.clear()
    server.challenge = ""
    server.issuer_sent = None
    stored = await _log_in(server, tmp_path)
    assert stored["tokens"]["access_token"] == "access-1-secret"
    assert server.asked("/token")[0]["resource"] == server.url


async def test_named_metadata_replace_the_search(server: ProtectedServer, tmp_path: Path) -> None:
    server.documents = {"/other": server.metadata}
    await _log_in(server, tmp_path, authServerMetadataUrl=f"{server.origin}/other")
    assert "/.well-known/oauth-protected-resource" not in _paths(server)


async def test_a_server_that_asks_for_no_login_is_reported(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.valid.add("")
    server.documents.clear()
    with pytest.raises(LoginError, match="no metadata"):
        await _log_in(server, tmp_path)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"issuer": "https://evil.example"}, "another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"token_endpoint": "http://evil.example/token"}, "not an https address"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "not an https address"),
        ({"token_endpoint": 7}, "incomplete"),
        ({"registration_endpoint": None}, "does not register clients"),
    ],
)
async def test_unusable_metadata_of_an_authorization_server_stop_a_login(
    changes: dict[str, Any], words: str, server: ProtectedServer, tmp_path: Path
) -> None:
    server.metadata.update(changes)
    with pytest.raises(LoginError, match=words):
        await _log_in(server, tmp_path)
    assert not server.asked("/authorize")
    assert not server.clients


@pytest.mark.parametrize(
    "resource", ["https://other.example/mcp", "{origin}/mc", "{origin}/mcp/deeper", "no address"]
)
async def test_metadata_of_another_resource_stop_a_login(
    resource: str, server: ProtectedServer, tmp_path: Path
) -> None:
    server.resource["resource"] = resource.format(origin=server.origin)
    with pytest.raises(LoginError, match="Check the address"):
        await _log_in(server, tmp_path)


async def test_metadata_of_the_whole_origin_fit_a_server_on_it(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.resource["resource"] = f"{server.origin}/"
    await _log_in(server, tmp_path)
    assert server.asked("/token")[0]["resource"] == f"{server.origin}/"


@pytest.mark.parametrize("issuer", ["https://evil.example", None])
@pytest.mark.parametrize("pastes", [False, True])
async def test_a_redirect_of_another_issuer_is_refused_and_its_code_is_not_used(
    issuer: str | None, pastes: bool, server: ProtectedServer, tmp_path: Path
) -> None:
    server.metadata["authorization_response_iss_parameter_supported"] = True
    server.issuer_sent = issuer
    with pytest.raises(LoginError, match="The code was not used"):
        await _log_in(server, tmp_path, Visitor(server, pastes=pastes))
    assert not server.asked("/token")


async def test_a_redirect_with_another_state_does_not_end_a_login(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.extra_redirect = {"state": "other"}
    with pytest.raises(LoginError, match="another login"):
        await _log_in(server, tmp_path, Visitor(server, pastes=True))
    visitor = Visitor(server)
    login = asyncio.ensure_future(_log_in(server, tmp_path, visitor))
    assert await asyncio.to_thread(visitor.visited.wait, 30)
    assert visitor.pages == [400]
    server.extra_redirect = {}
    await asyncio.to_thread(server.browse, visitor.shown[0])
    assert (await login)["tokens"]["access_token"] == "access-1-secret"


async def test_words_of_refusals_are_shown_without_control_characters(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.answers["/register"] = (403, {"error_description": "by\x1b[31m hand only"})
    with pytest.raises(LoginError, match=r"refused: .*by \[31m hand only"):
        await _log_in(server, tmp_path)
    del server.answers["/register"]
    server.extra_redirect = {"error": "access_denied", "error_description": "not you"}
    with pytest.raises(LoginError, match="the login was refused: not you"):
        await _log_in(server, tmp_path)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, {"error": "invalid_grant", "error_description": "bad code-1-secret"}, "redacted"),
        (500, {}, "returned 500"),
        (200, {}, "no access_token"),
        (200, {"access_token": "a b"}, "cannot be sent"),
        (200, {"access_token": "a\nb"}, "cannot be sent"),
        (200, {"access_token": "a", "token_type": "mac"}, "not a bearer token"),
    ],
)
async def test_unusable_answers_to_a_code_store_no_tokens(
    status: int, body: dict[str, Any], words: str, server: ProtectedServer, tmp_path: Path
) -> None:
    server.answers["/token"] = (status, body)
    with pytest.raises(LoginError, match=words) as failure:
        await _log_in(server, tmp_path)
    assert "code-1-secret" not in str(failure.value)
    assert "tokens" not in (ServerLogin(tmp_path, "lab", server.url).load() or {})


async def test_a_server_without_https_is_refused(tmp_path: Path) -> None:
    store = ServerLogin(tmp_path, "lab", "http://mcp.example/")
    address = HttpServer(environ={}, url="http://mcp.example/", headers={})
    with ProtectedServer() as server:
        login = BrowserLogin(address, store, read_oauth_settings({}), Visitor(server))
        with pytest.raises(LoginError, match="not an https address"):
            await login.run()


def test_only_servers_on_loopback_may_name_http_addresses_on_loopback() -> None:
    assert checked_address("http://127.0.0.1:1/x", local=True)
    for url in ("http://127.0.0.1:1/x", "https://user@host/", "https://", "https://[", "ftp://h/"):
        with pytest.raises(LoginError):
            checked_address(url, local=False)


@pytest.mark.parametrize(
    "oauth",
    [{"clientId": 7}, {"callbackPort": 99999}, {"clientRegistration": "cimd"}],
)
def test_settings_that_cannot_be_used_are_reported(oauth: dict[str, Any]) -> None:
    with pytest.raises(McpError, match="Invalid oauth settings"):
        read_oauth_settings(oauth)


# ---------------------------------------------------------------- more scopes


async def test_more_scopes_are_added_to_the_granted_ones_twice_at_most(
    server: ProtectedServer, tmp_path: Path
) -> None:
    await _log_in(server, tmp_path)
    more = 'Bearer error="insufficient_scope", scope="write"'
    await _log_in(server, tmp_path, challenge=more)
    assert server.asked("/authorize")[1]["scope"] == "read write"
    await _log_in(server, tmp_path, challenge=more)
    with pytest.raises(LoginError, match="after 2 logins with read write"):
        await _log_in(server, tmp_path, challenge=more)
    await _log_in(server, tmp_path, challenge='Bearer error="insufficient_scope"')
    assert server.asked("/authorize")[-1]["scope"] == "read write list"


async def test_scopes_that_a_connection_was_refused_for_are_asked_for_by_the_next_login(
    server: ProtectedServer, tmp_path: Path
) -> None:
    await _log_in(server, tmp_path)
    store = ServerLogin(tmp_path, "lab", server.url)
    tokens = StoredTokens(server.url, store, read_oauth_settings({}), os.environ)
    refusal = 'Bearer error="insufficient_scope", scope="write"'
    assert not await tokens.refused("access-1-secret", refusal)
    await _log_in(server, tmp_path)
    await _log_in(server, tmp_path)
    scopes = [asked["scope"] for asked in server.asked("/authorize")]
    assert scopes == ["read", "read write", "read"]
    assert len(server.clients) == 1


# ---------------------------------------------------------------- logout


async def test_a_logout_removes_everything_and_revokes_the_refresh_token(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.metadata["revocation_endpoint"] = f"{server.origin}/revoke"
    store = ServerLogin(tmp_path, "lab", server.url)
    settings = read_oauth_settings({})
    await _log_in(server, tmp_path)
    assert await log_out(store, settings, os.environ) == (True, "")
    assert server.asked("/revoke")[0]["token"] == "refresh-1-secret"
    assert store.load() is None
    assert await log_out(store, settings, os.environ) == (False, "")
    await _log_in(server, tmp_path)
    server.answers["/revoke"] = (503, {"error": "refresh-2-secret is busy"})
    removed, problem = await log_out(store, settings, os.environ)
    assert removed
    assert "503" in problem
    assert "refresh-2-secret" not in problem
    assert store.load() is None


# ---------------------------------------------------------------- headers, addresses


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Challenge()),
        ('Basic realm="Bearer scope=x"', Challenge()),
        ('bearer scope="a  b", error=invalid_token', Challenge(scope="a b", error="invalid_token")),
        (
            'Basic realm="x, y", Bearer resource_metadata="https://h/m", DPoP scope="no"',
            Challenge(metadata_url="https://h/m"),
        ),
        ('Bearer scope="a\\"b" , scope="second"', Challenge(scope='a"b')),
        ('Bearer scope="' + "x" * 100_000, Challenge()),
    ],
)
def test_challenges_are_read_from_any_header(header: str, expected: Challenge) -> None:
    assert read_challenge(header) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://MCP.Example:443", "https://mcp.example/"),
        ("http://[::1]:80/a b?q=ü", "http://[::1]/a%20b?q=%C3%BC"),
        ("https://h:8443/mcp?x=%41", "https://h:8443/mcp?x=%41"),
    ],
)
def test_addresses_are_stored_in_the_form_of_pi(url: str, expected: str) -> None:
    assert standard_address(url) == expected
