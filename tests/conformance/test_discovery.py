"""get_commands: prompt templates and skills, where they come from, and how they are called."""

from typing import Any

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, prompts, tell, users
from tests.process.script import answer

TEMPLATE = "---\ndescription: Fix failing tests\n---\nFix the tests in $1."
SKILL = "---\nname: {0}\ndescription: Search for {0}\n---\nHow to search for {0}."
# Where each command lies, and what a host is told of the place.
USER, PROJECT = "home/.pi/agent", "work/.pi"
PLACES = {
    "mine": (f"{USER}/prompts/mine.md", "user"),
    "ours": (f"{PROJECT}/prompts/ours.md", "project"),
    "given": ("given/given.md", "path"),
    "listed": ("listed/listed.md", "path"),
    "skill:birds": (f"{USER}/skills/birds/SKILL.md", "user"),
    "skill:fish": (f"{PROJECT}/skills/fish/SKILL.md", "project"),
    "skill:trees": ("given/trees/SKILL.md", "path"),
    "skill:stones": ("listed/stones/SKILL.md", "path"),
}


async def _commands(stage: Stage) -> None:
    for name, (place, _) in PLACES.items():
        skill = name.removeprefix("skill:")
        stage.lay(place, TEMPLATE if skill == name else SKILL.format(skill))
    listed = stage.root / "listed"
    stage.settings(prompts=[str(listed / "listed.md")], skills=[str(listed / "stones")])
    given = str(stage.root / "given")
    stage.server.add(*(answer("Yes.") for _ in range(len(PLACES) + 1)))
    flags = ("--prompt-template", f"{given}/given.md", "--skill", f"{given}/trees")
    async with stage.client("--approve", *flags) as client:
        await client.request("get_commands", id="commands")
        for name in (*PLACES, "settings"):
            await client.request("prompt", id=name, message=f"/{name} a.py")
            await client.wait_for("agent_settled")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _commands)


def _command(story: Story, name: str) -> dict[str, Any]:
    (found,) = [one for one in story.data("commands")["commands"] if one["name"] == name]
    return dict(found)


@proves("RPC4-commands-01", "RPC4-commands-03", "RPC4-commands-07")
def test_all_templates_and_skills_are_listed_by_name(story: Story) -> None:
    names = [one["name"] for one in story.data("commands")["commands"]]
    assert sorted(names) == sorted(PLACES)


@proves("RPC4-commands-02")
def test_each_can_be_called_by_a_prompt(story: Story) -> None:
    for number, name in enumerate(PLACES):
        (told,) = users(story.run(name))
        skill = name.removeprefix("skill:")
        wanted = "Fix the tests in a.py." if skill == name else f"How to search for {skill}."
        assert wanted in told
        assert prompts(story.requests[number])[-1] == told


@proves("RPC4-commands-04")
def test_each_is_described(story: Story) -> None:
    assert _command(story, "mine")["description"] == "Fix failing tests"
    assert _command(story, "skill:birds")["description"] == "Search for birds"


@proves("RPC4-commands-05", "RPC4-commands-06")
def test_each_tells_its_kind(story: Story) -> None:
    kinds = {one["name"]: one["source"] for one in story.data("commands")["commands"]}
    assert kinds == {name: "skill" if "skill:" in name else "prompt" for name in PLACES}


@proves("RPC4-commands-08")
@pytest.mark.parametrize("name", ["mine", "skill:birds"])
def test_the_users_own_are_told_as_such(story: Story, name: str) -> None:
    assert _command(story, name)["location"] == "user"


@proves("RPC4-commands-09")
@pytest.mark.parametrize("name", ["ours", "skill:fish"])
def test_those_of_the_project_are_told_as_such(story: Story, name: str) -> None:
    assert _command(story, name)["location"] == "project"


@proves("RPC4-commands-10")
@pytest.mark.parametrize("name", ["given", "skill:trees"])
def test_those_of_the_command_line_are_told_as_such(story: Story, name: str) -> None:
    assert _command(story, name)["location"] == "path"


@proves("RPC4-commands-11")
@pytest.mark.parametrize("name", ["listed", "skill:stones"])
def test_those_of_the_settings_are_told_as_such(story: Story, name: str) -> None:
    assert _command(story, name)["location"] == "path"


@proves("RPC4-commands-12")
def test_each_tells_the_absolute_path_of_its_file(story: Story) -> None:
    paths = {one["name"]: one["path"] for one in story.data("commands")["commands"]}
    assert paths == {name: str(story.stage.root / place) for name, (place, _) in PLACES.items()}


@proves("RPC4-commands-13", "RPC4-commands-14")
def test_commands_of_a_terminal_are_neither_listed_nor_carried_out(story: Story) -> None:
    names = {one["name"] for one in story.data("commands")["commands"]}
    assert not names & {"settings", "hotkeys", "model", "quit", "export", "compact"}
    assert users(story.run("settings")) == ["/settings a.py"]
