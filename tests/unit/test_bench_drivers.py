"""The clients of the bench for other protocols, each with a program that speaks the protocol."""

import sys
from pathlib import Path

import pytest

from bench.acp_client import EditorAgent
from bench.agent import Agent, Silent, ending
from bench.claude_client import ClaudeAgent
from bench.codex_client import CodexAgent

_LOOP = """
import json, sys

def put(**frame):
    print(json.dumps(frame, separators=(",", ":")), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
"""
_CODEX = """
    if "id" in asked:
        put(id=asked["id"], result={"thread": {"id": "t1"}})
    if asked["method"] == "turn/start":
        assert asked["params"]["threadId"] == "t1"
        put(method="item/started", params={})
        for _ in range(3):
            put(method="item/agentMessage/delta", params={"delta": "a"})
        failed = asked["params"]["input"][0]["text"] == "refused"
        turn = {"status": "failed" if failed else "completed", "error": "the key is wrong"}
        put(method="turn/completed", params={"turn": turn})
"""
_ACP = """
    if asked["method"] == "session/prompt":
        for kind in ("usage_update", *["agent_message_chunk"] * 3):
            put(jsonrpc="2.0", method="session/update", params={"update": {"sessionUpdate": kind}})
    text = asked["params"].get("prompt", [{}])[0].get("text")
    if text == "refused":
        put(jsonrpc="2.0", id=asked["id"], error={"message": "the key is wrong"})
    else:
        put(jsonrpc="2.0", id=asked["id"], result={"sessionId": "s1"})
"""
_CLAUDE = """
    if asked["type"] == "control_request":
        reply = {"subtype": "success", "request_id": asked["request_id"]}
        put(type="control_response", response=reply)
    else:
        for kind in ("message_start", *["content_block_delta"] * 3):
            put(type="stream_event", event={"type": kind})
        failed = asked["message"]["content"] == "refused"
        put(duration_api_ms=1, type="result", is_error=failed, result="the key is wrong")
"""
PROGRAMS: list[tuple[type[Agent], str]] = [
    (CodexAgent, _CODEX),
    (EditorAgent, _ACP),
    (ClaudeAgent, _CLAUDE),
]


def _started(kind: type[Agent], program: str, folder: Path) -> Agent:
    words = [sys.executable, "-c", _LOOP + program]
    return kind(words, {}, folder, settles=True)


@pytest.mark.parametrize(("kind", "program"), PROGRAMS)
def test_a_prompt_has_deltas_and_an_end(kind: type[Agent], program: str, tmp_path: Path) -> None:
    with ending(_started(kind, program, tmp_path)) as agent:
        assert agent.started < agent.greet() <= agent.open_session()
        for _ in range(2):
            run = agent.run("hello", 30)
            assert run.updates == 3
            assert run.first_update is not None
            assert 0 < run.first_update <= run.wall


@pytest.mark.parametrize(("kind", "program"), PROGRAMS)
def test_a_refused_prompt_is_an_error(kind: type[Agent], program: str, tmp_path: Path) -> None:
    agent = _started(kind, program, tmp_path)
    try:
        agent.greet()
        agent.open_session()
        with pytest.raises(Silent, match="the key is wrong"):
            agent.run("refused", 30)
    finally:
        agent.close()
