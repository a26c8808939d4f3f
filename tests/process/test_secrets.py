"""A key goes to its provider and to nobody else: not into replies, files, texts or commands."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from tests.loopback import Canned, Loopback
from tests.process.harness import PROGRAM, WAIT_SECONDS, Lab, only, text_of
from tests.process.script import Failure, answer, bash

pytestmark = pytest.mark.exec

# One for each way in: stored, in models.json, by a variable, by a variable that a file names.
STORED = "sk-stored-5f1b0c77aa2e4d"
CONFIGURED = "sk-configured-93ee61d0b7"
VARIABLE = "sk-variable-0b6a2c44f19e"
NAMED = "sk-named-7d20e9c1853b66af"
TOKEN = "tok-access-ee0b11a4c9d7"
RENEWER = "tok-refresh-41b7a09c22de"
GIVEN = "sk-given-over-the-wire-88"
AZURE = "azure-client-secret-3c55"
ALL = (STORED, CONFIGURED, VARIABLE, NAMED, TOKEN, RENEWER, GIVEN, AZURE)
ENV = {
    "GROQ_API_KEY": VARIABLE,
    "MY_OWN_KEY": NAMED,
    "ANTHROPIC_OAUTH_TOKEN": VARIABLE,
    "AWS_SESSION_TOKEN": VARIABLE,
    "AZURE_CLIENT_SECRET": AZURE,
}


def _prepare(lab: Lab) -> None:
    login = {"type": "oauth", "access": TOKEN, "refresh": RENEWER, "expires": 4 * 10**12}
    entries = {"claude": {"type": "api_key", "key": STORED}, "xai": login}
    (lab.agent / "auth.json").write_text(json.dumps(entries))
    path = lab.agent / "models.json"
    raw = loads(path.read_bytes())
    raw["providers"]["chat"]["apiKey"] = CONFIGURED
    raw["providers"]["responses"]["apiKey"] = "$MY_OWN_KEY"
    raw["providers"]["gemini"]["headers"] = {"X-Goog-Api-Key": CONFIGURED}
    raw["providers"]["xai"] = {"baseUrl": f"{lab.server.url}/v1"}
    path.write_bytes(dumps(raw))


def _refusal(secret: str, *, status: int = 401) -> Failure:
    """A server that sends the key back, as some do."""
    error = {"type": "authentication_error", "message": f"Incorrect API key provided: {secret}."}
    return Failure(status=status, body=dumps({"error": error, "sent": f"Bearer {secret}"}))


def _files(lab: Lab) -> list[Path]:
    found = [path for path in lab.root.rglob("*") if path.is_file()]
    return [path for path in found if path.name not in ("auth.json", "models.json")]


def _assert_nowhere(where: str, data: bytes) -> None:
    found = [secret for secret in ALL if secret.encode() in data]
    assert found == [], where


async def test_no_key_is_said_or_written_anywhere(lab: Lab) -> None:
    _prepare(lab)
    lab.server.add(answer(bash("env; cat /proc/self/environ")), answer("Done."))
    lab.server.add(_refusal(STORED), _refusal(CONFIGURED), _refusal(NAMED), _refusal(TOKEN))
    lab.server.add(_refusal(CONFIGURED), _refusal(STORED, status=400))
    async with lab.client(**ENV) as client:
        run = await client.prompt_and_collect("Show the environment")
        shell = await client.ask("bash", command="env")
        errors = [(await client.prompt_and_collect("Fail"))]
        for provider in ("chat", "responses", "xai", "gemini"):
            model = "grok-4.3" if provider == "xai" else "large"
            await client.ask("set_model", provider=provider, modelId=model)
            errors.append(await client.prompt_and_collect("Fail"))
        await client.ask("set_model", provider="claude", modelId="large")
        summary = await client.request("compact")
        await client.ask("login", providerId="openai", apiKey=GIVEN)
        await client.ask("get_auth_status")
        await client.ask("get_login_providers")
        await client.ask("get_available_models")
        await client.ask("get_messages")
        await client.ask("export_html", outputPath="page.html")
        stderr = client.process.stderr
    assert "PI_SESSION_ID" in text_of(only(run, "tool_execution_end")[0]["result"])
    assert "PI_SESSION_ID" in shell["output"]
    for told in errors:
        message = only(told, "turn_end")[-1]["message"]
        assert message["stopReason"] == "error"
        assert "[redacted]" in message["errorMessage"], message["errorMessage"]
    assert not summary["success"]
    sent = " ".join(str(request.headers) for request in lab.server.requests)
    assert all(secret in sent for secret in (STORED, CONFIGURED, NAMED, TOKEN))
    _assert_nowhere("stdout", b"".join(lab.lines))
    _assert_nowhere("stderr", stderr.encode())
    files = _files(lab)
    assert {"page.html", "settings.json"} <= {path.name for path in files}
    assert any(path.suffix == ".jsonl" for path in files)
    for path in files:
        _assert_nowhere(str(path), path.read_bytes())


def test_other_modes_and_commands_show_no_key_either(lab: Lab) -> None:
    _prepare(lab)
    lab.server.add(_refusal(STORED), _refusal(STORED))
    for words in (
        ("-p", "Go"),
        ("--mode", "json", "Go"),
        ("--list-models",),
        ("auth", "status"),
        ("auth", "status", "--json"),
        ("auth", "check", "--provider", "xai", "--json"),
        ("auth", "check", "--model", "claude/large"),
        ("auth", "logout", "claude"),
    ):
        done = lab.run(*words, stdin=b"", **ENV)
        _assert_nowhere(" ".join(words), done.stdout + done.stderr.encode())
    for path in _files(lab):
        _assert_nowhere(str(path), path.read_bytes())
    assert len(lab.server.requests) == 2


def test_a_key_that_is_asked_for_stands_in_no_list_of_processes(lab: Lab) -> None:
    with subprocess.Popen(
        [*PROGRAM, "auth", "login", "openai", "--api-key-stdin"],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        words = Path(f"/proc/{program.pid}/cmdline").read_bytes()
        _, stderr = program.communicate(GIVEN.encode(), timeout=WAIT_SECONDS)
    assert program.returncode == 0, stderr
    _assert_nowhere("the list of processes", words)
    mode = os.stat(lab.agent / "auth.json").st_mode & 0o777
    assert mode == 0o600


async def test_the_proxy_of_the_settings_is_used_and_its_password_is_told_to_nobody_else(
    lab: Lab,
) -> None:
    password = "pass-of-the-proxy-61c2"
    login = base64.b64encode(f"me:{password}".encode()).decode()
    path = lab.agent / "models.json"
    raw = loads(path.read_bytes())
    raw["providers"]["chat"]["baseUrl"] = "http://model.test/v1"
    path.write_bytes(dumps(raw))
    refusal = Canned(status=407, chunks=[f"you sent Basic {login}, {password}".encode()])
    with Loopback(refusal) as proxy:
        lab.settings(httpProxy=proxy.url.replace("://", f"://me:{password}@"))
        recording = str(lab.root / "traffic.jsonl")
        async with lab.client("--model", "chat/large", "--record", recording) as client:
            told = await client.prompt_and_collect("Go")
            bash_env = await client.ask("bash", command="env")
    asked = proxy.requests[0]
    assert asked.path == "http://model.test/v1/chat/completions"
    assert asked.headers["proxy-authorization"] == f"Basic {login}"
    assert only(told, "turn_end")[-1]["message"]["errorMessage"].startswith("407 ")
    assert password not in bash_env["output"]
    written = [Path(recording), *lab.sessions]
    said = b"".join((*lab.lines, *(file.read_bytes() for file in written)))
    assert [secret for secret in (password, login) if secret.encode() in said] == []
