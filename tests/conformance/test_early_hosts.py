"""Early pi: a host like the one that is shown, written anew."""

import json
import subprocess

from tests.conformance.proof import proves
from tests.conformance.stage import Stage
from tests.process.harness import RPC
from tests.process.script import Gate, answer, bash, say


@proves("RPC1-client-01", "RPC1-client-02")
def test_a_host_shows_what_comes_and_aborts_when_its_user_interrupts(stage: Stage) -> None:
    stage.server.add(answer("Looking.", bash("true")), answer(say("On and", Gate(), " on.")))
    shown, ended = "", []
    with subprocess.Popen(
        [*RPC, "--no-session"],
        cwd=stage.work,
        env=stage.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(json.dumps({"type": "prompt", "message": "Hello"}) + "\n")
        agent.stdin.flush()
        for line in agent.stdout:
            event = json.loads(line)
            piece = event.get("assistantMessageEvent", {})
            if piece.get("type") == "text_delta":
                shown += piece["delta"]
            if event["type"] == "tool_execution_start":
                shown += f"\n[Tool: {event['toolName']}]\n"
            if shown.endswith("On and"):
                agent.stdin.write(json.dumps({"type": "abort"}) + "\n")
                agent.stdin.close()
                shown += "!"
            if event["type"] == "agent_end":
                ended = event["messages"]
    assert shown == "Looking.\n[Tool: bash]\nOn and!"
    assert ended[-1]["stopReason"] == "aborted"
    assert agent.returncode == 0
