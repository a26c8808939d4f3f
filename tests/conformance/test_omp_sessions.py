"""oh-my-pi: sessions made, opened, branched and exported, and extensions that object."""

from pathlib import Path

import pytest

from ludolf.base import loads
from ludolf.client import Client
from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, tell
from tests.process.harness import text_of
from tests.process.script import answer

PARENT = "/path/to/parent-session.jsonl"
VETO = """
def extension(api):
    for name in ("session_before_switch", "session_before_fork"):
        api.on(name, lambda event, ctx: {"cancel": True})
"""


async def _say(client: Client, text: str) -> None:
    await client.request("prompt", message=text)
    await client.wait_for("agent_end")


async def _sessions(stage: Stage) -> None:
    stage.server.add(*(answer(f"Answer {number}.") for number in range(1, 4)))
    async with stage.client() as client:

        async def look(name: str) -> None:
            await client.request("get_state", id=f"state {name}")
            await client.request("get_messages", id=f"messages {name}")

        for text in ("First.", "Second."):
            await _say(client, text)
        await look("at first")
        listed = (await client.request("get_branch_messages", id="listed"))["data"]["messages"]
        path = (await client.ask("get_state"))["sessionFile"]
        await client.request("export_html", id="export", outputPath=str(stage.root / "a.html"))
        await client.request("export_html", id="export anywhere")
        await client.request("branch", id="branch", entryId=listed[1]["entryId"])
        await look("branched")
        await client.request("switch_session", id="switch", sessionPath=path)
        await look("switched")
        await client.request("new_session", id="new", parentSession=PARENT)
        await look("new")
        await _say(client, "Fresh.")
        await client.request("new_session", id="newer")
        await look("newer")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _sessions)


def _texts(story: Story, name: str) -> list[str]:
    return [text_of(message) for message in story.data(f"messages {name}")["messages"]]


def _id(story: Story, name: str) -> str:
    found: str = story.data(f"state {name}")["sessionId"]
    return found


@proves("RPC2-new-session-01", "RPC2-new-session-03")
def test_a_new_session_is_empty_and_another_one(story: Story) -> None:
    assert _texts(story, "new") == _texts(story, "newer") == []
    assert len({_id(story, name) for name in ("at first", "new", "newer")}) == 3
    assert story.data("new") == story.data("newer") == {"cancelled": False}


@proves("RPC2-new-session-02")
def test_the_parent_of_a_new_session_is_kept(story: Story) -> None:
    headers = [loads(path.read_bytes().splitlines()[0]) for path in story.stage.sessions]
    (header,) = [one for one in headers if one["id"] == _id(story, "new")]
    assert header["parentSession"] == PARENT


@proves("RPC2-switch-01", "RPC2-switch-02")
def test_switching_loads_another_file(story: Story) -> None:
    assert story.data("switch") == {"cancelled": False}
    assert _texts(story, "switched") == _texts(story, "at first")
    assert _id(story, "switched") == _id(story, "at first")


@proves("RPC2-branch-01", "RPC2-branch-02")
def test_a_branch_is_a_new_session_that_ends_before_the_message(story: Story) -> None:
    assert story.data("branch") == {"text": "Second.", "cancelled": False}
    assert _texts(story, "branched") == ["First.", "Answer 1."]
    assert _id(story, "branched") != _id(story, "at first")


@proves("RPC2-branch-messages-01")
def test_messages_are_listed_for_branches(story: Story) -> None:
    listed = story.data("listed")["messages"]
    assert [one["text"] for one in listed] == ["First.", "Second."]
    assert all(one.keys() == {"entryId", "text"} for one in listed)


@proves("RPC2-export-01", "RPC2-export-02")
def test_a_session_is_exported_where_it_is_asked_to_be(story: Story) -> None:
    path = story.data("export")["path"]
    assert path == str(story.stage.root / "a.html")
    other = story.stage.work / story.data("export anywhere")["path"]
    assert all("<html" in Path(one).read_text() for one in (path, other))


# ---------------------------------------------------------------- vetoes


async def _vetoes(stage: Stage) -> None:
    stage.lay(asking.PLACE, VETO)
    stage.server.add(answer("Hello."))
    async with stage.client() as client:
        await _say(client, "Hi")
        found = await client.ask("get_branch_messages")
        await client.request("get_state", id="before")
        path = (await client.ask("get_state"))["sessionFile"]
        await client.request("new_session", id="new")
        await client.request("switch_session", id="switch", sessionPath=path)
        await client.request("branch", id="branch", entryId=found["messages"][0]["entryId"])
        await client.request("get_state", id="after")


@pytest.fixture(scope="module")
def vetoes(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _vetoes)


@proves("RPC2-new-session-04", "RPC2-new-session-05", "RPC2-switch-03")
def test_an_extension_can_keep_the_session(vetoes: Story) -> None:
    assert vetoes.data("new") == vetoes.data("switch") == {"cancelled": True}
    assert vetoes.data("after")["sessionId"] == vetoes.data("before")["sessionId"]


@proves("RPC2-branch-03")
def test_an_extension_can_prevent_a_branch(vetoes: Story) -> None:
    assert vetoes.data("branch") == {"text": "Hi", "cancelled": True}
    assert len(vetoes.stage.sessions) == 1
