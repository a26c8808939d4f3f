"""The libraries that drive pi from Python hold a whole conversation, dialogs included."""

from pathlib import Path

import pytest

from ludolf import __version__
from tests.clients.ground import (
    HOSTS,
    MODELS,
    Ground,
    Report,
    check_first_prompt,
    check_session,
    check_steering,
    client_python,
    in_order,
    only_if_asked,
)
from tests.process.harness import only, read_entries
from tests.process.script import answer

pytestmark = [only_if_asked, pytest.mark.timeout(90)]
ASKED = ["May I?", "The user said True"]


@pytest.fixture
def summed(ground: Ground) -> Ground:
    """A ground whose conversation, once it is over, can be compacted."""
    ground.lab.settings(compaction={"keepRecentTokens": 1})
    ground.lab.server.add(answer("A file was written."))
    return ground


def test_pi_py_sdk_holds_a_conversation(summed: Ground) -> None:
    host = HOSTS / "pi_py_sdk_host.py"
    report = summed.run(client_python("pi_py_sdk"), host, summed.command, summed.lab.work)
    check_conversation(summed, report)
    assert report["aborted"] is False


def test_pi_agent_python_sdk_holds_a_conversation(summed: Ground) -> None:
    host = HOSTS / "pi_agent_host.py"
    report = summed.run(client_python("pi_agent"), host, summed.command, summed.lab.work)
    check_conversation(summed, report)
    assert report["calls"]["queue"]["followUp"] == ["Later"]
    assert report["aborted"] == "aborted"
    assert report["version"] == __version__
    assert report["usage"] == [300, 60]
    assert report["calls"]["levels"] == ["off", "minimal", "low", "medium", "high"]
    assert len(report["calls"]["entries"]["entries"]) > 10


def check_conversation(ground: Ground, report: Report) -> None:
    assert report["models"] == MODELS
    check_first_prompt(ground, report["first"], report["text"])
    check_steering(ground, report["steered"])
    check_session(Path(report["state"]["sessionFile"]), ground.lab.work)
    assert report["notices"] == ASKED
    calls = report["calls"]
    assert calls["bash"]["output"] == "beside\n"
    assert calls["cycle_model"]["model"]["provider"] == "responses"
    assert calls["stats"]["toolCalls"] == 4
    assert [command["name"] for command in calls["commands"]] == ["ask"]
    assert calls["compact"]["summary"].startswith("A file was written.")
    assert calls["roles"][0] == "compactionSummary"
    assert calls["fork"] == {"text": "Write hello.txt", "cancelled": False}
    assert report["end"]["sessionName"] == "tried"
    assert report["end"]["sessionFile"] == report["state"]["sessionFile"]


def test_pidriver_holds_a_conversation_behind_its_walls(ground: Ground) -> None:
    lab = ground.lab
    words = (ground.command, lab.work, lab.root / "home", ground.extension)
    report = ground.run(client_python("pidriver"), HOSTS / "pidriver_host.py", *words)
    assert report["models"] == ["claude/large"]
    check_first_prompt(ground, report["runs"][0], report["texts"][0])
    assert [in_order(run)[-1] for run in report["runs"][:3]] == ["agent_end"] * 3
    assert report["texts"] == ["The file says hi.", "Steered.", "Sleeping."]
    assert report["tools"] == ["write", "bash", "bash", "bash"]
    assert report["input"] == 600
    assert report["notices"] == ASKED[1:]
    (session,) = lab.sessions
    check_session(session, lab.work)
    assert [entry["name"] for entry in only(read_entries(session), "session_info")] == ["driven"]
    asked = lab.server.requests[0].body
    assert "Be brief." in str(asked["system"]) and "Be kind." in str(asked["system"])
    assert {tool["name"] for tool in asked["tools"]} == {"write", "bash"}
