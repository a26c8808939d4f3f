"""Hosts like those that the documents show, written for these tests."""

import codecs
import json
import subprocess
from typing import Any

from tests.conformance.proof import proves
from tests.conformance.stage import PI, Stage, users
from tests.process.harness import RPC, types
from tests.process.script import Gate, answer, bash, say

TEXT = "naïve \u2028 日本 👩‍👩‍👧\nsecond\r\nthird"
SEPARATORS = "a\u2028b\u2029c\r\n"


@proves("RPC4-examples-01", "RPC4-examples-03")
@proves("RPC2-client-01", "RPC2-client-03")
@proves("RPC1-client-01", "RPC1-client-02")
def test_a_host_with_text_pipes_shows_what_comes_and_aborts_without_an_id(stage: Stage) -> None:
    looking = answer("Looking.", bash("true"), size=3)
    stage.server.add(looking, answer(say("On and", Gate(), " on."), size=3))
    shown, replies, ends = "", [], []
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
            if event["type"] == "tool_execution_start":
                shown += f"\n[Tool: {event['toolName']}]\n"
            if shown.endswith("On and"):
                host.stdin.write(json.dumps({"type": "abort"}) + "\n")
                host.stdin.close()
                shown += "!"
            if event["type"] == "response":
                replies.append(event)
            if event["type"] == "agent_end":
                ends.append(event["messages"][-1]["stopReason"])
    assert shown == "Looking.\n[Tool: bash]\nOn and!"
    assert (ends, host.returncode) == (["aborted"], 0)
    wanted = [{"type": "response", "command": "abort", "success": True}]
    assert replies[1:] == (wanted if stage.dialect != "pi-early" else [])


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


@proves("RPC4-examples-02", "RPC4-framing-02", "RPC4-framing-05")
@proves("RPC2-client-02", "RPC2-overview-04")
@proves("RPC0-overview-01", "RPC0-launch-07", "RPC0-framing-01", "RPC0-framing-02")
def test_a_host_that_cuts_chunks_reads_every_record(stage: Stage) -> None:
    stage.server.add(answer(TEXT, size=1))
    decoder = codecs.getincrementaldecoder("utf-8")()
    buffer, out, events = "", b"", []
    with stage.popen("--no-session") as host:
        assert host.stdin is not None
        assert host.stdout is not None
        stdout = host.stdout
        prompt = {"type": "prompt", "message": SEPARATORS}
        host.stdin.write(json.dumps(prompt, ensure_ascii=False).encode() + b"\r\n")
        # Small reads cut records, and characters in them, at any byte.
        for chunk in iter(lambda: stdout.read(61), b""):
            out += chunk
            values, buffer = _values(buffer + decoder.decode(chunk))
            events += values
            if stage.end in {event["type"] for event in values}:
                host.stdin.close()
    assert buffer == ""
    pieces = [event.get("assistantMessageEvent", {}).get("delta", "") for event in events]
    assert "".join(pieces) == TEXT
    assert users(events) == [SEPARATORS]
    # A line feed ends each record and stands nowhere else; nothing pads a record.
    assert b"\r" not in out
    assert out.endswith(b"}\n")
    lines = out[:-1].split(b"\n")
    assert all(line.startswith(b'{"') and line.endswith(b"}") for line in lines)
    assert [json.loads(line) for line in lines] == events
    assert types(events)[0] == ("response prompt" if stage.dialect in PI else "ready")


@proves("RPC2-intro-03")
async def test_the_typed_client_speaks_this_dialect(stage: Stage) -> None:
    stage.server.add(answer("Hello there."))
    async with stage.client("--no-session") as client:
        assert (await client.prompt_and_wait("Hello!")).text == "Hello there."
