"""oh-my-pi's own client for TypeScript holds a whole conversation with a program named `omp`."""

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
from tests.process.script import answer, call

pytestmark = [only_if_asked, pytest.mark.timeout(90)]


@pytest.mark.parametrize("version", versions.OMP)
def test_omps_own_client_holds_a_conversation(ground: Ground, version: str) -> None:
    lab = ground.lab
    lab.settings(compaction={"keepRecentTokens": 1})
    lab.server.add(answer(call("lend", {"word": "yes"}, "call_5")), answer("Borrowed."))
    lab.server.add(answer("A file was written."))
    command = str(ground.alias("omp"))
    words = (HOSTS / "omp_rpc_client.mjs", there(f"omp-{version}"), lab.work)
    report = ground.run(there("bin", "bun"), *words, HOST_COMMAND=command)
    assert report["models"] == MODELS
    check_first_prompt(ground, report["first"], report["text"])
    check_steering(ground, report["steered"]["text"])
    assert in_order(report["aborted"]["events"])[-2:] == ["turn_end", "agent_end"]
    assert report["aborted"]["streaming"] is False
    assert (report["lent"], report["borrowed"]) == (["yes"], "Borrowed.")
    check_session(Path(report["state"]["sessionFile"]), lab.work)
    check_calls(report)


def check_calls(report: Report) -> None:
    """Each method of the client had the answer that it is typed for."""
    calls = report["calls"]
    assert (calls["bash"]["output"], calls["bash"]["totalLines"]) == ("beside\n", 2)
    assert calls["compact"]["summary"].startswith("A file was written.")
    assert calls["cycleModel"]["model"]["provider"] == "responses"
    assert calls["getSessionStats"]["toolCalls"] == 5
    assert calls["getBranchMessages"][0]["text"] == "Write hello.txt"
    assert len(calls["getMessagesPage"]["messages"]) == 1
    assert calls["getMessagesPage"]["nextCursor"]
    assert calls["getMessages"][0]["role"] == "compactionSummary"
    assert calls["setCustomTools"] == []
    assert Path(calls["exportHtml"]["path"]).read_text().startswith("<!")
    assert calls["branch"] == {"text": "Write hello.txt", "cancelled": False}
    for name in ("newSession", "switchSession"):
        assert calls[name] == {"cancelled": False}
    assert report["end"]["steeringMode"] == "all"
    assert report["end"]["sessionFile"] == report["state"]["sessionFile"]
