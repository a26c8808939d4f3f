"""oh-my-pi: dialogs of extensions, and hosts like those that are shown, written anew."""

import codecs
import json
import subprocess
from typing import Any

from tests.conformance.proof import proves
from tests.conformance.stage import Stage
from tests.process.harness import RPC
from tests.process.script import Gate, answer, say

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
