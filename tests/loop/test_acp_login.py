"""Logins over ACP, at a real identity server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from acp import schema

from tests.acp_frames import check_model
from tests.identity_server import IdentityServer
from tests.loop.acp_client import AcpClient, acp
from tests.loop.laws import Record

URLS: Record = {"elicitation": {"url": {}}}


@pytest.fixture
def identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        path = server.write_flows(tmp_path / "flows.json")
        monkeypatch.setenv("LUDOLF_OAUTH_FILE", str(path))
        yield server


async def _addresses(client: AcpClient) -> Record:
    """The first address that the client has to open."""
    params: Record = (await client.asked("elicitation/create"))["params"]
    check_model(schema.CreateUrlRequestElicitationRequest, params)
    assert params["mode"] == "url"
    return params


async def test_a_login_in_the_browser_is_stored(tmp_path: Path, identity: IdentityServer) -> None:
    async with acp(tmp_path) as client:
        client.answers["elicitation/create"] = lambda params: {"action": "accept"}
        hello = await client.initialize(URLS)
        assert "openrouter" in [method["id"] for method in hello["authMethods"]]
        number = client.start("authenticate", methodId="openrouter")
        shown = await _addresses(client)
        assert shown["requestId"] == number
        await asyncio.to_thread(identity.browse, shown["url"])
        assert (await client.response(number))["result"] == {}
        stored = json.loads((tmp_path / "agent" / "auth.json").read_text())
        assert stored["openrouter"]["access"] == "sk-or-given"
        done = client.requests("elicitation/complete")
        assert done == [{"elicitationId": shown["elicitationId"]}]


@pytest.mark.parametrize("how", ["decline", "cancel", "end"])
async def test_a_login_that_the_user_does_not_want_ends(
    tmp_path: Path, identity: IdentityServer, how: str
) -> None:
    async with acp(tmp_path) as client:
        action = "decline" if how == "decline" else "accept"
        client.answers["elicitation/create"] = lambda params: {"action": action}
        await client.initialize(URLS)
        number = client.start("authenticate", methodId="openrouter")
        await _addresses(client)
        if how == "cancel":
            client.notify("$/cancel_request", requestId=number)
        elif how == "end":
            client.end()
        error = (await client.response(number))["error"]
        assert error["code"] == (-32603 if how == "decline" else -32800)
        assert not (tmp_path / "agent" / "auth.json").exists()
