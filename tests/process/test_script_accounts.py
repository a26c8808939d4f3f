"""Logins and model lists of providers that extensions register, in TypeScript and in Python."""

import json
from typing import Any

from ludolf.base import now_ms
from ludolf.client import Client
from tests.process.extending import asked, dialog, errors, lay, notes, reply, told
from tests.process.harness import Lab, only, text_of
from tests.process.script import answer
from tests.script_host import lay_script, needs_node


def _stored(lab: Lab) -> Any:
    return json.loads((lab.agent / "auth.json").read_text())


def _store(lab: Lab, *, left_ms: int) -> None:
    login = {"type": "oauth", "access": "old", "refresh": "refresh-1", "site": "us"}
    path = lab.agent / "auth.json"
    path.write_text(json.dumps({"corp": {**login, "expires": now_ms() + left_ms}}))


async def _models(client: Client, provider: str) -> dict[str, str]:
    found = (await client.ask("get_available_models"))["models"]
    return {one["id"]: one["name"] for one in found if one["provider"] == provider}


@needs_node
async def test_a_script_logs_in_with_questions_and_its_key_is_used(lab: Lab) -> None:
    lay_script(lab, "accounts")
    lab.server.add(answer("Hello."))
    async with lab.client(CORP_URL=lab.server.url) as client:
        offered = (await client.ask("get_login_providers"))["providers"]
        assert await _models(client, "corp") == {}
        await client.send("login", id="in", providerId="corp")
        site = await dialog(client, "select")
        await reply(client, site, value="Europe")
        page, device = await dialog(client, "open_url"), await dialog(client, "open_url")
        manual, code = await dialog(client, "input"), await dialog(client, "input")
        await reply(client, code, value="7")
        assert (await client.reply_to("in"))["data"] == {"providerId": "corp"}
        assert await _models(client, "corp") == {"worker": "Worker (eu)"}
        await client.ask("set_model", provider="corp", modelId="worker")
        events = await client.prompt_and_collect("Go")
        await client.prompt("/account")
        assert (await client.ask("logout", providerId="corp"))["removed"] is True
        assert await _models(client, "corp") == {}
    (mine,) = [one for one in offered if one["id"] == "corp"]
    assert (mine["name"], mine["methods"], mine["authenticated"]) == (
        "Corp account",
        ["oauth"],
        False,
    )
    assert (site["title"], site["options"]) == ("Which site?", ["Europe", "America"])
    assert (page["url"], page["instructions"]) == ("https://corp.invalid/eu", "Log in there.")
    assert device["url"] == "https://corp.invalid/device" and "AB-12" in device["instructions"]
    assert (code["title"], code["placeholder"]) == ("Code?", "123")
    assert [one["targetId"] for one in asked(told(lab), "cancel")] == [manual["id"]]
    assert text_of(only(events, "turn_end")[-1]["message"]) == "Hello."
    assert lab.server.requests[-1].headers["authorization"] == "Bearer key-of-token-7"
    assert notes(lab)[0] == "Begin"
    assert json.loads(notes(lab)[1]) == [True, "key-of-token-7", 0, ["fetched-live-key"]]
    assert _stored(lab) == {}
    assert errors(told(lab)) == []


@needs_node
async def test_a_script_login_that_fails_or_is_dismissed_stores_nothing(lab: Lab) -> None:
    lay_script(lab, "accounts")
    refused = []
    async with lab.client(CORP_URL=lab.server.url) as client:
        for value in ("wrong", None):
            await client.send("login", id="in", providerId="corp")
            await reply(client, await dialog(client, "select"), value="Europe")
            await dialog(client, "input")
            code = await dialog(client, "input")
            more = {"cancelled": True} if value is None else {"value": value}
            await reply(client, code, **more)
            refused.append((await client.reply_to("in"))["error"])
    assert refused == ["Login failed: the code is wrong", "Login cancelled"]
    assert not (lab.agent / "auth.json").exists()


@needs_node
async def test_an_expired_login_of_a_script_is_renewed_before_the_request(lab: Lab) -> None:
    lay_script(lab, "accounts")
    _store(lab, left_ms=-1000)
    lab.server.add(answer("Hello."))
    async with lab.client("--model", "corp/worker", CORP_URL=lab.server.url) as client:
        await client.prompt_and_collect("Go")
    assert lab.server.requests[-1].headers["authorization"] == "Bearer key-of-refresh-1-new"
    stored = _stored(lab)["corp"]
    assert (stored["type"], stored["refresh"], stored["site"]) == ("oauth", "refresh-2", "us")


@needs_node
async def test_fetched_models_are_listed_and_kept_for_the_next_start(lab: Lab) -> None:
    lay_script(lab, "accounts")
    async with lab.client(CORP_URL=lab.server.url) as client:
        while not await _models(client, "live"):
            await client.ask("get_state")
        assert await _models(client, "live") == {"fetched-live-key": "Fetched"}
    stored = json.loads((lab.agent / "models-store.json").read_text())
    assert [one["id"] for one in stored["live"]["models"]] == ["fetched-live-key"]
    chosen = ("--model", "live/fetched-live-key")
    async with lab.client(*chosen, CORP_URL=lab.server.url, PI_OFFLINE="1") as client:
        assert (await client.ask("get_state"))["model"]["id"] == "fetched-live-key"


@needs_node
async def test_a_provider_object_of_pi_logs_in_too(lab: Lab) -> None:
    lay_script(lab, "accounts")
    async with lab.client(CORP_URL=lab.server.url) as client:
        await client.send("login", id="in", providerId="native")
        assert (await dialog(client, "open_url"))["url"] == "https://native.invalid/"
        await reply(client, await dialog(client, "input"), value="7")
        assert (await client.reply_to("in"))["success"]
        while "second" not in await _models(client, "native"):
            await client.ask("get_state")
        await client.ask("set_model", provider="native", modelId="second")
        events = await client.prompt_and_collect("Go")
    assert text_of(only(events, "turn_end")[-1]["message"]) == "second native-7 1"
    assert errors(told(lab)) == []


PYTHON = """
import os
import time

class Account:
    name = "Corp account"

    async def login(self, callbacks):
        callbacks.on_progress("Begin")
        site = await callbacks.on_select("Which site?", {"eu": "Europe"})
        callbacks.on_auth(f"https://corp.invalid/{site}")
        code = await callbacks.on_prompt("Code?")
        return {"access": f"token-{code}", "refresh": "r", "expires": time.time() * 1000 + 3600_000}

    def refresh_token(self, credentials):
        return credentials

    def get_api_key(self, credentials):
        return "key-of-" + credentials["access"]

async def refresh(context):
    return [{"id": "worker"}, {"id": "fetched"}] if context.allow_network else None

def extension(api):
    api.provider("corp", base_url=os.environ["CORP_URL"] + "/v1", api="openai-completions",
                 models=[{"id": "worker"}], oauth=Account(), refresh_models=refresh)
"""


async def test_an_extension_in_python_logs_in_and_lists_models_too(lab: Lab) -> None:
    lay(lab, PYTHON)
    lab.server.add(answer("Hello."))
    async with lab.client(CORP_URL=lab.server.url) as client:
        await client.send("login", id="in", providerId="corp")
        await reply(client, await dialog(client, "select"), value="Europe")
        assert (await dialog(client, "open_url"))["url"] == "https://corp.invalid/eu"
        await reply(client, await dialog(client, "input"), value="7")
        assert (await client.reply_to("in"))["success"]
        await client.ask("set_model", provider="corp", modelId="worker")
        await client.prompt_and_collect("Go")
        while "fetched" not in await _models(client, "corp"):
            await client.ask("get_state")
    assert lab.server.requests[-1].headers["authorization"] == "Bearer key-of-token-7"
    assert errors(told(lab)) == []


def test_the_command_line_logs_in_to_a_provider_of_an_extension(lab: Lab) -> None:
    lay(lab, PYTHON)
    done = lab.run("login", "corp", stdin=b"1\n7\n", CORP_URL=lab.server.url)
    assert done.code == 0, done.stderr
    assert "Which site?\n  1  Europe\n" in done.stderr
    assert "https://corp.invalid/eu" in done.stderr
    assert "Logged in to Corp account" in done.stderr
    assert _stored(lab)["corp"]["access"] == "token-7"
    assert lab.run("logout", "corp").code == 0
    assert _stored(lab) == {}
    unknown = lab.run("login", "crop", stdin=b"", CORP_URL=lab.server.url)
    assert unknown.code == 1
    assert 'Did you mean "corp"?' in unknown.stderr
