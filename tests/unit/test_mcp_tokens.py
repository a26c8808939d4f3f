"""Tokens of stored logins: renewal, processes that share a file, refusals."""

import asyncio
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import ConfigError, now_ms
from ludolf.config.mcp.auth_file import ServerLogin
from ludolf.mcp.oauth import read_oauth_settings
from ludolf.mcp.tokens import StoredTokens
from ludolf.mcp.wire import LoginNeeded, McpError
from tests.mcp_identity import ProtectedServer

MORE = 'Bearer error="insufficient_scope", scope="write"'


@pytest.fixture
def server() -> Iterator[ProtectedServer]:
    with ProtectedServer() as served:
        served.accept_refresh("refresh-0-secret")
        yield served


def _store(server: ProtectedServer, folder: Path) -> ServerLogin:
    return ServerLogin(folder, "lab", server.url)


def _login(server: ProtectedServer, left_seconds: float, **more: Any) -> dict[str, Any]:
    tokens = {
        "access_token": "access-0-secret",
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": "refresh-0-secret",
        "scope": "read",
    }
    return {
        "clientInformation": {"client_id": "client-1", "redirect_uris": []},
        "discovery": {
            "authorizationServerUrl": server.issuer,
            "authorizationServerMetadata": server.metadata,
        },
        "tokens": {**tokens, **more},
        "tokensExpireAt": int(now_ms() + left_seconds * 1000),
    }


def _tokens(
    server: ProtectedServer, folder: Path, left_seconds: float | None = None, **more: Any
) -> StoredTokens:
    """The tokens of a process; with `left_seconds`, after a login is stored."""
    store = _store(server, folder)
    if left_seconds is not None:
        login = _login(server, left_seconds, **more)
        store.change(lambda _: login)
    return StoredTokens(server.url, store, read_oauth_settings({}), os.environ, pause=0)


async def test_without_a_login_there_is_no_token(server: ProtectedServer, tmp_path: Path) -> None:
    tokens = _tokens(server, tmp_path)
    assert await tokens.current() is None
    assert not await tokens.refused(None, "Bearer")


async def test_a_token_with_time_left_is_used_as_it_is(
    server: ProtectedServer, tmp_path: Path
) -> None:
    assert await _tokens(server, tmp_path, 300).current() == "access-0-secret"
    assert not server.requests


async def test_a_token_that_ends_within_a_minute_is_renewed_and_stored_before_its_use(
    server: ProtectedServer, tmp_path: Path
) -> None:
    tokens = _tokens(server, tmp_path, 30)
    assert await tokens.current() == "access-1-secret"
    (asked,) = server.asked("/token")
    assert asked == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-0-secret",
        "client_id": "client-1",
        "resource": server.url,
    }
    stored = _store(server, tmp_path).load()
    assert stored is not None
    assert stored["tokens"]["refresh_token"] == "refresh-1-secret"
    assert stored["tokens"]["scope"] == "read"
    assert stored["tokensExpireAt"] > now_ms() + 3000_000


async def test_tokens_that_live_shortly_are_renewed_at_half_their_life(
    server: ProtectedServer, tmp_path: Path
) -> None:
    assert await _tokens(server, tmp_path, 15, expires_in=20).current() == "access-0-secret"
    assert await _tokens(server, tmp_path, 5, expires_in=20).current() == "access-1-secret"


async def test_requests_at_once_and_other_processes_share_one_renewal(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.hold = threading.Event()
    here, there = _tokens(server, tmp_path, -1), _tokens(server, tmp_path)
    waiting = [asyncio.ensure_future(each.current()) for each in (here, here, there, there)]
    assert await asyncio.to_thread(server.asked_for_token.wait, 30)
    server.hold.set()
    assert set(await asyncio.gather(*waiting)) == {"access-1-secret"}
    assert len(server.asked("/token")) == 1
    assert not list(tmp_path.glob("*.lock"))


async def test_a_newer_token_of_another_process_is_used_without_a_request(
    server: ProtectedServer, tmp_path: Path
) -> None:
    tokens = _tokens(server, tmp_path, 300)
    assert await tokens.current() == "access-0-secret"
    _tokens(server, tmp_path, 300, access_token="access-9-secret")
    assert await tokens.refused("access-0-secret", "Bearer")
    assert await tokens.current() == "access-9-secret"
    assert not server.requests


async def test_a_cancelled_request_does_not_lose_the_renewed_token(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.hold = threading.Event()
    tokens = _tokens(server, tmp_path, -1)
    request = asyncio.ensure_future(tokens.current())
    assert await asyncio.to_thread(server.asked_for_token.wait, 30)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    server.hold.set()
    await tokens.close()
    assert await _tokens(server, tmp_path).current() == "access-1-secret"


async def test_a_login_during_a_renewal_is_not_overwritten(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.hold = threading.Event()
    tokens = _tokens(server, tmp_path, -1)
    request = asyncio.ensure_future(tokens.current())
    assert await asyncio.to_thread(server.asked_for_token.wait, 30)
    _tokens(server, tmp_path, 300, access_token="access-8", refresh_token="refresh-8")
    server.hold.set()
    assert await request == "access-8"


async def test_while_the_server_fails_a_valid_token_is_used_and_an_ended_one_is_kept(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.answers["/token"] = (503, {"error": "access-0-secret refresh-0-secret"})
    assert await _tokens(server, tmp_path, 30).current() == "access-0-secret"
    tokens = _tokens(server, tmp_path, -1)
    for attempt in (tokens.current(), tokens.refused("access-0-secret", "Bearer")):
        with pytest.raises(McpError, match=r"could not be renewed: .*503") as failure:
            await attempt
        assert "-0-secret" not in str(failure.value)
    server.metadata["token_endpoint"] = "http://127.0.0.1:9/token"
    with pytest.raises(McpError, match="could not be renewed"):
        await _tokens(server, tmp_path, -1).current()
    stored = _store(server, tmp_path).load()
    assert stored is not None
    assert stored["tokens"]["refresh_token"] == "refresh-0-secret"


@pytest.mark.parametrize(
    ("code", "keeps_client"), [("invalid_grant", True), ("invalid_client", False)]
)
async def test_a_refused_renewal_needs_a_login(
    code: str, keeps_client: bool, server: ProtectedServer, tmp_path: Path
) -> None:
    server.answers["/token"] = (400, {"error": code})
    tokens = _tokens(server, tmp_path, -1)
    assert await tokens.current() is None
    assert not await tokens.refused(None, "Bearer")
    stored = _store(server, tmp_path).load()
    assert stored is not None
    assert "tokens" not in stored
    assert ("clientInformation" in stored) is keeps_client
    assert len(server.asked("/token")) == 1


async def test_a_renewal_that_is_refused_for_another_reason_needs_a_login_and_keeps_the_tokens(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.answers["/token"] = (400, {"error": "invalid_request"})
    with pytest.raises(LoginNeeded, match="invalid_request"):
        await _tokens(server, tmp_path, -1).current()
    server.answers["/token"] = (429, {"error": "slow_down"})
    with pytest.raises(McpError, match="slow_down") as failure:
        await _tokens(server, tmp_path).current()
    assert not isinstance(failure.value, LoginNeeded)
    del server.answers["/token"]
    assert await _tokens(server, tmp_path).current() == "access-1-secret"


async def test_a_refused_token_is_renewed_once(server: ProtectedServer, tmp_path: Path) -> None:
    tokens = _tokens(server, tmp_path, 300)
    assert await tokens.refused("access-0-secret", 'Bearer error="invalid_token"')
    assert await tokens.current() == "access-1-secret"
    assert not await tokens.refused("access-1-secret", 'Bearer error="invalid_token"')
    assert len(server.asked("/token")) == 1


async def test_a_token_without_a_refresh_token_or_client_is_used_to_its_end(
    server: ProtectedServer, tmp_path: Path
) -> None:
    tokens = _tokens(server, tmp_path, -1, refresh_token=None)
    assert await tokens.current() == "access-0-secret"
    assert not await tokens.refused("access-0-secret", "Bearer")
    tokens = _tokens(server, tmp_path, -1)
    _store(server, tmp_path).change(lambda old: {**(old or {}), "clientInformation": None})
    assert await tokens.current() == "access-0-secret"
    assert not await tokens.refused("access-0-secret", "Bearer")
    assert not server.asked("/token")


async def test_scopes_that_a_server_asks_for_are_stored_for_the_next_login(
    server: ProtectedServer, tmp_path: Path
) -> None:
    tokens = _tokens(server, tmp_path, 300)
    assert not await tokens.refused("access-0-secret", MORE)
    stored = _store(server, tmp_path).load()
    assert stored is not None
    assert stored["wantedScope"] == "write"
    assert await tokens.current() == "access-0-secret"
    assert not server.asked("/token")


@pytest.mark.parametrize(
    "login",
    [
        {"tokens": "none"},
        {"tokens": {"access_token": 7, "refresh_token": []}},
        {"tokens": {"access_token": ""}, "tokensExpireAt": 10**400},
        [],
    ],
)
async def test_fields_of_the_wrong_type_count_as_no_login(
    login: Any, server: ProtectedServer, tmp_path: Path
) -> None:
    path = tmp_path / "mcp-auth.json"
    path.write_text(json.dumps({f"mcp__lab|{server.url}": login}))
    assert await _tokens(server, tmp_path).current() is None


async def test_stored_metadata_with_an_insecure_address_get_no_token(
    server: ProtectedServer, tmp_path: Path
) -> None:
    server.metadata["token_endpoint"] = "http://evil.example/token"
    with pytest.raises(McpError, match="not an https address"):
        await _tokens(server, tmp_path, -1).current()


# ---------------------------------------------------------------- the file


def test_logins_belong_to_the_name_and_the_address_of_a_server(tmp_path: Path) -> None:
    store = ServerLogin(tmp_path, "my-server", "https://HOST/mcp")
    store.change(lambda _: {"tokens": {}})
    assert ServerLogin(tmp_path, "my_server", "https://host/mcp").load() is not None
    assert ServerLogin(tmp_path, "other", "https://host/mcp").load() is None
    assert ServerLogin(tmp_path, "my-server", "https://host/other").load() is None


def test_other_logins_survive_and_a_login_of_an_early_version_is_taken_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mcp-auth.json"
    path.write_text(json.dumps({"https://host/mcp": {"tokens": {"x": 1}}, "else": {"y": 2}}))
    os.chmod(path, 0o644)
    store = ServerLogin(tmp_path, "lab", "https://host/mcp")
    assert store.load() == {"tokens": {"x": 1}}
    store.change(lambda old: {**(old or {}), "more": 3})
    entry = {"serverUrl": "https://host/mcp", "tokens": {"x": 1}, "more": 3}
    assert json.loads(path.read_text()) == {"else": {"y": 2}, "mcp__lab|https://host/mcp": entry}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.change(lambda _: None)
    assert json.loads(path.read_text()) == {"else": {"y": 2}}


def test_a_broken_file_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mcp-auth.json"
    path.write_text('{"half')
    store = ServerLogin(tmp_path, "lab", "https://host/mcp")
    with pytest.raises(ConfigError, match="Invalid file of logins"):
        store.load()
    with pytest.raises(ConfigError, match="was not changed"):
        store.change(lambda _: {})
    assert path.read_text() == '{"half'
