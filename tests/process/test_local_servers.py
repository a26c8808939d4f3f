"""Models of this machine through the real program: found when asked for, and not before."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps
from tests.local_server import LocalServer, Silent, free_port, ollama, says, shown
from tests.process.harness import Finished, Lab, only, text_of

TOOLS = {"small": shown("tools", parameters="num_ctx 16384")}


def _forget_models(lab: Lab) -> None:
    (lab.agent / "models.json").unlink()
    lab.settings(defaultProvider=None, defaultModel=None)


def _server(*answers: str, **more: Any) -> LocalServer:
    pages = ollama("small", running=[{"name": "small", "context_length": 16_384}])
    return LocalServer(pages, shows=more.pop("shows", TOOLS), chats=[says(a) for a in answers])


def _at(host: str) -> dict[str, str]:
    """An Ollama at this address, looked for in the usual way."""
    return {"LUDOLF_LOCAL_SERVERS": "1", "OLLAMA_HOST": host}


def _printed(lab: Lab, server: LocalServer) -> Finished:
    words = ("--model", "ollama/small", "-p", "Hi")
    return lab.run(*words, LUDOLF_LOCAL_SERVERS="1", OLLAMA_HOST=server.url)


def _last(events: list[Any]) -> Any:
    return only(events, "turn_end")[-1]["message"]


async def test_models_of_a_server_are_listed_beside_the_configured_ones(lab: Lab) -> None:
    with _server() as server:
        async with lab.client(LUDOLF_LOCAL_SERVERS=server.url) as client:
            models = (await client.ask("get_available_models"))["models"]
    found = {f"{model['provider']}/{model['id']}": model for model in models}
    assert {"claude/large", "ollama/small"} <= set(found)
    assert found["ollama/small"]["contextWindow"] == 16_384
    assert found["ollama/small"]["cost"]["input"] == 0


async def test_a_model_is_set_and_prompted_in_one_write(lab: Lab) -> None:
    with _server("Hello from your own machine.") as server:
        async with lab.client(LUDOLF_LOCAL_SERVERS=server.url) as client:
            await client.send("set_model", id="set", provider="ollama", modelId="small")
            events = await client.prompt_and_collect("Hi")
            assert (await client.reply_to("set"))["success"]
    assert text_of(_last(events)) == "Hello from your own machine."
    (asked,) = server.asked("/v1/chat/completions")
    assert asked.body["model"] == "small"
    assert {tool["function"]["name"] for tool in asked.body["tools"]} >= {"read", "bash"}
    assert asked.headers["authorization"] == "Bearer local"
    assert lab.server.requests == []


async def test_a_model_that_the_server_does_not_have_cannot_be_set(lab: Lab) -> None:
    with _server() as server:
        async with lab.client(LUDOLF_LOCAL_SERVERS=server.url) as client:
            reply = await client.request("set_model", provider="ollama", modelId="large")
    assert (reply["success"], reply["error"]) == (False, "Model not found: ollama/large")


async def test_without_credentials_a_found_model_answers_instead_of_the_built_in_one(
    lab: Lab,
) -> None:
    _forget_models(lab)
    with _server("I am real.") as server:
        async with lab.client(LUDOLF_LOCAL_SERVERS=server.url) as client:
            events = await client.prompt_and_collect("Hi")
            model = (await client.ask("get_state"))["model"]
    assert text_of(_last(events)) == "I am real."
    assert (model["provider"], model["id"]) == ("ollama", "small")


def test_print_mode_uses_it_too(lab: Lab) -> None:
    _forget_models(lab)
    with _server("I am real.") as server:
        done = lab.run("-p", "Hi", LUDOLF_LOCAL_SERVERS=server.url, LUDOLF_OFFLINE_MODEL="0")
    assert (done.code, done.stdout) == (0, b"I am real.\n")


def test_the_first_reply_asks_nobody(lab: Lab) -> None:
    _forget_models(lab)
    with _server() as server:
        done = lab.run(
            *("--mode", "rpc", "--model", "ollama/small"),
            stdin=b'{"type":"get_state"}\n',
            LUDOLF_LOCAL_SERVERS=server.url,
            OLLAMA_HOST=server.url,
        )
        assert server.requests == []
    assert done.records[0]["data"]["model"]["id"] == "small"


async def test_a_model_named_at_the_start_is_known_when_it_has_answered(lab: Lab) -> None:
    with _server("Here.") as server:
        async with lab.client("--model", "ollama/small", **_at(server.url)) as client:
            await client.prompt_and_collect("Hi")
            model = (await client.ask("get_state"))["model"]
    assert model["contextWindow"] == 16_384


async def test_a_session_goes_on_with_the_local_model_it_used(lab: Lab) -> None:
    with _server("One.", "Two.") as server:
        arguments = ("--model", "ollama/small")
        async with lab.client(*arguments, **_at(server.url)) as client:
            await client.prompt_and_collect("Hi")
        async with lab.client("--continue", **_at(server.url)) as client:
            events = await client.prompt_and_collect("Again")
    assert text_of(_last(events)) == "Two."


async def test_a_server_that_is_down_is_named_with_the_way_to_start_it(lab: Lab) -> None:
    host = f"127.0.0.1:{free_port()}"
    async with lab.client("--model", "ollama/small", **_at(host)) as client:
        events = await client.prompt_and_collect("Hi")
    assert _last(events)["errorMessage"] == (
        f'Cannot reach Ollama at http://{host}. Start it with "ollama serve".'
    )
    assert only(events, "auto_retry_start") == []


async def test_a_model_that_is_not_pulled_is_named_with_the_way_to_pull_it(lab: Lab) -> None:
    with _server() as server:
        async with lab.client("--model", "ollama/large", **_at(server.url)) as client:
            events = await client.prompt_and_collect("Hi")
    assert _last(events)["errorMessage"].endswith('Get it with "ollama pull large".')


async def test_a_model_without_tools_is_asked_without_tools(lab: Lab) -> None:
    with _server("Only words.", shows={"small": shown()}) as server:
        async with lab.client("--model", "ollama/small", **_at(server.url)) as client:
            events = await client.prompt_and_collect("Hi")
    assert text_of(_last(events)) == "Only words."
    (asked,) = server.asked("/v1/chat/completions")
    assert "tools" not in asked.body
    assert "cannot call tools" in asked.body["messages"][0]["content"]


def test_the_user_is_told_of_a_model_without_tools(lab: Lab) -> None:
    with _server("Only words.", shows={"small": shown()}) as server:
        done = _printed(lab, server)
    assert done.code == 0
    assert "ollama/small has no tool support" in done.stderr


def test_the_user_is_told_of_a_small_context(lab: Lab) -> None:
    pages = ollama("small", running=[{"name": "small", "context_length": 4096}])
    with LocalServer(pages, shows=TOOLS, chats=[says("Yes.")]) as server:
        done = _printed(lab, server)
    assert "OLLAMA_CONTEXT_LENGTH" in done.stderr


async def test_cycling_goes_through_a_scope_of_local_models(lab: Lab) -> None:
    with _server() as server:
        arguments = ("--models", "claude/large,ollama/*")
        async with lab.client(*arguments, LUDOLF_LOCAL_SERVERS=server.url) as client:
            first = await client.ask("cycle_model")
            second = await client.ask("cycle_model")
    assert (first["model"]["id"], first["isScoped"]) == ("small", True)
    assert second["model"]["id"] == "large"


def test_list_models_shows_them(lab: Lab) -> None:
    with _server() as server:
        done = lab.run("--list-models", "ollama", LUDOLF_LOCAL_SERVERS=server.url)
    assert done.stdout.decode().splitlines()[1].split()[:3] == ["ollama", "small", "16.4K"]


async def test_a_setting_switches_looking_off(lab: Lab) -> None:
    lab.settings(localServers=False)
    with _server() as server:
        async with lab.client(LUDOLF_LOCAL_SERVERS=server.url) as client:
            models = (await client.ask("get_available_models"))["models"]
        listed = lab.run("--list-models", "ollama", LUDOLF_LOCAL_SERVERS=server.url)
        assert server.requests == []
    assert {model["provider"] for model in models}.isdisjoint({"ollama"})
    assert "ollama" not in listed.stdout.decode()


async def test_commands_are_answered_while_a_silent_port_is_waited_for(lab: Lab) -> None:
    with Silent() as silent:
        async with lab.client(LUDOLF_LOCAL_SERVERS=silent.url) as client:
            await client.send("get_available_models", id="slow")
            assert (await client.request("get_state"))["success"]
            assert (await client.reply_to("slow"))["data"]["models"]
    assert [b"get_state" in line for line in lab.lines] == [True, False]


async def test_an_entry_of_the_same_name_in_models_json_wins(lab: Lab) -> None:
    with _server("From there.") as server:
        entry = {
            "baseUrl": f"{server.url}/v1",
            "api": "openai-completions",
            "apiKey": "own-key",
            "models": [{"id": "mine"}],
        }
        (lab.agent / "models.json").write_bytes(dumps({"providers": {"ollama": entry}}))
        async with lab.client("--model", "ollama/mine", **_at(server.url)) as client:
            await client.prompt_and_collect("Hi")
    assert [asked.path for asked in server.requests] == ["/v1/chat/completions"]
    assert server.requests[0].headers["authorization"] == "Bearer own-key"


def test_a_file_that_is_no_model_is_refused_at_the_start(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("These are notes.")
    done = lab.run("--model", str(path), "-p", "Hi")
    assert done.code == 1
    assert "does not begin with GGUF" in done.stderr


@pytest.mark.parametrize("name", ["gguf/zebra", "gguf/zebra:high"])
def test_a_file_that_is_nowhere_is_refused_with_the_places_looked_at(lab: Lab, name: str) -> None:
    done = lab.run("--model", name, "-p", "Hi")
    assert done.code == 1
    assert 'No GGUF file is called "zebra"' in done.stderr
    assert "llama.cpp" in done.stderr
