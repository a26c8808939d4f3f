"""oh-my-pi: dialogs of extensions, and hosts like those that are shown, written anew."""

import codecs
import json
import subprocess
from typing import Any

import pytest

from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, tell
from tests.process.harness import RPC
from tests.process.script import Gate, answer, say

# ---------------------------------------------------------------- dialogs


@pytest.fixture(scope="module")
def dialogs(make_stage: MakeStage) -> Story:
    return tell(make_stage(), asking.play)


@proves("RPC2-ui-01", "RPC2-ui-02", "RPC2-ui-03", "RPC2-ui-06")
def test_dialogs_wait_for_the_answer_with_their_id(dialogs: Story) -> None:
    wanted = [value for _, value in asking.ANSWERS.values()]
    assert asking.shown(dialogs)[: len(wanted)] == wanted
    for name in asking.ANSWERS:
        assert dialogs.data(f"while {name}")["isStreaming"] is False


@proves("RPC2-ui-04")
def test_a_dialog_whose_time_is_up_gives_its_default(dialogs: Story) -> None:
    late = len(asking.ANSWERS)
    assert asking.shown(dialogs)[late : late + 2] == [None, False]


@proves("RPC2-ui-05")
def test_a_confirm_has_its_fields(dialogs: Story) -> None:
    first, *_, last = asking.requests(dialogs, "confirm")
    head = {"type": "extension_ui_request", "id": first["id"], "method": "confirm"}
    assert first == {**head, "title": "Sure?", "message": "Really?"}
    assert last == {**first, "id": last["id"], "timeout": 60_000}


@proves("RPC2-ui-11")
def test_a_widget_is_made_of_lines(dialogs: Story) -> None:
    (widget,) = asking.requests(dialogs, "setWidget")
    assert widget["widgetLines"] == ["one", "two"]


@proves(
    *("RPC2-ui-07", "RPC2-ui-08", "RPC2-ui-09", "RPC2-ui-10", "RPC2-ui-12", "RPC2-ui-13"),
    "RPC2-ui-14",
)
def test_what_needs_a_terminal_is_answered_with_a_constant(dialogs: Story) -> None:
    seen = asking.shown(dialogs)[-1]
    assert seen["nothing"] == 5 * [None]
    assert (seen["custom"], seen["theme"]) == (None, None)
    assert (seen["editor"], seen["expanded"], seen["themes"]) == ("", False, [])
    assert seen["set"]["success"] is False
    assert seen["set"]["error"] == "Theme switching not supported in RPC mode"
    assert seen["ui"] is True


# ---------------------------------------------------------------- hosts


@proves("RPC2-client-01")
def test_a_host_with_text_pipes_prints_the_answer(stage: Stage) -> None:
    stage.server.add(answer("Hello there, host.", size=3))
    shown = ""
    with subprocess.Popen(
        [*RPC, "--no-session"],
        cwd=stage.work,
        env=stage.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(json.dumps({"type": "prompt", "message": "Hello!"}) + "\n")
        host.stdin.flush()
        for line in host.stdout:
            event = json.loads(line)
            if event.get("type") == "message_update":
                delta = event.get("assistantMessageEvent", {})
                if delta.get("type") == "text_delta":
                    shown += delta["delta"]
            if event.get("type") == "agent_end":
                break
        host.stdin.close()
        host.stdout.read()
    assert shown == "Hello there, host."
    assert host.returncode == 0


def _values(buffer: str) -> tuple[list[Any], str]:
    """The whole JSON values at the start of a text, and the rest of it."""
    found: list[Any] = []
    reader = json.JSONDecoder()
    while True:
        buffer = buffer.lstrip("\n")
        try:
            value, read = reader.raw_decode(buffer)
        except ValueError:
            return found, buffer
        found.append(value)
        buffer = buffer[read:]


@proves("RPC2-client-02", "RPC2-client-03")
def test_a_host_cuts_values_from_chunks_and_aborts_without_an_id(stage: Stage) -> None:
    stage.server.add(answer(say("naïve \u2028 日本 👩‍👩‍👧", Gate(), " never"), size=1))
    decoder = codecs.getincrementaldecoder("utf-8")()
    buffer, shown, replies, ends = "", "", [], []
    with stage.popen("--no-session") as host:
        assert host.stdin is not None
        assert host.stdout is not None
        stdout = host.stdout
        host.stdin.write(b'{"type":"prompt","message":"Hello"}\n')
        # Small reads cut records, and characters in them, at any byte.
        for chunk in iter(lambda: stdout.read(997), b""):
            values, buffer = _values(buffer + decoder.decode(chunk))
            for event in values:
                piece = event.get("assistantMessageEvent", {})
                shown += piece.get("delta", "")
                if event["type"] == "response":
                    replies.append(event)
                if event["type"] == "agent_end":
                    ends.append(event)
                    host.stdin.close()
                if piece.get("delta") == "👧":
                    host.stdin.write(b'{"type":"abort"}\n')
    assert (shown, buffer) == ("naïve \u2028 日本 👩‍👩‍👧", "")
    assert replies[-1] == {"type": "response", "command": "abort", "success": True}
    assert [end["messages"][-1]["stopReason"] for end in ends] == ["aborted"]


@proves("RPC2-intro-03")
async def test_the_typed_client_speaks_this_dialect(stage: Stage) -> None:
    stage.server.add(answer("Hello there."))
    async with stage.client("--no-session") as client:
        assert (await client.prompt_and_wait("Hello!")).text == "Hello there."
