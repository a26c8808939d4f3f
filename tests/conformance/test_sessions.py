"""new_session, switch_session, fork, clone and get_fork_messages."""

import pytest

from ludolf.base import loads
from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, ask, tell
from tests.process.harness import text_of
from tests.process.script import answer

PARENT = "/path/to/parent-session.jsonl"


# The commands that list messages and continue before one of them.
FORK = {
    "pi": ("get_fork_messages", "fork"),
    "pi-delta": ("get_fork_messages", "fork"),
    "omp": ("get_branch_messages", "branch"),
    "xcsh": ("get_branch_messages", "branch"),
}
VETO = """
def extension(api):
    for name in ("session_before_switch", "session_before_fork"):
        api.on(name, lambda event, ctx: {"cancel": True})
"""


async def _sessions(stage: Stage) -> None:
    list_messages, fork = FORK[stage.dialect]
    stage.server.add(*(answer(f"Answer {number}.") for number in range(1, 6)))
    async with stage.client() as client:

        async def look(name: str) -> None:
            await client.request("get_state", id=f"state {name}")
            await client.request("get_messages", id=f"messages {name}")

        for text in ("First.", "Second.", "Third."):
            await ask(stage, client, text)
        await look("at first")
        listed = (await client.request(list_messages, id="listed"))["data"]["messages"]
        path = (await client.ask("get_state"))["sessionFile"]
        await client.request(fork, id="fork", entryId=listed[1]["entryId"])
        await look("forked")
        await ask(stage, client, "Another second.")
        await look("forked and continued")
        if fork == "fork":  # the others have no clones
            await client.request("clone", id="clone")
            await look("cloned")
        await client.request("switch_session", id="switch", sessionPath=path)
        await look("switched")
        await client.request("new_session", id="new", parentSession=PARENT)
        await look("new")
        await ask(stage, client, "Fresh.")
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


@proves("RPC4-new-session-01", "RPC4-new-session-03")
@proves("RPC2-new-session-01")
@proves("RPC0-command-06")
def test_a_new_session_is_empty_and_another_one(story: Story) -> None:
    assert _texts(story, "new") == _texts(story, "newer") == []
    names = ("at first", "new", "newer")
    assert len({_id(story, name) for name in names}) == 3
    assert len({story.data(f"state {name}")["sessionFile"] for name in names}) == 3
    assert story.data("state new")["messageCount"] == 0


@proves("RPC4-new-session-02")
@proves("RPC2-new-session-02")
@proves("RPC0-command-06")
def test_the_parent_of_a_new_session_is_kept(story: Story) -> None:
    headers = [loads(path.read_bytes().splitlines()[0]) for path in story.stage.sessions]
    (header,) = [one for one in headers if one["id"] == _id(story, "new")]
    assert header["parentSession"] == PARENT


@proves("RPC4-new-session-04")
@proves("RPC2-new-session-03")
@proves("RPC0-command-06")
def test_a_new_session_is_answered_as_not_cancelled(story: Story) -> None:
    assert story.data("new") == story.data("newer") == {"cancelled": False}


@proves("RPC4-switch-01")
@proves("RPC2-switch-01")
@proves("RPC0-command-26")
def test_switching_loads_another_file(story: Story) -> None:
    assert story.data("messages switched") == story.data("messages at first")
    before, after = story.data("state at first"), story.data("state switched")
    for key in ("sessionId", "sessionFile", "messageCount"):
        assert after[key] == before[key]


@proves("RPC4-switch-02")
@proves("RPC2-switch-02")
@proves("RPC0-command-26")
def test_switching_is_answered_as_not_cancelled(story: Story) -> None:
    assert story.data("switch") == {"cancelled": False}


@proves("RPC4-fork-01")
@proves("RPC2-branch-01")
@proves("RPC0-command-27")
def test_a_fork_is_a_new_session_that_ends_before_the_message(story: Story) -> None:
    assert _texts(story, "forked") == ["First.", "Answer 1."]
    assert _texts(story, "forked and continued")[2:] == ["Another second.", "Answer 4."]
    assert _id(story, "forked") != _id(story, "at first")
    # The session it comes from is as it was.
    assert _texts(story, "switched") == _texts(story, "at first")


@proves("RPC4-fork-02", "RPC4-fork-03")
@proves("RPC2-branch-02")
@proves("RPC0-command-27")
def test_a_fork_is_answered_with_the_text_of_the_message(story: Story) -> None:
    assert story.data("fork") == {"text": "Second.", "cancelled": False}


@proves("RPC4-clone-01")
def test_a_clone_is_a_new_session_with_the_same_messages(story: Story) -> None:
    assert story.data("messages cloned") == story.data("messages forked and continued")
    assert _id(story, "cloned") != _id(story, "forked and continued")
    files = [story.data(f"state {name}")["sessionFile"] for name in ("forked", "cloned")]
    assert len(set(files)) == 2


@proves("RPC4-clone-02")
def test_a_clone_is_answered_as_not_cancelled(story: Story) -> None:
    assert story.data("clone") == {"cancelled": False}


@proves("RPC4-fork-messages-01", "RPC4-fork-messages-02")
@proves("RPC2-branch-messages-01")
@proves("RPC0-command-28")
def test_the_users_messages_are_listed_for_forks(story: Story) -> None:
    listed = story.data("listed")["messages"]
    assert [one["text"] for one in listed] == ["First.", "Second.", "Third."]
    assert all(set(one) == {"entryId", "text"} for one in listed)
    assert len({one["entryId"] for one in listed}) == 3


# ---------------------------------------------------------------- vetoes


async def _vetoes(stage: Stage) -> None:
    list_messages, fork = FORK[stage.dialect]
    stage.lay(asking.PLACE, VETO)
    stage.server.add(answer("Hello."))
    async with stage.client() as client:
        await ask(stage, client, "Hi")
        found = await client.ask(list_messages)
        await client.request("get_state", id="before")
        path = (await client.ask("get_state"))["sessionFile"]
        await client.request("new_session", id="new")
        await client.request("switch_session", id="switch", sessionPath=path)
        await client.request(fork, id="fork", entryId=found["messages"][0]["entryId"])
        if fork == "fork":
            await client.request("clone", id="clone")
        await client.request("get_state", id="after")


@pytest.fixture(scope="module")
def vetoes(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _vetoes)


@proves("RPC4-cancel-01", "RPC4-cancel-02", "RPC4-cancel-03", "RPC4-cancel-04")
@proves("RPC2-new-session-04", "RPC2-new-session-05", "RPC2-switch-03")
def test_an_extension_can_keep_the_session(vetoes: Story) -> None:
    assert vetoes.data("new") == vetoes.data("switch") == {"cancelled": True}
    assert vetoes.data("after")["sessionId"] == vetoes.data("before")["sessionId"]


@proves("RPC4-cancel-05", "RPC4-cancel-06", "RPC4-cancel-07", "RPC4-cancel-08")
@proves("RPC2-branch-03")
def test_an_extension_can_prevent_a_fork_and_a_clone(vetoes: Story) -> None:
    fork = vetoes.data("fork")
    assert fork["cancelled"] is True
    assert "text" in fork
    if vetoes.stage.dialect == "omp":
        assert fork == {"text": "Hi", "cancelled": True}
    else:
        assert vetoes.data("clone") == {"cancelled": True}
    assert len(vetoes.stage.sessions) == 1
