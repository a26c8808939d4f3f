"""Instructions that lie about: the model is given them, and the host is told which."""

from ludolf.base import loads
from ludolf.client import Record
from tests.process.harness import Lab, types
from tests.process.script import answer


def _named(lab: Lab) -> list[list[str]]:
    said: list[Record] = [loads(line) for line in lab.lines]
    return [one["paths"] for one in said if one["type"] == "context_files"]


async def test_each_file_of_instructions_is_named_before_the_model_reads_it(lab: Lab) -> None:
    files = [lab.agent / "AGENTS.md", lab.root / "CLAUDE.md", lab.work / "AGENTS.md"]
    for file in files:
        file.write_text(f"Obey {file.name} of {file.parent}.")
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client() as client:
        await client.ask("get_state")
        said = types(await client.prompt_and_collect("Go"))
        await client.prompt_and_collect("Go on")
    assert _named(lab) == [[str(file) for file in files]]
    assert said.index("context_files") < said.index("text_start")
    system = str(lab.server.requests[0].body["system"])
    assert all(f"of {file.parent}." in system for file in files)


async def test_other_files_are_named_anew(lab: Lab) -> None:
    lab.server.add(*(answer("So.") for _ in range(3)))
    file = lab.work / "AGENTS.md"
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        file.write_text("Be brief.")
        await client.ask("reload")
        await client.prompt_and_collect("Go on")
        file.unlink()
        await client.ask("reload")
        await client.prompt_and_collect("And on")
    assert _named(lab) == [[str(file)], []]


async def test_files_that_are_not_wanted_are_not_named(lab: Lab) -> None:
    (lab.work / "AGENTS.md").write_text("Be brief.")
    lab.server.add(answer("One."))
    async with lab.client("--no-context-files") as client:
        await client.prompt_and_collect("Go")
    assert _named(lab) == []


async def test_omp_names_them_in_a_notice(lab: Lab) -> None:
    (lab.work / "AGENTS.md").write_text("Be brief.")
    lab.server.add(answer("One."))
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("prompt", message="Go")
        notice = await client.wait_for("notice")
        await client.wait_for("agent_end")
    assert (notice["level"], str(lab.work / "AGENTS.md") in notice["message"]) == ("info", True)
