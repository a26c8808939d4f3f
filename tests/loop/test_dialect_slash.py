"""Prompts that are commands of the program itself, as hosts of oh-my-pi send them."""

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import answer

OMP = ("--rpc-dialect", "omp")


async def _say(lab: Lab, client: Client, text: str) -> list[Record]:
    """All that a prompt made the program say."""
    await client.ask("get_messages")
    before = len(lab.lines)
    await client.send("prompt", id="p", message=text)
    result = await client.wait_for("prompt_result")
    assert (result["id"], result["agentInvoked"]) == ("p", False)
    told = [loads(line) for line in lab.lines[before:]]
    assert types(told)[-2:] == ["response prompt", "prompt_result"]
    assert told[-2]["data"] == {"agentInvoked": False}
    return told[:-2]


async def _output(lab: Lab, client: Client, text: str) -> str:
    (output,) = only(await _say(lab, client, text), "command_output")
    return str(output["text"])


async def test_what_a_command_says_comes_before_the_reply(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        told = await _say(lab, client, "/session")
        state = await client.ask("get_state")
    assert types(told) == ["command_output"]
    assert told[0]["text"].splitlines()[0] == f"Session: {state['sessionId']}"
    assert state["messageCount"] == 0
    assert not lab.server.requests


async def test_a_session_is_renamed_and_its_title_told(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        told = await _say(lab, client, "/rename  A name ")
        state = await client.ask("get_state")
        usage = await _output(lab, client, "/rename")
    assert types(told) == ["session_info_update", "command_output"]
    assert told[0]["title"] == state["sessionName"] == "A name"
    assert told[0]["sessionId"] == state["sessionId"]
    assert usage == "Usage: /rename <title>"


async def test_a_model_is_shown_and_chosen(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        shown = await _output(lab, client, "/model")
        told = await _say(lab, client, "/models chat/large")
        state = await client.ask("get_state")
        unknown = await _output(lab, client, "/model nobody/nothing")
    assert shown == "Current model: claude/large"
    kinds = ["model_changed", "command_output", "session_info_update", "config_update"]
    assert types(told) == kinds
    assert told[-1]["model"] == state["model"]
    assert told[-1]["thinkingLevel"] == state["thinkingLevel"]
    assert state["model"]["provider"] == "chat"
    assert unknown == "Unknown model: nobody/nothing"


async def test_a_refusal_is_an_answer_like_any_other(lab: Lab) -> None:
    async with lab.client(*OMP, "--no-session") as client:
        compact = await _output(lab, client, "/compact")
        export = await _output(lab, client, "/export")
    assert compact == "Compaction failed: Nothing to compact (session too small)"
    assert export.startswith("Failed to export session: ")


async def test_tools_tokens_and_todos_can_be_looked_at(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        await client.collect("prompt_result")
        tools = await _output(lab, client, "/tools")
        usage = await _output(lab, client, "/usage")
        context = await _output(lab, client, "/context")
        todos = await _output(lab, client, "/todo")
        page = await _output(lab, client, "/export page.html")
    assert "* bash" in tools.splitlines()
    assert usage.startswith("Tokens: 100 in, 20 out")
    assert context.startswith("Context: 100 of 200000 tokens")
    assert todos == "The todo list is empty."
    assert page == "Session exported to: page.html"
    assert (lab.work / "page.html").exists()


async def test_words_that_are_no_command_and_templates_of_the_user_reach_the_model(
    lab: Lab,
) -> None:
    prompts = lab.agent / "prompts"
    prompts.mkdir()
    (prompts / "model.md").write_text("Which model are you?")
    lab.server.add(answer("None."), answer("A model."))
    async with lab.client(*OMP) as client:
        commands = (await client.ask("get_available_commands"))["commands"]
        for text in ("/no-such-word hi", "/model"):
            await client.ask("prompt", message=text)
            await client.wait_for("agent_end")
    said = [text_of(message) for message in _said(lab)]
    assert said == ["/no-such-word hi", "Which model are you?"]
    assert [item["source"] for item in commands if item["name"] == "model"] == ["prompt"]


def _said(lab: Lab) -> list[Record]:
    ends = only(map(loads, lab.lines), "agent_end")
    return [message for end in ends for message in end["messages"] if message["role"] == "user"]


async def test_pi_sends_such_words_to_the_model(lab: Lab) -> None:
    lab.server.add(answer("Sure."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("/session")
    assert "agent_end" in types(told)
    assert not only(told, "command_output")
