"""Model servers of this machine: told apart by what they say, and read for what they offer."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.local import NO_KEY
from ludolf.ai.local.kinds import explain
from ludolf.ai.local.servers import RunningServer, ServerAddress, look_at, someone_listens
from ludolf.ai.models import Model
from ludolf.base import ConfigError, dumps
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.local import LocalModels, ollama_address
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import choose_model
from tests.local_server import LocalServer, Silent, free_port, ollama, shown

LLAMA: dict[str, Any] = {
    "/props": {
        "default_generation_settings": {"params": {}, "n_ctx": 8192},
        "total_slots": 1,
        "modalities": {"vision": True, "audio": False},
        "chat_template": "{% if enable_thinking %}<think>{% endif %}",
    },
    "/v1/models": {
        "object": "list",
        "models": [{"name": "models/coder.gguf", "details": {}}],
        "data": [{"id": "models/coder.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 1}}],
    },
}
LMSTUDIO: dict[str, Any] = {
    "/api/v0/models": {
        "object": "list",
        "data": [
            {"id": "embed", "type": "embeddings", "state": "loaded", "max_context_length": 512},
            {"id": "cold", "type": "llm", "state": "not-loaded", "max_context_length": 131_072},
            {
                "id": "sees",
                "type": "vlm",
                "state": "loaded",
                "max_context_length": 131_072,
                "loaded_context_length": 24_000,
                "capabilities": ["tool_use"],
            },
        ],
    }
}
VLLM: dict[str, Any] = {
    "/v1/models": {
        "object": "list",
        "data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 40_960}],
    }
}
SOMETHING_ELSE: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [{"id": "gpt", "owned_by": "a proxy"}]},
    "/props": {"colour": "blue"},
    "/api/tags": {"models": ["not", "theirs"], "object": "list"},
    "/api/v0/models": {"data": [{"id": "x"}]},
}


async def look(
    server: LocalServer, provider: str | None = None, **more: Any
) -> RunningServer | None:
    found = await look_at([ServerAddress(url=server.url, provider=provider, **more)])
    return found[0] if found else None


async def models_of(server: LocalServer, **more: Any) -> dict[str, Model]:
    found = await look(server, **more)
    assert found is not None
    return {model.id: model for model in found.models}


# ---------------------------------------------------------------- who is who


@pytest.mark.parametrize(
    ("pages", "provider"),
    [
        (ollama("qwen3:8b"), "ollama"),
        (LLAMA, "llama.cpp"),
        ({**LLAMA, "/api/tags": LLAMA["/v1/models"]}, "llama.cpp"),
        (LMSTUDIO, "lmstudio"),
        (VLLM, "vllm"),
    ],
    ids=["ollama", "llama.cpp", "llama.cpp that also answers for Ollama", "lmstudio", "vllm"],
)
async def test_a_server_is_known_by_its_own_endpoints(pages: Any, provider: str) -> None:
    with LocalServer(pages, shows={"qwen3:8b": shown("tools")}) as server:
        found = await look(server)
    assert found is not None
    assert found.provider == provider
    assert {model.base_url for model in found.models} == {f"{server.url}/v1"}
    assert {model.api for model in found.models} == {"openai-completions"}


@pytest.mark.parametrize("provider", [None, "ollama", "llama.cpp", "lmstudio", "vllm"])
async def test_something_else_on_the_port_is_not_taken_for_a_model_server(
    provider: str | None,
) -> None:
    with LocalServer(SOMETHING_ELSE) as server:
        assert await look(server, provider) is None


async def test_closed_and_silent_ports_cost_less_than_a_third_of_a_second_together() -> None:
    with Silent() as silent:
        closed = f"http://127.0.0.1:{free_port()}"
        places = [
            ServerAddress(url=silent.url),
            ServerAddress(url=closed),
            ServerAddress(url=silent.url, provider="vllm"),
        ]
        best = min([await _seconds_of_a_look(places) for _ in range(5)])
    assert best < 0.45


async def _seconds_of_a_look(places: list[ServerAddress]) -> float:
    """How long it takes to find nothing; on a busy machine only the best of some tells."""
    begun = time.perf_counter()
    assert await look_at(places) == ()
    return time.perf_counter() - begun


def test_a_knock_at_a_closed_port_needs_no_waiting() -> None:
    assert not someone_listens(ServerAddress(url=f"http://127.0.0.1:{free_port()}"))
    with Silent() as silent:
        assert someone_listens(ServerAddress(url=silent.url))


async def test_a_key_is_told_only_to_who_asks_for_one() -> None:
    keys = {"llama.cpp": "secret"}
    with LocalServer(LLAMA) as server:
        await look(server, "llama.cpp", keys=keys)
        assert not [asked for asked in server.requests if "authorization" in asked.headers]
    with LocalServer(LLAMA, key="secret") as server:
        assert await look(server, "llama.cpp", keys=keys) is not None
        assert await look(server, "llama.cpp") is None


# ---------------------------------------------------------------- what they offer


async def test_ollama_tells_tools_vision_and_thinking() -> None:
    shows = {"all": shown("tools", "vision", "thinking"), "plain": shown()}
    with LocalServer(ollama("all", "plain"), shows=shows) as server:
        models = await models_of(server)
    assert (models["all"].reasoning, models["all"].takes_images) == (True, True)
    assert (models["plain"].reasoning, models["plain"].takes_images) == (False, False)
    assert models["all"].uses_tools
    assert not models["plain"].uses_tools


async def test_models_of_ollama_that_only_embed_are_left_out() -> None:
    with LocalServer(ollama("embed"), shows={"embed": {"capabilities": ["embedding"]}}) as server:
        assert await models_of(server) == {}


@pytest.mark.parametrize(
    ("running", "parameters", "size"),
    [
        (16_384, "num_ctx 8192", 16_384),
        (0, 'stop "<|end|>"\nnum_ctx                        8192', 8192),
        (0, "", 4096),
        (0, "num_ctx 999999", 32_768),
    ],
    ids=["as loaded", "as its modelfile says", "by default", "never more than trained"],
)
async def test_the_context_of_an_ollama_model_is_what_it_really_reads(
    running: int, parameters: str, size: int
) -> None:
    loaded = [{"name": "m", "context_length": running}] if running else []
    shows = {"m": shown("tools", parameters=parameters)}
    with LocalServer(ollama("m", running=loaded), shows=shows) as server:
        models = await models_of(server)
    assert models["m"].context_window == size
    assert models["m"].max_tokens <= size // 2


async def test_llama_cpp_tells_its_context_images_and_how_it_is_made_to_think() -> None:
    with LocalServer(LLAMA) as server:
        (model,) = (await models_of(server)).values()
    assert (model.id, model.name) == ("models/coder.gguf", "coder.gguf")
    assert (model.context_window, model.takes_images, model.reasoning) == (8192, True, True)
    assert model.compat is not None
    assert model.compat["chatTemplateKwargs"] == {"enable_thinking": {"$var": "thinking.enabled"}}


async def test_lm_studio_lists_models_that_talk_with_loaded_ones_first() -> None:
    with LocalServer(LMSTUDIO) as server:
        models = await models_of(server)
    assert list(models) == ["sees", "cold"]
    assert (models["sees"].context_window, models["sees"].takes_images) == (24_000, True)
    assert models["cold"].context_window == 4096


async def test_vllm_tells_its_context() -> None:
    with LocalServer(VLLM) as server:
        models = await models_of(server)
    assert models["Qwen/Qwen3-8B"].context_window == 40_960


# ---------------------------------------------------------------- the registry


def registry(home: Path, **providers: Any) -> ModelRegistry:
    (home / "models.json").write_bytes(dumps({"providers": providers}))
    return ModelRegistry(home / "models.json", Keyring(home / "auth.json", os.environ))


def local(known: ModelRegistry, *urls: str, **environ: str) -> LocalModels:
    if urls:
        environ["LUDOLF_LOCAL_SERVERS"] = ",".join(urls)
    known._local = LocalModels(known, {"HOME": str(known.path.parent), **environ})
    return known.local


async def test_found_models_are_available_and_need_no_key(tmp_path: Path) -> None:
    known = registry(tmp_path)
    with LocalServer(ollama("m"), shows={"m": shown("tools")}) as server:
        await local(known, server.url).look()
    model = known.find("ollama", "m")
    assert model in known.available()
    assert model is not None
    access = known.access(model)
    assert access is not None
    assert access.key == NO_KEY


async def test_a_key_of_the_users_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry(tmp_path)
    monkeypatch.setenv("VLLM_API_KEY", "mine")
    with LocalServer(VLLM, key="mine") as server:
        await local(known, server.url).look()
    access = known.access(known.of_provider("vllm")[0])
    assert access is not None
    assert access.key == "mine"


async def test_models_that_models_json_lists_win(tmp_path: Path) -> None:
    entry = {"baseUrl": "http://there/v1", "api": "openai-completions", "apiKey": "k"}
    known = registry(tmp_path, ollama={**entry, "models": [{"id": "own"}]})
    with LocalServer(ollama("m")) as server:
        await local(known, server.url).look()
    assert [model.id for model in known.of_provider("ollama")] == ["own"]


async def test_models_json_can_say_where_a_server_is_and_change_what_it_offers(
    tmp_path: Path,
) -> None:
    with LocalServer(ollama("m"), shows={"m": shown("tools")}) as server:
        change = {"m": {"contextWindow": 20_000}}
        known = registry(tmp_path, ollama={"baseUrl": server.url, "modelOverrides": change})
        await local(known).look()
    (model,) = known.of_provider("ollama")
    assert model.context_window == 20_000


async def test_a_second_look_within_seconds_asks_nobody(tmp_path: Path) -> None:
    known = registry(tmp_path)
    with LocalServer(ollama("m")) as server:
        found = local(known, server.url)
        await found.look()
        before = len(server.requests)
        await found.look()
    assert len(server.requests) == before > 0


@pytest.mark.parametrize("word", ["0", "off", "false"])
async def test_looking_can_be_switched_off_by_the_environment(tmp_path: Path, word: str) -> None:
    known = registry(tmp_path)
    with LocalServer(ollama("m")) as server:
        environ = {"LUDOLF_LOCAL_SERVERS": word, "OLLAMA_HOST": server.url}
        await local(known, **environ).look()
        assert server.requests == []
    assert known.expected("ollama", "m") is None


async def test_looking_can_be_switched_off_by_a_setting(tmp_path: Path) -> None:
    known = registry(tmp_path)
    known.local_servers = False
    with LocalServer(ollama("m")) as server:
        await local(known, OLLAMA_HOST=server.url).look()
        assert server.requests == []


async def test_the_best_model_is_loaded_and_has_tools(tmp_path: Path) -> None:
    known = registry(tmp_path)
    running = [{"name": "ready", "context_length": 9000}, {"name": "mute", "context_length": 9000}]
    shows = {"ready": shown("tools"), "cold": shown("tools"), "mute": shown()}
    with LocalServer(ollama("mute", "cold", "ready", running=running), shows=shows) as server:
        found = local(known, server.url)
        await found.look()
    best = found.best()
    assert best is not None
    assert best.id == "ready"


async def test_a_model_that_is_not_loaded_is_loaded_to_learn_its_context(tmp_path: Path) -> None:
    known = registry(tmp_path)
    pages = ollama("m")

    def load(body: Any) -> Any:
        pages["/api/ps"]["models"].append({"name": body["model"], "context_length": 12_288})
        return {"done": True}

    with LocalServer(pages | {"/api/generate": load}, shows={"m": shown("tools")}) as server:
        found = local(known, server.url)
        expected = known.expected("ollama", "m")
        assert expected is not None
        model = await found.known(expected)
    assert model is not None
    assert model.context_window == 12_288
    assert found.is_loaded(model)


# ---------------------------------------------------------------- names


def test_a_local_model_can_be_asked_for_before_anybody_has_looked(tmp_path: Path) -> None:
    known = registry(tmp_path)
    local(known, OLLAMA_HOST="127.0.0.1:9")
    choice = choose_model(known, "ollama/qwen3:8b")
    assert (choice.model.key, choice.level) == ("ollama/qwen3:8b", None)
    assert choice.model.base_url == "http://127.0.0.1:9/v1"
    assert choose_model(known, "ollama/qwen3:8b:high").level == "high"
    assert choose_model(known, "qwen3:8b", "ollama").model.key == "ollama/qwen3:8b"


def test_a_name_without_a_provider_is_looked_for_on_this_machine_last(tmp_path: Path) -> None:
    known = registry(tmp_path)
    with LocalServer(ollama("zebra:7b"), shows={"zebra:7b": shown("tools")}) as server:
        local(known, server.url)
        assert choose_model(known, "zebra").model.key == "ollama/zebra:7b"
        assert choose_model(known, "claude-opus").model.provider != "ollama"


def test_a_name_that_is_nowhere_is_refused(tmp_path: Path) -> None:
    known = registry(tmp_path)
    local(known, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ConfigError, match="not found"):
        choose_model(known, "zebra")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("", None),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":1234", "http://127.0.0.1:1234"),
        ("box:5000/", "http://box:5000"),
        ("http://box", "http://box:80"),
        ("https://box", "https://box:443"),
    ],
)
def test_the_address_of_ollama_may_be_written_in_many_ways(host: str, address: str | None) -> None:
    assert ollama_address(host) == address


# ---------------------------------------------------------------- errors


def test_a_server_that_is_down_is_named_with_the_way_to_start_it() -> None:
    text = "Connection error: Connection refused (http://127.0.0.1:11434)"
    assert explain("ollama", "http://127.0.0.1:11434/v1", "m", text) == (
        'Cannot reach Ollama at http://127.0.0.1:11434. Start it with "ollama serve".'
    )


def test_a_model_that_is_missing_is_named_with_the_way_to_get_it() -> None:
    text = explain("ollama", "http://x/v1", "qwen3:8b", "404 model 'qwen3:8b' not found")
    assert text.endswith('Get it with "ollama pull qwen3:8b".')


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_other_errors_keep_their_words(provider: str) -> None:
    assert explain(provider, "http://x/v1", "m", "500 out of memory") == "500 out of memory"
