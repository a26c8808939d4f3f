"""Masked secrets: the model sees placeholders, tools get the values."""

import json
from typing import Any

import pytest

from tests.process.extending import told
from tests.process.harness import Lab, only, text_of
from tests.process.script import answer, bash, call

TOKEN = "tok-4c1f9e02ab77"
STORED = "sk-stored-5f1b0c77aa2e4d"
PASSWORD = "hunter2-but-longer"
IN_FILE = "file-secret-91c0de"
PLACEHOLDER = "__LUDOLF_SECRET_DEPLOY_TOKEN__"
ENV = {
    "DEPLOY_TOKEN": TOKEN,
    "DATABASE_URL": f"postgres://ada:{PASSWORD}@db/x",
    "MINE": "harmless-1",
}


def _sent(lab: Lab) -> list[str]:
    return [json.dumps(request.body) for request in lab.server.requests]


def _results(lab: Lab) -> list[str]:
    return [text_of(end["result"]) for end in only(told(lab), "tool_execution_end")]


@pytest.mark.parametrize("model", ["claude/large", "chat/large", "responses/large", "gemini/large"])
async def test_no_request_holds_a_secret_and_tools_get_it_all_the_same(
    lab: Lab, model: str
) -> None:
    (lab.work / "AGENTS.md").write_text(f"Deploy with {TOKEN}.")
    compare = f'test "{PLACEHOLDER}" = "$DEPLOY_TOKEN" && echo the same'
    lab.server.add(
        answer(bash("echo $DEPLOY_TOKEN $DATABASE_URL $MINE")),
        answer(bash(compare)),
        answer("Done."),
    )
    async with lab.client("--mask-secrets", "--model", model, **ENV) as client:
        await client.prompt_and_collect(f"The token is {TOKEN}.")
    for body in _sent(lab):
        assert TOKEN not in body
        assert PASSWORD not in body
        assert f"Deploy with {PLACEHOLDER}." in body
        assert f"The token is {PLACEHOLDER}." in body
    assert "harmless-1" in _sent(lab)[1]
    assert "postgres://ada:__LUDOLF_SECRET_DATABASE_URL_PASSWORD__@db/x" in _sent(lab)[1]
    assert _results(lab)[1] == "the same\n"
    # It is the model that must not see them: the host and the session file have what happened.
    assert TOKEN in _results(lab)[0]


async def test_files_are_written_with_the_values_and_read_without_them(lab: Lab) -> None:
    (lab.work / ".env").write_text(f"export API_KEY='{IN_FILE}'\nNAME=ada-lovelace\n")
    (lab.work / ".env.example").write_text("API_KEY=put-your-key-here\n")
    mask = "__LUDOLF_SECRET_API_KEY__"
    lab.server.add(
        answer(call("read", {"path": ".env"})),
        answer(call("write", {"path": "conf", "content": f"key={mask}; put-your-key-here"})),
        answer(
            call(
                "edit",
                {"path": "conf", "edits": [{"oldText": f"key={mask}", "newText": f"k={mask}"}]},
            )
        ),
        answer("Done."),
    )
    lab.settings(secrets={"mask": True})
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
    assert (lab.work / "conf").read_text() == f"k={IN_FILE}; put-your-key-here"
    assert all(IN_FILE not in body for body in _sent(lab))
    assert f"export API_KEY='{mask}'" in _sent(lab)[1]
    assert "ada-lovelace" in _sent(lab)[1]
    # What the model said is kept as it said it.
    starts = only(told(lab), "tool_execution_start")
    assert starts[1]["args"]["content"] == f"key={mask}; put-your-key-here"


async def test_side_calls_are_masked_too(lab: Lab) -> None:
    lab.server.add(answer(f"I say {TOKEN}."), answer("A summary."), answer("Next."))
    async with lab.client("--mask-secrets", **ENV) as client:
        await client.ask("bash", command="echo $DEPLOY_TOKEN")
        await client.prompt_and_collect("Go " * 60_000)
        await client.request("compact")
        await client.prompt_and_collect("And now?")
    assert len(_sent(lab)) == 3
    assert all(TOKEN not in body for body in _sent(lab))
    assert PLACEHOLDER in _sent(lab)[0]


async def test_stored_keys_and_named_variables_are_secrets(lab: Lab) -> None:
    key = {"claude": {"type": "api_key", "key": STORED}}
    (lab.agent / "auth.json").write_text(json.dumps(key))
    lab.settings(secrets={"mask": True, "variables": ["MINE"]})
    lab.server.add(answer(bash(f"cat {lab.agent}/auth.json; echo $MINE")), answer("Done."))
    async with lab.client(**ENV) as client:
        await client.prompt_and_collect("Go")
    assert STORED not in _sent(lab)[1]
    assert "harmless-1" not in _sent(lab)[1]
    assert "__LUDOLF_SECRET_CLAUDE_KEY__" in _sent(lab)[1]
    assert lab.server.requests[0].headers["x-api-key"] == STORED


async def test_a_dialog_and_rules_see_the_call_that_will_run(lab: Lab) -> None:
    (lab.work / ".env").write_text("BUILD_TOKEN=x; touch ../PWNED; #\n")
    rules = [{"tool": "bash", "command": f"echo {TOKEN}", "action": "deny"}]
    lab.settings(approval={"mode": "always", "rules": rules, "timeoutMs": 20})
    commands = (f"echo {PLACEHOLDER}", f"echo  --  {PLACEHOLDER}")
    hidden = "make TOKEN=__LUDOLF_SECRET_BUILD_TOKEN__"
    calls = [bash(text, f"c{at}") for at, text in enumerate((*commands, hidden))]
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client("--mask-secrets", **ENV) as client:
        await client.prompt_and_collect("Go")
    (request,) = [one for one in told(lab) if one.get("method") == "select"]
    assert request["title"] == f"Allow bash: echo  --  {TOKEN}"
    assert request["args"] == {"command": f"echo  --  {TOKEN}"}
    assert "a rule of the user forbids" in _results(lab)[0]
    assert "__LUDOLF_SECRET_BUILD_TOKEN__ cannot be put into a call" in "".join(_results(lab))


async def test_no_tool_gets_a_credential(lab: Lab) -> None:
    key = {"claude": {"type": "api_key", "key": STORED}}
    (lab.agent / "auth.json").write_text(json.dumps(key))
    mask = "__LUDOLF_SECRET_CLAUDE_KEY__"
    lab.server.add(
        answer(bash(f"echo {mask}", "c1"), call("write", {"path": "leak", "content": mask}, "c2")),
        answer("Done."),
    )
    async with lab.client("--mask-secrets") as client:
        await client.prompt_and_collect("Go")
    text = f"{mask} stands for a credential that tools cannot use. Continue without it."
    assert _results(lab) == [text, text]
    assert not (lab.work / "leak").exists()


async def test_without_the_switch_all_is_sent_as_it_is(lab: Lab) -> None:
    lab.server.add(answer(bash(f"echo $DEPLOY_TOKEN {PLACEHOLDER}")), answer("Done."))
    async with lab.client(**ENV) as client:
        await client.prompt_and_collect("Go")
    assert f"{TOKEN} {PLACEHOLDER}" in _sent(lab)[1]


@pytest.mark.parametrize("value", [True, {"mask": "yes"}, {"Mask": True}])
def test_a_mistake_ends_the_start(lab: Lab, value: Any) -> None:
    lab.settings(secrets=value)
    done = lab.run("-p", "Go")
    assert done.code == 1
    assert "secrets" in done.stderr
