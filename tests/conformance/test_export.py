"""export_html: the session as a page."""

from pathlib import Path

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, ask, tell
from tests.process.script import answer


async def _exports(stage: Stage) -> None:
    stage.server.add(answer("Hello, page."))
    async with stage.client() as client:
        await ask(stage, client, "Hi there, page")
        await client.request("export_html", id="named", outputPath=str(stage.work / "page.html"))
        await client.request("export_html", id="plain")
        await client.request("get_state", id="state")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _exports)


@proves("RPC4-export-01", "RPC3-export-01")
@proves("RPC2-export-01")
@proves("RPC0-command-25")
def test_the_page_holds_the_conversation(story: Story) -> None:
    page = Path(story.data("named")["path"]).read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "Hi there, page" in page
    assert "Hello, page." in page


@proves("RPC4-export-02", "RPC4-export-04")
@proves("RPC2-export-01", "RPC2-export-02")
@proves("RPC0-command-25")
def test_the_page_is_where_it_was_asked_to_be(story: Story) -> None:
    assert story.data("named") == {"path": str(story.stage.work / "page.html")}


@proves("RPC4-export-03", "RPC4-export-04")
@proves("RPC2-export-01", "RPC2-export-02")
def test_without_a_path_the_page_is_named_after_the_session(story: Story) -> None:
    stem = Path(story.data("state")["sessionFile"]).stem
    path = Path(story.data("plain")["path"])
    assert path.name == f"ludolf-session-{stem}.html"
    assert "<html" in (story.stage.work / path).read_text()
