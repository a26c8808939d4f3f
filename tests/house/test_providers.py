"""Whoever asks one provider does not pay for another, nor for the libraries of the clouds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ludolf.ai.registry import _MODULES
from tests.house.source import SOURCE

# Each folder holds one family; modules next to the folders are shared.
FAMILIES = ("anthropic", "bedrock", "google", "mistral", "openai")
BUILDS_ON = {"bedrock": ("anthropic", "openai"), "mistral": ("openai",)}
# These speak OpenAI's API, in folders of their own or in none.
ON_OPENAI = ("pi-messages", "ludolf-gguf")
CLOUD_LIBRARIES = (
    "anthropic",
    "azure",
    "boto3",
    "botocore",
    "google.auth",
    "google.genai",
    "google.oauth2",
    "mistralai",
    "msal",
    "openai",
    "requests",
    "xllamacpp",
)
PLACE = "ludolf.ai.providers."

MAKE = """
import json, sys
from ludolf.ai.registry import Providers
from ludolf.ai.http.transport import Transport

made = [Providers(Transport({})).get(api) for api in sys.argv[1:]]
"""
ASK = """
import asyncio
from ludolf.ai.access import Access
from ludolf.ai.draft import Draft
from ludolf.ai.messages import UserMessage
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import Request
from ludolf.ai.stream import respond

closed = "http://127.0.0.1:1"
account = "eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYSJ9fQ"


async def take(events):
    list(events)


async def ask(provider):
    model = Model(id="m", name="m", api=provider.api, provider="p", base_url=closed,
                  reasoning=True, input=("text",), cost=ModelCost(), context_window=1000,
                  max_tokens=100)
    request = Request(provider=provider, model=model, access=Access(key=f"e30.{account}.s"),
                      system="", messages=(UserMessage(content="Hi", timestamp=1),))
    answer = await respond(request, Draft(model), take)
    assert answer.kind == "unreachable", answer


async def ask_all():
    for provider in made:
        await ask(provider)


asyncio.run(ask_all())
"""
TELL = "sys.stdout.write(json.dumps(sorted(sys.modules)))"


def _loaded(program: str, *apis: str) -> frozenset[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *apis],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return frozenset(json.loads(done.stdout))


def _family(name: str) -> str:
    folder = name.partition(".")[0]
    return folder if folder in FAMILIES else ""


def _from_clouds(loaded: frozenset[str]) -> list[str]:
    return sorted(name for name in loaded if f"{name}.".startswith(_whole(CLOUD_LIBRARIES)))


def _whole(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}." for name in names)


@pytest.mark.parametrize("api", _MODULES)
def test_a_provider_loads_only_its_own_family(api: str) -> None:
    loaded = _loaded(MAKE + TELL, api)
    own = _family(_MODULES[api].removeprefix("providers."))
    ours = {own, *BUILDS_ON.get(own, ()), *(("openai",) if api in ON_OPENAI else ()), ""}
    there = {name.removeprefix(PLACE) for name in loaded if name.startswith(PLACE)}
    assert f"ludolf.ai.{_MODULES[api]}" in loaded
    assert not [name for name in there if _family(name) not in ours]
    assert not _from_clouds(loaded)


ASKED_WITH_A_KEY = (
    "anthropic-messages",
    "openai-completions",
    "openai-responses",
    "openai-codex-responses",
    "azure-openai-responses",
    "google-generative-ai",
    "google-vertex",
    "mistral-conversations",
    "pi-messages",
)


def test_keys_need_no_library_of_a_cloud() -> None:
    loaded = _loaded(MAKE + ASK + TELL, *ASKED_WITH_A_KEY)
    assert "httptools" in loaded
    assert "aiohttp" not in loaded
    assert not _from_clouds(loaded)
