"""Hosts like those that the documents show, written anew."""

import json
import subprocess
from collections.abc import Iterator

from tests.conformance.proof import proves
from tests.conformance.stage import Stage
from tests.process.harness import RPC
from tests.process.script import Gate, answer, say


@proves("RPC4-examples-01")
def test_a_host_with_text_pipes_shows_the_answer_as_it_arrives(stage: Stage) -> None:
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
            delta = event.get("assistantMessageEvent", {})
            if event["type"] == "message_update" and delta["type"] == "text_delta":
                shown += delta["delta"]
            if event["type"] == "agent_end":
                break
        host.stdin.close()
        host.stdout.read()
    assert shown == "Hello there, host."
    assert host.returncode == 0


def _records(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut at LF only, without a CR before it; a rest at the end is a record too."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
    if rest:
        yield rest


@proves("RPC4-examples-02")
def test_a_host_that_cuts_chunks_at_lf_reads_every_record(stage: Stage) -> None:
    stage.server.add(answer("naïve \u2028 日本 👩‍👩‍👧", size=1))
    with stage.popen("--no-session") as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(b'{"type":"prompt","message":"Hello"}\r\n')
        stdout, text, ended = host.stdout, "", False
        # Small reads cut records, and characters in them, at any byte.
        for record in _records(iter(lambda: stdout.read(7), b"")):
            event = json.loads(record)
            text += str(event.get("assistantMessageEvent", {}).get("content", ""))
            if event["type"] == "agent_settled" and not ended:
                ended = True
                host.stdin.close()
    assert (ended, text) == (True, "naïve \u2028 日本 👩‍👩‍👧")


@proves("RPC4-examples-03")
def test_a_host_that_aborts_without_an_id_ends_the_answer(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(say("Half of ", gate, "it")))
    seen: list[str] = []
    with stage.popen("--no-session") as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(b'{"type":"prompt","message":"Hello"}\n')
        for line in host.stdout:
            event = json.loads(line)
            seen.append(event.get("command", event["type"]))
            if event.get("assistantMessageEvent", {}).get("type") == "text_delta":
                host.stdin.write(b'{"type":"abort"}\n')
            if event["type"] == "agent_end":
                assert event["messages"][-1]["stopReason"] == "aborted"
            if event.get("command") == "abort":
                assert event == {"type": "response", "command": "abort", "success": True}
                break
        host.stdin.close()
        host.stdout.read()
    assert "agent_end" in seen
