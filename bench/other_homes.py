"""Settings and command lines of programs with protocols of their own.

Each function writes what the program reads at its start, with the model on a loopback port, and
returns the words after its command and its environment. Every key is a dummy.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

_CLOSED_PORT = "http://127.0.0.1:9"
# Requests to other machines fail at once.
OFFLINE = {"HTTPS_PROXY": _CLOSED_PORT, "HTTP_PROXY": _CLOSED_PORT}
_CODEX_CONFIG = """
model = "bench"
model_provider = "bench"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.bench]
name = "bench"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
"""


class Launch(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    env: dict[str, str]


def codex(folder: Path, port: int) -> Launch:
    home = folder / ".codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(_CODEX_CONFIG.format(port=port))
    return Launch(("app-server",), {"CODEX_HOME": str(home)})


def opencode(folder: Path, port: int) -> Launch:
    file = folder / "opencode.json"
    file.write_text(json.dumps(_opencode_config(port)))
    return Launch(("acp",), {"OPENCODE_CONFIG": str(file)})


def goose(_: Path, port: int) -> Launch:
    env = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "bench",
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": f"http://127.0.0.1:{port}",
        "OPENAI_API_KEY": "none",
    }
    return Launch(("acp", "--with-builtin", "developer"), env)


def claude(folder: Path, port: int) -> Launch:
    streams = ("--input-format", "stream-json", "--output-format", "stream-json")
    more = ("--include-partial-messages", "--verbose", "--allowedTools", "Bash")
    env = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_MODEL": "bench",
        "ANTHROPIC_SMALL_FAST_MODEL": "bench",
        "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return Launch(("-p", *streams, *more), env)


LAUNCHES: dict[str, Callable[[Path, int], Launch]] = {
    "codex": codex,
    "goose": goose,
    "claude": claude,
    "opencode": opencode,
}


def _opencode_config(port: int) -> dict[str, Any]:
    options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"}
    limit = {"context": 1_000_000, "output": 32_000}
    models = {"bench": {"name": "bench", "limit": limit}}
    provider = {"npm": "@ai-sdk/anthropic", "name": "bench", "options": options, "models": models}
    return {
        "provider": {"bench": provider},
        "model": "bench/bench",
        "small_model": "bench/bench",
        "autoupdate": False,
        "share": "disabled",
    }
