"""Without a key and without a configured model: the built-in one, or a clear refusal."""

import json

import pytest

from tests.process.harness import Lab, only, text_of, types


def _forget_models(lab: Lab) -> None:
    (lab.agent / "models.json").unlink()
    (lab.agent / "settings.json").unlink()


async def test_the_offline_model_is_chosen_and_says_what_it_is(lab: Lab) -> None:
    _forget_models(lab)
    async with lab.client() as client:
        model = (await client.ask("get_state"))["model"]
        told = await client.prompt_and_collect("Good morning, can you write me a poem?")
    assert (model["provider"], model["id"]) == ("ludolf", "offline")
    assert "offline" in text_of(only(told, "turn_end")[-1]["message"])
    assert lab.server.requests == []


async def test_the_offline_model_runs_a_real_tool(lab: Lab) -> None:
    _forget_models(lab)
    (lab.work / "treasure.txt").touch()
    async with lab.client() as client:
        told = await client.prompt_and_collect("list the files here")
    (end,) = only(told, "tool_execution_end")
    assert not end["isError"]
    assert "treasure.txt" in text_of(end["result"])
    assert types(told)[-2:] == ["agent_end", "agent_settled"]
    assert {"text_start", "text_delta", "text_end", "toolcall_end"} <= set(types(told))


async def test_the_offline_model_makes_several_calls_and_changes_files(lab: Lab) -> None:
    _forget_models(lab)
    async with lab.client() as client:
        await client.prompt_and_collect("write hello.txt with Hello")
        assert (lab.work / "hello.txt").read_text().strip() == "Hello"
        told = await client.prompt_and_collect("run `echo $((6 * 7))`")
    (end,) = only(told, "tool_execution_end")
    assert text_of(end["result"]) == "42\n"


def test_the_offline_model_answers_in_print_and_json_mode(lab: Lab) -> None:
    _forget_models(lab)
    (lab.work / "treasure.txt").touch()
    printed = lab.run("-p", "list the files here")
    told = lab.run("--mode", "json", "list the files here")
    assert (printed.code, told.code) == (0, 0)
    assert "treasure.txt" in printed.stdout.decode()
    assert len(only(told.records, "tool_execution_end")) == 1


async def test_a_configured_model_wins(lab: Lab) -> None:
    async with lab.client() as client:
        model = (await client.ask("get_state"))["model"]
    assert (model["provider"], model["id"]) == ("claude", "large")


@pytest.mark.parametrize("dialect", ["pi", "pi-0.79", "pi-delta"])
async def test_without_any_model_the_state_names_an_unknown_one(lab: Lab, dialect: str) -> None:
    _forget_models(lab)
    async with lab.client("--rpc-dialect", dialect, LUDOLF_OFFLINE_MODEL="0") as client:
        model = (await client.ask("get_state"))["model"]
    assert model == {
        **dict.fromkeys(("id", "name", "api", "provider"), "unknown"),
        "baseUrl": "",
        "reasoning": False,
        "input": [],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 0,
        "maxTokens": 0,
    }


async def test_without_any_model_rpc_mode_serves_all_but_prompts(lab: Lab) -> None:
    _forget_models(lab)
    async with lab.client(LUDOLF_OFFLINE_MODEL="0") as client:
        reply = await client.request("prompt", message="Hi")
        assert (await client.ask("bash", command="echo hi"))["output"] == "hi\n"
    assert not reply["success"]
    assert reply["error"].startswith("No model selected.")


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_without_any_model_a_one_shot_run_is_refused(lab: Lab, mode: tuple[str, ...]) -> None:
    _forget_models(lab)
    done = lab.run(*mode, "Hi", LUDOLF_OFFLINE_MODEL="0")
    assert done.code == 1
    assert done.stderr.startswith("Error: No model")
    assert "Traceback" not in done.stderr


async def test_a_model_without_a_key_is_refused_with_the_name_of_its_provider(lab: Lab) -> None:
    async with lab.client("--model", "anthropic/claude-sonnet-4-5") as client:
        reply = await client.request("prompt", message="Hi")
        assert (await client.request("get_state"))["success"]
    assert not reply["success"]
    assert reply["error"].startswith("No API key found for anthropic.")
    assert "`ludolf auth login anthropic`" in reply["error"]


def test_files_that_cannot_be_used_are_named_at_the_start(lab: Lab) -> None:
    (lab.agent / "models.json").write_text('{"providers": {')
    (lab.agent / "auth.json").write_text("[]")
    done = lab.run("-p", "Hi")
    assert done.code == 1
    assert "Warning: Failed to parse models.json: " in done.stderr
    assert f"Warning: Invalid auth file {lab.agent / 'auth.json'}: " in done.stderr


def test_a_command_that_gives_no_key_is_named(lab: Lab) -> None:
    entry = {"groq": {"type": "api_key", "key": "!false never-shown"}}
    (lab.agent / "auth.json").write_text(json.dumps(entry))
    done = lab.run("-p", "Hi", "--model", "groq/openai/gpt-oss-120b")
    assert done.code == 1
    assert (
        "No API key for provider: groq (the key command failed or printed nothing: false)"
        in done.stderr
    )
    assert "never-shown" not in done.stderr


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_a_model_without_a_key_ends_a_one_shot_run(lab: Lab, mode: tuple[str, ...]) -> None:
    done = lab.run(*mode, "Hi", "--model", "anthropic/claude-sonnet-4-5")
    assert done.code == 1
    assert "No API key found for anthropic." in done.stderr
    assert "Traceback" not in done.stderr


_DIALECTS = [("pi", True), ("pi-delta", True), ("pi-0.79", False), ("omp", False), ("xcsh", False)]


@pytest.mark.parametrize(("dialect", "has_codes"), _DIALECTS)
async def test_replies_of_pi_name_a_missing_model_and_key_by_code(
    lab: Lab, dialect: str, has_codes: bool
) -> None:
    _forget_models(lab)
    wanted = {"prompt": "no_model", "keyless": "no_key"}
    async with lab.client("--rpc-dialect", dialect, LUDOLF_OFFLINE_MODEL="0") as client:
        replies = {
            "prompt": await client.request("prompt", message="Hi"),
            "keyless": await client.request(
                "set_model", provider="anthropic", modelId="claude-sonnet-5"
            ),
        }
    codes = {name: reply.get("code") for name, reply in replies.items()}
    assert codes == (wanted if has_codes else dict.fromkeys(wanted))
