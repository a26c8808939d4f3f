"""pi's own client for TypeScript, of an older and a newer pi, holds a whole conversation."""

from pathlib import Path

import pytest

from tests.clients import versions
from tests.clients.ground import (
    HOSTS,
    MODELS,
    Ground,
    Report,
    check_first_prompt,
    check_session,
    check_steering,
    in_order,
    only_if_asked,
    there,
)
from tests.process.script import answer

pytestmark = [only_if_asked, pytest.mark.timeout(90)]
NEWER = {"clearQueue", "getEntries", "getTree", "getAvailableThinkingLevels"}


@pytest.mark.parametrize("version", versions.PI)
def test_pis_own_client_holds_a_conversation(ground: Ground, version: str) -> None:
    lab = ground.lab
    lab.settings(compaction={"keepRecentTokens": 1})
    lab.server.add(answer("A file was written."))
    host = HOSTS / "pi_rpc_client.mjs"
    report = ground.run(there("bin", "node"), host, there(f"pi-{version}"), lab.work)
    assert report["models"] == MODELS
    check_first_prompt(ground, report["first"], report["text"])
    check_steering(ground, report["steered"]["text"])
    assert in_order(report["aborted"]["events"])[-2:] == ["turn_end", "agent_end"]
    assert report["aborted"]["streaming"] is False
    check_session(Path(report["state"]["sessionFile"]), lab.work)
    check_calls(report, newer=version != "0.79.10")


def check_calls(report: Report, *, newer: bool) -> None:
    """Each method of the client had the answer that it is typed for."""
    calls = report["calls"]
    assert calls["bash"]["output"] == "beside\n"
    assert calls["compact"]["summary"].startswith("A file was written.")
    assert calls["setModel"]["provider"] == "chat"
    assert calls["cycleModel"]["model"]["provider"] == "responses"
    assert calls["cycleThinkingLevel"] == {"level": "medium"}
    assert calls["getSessionStats"]["toolCalls"] == 4
    assert calls["getForkMessages"][0]["text"] == "Write hello.txt"
    assert calls["getMessages"][0]["role"] == "compactionSummary"
    assert Path(calls["exportHtml"]["path"]).read_text().startswith("<!")
    assert calls["fork"] == {"text": "Write hello.txt", "cancelled": False}
    for name in ("clone", "newSession", "switchSession"):
        assert calls[name] == {"cancelled": False}
    assert calls.keys() >= NEWER if newer else not calls.keys() & NEWER
    end = report["end"]
    assert (end["sessionName"], end["steeringMode"]) == ("tried", "all")
    assert end["sessionFile"] == report["state"]["sessionFile"]
