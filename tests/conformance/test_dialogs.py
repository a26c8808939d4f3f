"""Dialogs and notices of extensions over the wire."""

from typing import Any

import pytest

from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import PI, Stage, Story, tell

LATE = len(asking.ANSWERS)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), asking.play)


@proves("RPC4-ui-01", "RPC4-ui-02", "RPC4-ui-35")
@proves("RPC3-extensions-02", "RPC3-extensions-04", "RPC3-extensions-05", "RPC3-extensions-06")
@proves("RPC2-ui-01", "RPC2-ui-02", "RPC2-ui-06")
@proves("RPC0-out-03", "RPC0-ui-01", "RPC0-ui-02", "RPC0-ui-07", "RPC0-ui-09")
def test_a_dialog_waits_for_the_response_with_its_id(story: Story) -> None:
    for name in asking.ANSWERS:
        assert story.data(f"while {name}")["isStreaming"] is False
        if story.stage.dialect in PI:  # the others acknowledge a command before it runs
            reply = story.records.index(story.reply(name))
            assert story.records.index(story.reply(f"while {name}")) < reply
    assert "extension_ui_response" not in {one.get("command") for one in story.records}


@proves("RPC4-ui-18", "RPC4-ui-20", "RPC4-ui-22", "RPC4-ui-24", "RPC4-ui-36", "RPC4-ui-37")
@proves("RPC4-ui-38", "RPC3-extensions-08")
@proves("RPC2-ui-03", "RPC2-ui-06")
@proves("RPC0-ui-07", "RPC0-ui-08", "RPC0-ui-09")
@pytest.mark.parametrize("name", asking.ANSWERS)
def test_the_answer_reaches_the_extension(story: Story, name: str) -> None:
    place = list(asking.ANSWERS).index(name)
    assert asking.shown(story)[place] == asking.ANSWERS[name][1]


@proves("RPC4-ui-15", "RPC4-ui-16", "RPC4-ui-19", "RPC4-ui-21", "RPC4-ui-23")
@proves("RPC2-ui-05")
@proves("RPC0-ui-06", "RPC0-example-04")
def test_requests_have_the_fields_of_their_method(story: Story) -> None:
    wanted: dict[str, dict[str, Any]] = {
        "select": {"title": "Pick", "options": ["A", "B"]},
        "confirm": {"title": "Sure?", "message": "Really?"},
        "input": {"title": "Name?", "placeholder": "Ada"},
        "editor": {"title": "Edit", "prefill": "text"},
    }
    for method, fields in wanted.items():
        first = asking.requests(story, method)[0]
        head = {"type": "extension_ui_request", "id": first["id"], "method": method}
        assert first == {**head, **fields}
    last = asking.requests(story, "confirm")[-1]
    assert last == {**asking.requests(story, "confirm")[0], "id": last["id"], "timeout": 60_000}
    ids = [one["id"] for one in story.events("extension_ui_request")]
    assert len(set(ids)) == len(ids)


@proves("RPC4-ui-04", "RPC4-ui-16", "RPC4-ui-17", "RPC4-ui-19")
@proves("RPC2-ui-04")
@proves("RPC0-ui-10")
def test_a_dialog_with_a_timeout_settles_itself(story: Story) -> None:
    assert asking.requests(story, "select")[-1]["timeout"] == 30
    assert asking.requests(story, "confirm")[-2]["timeout"] == 30
    assert asking.shown(story)[LATE : LATE + 2] == [None, False]


@proves("RPC0-ui-10", "RPC0-ui-11")
def test_a_dialog_that_the_end_breaks_off_gives_its_default(story: Story) -> None:
    assert (story.stage.work / "held").read_text() == "False"


# ---------------------------------------------------------------- without an answer


def _notices(story: Story) -> list[Any]:
    """What needs no answer, without what the extension shows of answers."""
    dialogs = ("select", "confirm", "input", "editor")
    notices = [one for one in story.events("extension_ui_request") if one["method"] not in dialogs]
    return [one for one in notices if not str(one.get("message")).startswith('{"shown"')]


@proves("RPC4-ui-03", "RPC3-extensions-07")
@proves("RPC0-ui-03", "RPC0-ui-04")
def test_notices_are_written_and_nobody_waits(story: Story) -> None:
    titles = 1 if story.stage.dialect in PI else 0  # xcsh keeps them back
    assert [one["method"] for one in _notices(story)] == [
        *("notify", "notify", "notify", "notify", "setStatus", "setStatus"),
        *("setWidget", "setWidget", "setWidget", *["setTitle"] * titles),
        *("set_editor_text", "set_editor_text"),
    ]
    assert asking.shown(story)[LATE + 2] == "done"


@proves("RPC0-ui-05")
async def test_titles_are_sent_to_a_host_that_wants_them(stage: Stage) -> None:
    stage.lay(asking.PLACE, asking.SOURCE)
    async with stage.client(PI_RPC_EMIT_TITLE="1") as client:
        await client.send("prompt", message="/oneway")
        title = await client.wait_for(lambda one: one.get("method") == "setTitle")
    assert title["title"] == "a title"


@proves("RPC4-ui-25", "RPC4-ui-26")
@proves("RPC0-ui-03")
def test_notify_has_a_message_and_a_kind(story: Story) -> None:
    notes = [one for one in _notices(story) if one["method"] == "notify"]
    assert [(one["message"], one.get("notifyType")) for one in notes] == [
        *(("plain", None), ("careful", "warning"), ("broken", "error"), ("fyi", "info")),
    ]


@proves("RPC4-ui-27", "RPC4-ui-28")
@proves("RPC0-ui-03")
def test_a_status_is_set_and_cleared(story: Story) -> None:
    shown, cleared = asking.requests(story, "setStatus")
    assert (shown["statusKey"], shown["statusText"]) == ("key", "working")
    assert cleared["statusKey"] == "key"
    assert "statusText" not in cleared


@proves("RPC4-ui-29", "RPC4-ui-30", "RPC4-ui-31", "RPC4-ui-32")
@proves("RPC2-ui-11")
@proves("RPC0-ui-03")
def test_a_widget_is_set_placed_and_cleared_and_factories_are_left_aside(story: Story) -> None:
    first, below, cleared = asking.requests(story, "setWidget")
    assert (first["widgetKey"], first["widgetLines"]) == ("box", ["one", "two"])
    assert first.get("widgetPlacement", "aboveEditor") == "aboveEditor"
    assert (below["widgetLines"], below["widgetPlacement"]) == (["below"], "belowEditor")
    assert "widgetLines" not in cleared


@proves("RPC4-ui-33", "RPC4-ui-34", "RPC4-ui-09")
@proves("RPC0-ui-03", "RPC0-ui-04")
def test_title_and_editor_text_are_set_also_by_pasting(story: Story) -> None:
    titles = [one["title"] for one in asking.requests(story, "setTitle")]
    assert titles == (["a title"] if story.stage.dialect in PI else [])
    texts = [one["text"] for one in asking.requests(story, "set_editor_text")]
    assert texts == ["a text", "pasted"]


@proves("RPC4-ui-05", "RPC4-ui-06", "RPC4-ui-07", "RPC4-ui-08", "RPC4-ui-10", "RPC4-ui-11")
@proves("RPC4-ui-12", "RPC4-ui-13", "RPC4-ui-14", "RPC3-extensions-09")
@proves("RPC2-ui-07", "RPC2-ui-08", "RPC2-ui-09", "RPC2-ui-10", "RPC2-ui-12", "RPC2-ui-13")
@proves("RPC2-ui-14")
def test_what_needs_a_terminal_is_answered_with_a_constant(story: Story) -> None:
    seen = asking.shown(story)[LATE + 3]
    assert seen["nothing"] == 8 * [None]
    assert (seen["editor"], seen["expanded"], seen["themes"]) == ("", False, [])
    assert seen["theme"]["success"] is False
    assert seen["theme"]["error"]
    if story.stage.dialect == "omp":
        assert seen["theme"]["error"] == "Theme switching not supported in RPC mode"
    assert seen["ui"] is True
    assert seen["mode"] == "rpc"
